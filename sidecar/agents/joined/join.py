"""Which listed session a transcript belongs to, and what then counts of whom. No I/O.

A listing names sessions and knows who lives; transcripts know the turns. Both tell of the same session where
the last part of a transcript's working directory is the session's id. From then on:

- The listing decides about life. What the process's own registration says of it only tells which of several
  runs of one session is the newest: an agent that is rebuilt goes on under the same id.
- The transcript decides about turns. What the listing says of rest and activity is a sign of use.
- A process that ended leaves no mark in its transcript: its turn died with it, though the entry stays listed
  until it is closed.

What belongs to no listed session is kept for a while, in case it is listed late, and not told.
"""

from __future__ import annotations

from collections import deque
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field, structs

from sidecar import signals as g

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HELD: Final = 2_000
"""Signals kept of a run that belongs to no listed session (yet): the newest of them."""

RUNS: Final = 500
"""Runs remembered; those of sessions that are not listed are forgotten first."""


class Run(Struct, eq=False):
    """One process's worth of a session: a transcript, a registration, or both."""

    id: str
    started: float
    folder: str = ""
    """The last part of its first working directory."""
    tid: str | None = None
    """The session that it is a run of, once that was listed."""
    registered: bool = False
    written: bool = False
    over: bool = False
    """A newer run took its place."""
    held: deque[g.Observation] = field(default_factory=lambda: deque(maxlen=HELD))


class Join:
    """The listed sessions and the runs behind them."""

    def __init__(self, cwd: Callable[[str], str | None], source: str, closing: str) -> None:
        """`cwd` knows a run's directory; what waits for `closing`, by the listing `source`, is dead."""
        self._cwd = cwd
        self._source, self._closing = source, closing
        self._dead: dict[str, bool] = {}
        """Every listed session, and whether only its entry is left."""
        self._runs: dict[str, Run] = {}
        self._current: dict[str, Run] = {}
        self._parents: dict[str, str] = {}

    def runs(self, tid: str) -> list[str]:
        """The runs of a session that are not over."""
        return [run.id for run in self._runs.values() if run.tid == tid and not run.over]

    def ends(self, observations: Iterable[g.Observation]) -> list[str]:
        """The sessions with a transcript that these say are over: it is to be read to its end first."""
        over = [name for name, x in observations if isinstance(x, g.Unregistered) or self._is_dead(x)]
        return [name for name in dict.fromkeys(over) if self._joined(name) is not None]

    def listed(self, observations: Iterable[g.Observation], now: float) -> list[g.Observation]:
        """What the listing said, as far as it counts."""
        observations = list(observations)
        for name, signal in observations:
            if isinstance(signal, g.Registered):
                self._dead.setdefault(name, False)
        out = self._routed(now) if observations else []
        for name, signal in observations:
            out += [g.Observation(name, told) for told in self._counts(name, signal)]
        return out

    def written(self, observations: Iterable[g.Observation], now: float) -> list[g.Observation]:
        """What transcripts and registrations said, under the names of the listed sessions."""
        observations = list(observations)
        for observation in observations:
            self._take(observation)
        if len(self._runs) > RUNS:
            self._forget()
        return self._routed(now) if observations else []

    # The listing.

    def _counts(self, name: str, signal: g.Signal) -> list[g.Signal]:
        run = self._joined(name)
        if isinstance(signal, g.Unregistered):
            self._dead.pop(name, None)
        elif isinstance(signal, g.Status):
            was, self._dead[name] = self._dead.get(name, False), self._is_dead(signal)
            if run is None:
                return [signal]
            if self._dead[name]:
                return [g.TurnEnded(signal.at, "died"), signal]
            return [self._silent(signal.at)] if was else []
        elif isinstance(signal, g.Progress) and run is not None:
            return [g.Presence(signal.at, used=True)]
        return [signal]

    def _is_dead(self, signal: g.Signal) -> bool:
        return isinstance(signal, g.Status) and signal.waiting_for == self._closing

    def _silent(self, now: float) -> g.Status:
        """The listing takes back its word for rest: it does not know."""
        return g.Status(now, None, now, source=self._source)

    def _joined(self, name: str) -> Run | None:
        """The run that a session's turns are known from."""
        run = self._current.get(name)
        return run if run is not None and run.written else None

    # The transcripts.

    def _take(self, observation: g.Observation) -> None:
        name, signal = observation
        if isinstance(signal, g.Described) and signal.parent is not None:
            self._parents[name] = signal.parent
        root = self._parents.get(name, name)
        run = self._runs.setdefault(root, Run(root, signal.at))
        if isinstance(signal, g.Registered):
            run.registered, run.started = True, signal.at
        elif isinstance(signal, g.Unregistered | g.ProcessGone):
            run.registered = False  # the pids that one reads may be another namespace's: no death
        elif not isinstance(signal, g.ProcessSeen) and not _of_registry(signal):
            run.held.append(observation)

    def _routed(self, now: float) -> list[g.Observation]:
        """What is held and can be told by now."""
        out: list[g.Observation] = []
        for run in self._runs.values():
            run.folder = run.folder or PurePosixPath(self._cwd(run.id) or "").name
            if run.tid is None and run.folder in self._dead:
                run.tid = run.folder
        for run in sorted(self._runs.values(), key=lambda run: run.started):
            if run.tid in self._dead and not run.over:
                out += self._succeeds(run)
        for tid, run in self._current.items():
            if tid in self._dead and run.held:
                out += self._told(tid, run, now)
        return out

    def _succeeds(self, run: Run) -> list[g.Observation]:
        """Let a newer run take the place of the one before, whose turn ended with it."""
        tid = run.tid or ""
        before = self._current.get(tid)
        if before is not None and (before.registered, before.started) >= (run.registered, run.started):
            return []
        self._current[tid] = run
        if before is None:
            return []
        before.over = True
        last = [*before.held, g.Observation(before.id, g.TurnEnded(run.started, "died"))]
        before.held.clear()
        return self._named(tid, before, last)

    def _told(self, tid: str, run: Run, now: float) -> list[g.Observation]:
        told, was = list(run.held), run.written
        run.held.clear()
        out = self._named(tid, run, told)
        if run.written and self._dead[tid]:
            out.append(g.Observation(tid, g.TurnEnded(max([now, *(o.signal.at for o in told)]), "died")))
        elif run.written and not was:
            out.append(g.Observation(tid, self._silent(now)))
        return out

    def _named(self, tid: str, run: Run, told: Iterable[g.Observation]) -> list[g.Observation]:
        """The signals of a run and its subagents under the session's name."""
        out: list[g.Observation] = []
        for name, signal in told:
            if name != run.id:
                child = isinstance(signal, g.Described) and signal.parent == run.id
                out.append(g.Observation(name, structs.replace(signal, parent=tid) if child else signal))
                continue
            if isinstance(signal, g.SourceUp):
                run.written = True
            out.append(g.Observation(tid, signal))
        return out

    def _forget(self) -> None:
        unlisted = [id_ for id_, run in self._runs.items() if run.tid not in self._dead]
        for id_ in unlisted[: len(self._runs) - RUNS]:
            run = self._runs.pop(id_)
            if run.tid is not None and self._current.get(run.tid) is run:
                del self._current[run.tid]
        self._parents = {child: root for child, root in self._parents.items() if root in self._runs}


def _of_registry(signal: g.Signal) -> bool:
    """Whether it says that registrations can be read: they are no witness of the session's life."""
    return isinstance(signal, g.SourceUp | g.SourceLost) and signal.source == "registry"
