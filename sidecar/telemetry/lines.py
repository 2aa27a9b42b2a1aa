"""What each change is called in the lifecycle lines, and what a line about it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sidecar import changes as c

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.session import Session, Turn

Fields = dict[str, Any]
Said = tuple[str, Fields, "Turn | None"]
"""The event's name, its own fields, and the turn whose trace it belongs to."""


def silence(session: Session, turn: Turn, now: float) -> Fields:
    """Describe a silence: the agent's word for it, and how long."""
    return {
        "turn": turn.id,
        "phase": session.phase,
        "status": session.status.word if session.status else None,
        "silence_seconds": round(session.silence(now), 3),
    }


def _id(turn: Turn | None) -> str | None:
    return None if turn is None else turn.id


def _session_open(s: Session, _: c.SessionOpened) -> list[Said]:
    return [("session.open", {"attended": s.attended, "version": s.version}, None)]


def _session_close(_: Session, x: c.SessionClosed) -> list[Said]:
    return [("session.close", {"why": x.why}, None)]


def _turn_start(_: Session, x: c.TurnOpened) -> list[Said]:
    return [("turn.start", {"turn": x.turn.id}, x.turn)]


def _turn_end(_: Session, x: c.TurnClosed) -> list[Said]:
    turn = x.turn
    seconds = round((x.at if turn.ended_at is None else turn.ended_at) - turn.started_at, 3)
    numbers = {"seconds": seconds, "tool_calls": turn.tool_calls, "tokens": dict(turn.tokens)}
    return [("turn.end", {"turn": turn.id, "outcome": turn.outcome} | numbers, turn)]


def _turn_warned(_: Session, x: c.WarningGiven) -> list[Said]:
    return [("turn.warned", {"turn": _id(x.turn), "bound": x.bound, "reason": x.reason}, x.turn)]


def _turn_stalled(s: Session, x: c.VerdictGiven) -> list[Said]:
    v = x.verdict
    fields = {"turn": v.turn, "bound": v.bound, "action": v.action, "evidence": v.evidence}
    turn = x.turn or (s.last if s.last is not None and s.last.id == v.turn else None)
    return [("turn.stalled", fields | {"reason": v.reason}, turn)]


def _turn_progress(_: Session, x: c.GapClosed) -> list[Said]:
    fields = {"turn": _id(x.turn), "phase": x.phase, "silence_seconds": round(x.seconds, 3)}
    return [("turn.progress", fields, x.turn)]


def _action_intent(s: Session, x: c.ActIntended) -> list[Said]:
    turn = x.turn or s.last  # as its outcome will say
    fields = {"turn": _id(turn), "action": x.action, "bound": x.bound, "reason": x.reason}
    return [("action.intent", fields, turn)]


def _action_outcome(_: Session, x: c.ActEnded) -> list[Said]:
    fields = {"turn": _id(x.turn), "action": x.action, "bound": x.bound, "outcome": x.outcome}
    said: list[Said] = [("action.outcome", fields, x.turn)]
    if x.action == "reap" and x.outcome == "effective" and x.bound is not None:
        said.append(("ttl.reap", {"turn": _id(x.turn), "bound": x.bound}, x.turn))
    return said


def _source(_: Session, x: c.SourceChanged) -> list[Said]:
    return [("source.regained" if x.up else "source.lost", {"source": x.source}, None)]


LINES: Final[dict[type[c.Change], Callable[[Session, Any], list[Said]]]] = {
    c.SessionOpened: _session_open,
    c.SessionClosed: _session_close,
    c.TurnOpened: _turn_start,
    c.TurnClosed: _turn_end,
    c.WarningGiven: _turn_warned,
    c.VerdictGiven: _turn_stalled,
    c.GapClosed: _turn_progress,
    c.ActIntended: _action_intent,
    c.ActEnded: _action_outcome,
    c.SourceChanged: _source,
}
