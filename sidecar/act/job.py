"""One act on its way: what is to be done to which turn, and what would show that it was."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from sidecar import changes as c
from sidecar.journal import Deed
from sidecar.session import Session

if TYPE_CHECKING:
    from sidecar import signals as g
    from sidecar.journal import Entry
    from sidecar.signals import ActOutcome

log = logging.getLogger(__name__)


class Job(Struct, eq=False):
    """One act, from its decision to its outcome."""

    session: Session
    deed: Deed
    reason: str
    ends: str | None
    """The turn that is open: what an interrupt ends, and what a reap may end where it is forced."""
    progress_at: float | None
    """The newest progress when it was decided."""
    force: bool = False
    follows: bool = False
    """It follows an interrupt without effect and rests on the same verdict."""
    intended: bool = False
    held: bool = False
    due: float = 0.0
    slot: float | None = None
    effect: asyncio.Event = field(default_factory=asyncio.Event)

    def __str__(self) -> str:
        return f"{self.deed.action} of {self.deed.agent}/{self.deed.session}"


def job_of(session: Session, judged: g.Judged | Entry, turn: str | None) -> Job:
    """A verdict's act. Only one that names an open turn may end it; the others need it at rest."""
    deed = Deed(session.agent, session.id, turn, judged.action, judged.bound, judged.key)
    ends = session.turn.id if session.turn else None
    force = deed.action == "reap" and ends is not None and deed.bound not in ("idle", "starting")
    return Job(session, deed, judged.reason, ends, session.progress_at, force)


def following(job: Job) -> Job:
    """The reap of the named turn that an interrupt did not end."""
    deed = structs.replace(job.deed, action="reap", key="")
    reason = f"{job.reason}; the interrupt had no effect"
    return Job(job.session, deed, reason, job.ends, job.progress_at, force=True, follows=True)


def named(session: Session) -> str | None:
    """The turn that a verdict of now names: the open one, or the one the session rests after."""
    turn = session.turn or session.last
    return None if turn is None else turn.id


def runs(session: Session) -> bool:
    """Whether there is something to interrupt: an open turn, or one the agent itself speaks of."""
    status = session.status
    says = status is not None and not status.inherited and status.word in ("busy", "waiting")
    return session.turn is not None or says


def since(session: Session) -> float:
    """Since when a session whose turns cannot be told apart is in the state that it is in."""
    if session.status is not None:
        return session.status.since
    if session.registered_at is not None:
        return session.registered_at
    return session.process.started if session.process is not None else session.first_seen


def rests(session: Session, after: float = float("-inf")) -> bool:
    """Whether the agent itself says that no turn runs since then: some ends leave no other trace."""
    status = session.status
    if status is None or status.inherited or status.since < after:
        return False
    return status.word in ("idle", "background")


def shows(job: Job, session: Session, change: c.Change) -> bool:
    """Whether a change is the effect of the act."""
    if isinstance(change, c.SessionClosed):
        return True
    if job.deed.action == "reap":
        return False
    if isinstance(change, c.TurnClosed):
        return change.turn.id == job.ends
    return isinstance(change, c.StatusChanged) and rests(session)


def whose(job: Job) -> ActOutcome:
    """What the end that was seen makes of the act: the agent's own guard may have been first.

    A turn that ended by an act of ours is `stalled`, and only that guard takes the mark of one off.
    """
    last = job.session.last
    theirs = last is not None and last.id == job.ends and last.outcome == "interrupted"
    return "superseded" if theirs else "effective"


def put_off(job: Job, why: str) -> ActOutcome:
    """Leave an act undone for now; said once, however often it is tried."""
    if not job.held:
        log.warning("%s is held: %s", job, why)
    return "held"
