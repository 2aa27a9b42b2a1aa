"""What an event of a stream means: progress, a tool, an end, or nothing but a sign of life."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sidecar import signals as g
from sidecar.agents.http.paths import find, word
from sidecar.clock import iso

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.agents.http.shapes import Events as Settings
    from sidecar.clock import Clock

NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
"""What a tool's name looks like; anything else could be content."""

UNNAMED: Final = "tool"


class Happenings:
    """Reads events as the settings say. Keeps nothing."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def of(self, data: bytes, now: float) -> list[g.Signal]:
        """The signals of an event; none where it says nothing of work."""
        try:
            event = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            return [g.Presence(now)]
        kind = _first(event, self._settings.type)
        signal = None if kind is None else self._signal(event, kind, now)
        return [g.Presence(now) if signal is None else signal]

    def _signal(self, event: Any, kind: str, now: float) -> g.Signal | None:  # noqa: ANN401 - JSON
        settings, turn = self._settings, iso(self._clock.wall(now))
        if kind in settings.ends:
            return g.TurnEnded(now, settings.ends[kind])
        if kind in settings.progress:
            return g.Progress(now, turn)
        call = _first(event, settings.call)
        if call is None:
            return None
        state = None if settings.tool_state is None else word(find(event, settings.tool_state))
        over = settings.tool_state is None or state in settings.tool_over
        if kind in settings.tool_ended and over:
            return g.ToolEnded(now, call)
        if kind in settings.tool_started and not (state is not None and over):
            return g.ToolStarted(now, call, _tool(event, settings.tool), turn=turn)
        return None


def _first(event: Any, paths: Iterable[str]) -> str | None:  # noqa: ANN401 - JSON is anything
    return next((found for path in paths if (found := word(find(event, path))) is not None), None)


def _tool(event: Any, paths: Iterable[str]) -> str:  # noqa: ANN401 - as above
    name = _first(event, paths)
    return name if name is not None and NAME.fullmatch(name) else UNNAMED
