"""How spans are made of a session, a turn and a part of it: ids, wall times, attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.labels import fit, plain, waits_for
from sidecar.telemetry.records import Link, Span, Value

if TYPE_CHECKING:
    from sidecar.changes import PhaseLeft
    from sidecar.session import Session, Turn
    from sidecar.telemetry.watched import Watched

Attributes = dict[str, Value]

FAILED: Final = frozenset(("stalled", "failed", "died"))
"""Outcomes that are errors; being interrupted by somebody, or left behind, is none."""


PARTS: Final = {
    "model": n.CHAT,
    "waiting": n.WAITING,
    "retrying": n.RETRYING,
    "compacting": n.COMPACTING,
}
"""The phases that are parts of a turn. Tools have spans of their own, and may overlap."""


class Part(Struct, frozen=True):
    """A part of a turn, in core seconds."""

    name: str
    since: float
    until: float
    attributes: Attributes
    client: bool = False
    error: str | None = None


def child(watched: Watched, session: Session, turn: Turn, part: tuple[str, ...], made: Part) -> Span:
    """Make the span of a turn's part, a child of the root that is or will be."""
    key = (session.agent, session.id, turn.id)
    error: Attributes = {n.ERROR_TYPE: made.error} if made.error else {}
    return Span(
        made.name,
        ids.trace_id(*key),
        ids.span_id(*key, *part),
        ids.span_id(*key),
        watched.clock.wall(made.since),
        watched.clock.wall(max(made.until, made.since)),
        fit(base(session) | made.attributes | error),
        kind="client" if made.client else "internal",
        error=made.error,
    )


def stretch(x: PhaseLeft, spent: dict[str, int]) -> Part:
    """Make the part that a phase was; `spent` are the tokens that a stretch of the model took."""
    name, extra = PARTS[x.phase], Attributes()
    if x.phase == "model":
        model = plain(x.model)
        name = f"{n.CHAT} {model}" if model else n.CHAT
        extra = {n.OPERATION: n.CHAT, **({n.MODEL: model} if model else {}), **usage(spent)}
    elif x.phase == "waiting":
        extra = {n.WAITING_FOR: waits_for(x.waiting_for)}
    return Part(name, x.since, x.at, extra, client=x.phase == "model")


class End(Struct, frozen=True):
    """How a turn ended. `outcome` None: it did not, its session was let go."""

    at: float
    outcome: str | None
    reason: str
    link: Link | None


def root(watched: Watched, session: Session, turn: Turn, end: End) -> Span:
    """Make the span of a whole turn."""
    key = (session.agent, session.id, turn.id)
    error = end.outcome if end.outcome in FAILED else None
    attributes = base(session) | usage(turn.tokens) | _whole(session, turn, end.outcome)
    return Span(
        f"{n.INVOKE_AGENT} {session.agent}",
        ids.trace_id(*key),
        ids.span_id(*key),
        None,
        watched.clock.wall(turn.started_at),
        watched.clock.wall(max(end.at, turn.started_at)),
        fit(attributes | ({n.ERROR_TYPE: error} if error else {})),
        links=(end.link,) if end.link else (),
        error=error,
        reason=end.reason,
    )


def link_to_parent(watched: Watched, session: Session) -> Link | None:
    """Point to the tool call that waits for this subagent, or to its parent's turn.

    Which of several calls it is, is told nowhere: then the turn is the honest answer.
    """
    kin = (s for s in watched.sessions() if (s.agent, s.id) == (session.agent, session.parent))
    parent = None if session.parent is None else next(kin, None)
    turn = parent and (parent.turn or parent.last)
    if parent is None or turn is None:
        return None
    key = (parent.agent, parent.id, turn.id)
    calls = [call for call, tool in parent.tools.items() if tool.delegates]
    span = ids.tool_span_id(*key, calls[0]) if len(calls) == 1 else ids.span_id(*key)
    return Link(ids.trace_id(*key), span)


def base(session: Session) -> Attributes:
    """Return what every span of a session says."""
    return {n.AGENT_NAME: session.agent, n.CONVERSATION: session.id}


def usage(tokens: dict[str, int]) -> Attributes:
    """Return tokens as the conventions count them: cached ones are input too."""
    cached = {kind: tokens.get(kind, 0) for kind in ("cache_read", "cache_write")}
    counts = {
        n.INPUT_TOKENS: tokens.get("input", 0) + sum(cached.values()),
        n.OUTPUT_TOKENS: tokens.get("output", 0),
        n.CACHE_READ_TOKENS: cached["cache_read"],
        n.CACHE_WRITE_TOKENS: cached["cache_write"],
    }
    return {name: count for name, count in counts.items() if count}


def _whole(session: Session, turn: Turn, outcome: str | None) -> Attributes:
    told: dict[str, Value | None] = {
        n.OPERATION: n.INVOKE_AGENT,
        n.AGENT_VERSION: plain(session.version),
        n.MODEL: plain(turn.model),
        n.PARENT: session.parent,
        n.ATTENDED: session.attended,
        n.TURN_ID: turn.id,
        n.TURN_OUTCOME: outcome,
        n.TURN_TOOL_CALLS: turn.tool_calls,
        **{n.PHASE_TIME + phase: round(seconds, 3) for phase, seconds in turn.phase_seconds.items()},
    }
    return {name: value for name, value in told.items() if value is not None}
