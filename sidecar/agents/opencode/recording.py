"""Captured event streams as a recording: one `{"t": seconds, "data": …}` a line, of either stream.

The times are the recorder's own; the first creation of a session says when that was. What was
captured of the status map beside it (`data` is the map) is read with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from sidecar.agents.opencode import records as r
from sidecar.agents.opencode.decode import Decoder
from sidecar.agents.opencode.tracks import Tracks
from sidecar.clock import RecordedClock
from sidecar.sources.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sidecar.signals import Observation

CAP: Final = 16 << 20
"""Longest line read, in bytes."""


class Line(Struct):
    """A captured event."""

    t: float
    data: Raw


class Recording:
    """The captured streams below some paths; the files of one folder share their clock."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)

    def observations(self) -> list[Observation]:
        """Every folder's signals, in the order of their capture."""
        folders: dict[Path, dict[Path, None]] = {}
        for path in self._paths:
            for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
                folders.setdefault(file.parent, {})[file] = None
        return [seen for files in folders.values() for seen in _observations(list(files))]


def _observations(files: list[Path]) -> list[Observation]:
    lines = sorted((line for file in files for line in _lines(file)), key=lambda line: line.t)
    start = next((at for line in lines if (at := _anchor(line)) is not None), 0.0)
    tracks = Tracks(RecordedClock(math.inf))
    decoder = Decoder(tracks)
    out: list[Observation] = []
    for line in lines:
        at = start + line.t
        told = _statuses(line)
        if told is None:
            out += decoder.feed(bytes(line.data), at)
            continue
        for session, word in told.items():
            t = tracks.get(session)
            if t.shown:
                out += tracks.of(t, tracks.word(t, word, at))
    # Dated at the last line, so that a capture of nothing but heartbeats is seen as the silence it is.
    return out + (decoder.counted(out[0].session, start + lines[-1].t) if out else [])


def _lines(path: Path) -> Iterator[Line]:
    """Whole lines; a last one without an end was being written."""
    records = Records(Line)
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and len(line) <= CAP:
                yield from records.decode(line).records


def _anchor(line: Line) -> float | None:
    """When the capture began, where this line tells: a session's creation is stamped and told at once."""
    try:
        event = r.event(line.data)
        event = event if event.payload is None else event.payload
        if event.type != "session.created":
            return None
        info = r.told(event.body).info
    except r.ERRORS:
        return None
    if info is None or info.time.created is None:
        return None
    return info.time.created / 1000 - line.t


def _statuses(line: Line) -> dict[str, r.Word] | None:
    """A status map, where the line holds one: no event has sessions for its keys."""
    try:
        told = msgspec.json.decode(line.data, type=dict[str, Raw])
        return r.words(line.data) if all(key.startswith("ses") for key in told) else None
    except r.ERRORS:
        return None
