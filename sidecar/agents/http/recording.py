"""Recorded listings: one `{"t": seconds, "data": answer}` a line, each file a server of its own.

Which preset it was is told by the answers themselves. The times are the recorder's own; the first
session to be listed says when that was, for it was made shortly before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from sidecar.agent import SourceDown
from sidecar.agents.http.entries import Listed, listed
from sidecar.agents.http.presets import PRESETS
from sidecar.agents.http.settings import Settings
from sidecar.agents.http.track import Track
from sidecar.clock import RecordedClock
from sidecar.sources.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sidecar.signals import Observation

CAP: Final = 1 << 20
"""Longest line read, in bytes."""

READ: Final = ("listing", "last_activity_is_progress", "leftovers")
"""What of a preset counts for answers that are there already."""


class Line(Struct):
    """A recorded answer."""

    t: float
    data: Any = None
    """None: the server could not be asked."""


class Recording:
    """The recorded listings below some paths."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)

    def observations(self) -> list[Observation]:
        """Every file's signals, in the order of their recording."""
        files = dict.fromkeys(
            file
            for path in self._paths
            for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])
        )
        return [seen for file in files for seen in _observations(list(_lines(file)))]


def _observations(lines: list[Line]) -> list[Observation]:
    settings = _recorded_from(lines)
    if settings is None:
        return []
    told = [(line.t, _listed(settings, line.data)) for line in lines]
    start = next((at for t, found in told if found and (at := _anchor(found, t)) is not None), 0.0)
    track = Track(settings, RecordedClock(math.inf))
    out: list[Observation] = []
    for t, found in told:
        blind = Listed({}, whole=False), set(track.known)
        out += track.feed(*(blind if found is None else (found, set[str]())), start + t)
    return out


def _lines(path: Path) -> Iterator[Line]:
    """Whole lines; a last one without an end was being written."""
    records = Records(Line)
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and len(line) <= CAP:
                yield from records.decode(line).records


def _recorded_from(lines: list[Line]) -> Settings | None:
    """The templates that understand most of the answers."""
    best: tuple[int, Settings | None] = (0, None)
    for preset in PRESETS.values():
        if "listing" not in preset:
            continue
        tree = {name: preset[name] for name in READ if name in preset}
        settings = msgspec.convert(tree | {"url": "http://recorded", "directory": "/"}, Settings)
        seen = [_listed(settings, line.data) for line in lines]
        understood = sum(len(found.entries) for found in seen if found is not None)
        if understood > best[0]:
            best = understood, settings
    return best[1]


def _listed(settings: Settings, data: object) -> Listed | None:
    """An answer's entries; None where it is no listing of this kind."""
    if settings.listing is None:
        return None
    try:
        return listed(settings, settings.listing, data)
    except SourceDown:
        return None


def _anchor(found: Listed, t: float) -> float | None:
    """When the recording began, by the newest session that this answer lists."""
    created = [entry.created for entry in found.entries.values() if entry.created is not None]
    return max(created) - t if created else None
