"""OpenCode's events as signals: which are work, which are only signs of life.

The stream of all directories tells every stored event twice, once as `sync`; heartbeats, plugins and
catalogues are noise. `busy` and a new attempt are no progress, and nothing that comes late reopens
a turn that has ended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode import track as k
from sidecar.agents.opencode.messages import Messages
from sidecar.agents.opencode.tracks import what
from sidecar.sources.records import mending

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.agents.opencode.tracks import Tracks

NOISE: Final = re.compile(
    r"(server|plugin|catalog|integration|reference|project|file|lsp|mcp|ide|pty|vcs|installation|worktree"
    r"|workspace|command|todo|tui|global|sync)\b.*|session\.diff|message\.(part\.)?removed"
    r"|session\.next\..*|session\.guard\..*"
)
ASKED: Final = frozenset(("permission.asked", "permission.v2.asked", "question.asked", "question.v2.asked"))
ANSWERED: Final = re.compile(r"(permission|question)\.(v2\.)?(replied|rejected)")
GUARDED: Final = frozenset(("session.next.guard.tripped", "session.guard.tripped"))
WORK: Final = (g.TurnStarted, g.Progress, g.ToolStarted, g.ToolEnded)

ENDING_IT: Final = b", ending it at"
"""How redcode's guard ends a warning where nobody sits there."""


class Decoder:
    """Follows all sessions of one server. Keeps no content, and never raises on what it reads."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._counts = {"progress": 0, "presence": 0, "unknown": 0, "malformed": 0, "oversized": 0}
        messages = Messages(tracks)
        self._told: dict[str, Callable[[r.Told, float], list[g.Observation]]] = {
            "session.created": self._created,
            "session.updated": self._updated,
            "session.deleted": self._deleted,
            "session.status": self._status,
            "session.idle": self._idle,
            "session.error": self._error,
            "session.compacted": self._compacted,
            "message.updated": messages.message,
            "message.part.updated": messages.part,
            "message.part.delta": messages.delta,
        }

    def feed(self, data: bytes, at: float) -> list[g.Observation]:
        """The signals of one event; `at` is its arrival."""
        try:
            told = mending(r.event, data)
            event = told if told.payload is None else told.payload
            out = self._event(event, at) if self._tracks.wanted(told.directory) else []
        except r.ERRORS:
            self._counts["malformed"] += 1
            return []
        works = any(isinstance(o.signal, WORK) for o in out)
        self._counts["progress" if works else "presence" if self._known(event.type) else "unknown"] += 1
        return out

    def oversized(self) -> None:
        """An event was too large to be read."""
        self._counts["oversized"] += 1

    def counted(self, session: str, at: float) -> list[g.Observation]:
        """How the events since the last time were classified."""
        if not any(self._counts.values()):
            return []
        counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        return [g.Observation(session, g.Records(at, **counts))]

    def _known(self, kind: str) -> bool:
        return kind in self._told or kind in ASKED or bool(NOISE.fullmatch(kind) or ANSWERED.fullmatch(kind))

    def _event(self, event: r.Event, at: float) -> list[g.Observation]:
        if event.type in self._told:
            return self._told[event.type](r.told(event.body), at)
        if event.type in ASKED:
            asked = r.request(event.body)
            t = self._tracks.get(asked.session_id)
            return self._tracks.of(t, k.wait(t, asked.id, what(event.type, asked), at))
        if ANSWERED.fullmatch(event.type):
            asked = r.request(event.body)
            t = self._tracks.get(asked.session_id)
            return self._tracks.of(t, k.answered(t, asked.request_id or asked.id, at))
        return self._guard(r.guard(event.body), at) if event.type in GUARDED else []

    def _created(self, x: r.Told, at: float) -> list[g.Observation]:
        if x.info is None or not self._tracks.wanted(x.info.directory):
            return []
        t = self._tracks.facts(x.info)
        since = self._tracks.core(x.info.time.created)
        signals = [*self._tracks.show(t, at), *k.own(t, at), *k.say(t, at, "idle", since)]
        return self._tracks.of(t, signals)

    def _updated(self, x: r.Told, at: float) -> list[g.Observation]:
        if x.info is None:
            return []
        t = self._tracks.facts(x.info)
        return self._tracks.of(t, k.leave(t, at))

    def _deleted(self, x: r.Told, at: float) -> list[g.Observation]:
        t = self._tracks.get(x.session_id or (x.info.id if x.info else ""))
        t.deleted = True
        return self._tracks.of(t, k.leave(t, at))

    def _status(self, x: r.Told, at: float) -> list[g.Observation]:
        t = self._tracks.get(x.session_id)
        t.heard = at
        if x.status is None or not t.shown:
            return []
        return self._tracks.of(t, self._tracks.word(t, x.status, at))

    def _idle(self, x: r.Told, at: float) -> list[g.Observation]:
        t = self._tracks.get(x.session_id)
        t.heard = at
        return self._tracks.of(t, k.rest(t, at)) if t.shown else []

    def _error(self, x: r.Told, _: float) -> list[g.Observation]:
        """Why the turn is about to end; work that follows after all takes it back."""
        t = self._tracks.get(x.session_id)
        if t.turn is not None and x.error is not None:
            t.hint = k.failed(x.error)
        return []

    def _compacted(self, x: r.Told, at: float) -> list[g.Observation]:
        t = self._tracks.get(x.session_id)
        return self._tracks.of(t, k.compact(t, at, runs=False))

    def _guard(self, x: r.Guard, at: float) -> list[g.Observation]:
        """What redcode's own guard ends is ended by somebody else than us."""
        t = self._tracks.get(x.session_id)
        if x.guard != "stall" or t.turn is None:
            return []
        t.guarded = t.guarded or x.action == "stop"
        hint = x.action == "warn" and ENDING_IT not in bytes(x.detail)
        if not hint or self._tracks.attended is not None:
            return []
        return self._tracks.of(t, [g.Described(at, attended=True)])
