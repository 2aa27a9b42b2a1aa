"""Durations and reasons as people read them: the evidence and the numbers, never content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from sidecar.limits import HOUR, MINUTE
from sidecar.phases import evidence

if TYPE_CHECKING:
    from sidecar.session import Session
    from sidecar.signals import BoundName


class Tripped(Protocol):
    """What a sentence needs of a bound."""

    @property
    def name(self) -> BoundName:
        """Which bound."""

    @property
    def since(self) -> float:
        """When its time began."""

    @property
    def limit(self) -> float:
        """How long that may be."""

    @property
    def reason(self) -> str:
        """What the session was doing."""


TENTHS_BELOW: Final = 10
"""Seconds below which tenths are written."""


def duration(seconds: float) -> str:
    """Seconds as people write them: 412 -> 6m52s."""
    seconds = max(0, seconds)
    whole = int(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f}s" if whole < TENTHS_BELOW and seconds != whole else f"{whole}s"
    if whole < HOUR:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _source(s: Session) -> str:
    """The evidence as a reader wants it named: where progress was looked for, what status said."""
    said = f"status {s.status.word}" if s.status else "no status"
    return f"{evidence(s)}; {said}"


def sentence(s: Session, b: Tripped, now: float) -> str:
    """The reason: the evidence and the numbers in one sentence, never content."""
    limit = duration(b.limit)
    if b.name == "gone":
        return f"{b.reason} ({_source(s)})"
    if b.name == "delegated":
        return b.reason
    if b.name == "limited":
        return f"{b.reason} has lasted {duration(now - b.since)}, limit {limit} ({_source(s)})"
    if b.name in ("waiting", "idle_in_turn", "idle", "compacting", "starting", "busy", "turn"):
        return f"{b.reason} for {duration(now - b.since)}, limit {limit} ({_source(s)})"
    return f"no progress for {duration(now - b.since)} while {b.reason}, limit {limit} ({_source(s)})"
