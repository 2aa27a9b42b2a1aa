"""What the server keeps of a session: asked for where a turn was under way before anybody listened.

History alone decides nothing: a killed server leaves messages that never finished and tools that
run for ever. It is asked only about sessions that the status map names, or no longer names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.opencode import parts
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode import track as k
from sidecar.agents.opencode.track import Answering, Track

if TYPE_CHECKING:
    from sidecar.agents.opencode.server import Server
    from sidecar.agents.opencode.tracks import Tracks


TO_BE_CONTINUED: Final = "tool-calls"
"""How a message finishes that calls tools: another one follows it."""

SEVERAL: Final = 10
"""Messages looked through for the last one of a turn that was not seen to end."""


class History:
    """Reads sessions and their newest messages."""

    def __init__(self, server: Server, tracks: Tracks) -> None:
        self._server = server
        self._tracks = tracks

    async def known(self, t: Track, directory: str | None) -> list[g.Signal]:
        """A session at work that no listing named: a new one, or one that was deleted under its turn."""
        found = await self._server.get(r.info, "session", t.id, directory=directory)
        t.directory = t.directory or directory
        if found is None:
            t.deleted = True
            return self._tracks.show(t, self._tracks.clock.now())
        self._tracks.facts(found)
        return self._tracks.show(t, self._past(found.time.created))

    async def join(self, t: Track, began: float) -> list[g.Signal]:
        """The turn that runs, from the newest message: begun at its stamp, not now."""
        newest = await self._newest(t)
        if not newest or _overtaken(t, None, began):
            return []
        info = newest[-1].info
        turn, created = info.id, info.time.created
        if info.role == "assistant":
            if (info.finish or TO_BE_CONTINUED) != TO_BE_CONTINUED or info.parent_id is None:
                return []
            turn = info.parent_id
            asked = await self._message(t, turn)
            created = created if asked is None else asked.info.time.created
        if turn in t.ended or _overtaken(t, None, began):
            return []
        stamp = self._past(created)
        signals = k.begin(t, turn, stamp, stamp)
        t.prompts.append(turn)
        t.opened = self._tracks.clock.now()
        return signals + (self._pieces(t, newest[-1]) if info.role == "assistant" else [])

    async def missed(self, t: Track, began: float) -> list[g.Signal]:
        """What came of the open turn while nobody listened. Another one may run by now."""
        turn, newest = t.turn, await self._newest(t, SEVERAL)
        if turn is None or not newest or _overtaken(t, turn, began):
            return []
        last = newest[-1]
        asked = last.info.parent_id if last.info.role == "assistant" else last.info.id
        if asked != turn and last.info.role == "assistant":
            # Dated before the next one begins: signals are folded in the order of their time.
            ours = _ours(newest, turn)
            over = self._past((ours.time.completed if ours else None) or last.info.time.created)
            begun = next((m.info.time.created for m in newest if m.info.id == asked), None)
            over = min(over, self._past(begun))
            return [*k.end(t, over, _outcome(t, ours)), *await self.join(t, began)]
        running = {p.call_id for p in last.parts if p.state is not None and p.state.status == "running"}
        done = [call for call in t.tools if call not in running]
        for call in done:
            del t.tools[call]
        now = self._tracks.clock.now()
        ends: list[g.Signal] = [g.ToolEnded(now, call, echo=True) for call in done]
        return ends + (self._pieces(t, last) if asked == turn else [])

    async def ended(self, t: Track) -> g.Outcome:
        """How the turn ended that runs no more."""
        newest, turn = await self._newest(t, SEVERAL), t.turn
        return k.outcome_of(t) if not newest or turn is None else _outcome(t, _ours(newest, turn))

    def _pieces(self, t: Track, last: r.Message) -> list[g.Signal]:
        """What the newest message holds: its progress counts at its stamps."""
        info = last.info
        m = t.messages.setdefault(info.id, Answering())
        m.model = info.model_id or m.model
        newest = info.time.completed or info.time.created
        signals: list[g.Signal] = []
        for part in last.parts:
            time = part.time or (part.state.time if part.state is not None else None) or r.Time()
            stamp = time.end or time.start
            newest = max(newest or 0.0, stamp or 0.0)
            signals += parts.updated(t, m, part, self._past(stamp or newest))
        m.compacts = info.mode == "compaction" or bytes(info.summary) == b"true"
        if m.compacts:
            signals += k.compact(t, self._past(info.time.created), runs=info.time.completed is None)
        if t.compacting:  # what a summary has written so far is no work: work would be its end
            return [s for s in signals if not isinstance(s, g.Used | g.Progress)]
        return [s for s in signals if not isinstance(s, g.Used)] + [g.Progress(self._past(newest))]

    def _past(self, stamp: float | None) -> float:
        now = self._tracks.clock.now()
        told = self._tracks.core(stamp)
        return now if told is None else min(now, told)

    async def _newest(self, t: Track, count: int = 1) -> list[r.Message]:
        query = {"limit": str(count)}
        try:
            path = ("session", t.id, "message")
            return await self._server.get(r.messages, *path, directory=t.directory, query=query) or []
        except SourceDown:
            return []  # too large, or gone: the status alone has to do

    async def _message(self, t: Track, message: str) -> r.Message | None:
        try:
            path = ("session", t.id, "message", message)
            return await self._server.get(r.message, *path, directory=t.directory)
        except SourceDown:
            return None


def _overtaken(t: Track, turn: str | None, began: float) -> bool:
    """Whether the stream told more meanwhile."""
    return t.turn != turn or t.heard >= began


def _ours(newest: list[r.Message], turn: str) -> r.Info | None:
    """The last message that answers the turn's prompt."""
    ours = [m.info for m in newest if m.info.role == "assistant" and m.info.parent_id == turn]
    return ours[-1] if ours else None


def _outcome(t: Track, last: r.Info | None) -> g.Outcome:
    """By the turn's last message. One that never finished died with its server."""
    if last is None or last.time.completed is None:
        return "died"
    if last.error is not None:
        t.guarded = t.guarded or last.error.guarded
        return k.failed(last.error)
    return "completed" if last.finish is not None else "interrupted"
