"""When the records of one file count, by their own stamps and by when they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.clock import Clock, iso, parse

if TYPE_CHECKING:
    Stamp = str | float | None

FRESH: Final = 2.0
"""A record that arrives this soon after its stamp counts at the stamp; any other at arrival."""

CANONICAL: Final = len("2026-01-01T00:00:00.000Z")
"""How the agent writes stamps, and how `iso` writes them back."""


class Times:
    """The clock of one file, which never goes back, and the newest stamp seen in it."""

    __slots__ = ("_arrival", "_clock", "_now", "_skew", "_stamp", "last", "wall")

    def __init__(self, clock: Clock) -> None:
        self.last: float | None = None
        """The newest moment that counted, in core seconds."""
        self.wall: float | None = None
        """The newest stamp, in epoch seconds."""
        self._stamp: Stamp = None
        self._clock = clock
        self.read(None)

    def read(self, arrival: float | None) -> None:
        """Begin with records that arrived then; None: they lay there before, their stamps count."""
        self._now, self._skew, self._arrival = self._clock.now(), self._clock.core(0.0), arrival

    def at(self, stamp: Stamp) -> float | None:
        """When the next record counts, by its stamp. This runs for every line. None: nothing tells."""
        at = self._arrival
        if stamp is not None:
            wall = parse(stamp) if isinstance(stamp, str) else stamp / 1000
            if wall is not None:
                self.wall, self._stamp = wall, stamp
                told = wall + self._skew
                if at is None:
                    at = told if told < self._now else self._now  # noqa: FURB136 - half the time of `min`
                elif 0 <= at - told <= FRESH:
                    at = told
        last = self.last
        if at is None or (last is not None and at < last):
            return last
        self.last = at
        return at

    def name(self, at: float) -> str:
        """The newest stamp as text, which names a turn that no prompt opened."""
        stamp = self._stamp
        if isinstance(stamp, str) and len(stamp) == CANONICAL and stamp[10::9] == "T." and stamp[23] == "Z":
            return stamp
        return iso(self._clock.wall(at) if self.wall is None else self.wall)

    def core(self, wall: float) -> float:
        """Epoch seconds as core seconds, as the clocks stood when this read began."""
        return wall + self._skew
