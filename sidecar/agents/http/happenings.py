"""What an event of a stream means: progress, a tool, an end, or nothing but a sign of life."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sidecar import signals as g
from sidecar.agents.http.entries import stamp_of
from sidecar.agents.http.paths import MISSING, find, word
from sidecar.clock import iso
from sidecar.sources.records import mending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.agents.http.stream import Events as Settings
    from sidecar.clock import Clock

NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
"""What a tool's name looks like; anything else could be content."""

UNNAMED: Final = "tool"


class Happenings:
    """Reads events as the settings say. Keeps nothing."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def of(self, data: bytes, now: float, since: float = float("-inf")) -> list[g.Signal]:
        """The signals of an event; one that only shows life where it says nothing of work.

        `since`: when its stream began. What happened before is told again, and counts from then.
        """
        event = decoded(data)
        kind = first(event, self._settings.type)
        if kind is None:
            return [g.Presence(now)]
        signal = self._signal(event, kind, self._at(event, now, since))
        return [g.Presence(now) if signal is None else signal]

    def over(self, data: bytes) -> bool:
        """Whether this event says that everything kept has been sent again."""
        replayed = self._settings.replayed
        return replayed is not None and first(decoded(data), self._settings.type) == replayed

    def _at(self, event: Any, now: float, since: float) -> float:  # noqa: ANN401 - JSON
        stamp = stamp_of(event, self._settings.stamp)
        at = now if stamp is None else self._clock.core(stamp)
        return at if at < since else now

    def _signal(self, event: Any, kind: str, at: float) -> g.Signal | None:  # noqa: ANN401 - JSON
        settings = self._settings
        if kind in settings.ends:
            said = None if settings.outcome is None else word(find(event, settings.outcome))
            return g.TurnEnded(at, settings.outcomes.get(said or "", settings.ends[kind]))
        turn = self._turn(event, at)
        if kind in settings.turn_started and turn is not None:
            return g.TurnStarted(at, turn, at)
        if kind in settings.progress:
            return g.Progress(at, turn)
        call = first(event, settings.call)
        return None if call is None else self._tool(event, kind, call, turn, at)

    def _tool(self, event: Any, kind: str, call: str, turn: str | None, at: float) -> g.Signal | None:  # noqa: ANN401 - JSON; one event taken apart
        settings = self._settings
        state = None if settings.tool_state is None else word(find(event, settings.tool_state))
        over = state is not None and state in settings.tool_over
        if self._prepared(event):  # one that is given up goes with its attempt, which is no work
            return None if over or kind not in settings.tool_started else g.Progress(at, turn)
        if kind in settings.tool_ended and (over or settings.tool_state is None):
            return g.ToolEnded(at, call)
        if kind in settings.tool_started and not over and self._starts(event, kind):
            return g.ToolStarted(at, call, tool_of(event, settings.tool), turn=turn)
        return None

    def _prepared(self, event: Any) -> bool:  # noqa: ANN401 - JSON
        """Whether the model still writes the call."""
        told = self._settings.tool_prepared
        return bool(told) and all(word(find(event, path)) == value for path, value in told.items())

    def _starts(self, event: Any, kind: str) -> bool:  # noqa: ANN401 - JSON
        """Whether an event of a type that tells more than starts is one."""
        path = self._settings.tool_start
        return path is None or kind not in self._settings.tool_ended or find(event, path) is not MISSING

    def _turn(self, event: Any, at: float) -> str | None:  # noqa: ANN401 - JSON
        """The turn that the event belongs to; None where it could say so and does not."""
        if self._settings.turn is None:
            return iso(self._clock.wall(at))
        return word(find(event, self._settings.turn))


def decoded(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """An event; None where it is no JSON."""
    try:
        return mending(msgspec.json.decode, data)
    except (ValueError, RecursionError):
        return None


def first(event: Any, paths: Iterable[str]) -> str | None:  # noqa: ANN401 - JSON is anything
    """The first word that one of the paths leads to."""
    return next((found for path in paths if (found := word(find(event, path))) is not None), None)


def tool_of(event: Any, paths: Iterable[str]) -> str:  # noqa: ANN401 - as above
    """The tool's name, where it looks like one."""
    name = first(event, paths)
    return name if name is not None and NAME.fullmatch(name) else UNNAMED
