"""What parents and subagents have to hear of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sidecar import signals as g

if TYPE_CHECKING:
    from sidecar.session import Report, Session


class Standing(NamedTuple):
    """What a session's family has to hear of, when it is different."""

    running: bool
    progress: float | None
    parent: str | None
    status: Report | None
    attended: bool
    over: bool


def standing(session: Session) -> Standing:
    """How it stands now."""
    running = session.turn is not None and session.gone_at is None
    over = session.gone_at is not None or session.closed is not None
    return Standing(running, session.progress_at, session.parent, session.status, session.attended, over)


def inherited(parent: Session, at: float) -> g.Status:
    """A parent's word, for a subagent that has none of its own."""
    word = parent.status.word if parent.status else None
    since = parent.status.since if parent.status else at
    waits = parent.status.waiting_for if parent.status else None
    return g.Status(at, word, since, waits, inherited=True)
