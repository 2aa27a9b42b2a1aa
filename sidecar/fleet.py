"""All sessions of this sidecar, and the one door through which signals reach them.

It routes observations to sessions, lets families hear of each other, wakes and drops sessions,
and judges those that are due. It does no I/O and reads no clock: the running watch and the replay
both drive it, so what a replay shows is what a sidecar would have done.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from sidecar import changes as c
from sidecar import signals as g
from sidecar.family import Standing, inherited, standing
from sidecar.fold import fold
from sidecar.life import lapsed
from sidecar.policy import SLOWEST_CHECK, interval, judge
from sidecar.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.limits import Rules

Key = tuple[str, str]

KEPT_ASLEEP: Final = 2_000
"""Closed and dormant sessions remembered, so that one that wakes goes on where it was."""


_AT: Final = attrgetter("signal.at")


class Listener(Protocol):
    """Whoever is told of changes, synchronously: the reason is written before the call."""

    def __call__(self, session: Session, change: c.Change, /) -> None:
        """Take note; never raises."""


class Law(Protocol):
    """What the fleet asks of its configuration."""

    def rules(self, session: Session) -> Rules:
        """The limits that hold for this session."""

    def alone(self, session: Session) -> bool:
        """Whether this session's turn can be ended without its parent's."""

    def luck(self) -> float:
        """A session's share of the jitter, 0 … 1."""

    def decide(self, session: Session, judged: g.Judged) -> None:
        """Carry out a verdict that was just given."""

    def opened(self, session: Session) -> Iterable[g.Signal]:
        """What is known from before about a session first seen: verdicts and acts of its turn."""

    def woken(self, session: Session) -> None:
        """What was known is folded: an act that a restart cut short can be taken up."""


class Past(Protocol):
    """What earlier runs told."""

    def owes(self, session: Session, change: c.Change, /) -> bool | None:
        """Whether a change has yet to be told, however old it is; False: it was; None: not known."""

    def end(self, session: Session, signal: g.Signal | None, /) -> g.TurnEnded | None:
        """The end of the open turn, where it was told; before a signal, only if that belongs to the next."""


