"""The session object: the one JSON shape of a session, for the API, the command line and replay.

Ids, names, states and numbers; never content. Times are written on the wall's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar.clock import Clock, iso
from sidecar.phases import evidence, waiting_for
from sidecar.policy import bound

if TYPE_CHECKING:
    from sidecar.limits import Rules
    from sidecar.session import Session, Turn

Shown = dict[str, Any]


def _turn(s: Session, turn: Turn, clock: Clock, now: float) -> Shown:
    spent = dict(turn.phase_seconds)
    if turn is s.phase_turn and turn.ended_at is None:
        running = max(0.0, now - s.phase_since)
        spent[s.phase] = spent.get(s.phase, 0.0) + running
    return {
        "id": turn.id,
        "started_at": iso(clock.wall(turn.started_at)),
        "ended_at": None if turn.ended_at is None else iso(clock.wall(turn.ended_at)),
        "outcome": turn.outcome,
        "phase_seconds": {name: round(seconds, 3) for name, seconds in spent.items()},
        "tool_calls": turn.tool_calls,
        "tokens": dict(turn.tokens),
    }


def _bound(s: Session, rules: Rules, now: float) -> Shown | None:
    running = None if s.dormant else bound(s, rules)
    if running is None:
        return None
    return {
        "name": running.name,
        "limit_seconds": round(running.limit, 3),
        "remaining_seconds": round(running.remaining(now), 3),
        "action": running.action,
    }


def view(s: Session, rules: Rules, clock: Clock, now: float) -> Shown:
    """The session as its readers see it at core time `now`."""
    turn = s.turn or s.last
    return {
        "agent": s.agent,
        "session": s.id,
        "parent": s.parent,
        "attended": s.attended,
        "phase": s.phase,
        "since": iso(clock.wall(s.phase_since)),
        "silence_seconds": round(s.silence(now), 3),
        "evidence": evidence(s),
        "status": s.status.word if s.status else None,
        "waiting_for": waiting_for(s),
        "open_tools": [
            {"call": call, "tool": t.tool, "since": iso(clock.wall(t.since))} for call, t in s.tools.items()
        ],
        "turn": None if turn is None else _turn(s, turn, clock, now),
        "bound": _bound(s, rules, now),
        "turns": dict(s.turns),
        "verdicts": [
            {
                "at": iso(clock.wall(v.at)),
                "turn": v.turn,
                "bound": v.bound,
                "action": v.action,
                "outcome": v.outcome,
                "reason": v.reason,
            }
            for v in s.verdicts
        ],
    }
