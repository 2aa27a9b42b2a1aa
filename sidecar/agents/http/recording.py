"""What was recorded of a server: listings, and streams of events, each file a server of its own.

Either is one `{"t": seconds, "data": answer or event}` a line; a stream may also be the bytes as they
were sent. Which preset it was is told by the answers and events themselves. The times are the recorder's
own; the first session to be listed says when that was, for it was made shortly before, and events are
dated by their own stamps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.http.entries import Listed, listed, stamp_of
from sidecar.agents.http.events import SOURCE
from sidecar.agents.http.happenings import Happenings, decoded, first
from sidecar.agents.http.paths import find, word
from sidecar.agents.http.presets import PRESETS
from sidecar.agents.http.server import MAX_EVENT
from sidecar.agents.http.settings import Settings
from sidecar.agents.http.track import Track
from sidecar.clock import RecordedClock
from sidecar.sources.records import Records
from sidecar.sources.sse import Cutter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sidecar.agents.http.stream import Events

CAP: Final = 1 << 20
"""Longest line read, in bytes."""

READ: Final = ("listing", "status", "events", "last_activity_is_progress", "leftovers")
"""What of a preset counts for answers that are there already."""

SOMEWHERE: Final = {"url": "http://recorded", "directory": "/", "ids": ["-"]}
"""What settings cannot do without, for a server that is not asked."""

KINDS: Final = ("*.jsonl", "*.sse", "*.txt")


class Line(Struct):
    """A recorded answer or event."""

    t: float | None = None
    """None: nobody noted when."""
    data: Raw = Raw(b"null")
    """Null: the server could not be asked."""


class Told(NamedTuple):
    """A line as it was read."""

    t: float | None
    raw: bytes
    data: Any


class Recording:
    """The recorded listings and streams below some paths."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)

    def observations(self) -> list[g.Observation]:
        """Every file's signals, in the order of their recording."""
        files = dict.fromkeys(
            file
            for path in self._paths
            for file in (sorted(f for kind in KINDS for f in path.rglob(kind)) if path.is_dir() else [path])
        )
        return [seen for file in files for seen in _observations(file)]


def answers(file: Path, preset: str) -> tuple[float, list[tuple[float, list[g.Observation]]]]:
    """When the recording of a server of this preset began, and what each answer said."""
    return _answered(_settings(PRESETS[preset]), _told(file))


def _observations(file: Path) -> list[g.Observation]:
    told = _told(file)
    best = max(map(_settings, PRESETS.values()), key=lambda settings: _understood(settings, told))
    if best.events is not None and any(_session(best.events, line) for line in told):
        return _streamed(best.events, told)
    return [seen for _, each in _answered(best, told)[1] for seen in each] if _understood(best, told) else []


def _settings(preset: dict[str, Any]) -> Settings:
    return msgspec.convert({name: preset[name] for name in READ if name in preset} | SOMEWHERE, Settings)


def _told(file: Path) -> list[Told]:
    return [Told(line.t, raw, decoded(raw)) for line in _lines(file) if (raw := bytes(line.data))]


def _lines(path: Path) -> Iterator[Line]:
    """Whole lines, or events as they were sent; a last one without an end was being written."""
    records, cutter = Records(Line), Cutter(MAX_EVENT)
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or len(line) > CAP:
                continue
            if path.suffix == ".jsonl":
                yield from records.decode(line).records
            else:
                yield from (Line(data=Raw(sent.data)) for sent in cutter.feed(line))


def _understood(settings: Settings, told: list[Told]) -> int:
    """How many entries and events these templates make sense of."""
    found = [_listed(settings, line.data) for line in told]
    stream = settings.events
    events = 0 if stream is None else sum(1 for line in told if _session(stream, line) is not None)
    return events + sum(len(each.entries) for each in found if each is not None)


def _session(stream: Events, line: Told) -> str | None:
    """The session of an event of this stream; None where it is none, or means nothing."""
    meant = (*stream.turn_started, *stream.progress, *stream.tool_started, *stream.tool_ended, *stream.ends)
    named = None if stream.session is None else word(find(line.data, stream.session))
    return named if first(line.data, stream.type) in meant else None


def _streamed(stream: Events, told: list[Told]) -> list[g.Observation]:
    """A stream's signals, dated by the events' stamps; one without takes the stamp before."""
    stamps = [stamp_of(line.data, stream.stamp) for line in told]
    known = ((stamp, line.t or 0.0) for stamp, line in zip(stamps, told, strict=True) if stamp is not None)
    start = next((stamp - t for stamp, t in known), 0.0)
    happenings = Happenings(stream, RecordedClock(math.inf))
    out: list[g.Observation] = []
    seen: set[str] = set()
    now = start
    for stamp, line in zip(stamps, told, strict=True):
        now = max(now, start + (line.t or 0.0) if stamp is None else stamp)
        session = _session(stream, line)
        if session is not None and session not in seen:
            seen.add(session)
            out.append(g.Observation(session, g.SourceUp(now, SOURCE, "delta")))
        if session is not None:
            out += [g.Observation(session, signal) for signal in happenings.of(line.raw, now)]
    return out


def _answered(settings: Settings, told: list[Told]) -> tuple[float, list[tuple[float, list[g.Observation]]]]:
    """A listing's signals, answer by answer, and when it began, by the first session that it shows."""
    found = [(line.t or 0.0, _listed(settings, line.data)) for line in told]
    start = next((at for t, each in found if each and (at := _anchor(each, t)) is not None), 0.0)
    track = Track(settings, RecordedClock(math.inf))
    out: list[tuple[float, list[g.Observation]]] = []
    for t, each in found:
        blind = Listed({}, whole=False), set(track.known)
        out.append((start + t, track.feed(*(blind if each is None else (each, set[str]())), start + t)))
    return start, out


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