class Fleet:
    """The sessions, by agent and id."""

    def __init__(
        self, law: Law, *, told_from: float, slowest: float = SLOWEST_CHECK, past: Past | None = None
    ) -> None:
        """Changes before `told_from` are history: folded, but not told, except for what `past` owes.

        `slowest`: seconds between two checks of a session that nothing happens to.
        """
        self._past = past
        self._slowest = slowest
        self._law = law
        self._told_from = told_from
        self._all: dict[Key, Session] = {}
        self._due: dict[Key, float] = {}
        self._family: dict[Key, set[str]] = {}
        self._held: dict[Key, list[c.Change]] = {}
        self.listeners: list[Listener] = []

    def live(self) -> list[Session]:
        """The sessions that are shown."""
        return [s for s in self._all.values() if not s.dormant]

    def get(self, agent: str, session: str) -> Session | None:
        """A session, shown or dormant."""
        return self._all.get((agent, session))

    def known(self, agent: str) -> list[Session]:
        """All sessions of an agent, dormant ones too."""
        return [s for (name, _), s in self._all.items() if name == agent]

    def observe(self, agent: str, observations: Iterable[g.Observation], now: float) -> None:
        """Fold what was seen, oldest first: sources of one session merge by time."""
        touched: dict[Key, Session] = {}
        session: Session | None = None
        known = len(self._all)
        for session_id, signal in sorted(observations, key=_AT):
            if session is None or session.id != session_id:  # most of them come in runs of one session
                key = (agent, session_id)
                session = self._all.get(key) or self._new(key, signal)
                touched[key] = session
            if self._past is not None and session.turn is not None:
                self._end_told(session, signal)
            self.fold(session, signal)
        for key, session in touched.items():
            self._wake(session, now)
            self._due[key] = now
        if len(self._all) > max(known, KEPT_ASLEEP):  # only now is it known which of the new ones live
            self._forget()

    def fold(self, session: Session, signal: g.Signal) -> None:
        """The one writer, and then whoever is concerned: listeners, parent, children."""
        related = session.parent is not None or (
            bool(self._family) and (session.agent, session.id) in self._family
        )
        # To be described is what makes a session another's child.
        before = standing(session) if related or type(signal) is g.Described else None
        changed = fold(session, signal)
        if changed:
            self._tell(session, changed, signal)
        if before is not None and (related or session.parent is not None):
            self._relate(session, signal, before)
        if session.closed is not None:
            session.closed, session.dormant = None, True
            self._due.pop((session.agent, session.id), None)

    def tick(self, now: float) -> float:
        """Settle, judge and drop what is due; returns when the next session is."""
        for key in [key for key, due in self._due.items() if due <= now]:
            session = self._all.get(key)
            if session is not None and session.end is not None:
                self.fold(session, g.Ticked(now))
            if session is None or session.dormant:
                self._due.pop(key, None)  # an end of its family may have ended it in this very tick
            elif lapsed(session, self._law.rules(session), now):
                self.fold(session, g.Closed(now, "silent"))
            else:
                self.judge(session, now)
                self._due[key] = now + interval(session, self._law.rules(session), now, self._slowest)
        return min(self._due.values(), default=now + self._slowest)

    def judge(self, session: Session, now: float) -> None:
        """Say what has tripped, and have it carried out."""
        for said in judge(session, self._law.rules(session), now):
            self.fold(session, said)
            if isinstance(said, g.Judged):
                self._law.decide(session, said)
                self._trip_parent(session, said)

    def due(self, now: float) -> None:
        """Have every session judged at the next tick: the rules changed, or time jumped."""
        for session in self.live():
            self._due[session.agent, session.id] = now

    def _new(self, key: Key, signal: g.Signal) -> Session:
        agent, session_id = key
        session = Session(agent, session_id, signal.at, luck=self._law.luck())
        session.phase_since = signal.at
        self._all[key] = session
        self._held[key] = []
        for child_id in self._family.get(key, ()):
            child = self._all.get((agent, child_id))
            if child is not None and child.progress_at is not None:
                runs = standing(child).running
                self.fold(session, g.ChildMoved(signal.at, child_id, runs, child.progress_at))
        return session

    def _forget(self) -> None:
        """Drop the sessions that have slept longest; live ones are never dropped."""
        asleep = [key for key, s in self._all.items() if s.dormant]
        for key in asleep[: max(KEPT_ASLEEP // 10, len(self._all) - KEPT_ASLEEP)]:
            del self._all[key]
            self._family.pop(key, None)
            self._held.pop(key, None)
            self._due.pop(key, None)

    def _wake(self, session: Session, now: float) -> None:
        """Show a session that lives; the first time with what happened to it since we started."""
        key = (session.agent, session.id)
        if session.dormant and session.end is not None:
            self.fold(session, g.Ticked(now))  # an end of long ago is no turn that is open
        if not session.dormant or lapsed(session, self._law.rules(session), now):
            held, self._held[key] = self._held.get(key, []), []
            for change in held:
                if self._owes(session, change):
                    for listener in self.listeners:
                        listener(session, change)
            if not session.dormant:
                self._end_told(session)
            return
        held = self._held.pop(key, [])
        session.dormant, session.closed_at = False, None
        self._tell(session, [c.SessionOpened(max(session.first_seen, self._told_from)), *held])
        for signal in self._law.opened(session):
            self.fold(session, signal)
        self._end_told(session)
        self._law.woken(session)

    def _end_told(self, session: Session, signal: g.Signal | None = None) -> None:
        """End a turn that a run before said had ended, where nothing else says so before this signal."""
        end = None if self._past is None else self._past.end(session, signal)
        if end is not None:
            self.fold(session, end)

    def _tell(self, session: Session, changed: list[c.Change], cause: g.Signal | None = None) -> None:
        """Tell what happened since we started, be it the end of something older."""
        old = cause is not None and (cause.at < self._told_from or type(cause) is g.Ticked)
        if old or self._past is not None:
            changed = [x for x in changed if self._is_told(session, x, old=old)]
        held = self._held.setdefault((session.agent, session.id), []) if session.dormant else None
        for change in changed:
            # What became of an act is told of a session that this very act has ended, too.
            if held is not None and type(change) is not c.ActEnded:
                held.append(change)
                continue
            for listener in self.listeners:
                listener(session, change)

    def _is_told(self, session: Session, change: c.Change, *, old: bool) -> bool:
        """Whether this run is to tell a change; `old`: what caused it lay there before."""
        owed = self._owes(session, change)
        if owed is not None:
            return owed
        # What is read now is counted now, however old the record that it is dated by.
        return not old or change.at >= self._told_from or type(change) is c.RecordsRead

    def _owes(self, session: Session, change: c.Change) -> bool | None:
        """Whether a run before this one left the change to be told, or told it."""
        return None if self._past is None else self._past.owes(session, change)

    def _relate(self, session: Session, signal: g.Signal, before: Standing) -> None:
        """Families: a subagent's work is its parent's; a parent's word and end are its own."""
        now = standing(session)
        if session.parent is not None:
            parent = self._all.get((session.agent, session.parent))
            if before.parent is None:
                self._adopt(session, signal)
            moved = (now.running, now.progress, now.parent) != (
                before.running,
                before.progress,
                before.parent,
            )
            if parent is not None and moved and now.progress is not None:
                self.fold(parent, g.ChildMoved(signal.at, session.id, now.running, now.progress))
                key = (parent.agent, parent.id)
                self._due[key] = min(self._due.get(key, signal.at), signal.at)
        for child_id in tuple(self._family.get((session.agent, session.id), ())):
            child = self._all.get((session.agent, child_id))
            if child is None:
                continue
            if session.status is not before.status:
                self.fold(child, inherited(session, signal.at))
            if now.attended is not before.attended:
                self.fold(child, g.Described(signal.at, attended=now.attended))
            if now.over and not before.over:
                self.fold(child, g.ProcessGone(signal.at))

    def _adopt(self, session: Session, told: g.Signal) -> None:
        """What holds for the parent holds for a subagent that says nothing of its own."""
        if session.parent is None:
            return
        self._family.setdefault((session.agent, session.parent), set()).add(session.id)
        parent = self._all.get((session.agent, session.parent))
        if parent is None:
            return
        if isinstance(told, g.Described) and told.attended is None:
            self.fold(session, g.Described(told.at, attended=parent.attended))
        if parent.status is not None:
            self.fold(session, inherited(parent, parent.status.since))

    def _trip_parent(self, session: Session, said: g.Judged) -> None:
        """A subagent that cannot be ended alone trips the turn that waits for it."""
        parent = self._all.get((session.agent, session.parent)) if session.parent else None
        if parent is None or said.action != "interrupt" or self._law.alone(session):
            return
        self.fold(parent, g.ChildStuck(said.at, session.id, said.reason))
        self._due[parent.agent, parent.id] = said.at
