"""Which phase a session is in, and what that rests on. Reads a session and nothing else.

A session is in exactly one phase, the first of `phase()` that holds. Phases do not depend on the
time, only on what was seen; deadlines are `policy`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar.session import Phase, Session
    from sidecar.signals import Word


def reported(session: Session, *words: Word) -> bool:
    """Whether the agent says one of these. A parent's word is about the turn of its subagent."""
    status = session.status
    return status is not None and status.word in words and (session.turn is not None or not status.inherited)


def _idle_in_turn(session: Session) -> bool:
    """The agent says idle, and said so after this turn began: the turn was left behind."""
    status, turn = session.status, session.turn
    if turn is None or session.end is not None or status is None:
        return False
    # The parent's `background` is this very subagent at work.
    left = status.word == "idle" or (status.word == "background" and not status.inherited)
    return left and status.since >= turn.started_at


def _open_work(session: Session) -> Phase:
    """The phase of an open turn that nothing stronger speaks about."""
    if session.tools:
        return "delegated" if session.delegating else "tool"
    return "retrying" if session.retry is not None else "model"


def _no_turn(session: Session) -> Phase:
    if session.in_background:
        return "delegated"
    if reported(session, "busy"):
        return "model"
    silent_start = session.status is None and not session.had_turn
    known = session.registered_at is not None or session.process is not None
    if silent_start and known and session.progress_at is None:
        # It said what it was at, and who heard that is lost: we are blind, it is not starting.
        return "unknown" if session.heard else "starting"
    return "idle"


def phase(session: Session) -> Phase:  # noqa: PLR0911 - a list of rules, read from the top
    """The one phase the session is in: the first that holds, strongest evidence first."""
    if session.sources and True not in session.sources.values():
        return "unknown"
    if session.gone_at is not None:
        return "gone"
    if session.limit is not None:
        return "limited"
    says = session.status is not None  # nearly always it says nothing, and this is asked for every signal
    if session.wait is not None or (says and reported(session, "waiting")):
        return "waiting"
    if session.compacting_since is not None:
        return "compacting"
    if says and _idle_in_turn(session):
        return "idle_in_turn"
    return _no_turn(session) if session.turn is None else _open_work(session)


def evidence(session: Session) -> str:
    """What the judgement of this session rests on, as one word of a closed set."""
    if session.phase == "waiting" and session.wait is None:
        return "status"
    if session.resolution == "delta":
        return "stream"
    if session.resolution == "record":
        return "transcript"
    return "status" if session.heard else "process"


def waiting_for(session: Session) -> str | None:
    """What the session waits for, where it waits."""
    if session.wait is not None:
        return session.wait.waiting_for
    status = session.status
    return status.waiting_for if status is not None and status.word == "waiting" else None
