"""How a turn begins, goes on and ends, and how a session moves from phase to phase.

These are the few transitions that every signal of `fold` comes down to; they belong to the fold
and are called by nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import changes as c
from sidecar.phases import phase, waiting_for
from sidecar.session import Ending, Phase, Session, Turn

if TYPE_CHECKING:
    from sidecar.signals import Outcome

Out = list[c.Change]

GAP: Final = 1.0
"""Seconds without progress that count as a gap; below that it is the rhythm of streaming."""

KEPT_IDS: Final = 32
"""Ended turns whose late echoes are recognised."""


def move(s: Session, at: float, out: Out) -> None:
    """Enter the phase that holds now; say which was left."""
    now = phase(s)
    if now != s.phase or s.turn is not s.phase_turn:
        leave(s, at, now, out)


def leave(s: Session, at: float, now: Phase, out: Out, into: str | None = None) -> None:
    """Tell the phase that ends and add it to its turn; `now` begins, told as `into` where that is another."""
    was, since, turn, model = s.phase, s.phase_since, s.phase_turn, s.model
    at = max(at, since)
    if turn is not None:
        model = turn.model
        turn.phase_seconds[was] = turn.phase_seconds.get(was, 0.0) + at - since
    out.append(c.PhaseLeft(at, was, since, into or now, turn, model, s.phase_waits))
    s.phase, s.phase_since, s.phase_turn = now, at, s.turn
    s.phase_waits = waiting_for(s)


def open_turn(s: Session, turn: str, started: float, out: Out) -> None:
    """Begin a turn with a clean slate: what was said of the last one may be said again."""
    s.turn = Turn(turn, started, model=s.model)
    s.judged.clear()
    s.warned.clear()
    s.interrupted = False
    s.wait = s.compacting_since = None
    out.append(c.TurnOpened(started, s.turn))


def close_turn(s: Session, turn: Turn, at: float, outcome: Outcome, out: Out) -> None:
    """End the open turn at `at`. A turn that we ended is `stalled`, whatever it says itself."""
    turn.ended_at = max(at, turn.started_at)
    turn.outcome = "stalled" if turn.ending else outcome
    _close_tools(s, turn.ended_at, out)
    s.turn, s.last, s.end = None, turn, None
    s.wait = s.compacting_since = s.retry = None
    leave(s, turn.ended_at, phase(s), out)
    s.ended_ids = [*s.ended_ids[1 - KEPT_IDS :], turn.id]
    s.turns[turn.outcome] += 1
    said = s.status.since if s.status is not None and s.status.word == "idle" else turn.ended_at
    idle_from(s, max(turn.ended_at, said))
    out.append(c.TurnClosed(turn.ended_at, turn))


def idle_from(s: Session, at: float) -> None:
    """Work ended: idle time counts from the latest end of any."""
    s.idle_since = at if s.idle_since is None else max(s.idle_since, at)


def _close_tools(s: Session, at: float, out: Out) -> None:
    for call, tool in s.tools.items():
        out.append(c.ToolClosed(at, call, tool.tool, tool.since, s.turn, unfinished=True))
    s.tools.clear()


def progress(s: Session, at: float, turn: str | None, out: Out) -> None:
    """Work was done: the silence ends, a provisional end is cancelled, whatever waited is over."""
    if s.turn is None and turn is not None and turn not in s.ended_ids:
        open_turn(s, turn, at, out)
    since = s.progress_at
    if since is not None and s.phase_turn is not None and at - since >= GAP:
        out.append(c.GapClosed(at, s.phase, at - since, since, s.phase_turn))
    if since is None or at > since:
        s.progress_at = at
    s.end = s.retry = None
    if s.gone_at is not None and at > s.gone_at:
        s.gone_at = None
    if s.compacting_since is not None and at > s.compacting_since:
        s.compacting_since = None
    if s.limit is not None:
        s.limit, s.floor = None, max(s.floor, at)
    if s.turn is not None and s.turn.ending:
        s.turn.ending = _PASSED[s.turn.ending]
    if s.verdicts:
        _recover(s, at, out)


_PASSED: Final[dict[Ending, Ending]] = {"sent": "passed", "passed": "passed", "spent": ""}
"""What work does to our own interrupt: one that had no effect did not end a turn that works on."""


def _recover(s: Session, at: float, out: Out) -> None:
    for verdict in s.verdicts:
        ours = s.turn is not None and verdict.turn == s.turn.id
        if ours and verdict.outcome == "observed" and not verdict.recovered:
            verdict.recovered = True
            out.append(c.Recovered(at, verdict, s.turn))


def settle(s: Session, out: Out) -> None:
    """Take a provisional end for what it is, dated at the record that caused it."""
    if s.turn is not None and s.end is not None:
        close_turn(s, s.turn, s.end.at, s.end.outcome, out)


def last_progress(s: Session, turn: Turn) -> float:
    """When the turn last did anything: its start, where it never did."""
    return turn.started_at if s.progress_at is None else s.progress_at
