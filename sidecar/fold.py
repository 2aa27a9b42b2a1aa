"""The one writer of a session's state: `fold(session, signal)` and nothing else.

It takes a signal, moves the session, and returns what changed. No order of signals raises: files
of one session merge late, an end may come before its beginning, a turn may be told twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sidecar import changes as c
from sidecar import deeds, witnesses
from sidecar import signals as g
from sidecar.session import KEPT_LATE, Child, End, Limit, Retry, Session, Tool, Wait
from sidecar.turns import Out, close_turn, idle_from, last_progress, move, open_turn, progress, settle

if TYPE_CHECKING:
    from collections.abc import Callable

FAR_RETRY: Final = 900.0
"""A retry announced for later than this is a usage limit in all but name."""


STILL: Final = frozenset((g.CatchingUp, g.Late, g.Presence, g.ProcessUsed, g.Records, g.Used, g.Warned))
"""Signals that write nothing of what `phase` reads: after them the session is in the phase it was in."""


def fold(session: Session, signal: g.Signal) -> Out:
    """Apply one signal; returns the changes, in the order in which they happened."""
    out: Out = []
    if session.closed is None:
        if session.dormant and session.closed_at is not None:
            session.phase_since = max(session.phase_since, signal.at)  # it was in none while it slept
        kind = type(signal)
        _FOLD[kind](session, signal, out)
        if kind not in STILL:
            move(session, signal.at, out)
    return out


def _described(s: Session, x: g.Described, _: Out) -> None:
    s.parent = s.parent if x.parent is None else x.parent
    s.version = s.version if x.version is None else x.version
    s.attended = s.attended if x.attended is None else x.attended


def _turn_started(s: Session, x: g.TurnStarted, out: Out) -> None:
    if x.turn in s.ended_ids:
        return
    if s.turn is not None and s.turn.id != x.turn:
        settle(s, out)
    if s.turn is not None and s.turn.id != x.turn:
        close_turn(s, s.turn, last_progress(s, s.turn), "abandoned", out)
    if s.turn is None:
        open_turn(s, x.turn, min(x.stamp, x.at), out)
    progress(s, x.at, None, out)


def _turn_ended(s: Session, x: g.TurnEnded, out: Out) -> None:
    if s.turn is None:
        return
    if x.guarded:
        s.turn.ending = ""
    if x.settle > 0:
        s.end = End(x.at, x.at + x.settle, x.outcome)
    elif s.end is not None and x.outcome == "died":
        settle(s, out)  # what it wrote before it died comes first
    else:
        told = s.end.outcome if s.end is not None and x.outcome == "completed" else x.outcome
        close_turn(s, s.turn, x.at, told, out)


def _ticked(s: Session, x: g.Ticked, out: Out) -> None:
    if s.end is not None and x.at >= s.end.due:
        settle(s, out)


def _progressed(s: Session, x: g.Progress, out: Out) -> None:
    """A streamed piece may be told after the record that ended its turn: it cancels no end."""
    end = s.end
    progress(s, x.at, x.turn, out)
    if x.turn is None:
        s.end = end


def _tool_started(s: Session, x: g.ToolStarted, out: Out) -> None:
    progress(s, x.at, x.turn, out)
    if s.turn is not None and x.call not in s.tools:
        s.tools[x.call] = Tool(x.tool, x.at, x.delegates)
        s.turn.tool_calls += 1


def _tool_ended(s: Session, x: g.ToolEnded, out: Out) -> None:
    tool = s.tools.get(x.call)
    if not x.echo and not (s.turn is not None and s.turn.ending in ("sent", "passed")):
        progress(s, x.at, None, out)
    if tool is not None:
        del s.tools[x.call]
        out.append(c.ToolClosed(x.at, x.call, tool.tool, tool.since, s.turn, unfinished=False))


def _background(s: Session, x: g.Background, _: Out) -> None:
    if s.background > 0 and x.count == 0:
        idle_from(s, x.at)
    s.background = x.count


def _wait_started(s: Session, x: g.WaitStarted, _: Out) -> None:
    if s.wait is None:
        s.wait = Wait(x.at, x.waiting_for)


def _wait_ended(s: Session, x: g.WaitEnded, _: Out) -> None:
    if s.wait is not None:
        s.wait, s.floor = None, max(s.floor, x.at)


def _compaction_started(s: Session, x: g.CompactionStarted, _: Out) -> None:
    if s.compacting_since is None:
        s.compacting_since = x.at


def _compaction_ended(s: Session, x: g.CompactionEnded, _: Out) -> None:
    s.compacting_since, s.floor = None, max(s.floor, x.at)


def _retrying(s: Session, x: g.Retrying, out: Out) -> None:
    s.retry = Retry(x.at, x.due)
    if x.due is not None and x.due - x.at > FAR_RETRY:
        told = x.due if s.limit is None or s.limit.until is None else max(x.due, s.limit.until)
        _limited(s, g.Limited(x.at, told), out)
    out.append(c.RetrySeen(x.at, x.cause))


def _limited(s: Session, x: g.Limited, _: Out) -> None:
    """One told without a reset takes nothing from one that holds: neither its start nor its reset."""
    holds = s.limit is not None and (s.limit.until is None or s.limit.until > x.at)
    if x.until is not None or not holds:
        s.limit = Limit(x.at, x.until)
    s.judged.discard("limited")


def _presence(s: Session, x: g.Presence, _: Out) -> None:
    """A sign of life moves no silence: that is the point of telling it from progress."""
    if x.used and (s.idle_since is None or x.at > s.idle_since):
        s.idle_since, s.judged, s.warned = x.at, s.judged - {"idle"}, s.warned - {"idle"}


def _used(s: Session, x: g.Used, out: Out) -> None:
    s.model = x.model
    types = {"input": x.input, "output": x.output, "cache_read": x.cache_read, "cache_write": x.cache_write}
    turn = s.turn
    if turn is not None:
        turn.model, tokens = x.model, turn.tokens
        for name, count in types.items():
            if count:
                tokens[name] = tokens.get(name, 0) + count
    out.append(c.TokensUsed(x.at, x.model, types, turn))


def _records(_: Session, x: g.Records, out: Out) -> None:
    kinds = ("progress", "presence", "unknown", "malformed", "oversized")
    out.append(c.RecordsRead(x.at, {kind: getattr(x, kind) for kind in kinds}))


def _child_moved(s: Session, x: g.ChildMoved, out: Out) -> None:
    child = s.children.setdefault(x.child, Child(x.running, x.progress))
    if x.progress > child.progress:
        child.stuck = None
    if not x.running:
        idle_from(s, x.progress)  # of one that ended before its parent was seen, too
    child.running, child.progress = x.running, max(child.progress, x.progress)
    if s.delegating or s.turn is None:
        newer = s.progress_at is None or child.progress > s.progress_at
        if newer:
            progress(s, child.progress, None, out)


def _child_stuck(s: Session, x: g.ChildStuck, _: Out) -> None:
    child = s.children.setdefault(x.child, Child(running=True, progress=x.at))
    child.stuck, child.stuck_at = x.reason, x.at
    idle_from(s, x.at)  # what hangs works no more: from here on it keeps nobody from resting


def _catching_up(s: Session, x: g.CatchingUp, _: Out) -> None:
    s.behind = x.behind


def _late(s: Session, x: g.Late, _: Out) -> None:
    s.late = [*s.late[1 - KEPT_LATE :], (x.at, x.by)]


_FOLD: Final[dict[type[g.Signal], Callable[[Session, Any, Out], None]]] = {
    g.Described: _described,
    g.SourceUp: witnesses.source_up,
    g.SourceLost: witnesses.source_lost,
    g.Registered: witnesses.registered,
    g.Unregistered: witnesses.unregistered,
    g.ProcessSeen: witnesses.process_seen,
    g.ProcessGone: witnesses.process_gone,
    g.ProcessUsed: witnesses.process_used,
    g.Status: witnesses.status,
    g.TurnStarted: _turn_started,
    g.TurnEnded: _turn_ended,
    g.Ticked: _ticked,
    g.Progress: _progressed,
    g.ToolStarted: _tool_started,
    g.ToolEnded: _tool_ended,
    g.Background: _background,
    g.WaitStarted: _wait_started,
    g.WaitEnded: _wait_ended,
    g.CompactionStarted: _compaction_started,
    g.CompactionEnded: _compaction_ended,
    g.Retrying: _retrying,
    g.Limited: _limited,
    g.Presence: _presence,
    g.Used: _used,
    g.Records: _records,
    g.ChildMoved: _child_moved,
    g.ChildStuck: _child_stuck,
    g.CatchingUp: _catching_up,
    g.Late: _late,
    g.Warned: deeds.warned,
    g.Judged: deeds.judged,
    g.Intended: deeds.intended,
    g.Acted: deeds.acted,
    g.Closed: deeds.closed,
}
