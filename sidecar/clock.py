"""The border between the core's clock and the wall's.

Core time is seconds on one monotonic clock: in a running sidecar the event loop's, so that tests
can move it; in a replay the records' own stamps. Wall-clock stamps are converted here, with the
difference as it is at that moment, so a step of the wall clock never moves a silence.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(Protocol):
    """What knows both times."""

    def now(self) -> float:
        """Core seconds now."""

    def core(self, wall: float) -> float:
        """A wall-clock stamp (epoch seconds) as core seconds."""

    def wall(self, core: float) -> float:
        """Core seconds as epoch seconds."""


class LiveClock:
    """A monotonic clock and the wall's, read when asked."""

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wall = wall

    def now(self) -> float:
        """Core seconds now."""
        return self._monotonic()

    def core(self, wall: float) -> float:
        """A wall-clock stamp as core seconds."""
        return wall - self._wall() + self._monotonic()

    def wall(self, core: float) -> float:
        """Core seconds as epoch seconds."""
        return core + self._wall() - self._monotonic()


class RecordedClock:
    """A replay's clock: core time is the records' wall time, moved by whoever replays."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def now(self) -> float:
        """The moment the replay has reached."""
        return self.at

    def core(self, wall: float) -> float:
        """The same: a recording has one clock."""
        return wall

    def wall(self, core: float) -> float:
        """The same: a recording has one clock."""
        return core


def iso(wall: float) -> str:
    """Epoch seconds as the session object and the lines write them: 2026-11-30T12:00:00.000Z."""
    moment = datetime.fromtimestamp(wall, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse(stamp: str) -> float | None:
    """An ISO 8601 stamp as epoch seconds; None where it is not one."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
