"""What earlier runs decided and did, as far as it is about what goes on now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import signals as g
from sidecar.act.job import job_of, named, rests, since
from sidecar.journal import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sidecar.act.job import Job
    from sidecar.clock import Clock
    from sidecar.journal import Entry
    from sidecar.session import Session


def present(session: Session, entries: Sequence[Entry], clock: Clock) -> list[Entry]:
    """The entries that are about what is going on in the session now."""
    return [entry for entry in entries if _concerns(session, entry, clock.core(entry.at))]


def signals(session: Session, entries: Sequence[Entry], clock: Clock) -> list[g.Signal]:
    """Entries as the signals that they were."""
    turn, now = named(session), clock.now()
    return [signal for e in entries for signal in _signals(e, turn, min(now, clock.core(e.at)))]


def unfinished(session: Session, entries: Sequence[Entry], clock: Clock) -> tuple[list[Job], list[Job]]:
    """What was decided and not called, the held too; and what was called and has no outcome."""
    decided: dict[tuple[str | None, str], Job] = {}
    called: dict[tuple[str | None, str], Job] = {}
    for entry in entries:
        verdict, act = (entry.bound, entry.key), (entry.bound, entry.action)
        if entry.event == "verdict":
            decided[verdict] = job_of(session, entry, named(session))
        elif entry.event == "intent" and entry.outcome is None:
            called[act] = _called(session, entry, clock.core(entry.at))
            decided.pop(verdict, None)
        elif entry.outcome != "held":
            called.pop(act, None)
            decided.pop(verdict, None)
        elif verdict in decided:
            decided[verdict].held = True
    return list(decided.values()), list(called.values())


def _called(session: Session, entry: Entry, at: float) -> Job:
    """An act that an earlier run carried out: all that is left is to see what came of it."""
    job = job_of(session, entry, named(session))
    job.intended = True
    if job.progress_at is not None:  # what came after the call is news
        job.progress_at = min(job.progress_at, at)
    if entry.action == "interrupt" and rests(session, at):
        job.effect.set()
    return job


def _concerns(session: Session, entry: Entry, at: float) -> bool:
    """Whether an entry, written at core time `at`, is about what is going on in the session now."""
    turn = named(session)
    if entry.turn != (None if turn is None else bounded(turn)):
        return False
    if turn is None:
        return at >= since(session)
    # These two close a turn; one that moved since was not over.
    closes = entry.bound in ("gone", "idle_in_turn")
    return not (closes and session.progress_at is not None and session.progress_at > at)


def _signals(entry: Entry, turn: str | None, at: float) -> Iterator[g.Signal]:
    """An entry as the signals that it was."""
    if entry.event == "verdict" and entry.bound is not None:
        action, said = entry.action, (entry.evidence, entry.reason)
        yield g.Judged(at, entry.bound, entry.key, action, *said, turn)
    if entry.event == "intent":
        yield g.Intended(at, entry.action, turn, entry.bound, entry.reason)
    if entry.outcome is not None:
        yield g.Acted(at, entry.action, turn, entry.bound, entry.outcome, entry.key)
