"""Messages and their parts: whose turn it is, and how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import signals as g
from sidecar.agents.opencode import parts
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode import track as k
from sidecar.agents.opencode.track import Answering, Asked, Track

if TYPE_CHECKING:
    from sidecar.agents.opencode.tracks import Tracks


class Messages:
    """Reads the events of messages into the tracks."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks

    def message(self, x: r.Told, at: float) -> list[g.Observation]:
        """A message is new, or more is known of it."""
        info = x.info
        if info is None or not info.id:
            return []
        t = self._tracks.get(x.session_id or info.session_id or "")
        signals = self._prompt(t, info, at) if info.role == "user" else self._answer(t, info, at)
        return self._tracks.of(t, signals)

    def part(self, x: r.Told, at: float) -> list[g.Observation]:
        """A part of a message as it is now."""
        part = x.part
        if part is None or not part.message_id:
            return []
        t = self._tracks.get(x.session_id)
        if t.asked is not None and part.message_id == t.asked.id:
            t.asked.pieces += 1
            t.asked.own += part.type == "compaction" or bool(part.synthetic)
        m = _answering(t, part.message_id)
        return [] if m is None else self._works(t, m, parts.updated(t, m, part, at))

    def delta(self, x: r.Told, at: float) -> list[g.Observation]:
        """A piece of a part."""
        t = self._tracks.get(x.session_id)
        m = _answering(t, x.message_id)
        return [] if m is None else self._works(t, m, parts.added(m, x.part_id, r.length(x.delta), at))

    def _prompt(self, t: Track, info: r.Info, at: float) -> list[g.Signal]:
        """A user's message: it is asked, and its turn begins when the server goes to work on it."""
        created = info.time.created
        old = created is not None and created <= t.settled
        if old or info.id in t.prompts or info.id in t.ended or memoryview(info.summary):
            return []  # a summary is only written to a message that was answered
        t.prompts = [*t.prompts[1 - k.KEPT :], info.id]
        t.asked, t.deleted = Asked(info.id, created, at), False
        return [*self._tracks.show(t, at), *k.own(t, at)]

    def _answer(self, t: Track, info: r.Info, at: float) -> list[g.Signal]:
        """An assistant's message: the first one of a prompt says that it is worked on now."""
        signals: list[g.Signal] = []
        if info.id not in t.messages:
            asked = info.parent_id
            old = asked is None or asked in t.ended or info.id in t.past
            if not t.shown or asked is None or old or info.time.completed is not None:
                return []
            signals += self._turn(t, asked, info, at)
            t.hint = None
            t.messages[info.id] = Answering(info.model_id or "unknown")
        m = t.messages[info.id]
        m.model = info.model_id or m.model
        m.finished = m.finished or info.finish is not None
        m.completed = info.time.completed is not None
        if info.error is not None:
            m.failure, t.guarded = k.failed(info.error), t.guarded or info.error.guarded
        m.compacts = info.mode == "compaction" or bytes(info.summary) == b"true"
        if m.compacts:
            told = k.compact(t, at, runs=not m.completed)
            done = told and m.completed and m.failure is None
            signals += [*told, g.Progress(at)] if done else told
        return signals

    def _turn(self, t: Track, asked: str, info: r.Info, at: float) -> list[g.Signal]:
        """The turn of that prompt, unless the server asked itself in the one that is open."""
        if t.turn == asked:
            return []
        queued = t.asked if t.asked is not None and t.asked.id == asked else None
        itself = queued is not None and 0 < queued.pieces == queued.own
        if t.turn is not None and (itself or (queued is None and asked in t.prompts)):
            return []
        stamp = info.time.created if queued is None else queued.created
        return [*k.end(t, at, "completed"), *k.begin(t, asked, at, self._tracks.core(stamp))]

    def _works(self, t: Track, m: Answering, signals: list[g.Signal]) -> list[g.Observation]:
        """The summary that a compaction writes is no work before it is done: work would be its end."""
        if signals:
            t.hint = None
            if m.compacts and t.compacting:
                signals = [signal for signal in signals if not isinstance(signal, g.Progress)]
            t.compacting = t.compacting and m.compacts
        return self._tracks.of(t, signals)


def _answering(t: Track, message: str) -> Answering | None:
    """The message of the open turn that a part belongs to; none where it is late or a user's."""
    if t.turn is None or not message or message == t.turn or message in (*t.prompts, *t.past):
        return None
    return t.messages.setdefault(message, Answering())
