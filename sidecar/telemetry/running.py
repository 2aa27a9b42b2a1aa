"""Totals that include what still runs: time in phases, and CPU of processes.

Both are read at a scrape, and neither may ever go back, for a counter that does looks like a
restart. A turn's end is often dated before the moment it was recognised, and processes vanish.
Only what happened since the sidecar started counts: a restart does not count an hour twice.
"""

from __future__ import annotations

from collections import defaultdict
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.session import Process, Session

Key = tuple[str, ...]

KEPT_PROCESSES: Final = 4096
"""Processes remembered: one that is out of sight for a moment must not be counted anew."""


class PhaseTime:
    """Seconds that sessions spent in each phase."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._left: dict[Key, float] = {}
        self._shown: dict[Key, float] = {}
        self._lock = Lock()

    def left(self, agent: str, phase: str, since: float, at: float) -> None:
        """Count a phase that was left."""
        with self._lock:
            spent = self._left.get((agent, phase), 0.0)
            self._left[agent, phase] = spent + self._from(since, at)

    def values(self, zeros: Iterable[Key], sessions: Iterable[Session], now: float) -> dict[Key, float]:
        """Return the totals at `now`, those in `zeros` always."""
        with self._lock:
            # What was left is read first: a phase left meanwhile is missed, not counted twice.
            totals = defaultdict(float, self._left)
            for session in sessions:
                spent = self._from(session.phase_since, now)
                totals[session.agent, session.phase] += spent
            for key in (*zeros, *totals):
                self._shown[key] = max(self._shown.get(key, 0.0), totals[key])
            return dict(self._shown)

    def _from(self, since: float, at: float) -> float:
        return max(0.0, at - max(since, self._started))


class CpuTime:
    """CPU seconds by agent. Several sessions may share a process; it is counted once."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._last: dict[tuple[str, Process], float] = {}
        self._totals: dict[Key, float] = {}
        self._lock = Lock()

    def values(self, sessions: Iterable[Session]) -> dict[Key, float]:
        """Return the totals; an agent whose processes were never visible has none."""
        with self._lock:
            seen = {(s.agent, s.process): s.cpu for s in sessions if s.process and s.cpu is not None}
            for (agent, process), cpu in seen.items():
                # What a process used before we started is not ours to count.
                before = 0.0 if process.started >= self._started else cpu
                used = cpu - self._last.get((agent, process), before)
                self._totals[agent,] = self._totals.get((agent,), 0.0) + max(0.0, used)
                self._last[agent, process] = cpu
            for old in list(self._last)[: max(0, len(self._last) - KEPT_PROCESSES)]:
                del self._last[old]
            return dict(self._totals)
