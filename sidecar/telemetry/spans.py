"""One trace per turn: the root when it ends, its parts as they end.

Ids are derived, so parts can be exported before a root exists and a restart goes on with the same
trace. A part's id is what it stands for: a tool's call id, else its kind and the moment it began,
which no part that was sent before a restart shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from sidecar import changes as c
from sidecar.telemetry import names as n
from sidecar.telemetry.labels import OTHER, plain
from sidecar.telemetry.parts import FAILED, PARTS, Attributes, End, Part, child, link_to_parent, root, stretch
from sidecar.telemetry.records import Link, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.session import Session, Turn
    from sidecar.telemetry.watched import Watched

Key = tuple[str, str]


class Stall(Struct):
    """A silence that was warned of or judged and has not ended yet."""

    since: float
    bound: str
    told_at: float
    tripped: bool
    reason: str


class Open(Struct):
    """What an open turn needs until it is over."""

    turn: str
    spent: dict[str, int] = field(default_factory=dict)
    """Tokens since the last `chat` span."""
    stall: Stall | None = None
    link: Link | None = None
    held: c.PhaseLeft | None = None
    """A stretch of the model that the agent ended by its word: the record with its tokens may come later."""


class Spans:
    """Listens to changes and sends finished spans."""

    def __init__(self, watched: Watched, send: Callable[[Span], None]) -> None:
        """`send` must not block."""
        self._watched = watched
        self._send = send
        self._open: dict[Key, Open] = {}
        self._take: dict[type[c.Change], Callable[[Session, Any], None]] = {
            c.TurnOpened: self._turn_opened,
            c.TurnClosed: self._turn_closed,
            c.PhaseLeft: self._phase_left,
            c.ToolClosed: self._tool_closed,
            c.TokensUsed: self._tokens_used,
            c.GapClosed: self._gap_closed,
            c.WarningGiven: self._warning_given,
            c.VerdictGiven: self._verdict_given,
            c.SessionClosed: self._session_closed,
        }

    def __call__(self, session: Session, change: c.Change) -> None:
        """Turn the change into spans, where it ends something."""
        take = self._take.get(type(change))
        if take is not None:
            take(session, change)

    # What is open.

    def _at(self, session: Session, turn: Turn) -> Open:
        key = (session.agent, session.id)
        found = self._open.get(key)
        if found is None or found.turn != turn.id:
            found = self._open[key] = Open(turn.id, link=link_to_parent(self._watched, session))
        return found

    def _turn_opened(self, session: Session, x: c.TurnOpened) -> None:
        self._at(session, x.turn)

    def _tokens_used(self, session: Session, x: c.TokensUsed) -> None:
        if x.turn is not None:
            spent = self._at(session, x.turn).spent
            for kind, count in x.types.items():
                spent[kind] = spent.get(kind, 0) + count

    # What ended.

    def _phase_left(self, session: Session, x: c.PhaseLeft) -> None:
        self._let_go(session)
        if x.turn is None or x.phase not in PARTS or x.at <= x.since:
            return
        if x.phase == "model" and x.into == "idle_in_turn":
            self._at(session, x.turn).held = x
        else:
            self._stretch(session, x)

    def _let_go(self, session: Session) -> None:
        opened = self._open.get((session.agent, session.id))
        if opened is not None and opened.held is not None:
            held, opened.held = opened.held, None
            self._stretch(session, held)

    def _stretch(self, session: Session, x: c.PhaseLeft) -> None:
        if x.turn is None:
            return
        opened, spent = self._at(session, x.turn), {}
        if x.phase == "model":
            spent, opened.spent = opened.spent, {}
        self._child(session, x.turn, (x.phase, self._stamp(x.since)), stretch(x, spent))

    def _tool_closed(self, session: Session, x: c.ToolClosed) -> None:
        if x.turn is None:
            return
        self._at(session, x.turn)
        tool = plain(x.tool) or OTHER
        extra: Attributes = {n.OPERATION: n.EXECUTE_TOOL, n.TOOL_NAME: tool, n.TOOL_CALL: x.call}
        error = None
        if x.unfinished:
            extra[n.UNFINISHED] = True
            error = x.turn.outcome if x.turn.outcome in FAILED else None
        name = f"{n.EXECUTE_TOOL} {tool}"
        self._child(session, x.turn, ("tool", x.call), Part(name, x.since, x.at, extra, error=error))

    def _turn_closed(self, session: Session, x: c.TurnClosed) -> None:
        self._root(session, x.turn, x.at, x.turn.outcome)

    def _session_closed(self, session: Session, _: c.SessionClosed) -> None:
        """Let go of the session: its turn, if one was open, was told to end before."""
        self._open.pop((session.agent, session.id), None)

    def _root(self, session: Session, turn: Turn, at: float, outcome: str | None) -> None:
        self._let_go(session)
        opened = self._at(session, turn)
        stall = opened.stall
        self._stall_over(session, turn, at, outcome or "session_closed")
        reason = stall.reason if stall is not None and stall.tripped and outcome == "stalled" else ""
        link = opened.link or link_to_parent(self._watched, session)
        self._send(root(self._watched, session, turn, End(at, outcome, reason, link)))
        self._open.pop((session.agent, session.id), None)

    # Stalls: the silences that a bound spoke of.

    def _warning_given(self, session: Session, x: c.WarningGiven) -> None:
        if x.turn is not None:
            self._stalls(session, x.turn, Stall(0.0, x.bound, x.at, tripped=False, reason=x.reason))

    def _verdict_given(self, session: Session, x: c.VerdictGiven) -> None:
        if x.turn is not None:
            told = Stall(0.0, x.verdict.bound, x.at, tripped=True, reason=x.verdict.reason)
            self._stalls(session, x.turn, told)

    def _stalls(self, session: Session, turn: Turn, told: Stall) -> None:
        opened = self._at(session, turn)
        was = opened.stall
        if was is not None and was.tripped and not told.tripped:
            return
        told.since = turn.started_at if session.progress_at is None else session.progress_at
        opened.stall = told

    def _gap_closed(self, session: Session, x: c.GapClosed) -> None:
        if x.turn is not None:
            self._stall_over(session, x.turn, x.at, "progress")

    def _stall_over(self, session: Session, turn: Turn, at: float, by: str) -> None:
        opened = self._at(session, turn)
        stall, opened.stall = opened.stall, None
        if stall is None:
            return
        # An end can be dated before the verdict that led to it.
        end = max(at, stall.told_at)
        extra: Attributes = {n.BOUND: stall.bound, n.TRIPPED: stall.tripped, n.ENDED_BY: by}
        extra |= {n.REASON: stall.reason, n.SILENT_FOR: round(end - stall.since, 3)}
        error = by if by in FAILED else None
        part = ("stall", self._stamp(stall.since))
        self._child(session, turn, part, Part(n.STALL, stall.since, end, extra, error=error))

    def _stamp(self, at: float) -> str:
        """When a part began, in microseconds: nothing that was sent before a restart has that id too."""
        return str(round(self._watched.clock.wall(at) * 1e6))

    def _child(self, session: Session, turn: Turn, part: tuple[str, ...], made: Part) -> None:
        self._send(child(self._watched, session, turn, part, made))
