"""All sessions of one server, as the stream and the polls know them together.

Both write here and both are late at times: a poll's answer is older than what the stream told while
it was under way. Nothing is told of a session that only hearsay knows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.opencode import parts
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode import track as k
from sidecar.agents.opencode.causes import cause
from sidecar.agents.opencode.track import Track

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar.clock import Clock

MOST: Final = 5_000
"""Sessions followed; of those that rest the ones seen first are forgotten."""

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")


class Tracks:
    """The sessions by id."""

    def __init__(
        self, clock: Clock, *, attended: bool | None = None, directories: Collection[str] = ()
    ) -> None:
        """`attended` overrides hints; `directories`, where given, are the only ones watched."""
        self.clock = clock
        self.attended = attended
        self.all: dict[str, Track] = {}
        self._directories = frozenset(directories)

    def get(self, session: str) -> Track:
        """What is remembered of a session; nothing is shown by remembering."""
        found = self.all.get(session)
        if found is None:
            if len(self.all) >= MOST:
                self._forget()
            found = self.all[session] = Track(session)
        return found

    def children(self, parent: str) -> set[str]:
        """The subagents of a session that are at work."""
        return {t.id for t in self.all.values() if t.parent == parent and t.turn is not None}

    def wanted(self, directory: str | None) -> bool:
        """Whether sessions of that directory are watched."""
        return not self._directories or directory is None or directory in self._directories

    def core(self, stamp: float | None) -> float | None:
        """A server's stamp on the core clock."""
        return None if stamp is None else self.clock.core(stamp / 1000)

    def facts(self, info: r.Info) -> Track:
        """What a session's own record says, whoever sent it."""
        t = self.get(info.id)
        t.directory = info.directory or t.directory
        t.parent = info.parent_id or t.parent
        t.version = info.version or t.version
        t.archived = info.time.archived is not None
        return t

    def of(self, t: Track, signals: list[g.Signal]) -> list[g.Observation]:
        """The signals of a session that is shown, or that was until now."""
        if not t.shown and not any(isinstance(s, g.Unregistered) for s in signals):
            return []
        return [g.Observation(t.id, signal) for signal in signals]

    def show(self, t: Track, at: float) -> list[g.Signal]:
        """Something says that the session exists."""
        return k.show(t, at, attended=self.attended)

    def word(self, t: Track, told: r.Word, at: float) -> list[g.Signal]:
        """The server's word for a session. One that nobody knows means that it is at work."""
        if told.type == "idle":
            return k.rest(t, at)
        if t.turn is None and t.asked is not None and at - t.asked.heard < k.LANDING:
            out = k.begin(t, t.asked.id, at, self.core(t.asked.created))
        else:
            out = k.own(t, at)
        since = self.core(told.since) if isinstance(told.since, float | int) else None
        out += k.say(t, at, "busy", since)
        if told.type == "retry":
            return out + self._retry(t, told, at)
        if told.phase is None:
            return out
        out += k.compact(t, at, runs=told.phase == "compacting")
        return out + parts.name(t, told.tool if told.phase == "tool" else None, at)

    def _retry(self, t: Track, told: r.Word, at: float) -> list[g.Signal]:
        if t.attempt == (told.attempt, told.next):
            return []
        t.attempt = (told.attempt, told.next)
        if t.answering is not None:
            parts.again(t.answering)
        return [g.Retrying(at, cause(told.message), self.core(told.next))]

    def _forget(self) -> None:
        resting = [name for name, t in self.all.items() if t.turn is None]
        for name in resting[: MOST // 10]:
            del self.all[name]


def what(kind: str, asked: r.Request) -> str:
    """What is waited for: a kind, and the permission's name where it looks like one."""
    if not kind.startswith("permission"):
        return "question"
    name = asked.permission or ""
    return f"permission: {name}" if NAME.fullmatch(name) else "permission"
