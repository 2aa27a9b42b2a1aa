"""What people see and ask through the API: session objects, explanations, and their requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sidecar import changes as c
from sidecar.clock import iso
from sidecar.policy import bounds
from sidecar.server import Done
from sidecar.story import told
from sidecar.view import Shown, view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.act import Acts
    from sidecar.server import Ask
    from sidecar.session import Session
    from sidecar.watch import Watch

KEPT: Final = 50
"""Changes remembered per session, for `explain`."""

TOLD: Final = (
    *("phase", "into", "action", "outcome", "bound", "reason"),
    *("source", "up", "word", "why", "cause"),
)


class Board:
    """The live sessions, for the server; a listener, so that it knows what changed."""

    def __init__(self, watch: Watch, acts: Acts) -> None:
        self._watch = watch
        self._acts = acts
        self._recent: dict[tuple[str, str], deque[c.Change]] = {}
        self._subscribers: set[Callable[[str, str], None]] = set()

    def __call__(self, session: Session, change: c.Change, /) -> None:
        """Remember a change and tell who listens. What it comes to in words is asked for seldom."""
        key = (session.agent, session.id)
        if isinstance(change, c.SessionClosed):
            self._recent.pop(key, None)
        elif not isinstance(change, c.RecordsRead | c.TokensUsed):
            self._recent.setdefault(key, deque(maxlen=KEPT)).append(change)
        for tell in list(self._subscribers):
            tell(*key)

    def sessions(self) -> Sequence[Shown]:
        """Every session that is listed."""
        return [self._view(session) for session in self._watch.sessions()]

    def session(self, session: str, agent: str | None) -> Sequence[Shown]:
        """Those with this id."""
        found = [s for s in self._watch.sessions() if s.id == session and agent in (None, s.agent)]
        return [self._view(s) for s in found]

    def explain(self, agent: str, session: str) -> Shown:
        """What the judgement rests on: sources, running bounds, and what changed last."""
        found = self._watch.session(agent, session)
        if found is None:
            return {}
        now, clock = self._watch.clock.now(), self._watch.clock
        return {
            "sources": dict(found.sources),
            "resolution": found.resolution,
            "progress_at": None if found.progress_at is None else iso(clock.wall(found.progress_at)),
            "process": None if found.process is None else {"pid": found.process.pid},
            "bounds": [
                {
                    "name": b.name,
                    "since": iso(clock.wall(b.since)),
                    "limit_seconds": round(b.limit, 3),
                    "warn_seconds": round(b.warn, 3),
                    "remaining_seconds": round(b.remaining(now), 3),
                    "action": b.action,
                    "tripped": b.key in found.judged,
                }
                for b in bounds(found, self._watch.rules(found))
            ],
            "changes": [self._entry(change) for change in self._recent.get((agent, session), ())],
        }

    def subscribe(self, tell: Callable[[str, str], None]) -> Callable[[], None]:
        """Call `tell` for every session that is different; returns how to stop it."""
        self._subscribers.add(tell)
        return lambda: self._subscribers.discard(tell)

    async def ask(self, ask: Ask) -> Done:
        """Carry out a person's request."""
        session = self._watch.session(ask.agent, ask.session)
        if session is None:
            return Done("superseded", "the session is gone")
        reason = ask.reason or "asked for by a person"
        return Done(await self._acts.ask(session, ask.action, reason, force=ask.force))

    def _view(self, session: Session) -> Shown:
        return view(session, self._watch.rules(session), self._watch.clock, self._watch.clock.now())

    def _entry(self, change: c.Change) -> Shown:
        entry: dict[str, Any] = {
            "at": iso(self._watch.clock.wall(change.at)),
            "change": type(change).__name__,
            "text": told(change),
        }
        for name in TOLD:
            value = getattr(change, name, None)
            if value is not None:
                entry[name] = value
        verdict = getattr(change, "verdict", None)
        if verdict is not None:
            entry |= {"bound": verdict.bound, "action": verdict.action, "reason": verdict.reason}
        return entry
