"""The source `status`: what the server says when asked, and what of it the stream has not told.

A request for a directory without an instance creates one, so only directories that have a session
at work are asked about; the rest are found by one listing of all. At rest means absent from the
status map, but only for sessions that this server was seen working on: those of another process
with the same home are listed too, and nothing says how they are. A little longer than most: a listing,
an answer and a look each decide what of the same tracks is newer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode import track as k
from sidecar.agents.opencode.history import History
from sidecar.agents.opencode.requests import Requests
from sidecar.agents.opencode.server import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sidecar.agents.opencode.server import Server
    from sidecar.agents.opencode.track import Track
    from sidecar.agents.opencode.tracks import Tracks

RELIST: Final = 30.0
"""Seconds between two listings."""

LISTED: Final = 1_000
"""Sessions asked for in a listing; a home keeps them all for ever, the newest come first."""

RECENT: Final = 24 * 3600.0
"""A directory whose newest session is older is not asked about unbidden: nothing can run there."""

DIRECTORIES: Final = 50
"""Directories asked about at most at once, the newest first."""

LANDING: Final = 3.0
"""Seconds from a prompt until it must show in the status map; it takes up to 1.5."""

OVERLAP: Final = 60.0
"""By how much what may have been missed is looked for before the break."""


class Poll:
    """Asks one server."""

    name = "status"
    wake: asyncio.Event | None = None

    def __init__(self, server: Server, tracks: Tracks) -> None:
        self.every = server.settings.every
        self.patience = 60.0 + server.settings.timeout
        self.drain: Callable[[], list[g.Observation]] = list
        """Decodes what the stream told meanwhile: it is newer than any answer."""
        self._server = server
        self._tracks = tracks
        self._history = History(server, tracks)
        self._requests = Requests(server, tracks)
        self._lock = asyncio.Lock()
        self._listed: float | None = None
        self._synced: int | None = None
        self._since = float("-inf")
        self._announced: set[str] = set()

    async def read(self) -> Sequence[g.Observation]:
        """What changed by asking. Raises SourceDown."""
        if self._synced is None:
            return await self.sync(0)
        async with self._lock:
            await self._server.get(r.health, "global", "health")
            out: list[g.Observation] = []
            now = self._tracks.clock.now()
            if self._listed is None or now - self._listed >= RELIST:
                out += await self._list()
            at_work = [t for t in self._shown() if t.turn is not None or t.word == "busy"]
            out += await self._ask_all(at_work)
            self._since = now
            return out + self._announce()

    async def sync(self, connection: int) -> list[g.Observation]:
        """Everything that could have been missed, once per connection of the stream."""
        async with self._lock:
            if self._synced == connection:
                return []
            now = self._tracks.clock.now()
            out = await self._list()
            newer = max(now - RECENT, self._since - OVERLAP)
            out += await self._ask_all([t for t in self._shown() if t.turn or t.touched > newer], missed=True)
            self._synced, self._since = connection, now
            return out + self._announce()

    async def look(self, session: str) -> list[g.Observation]:
        """One session as it is now."""
        t = self._tracks.get(session)
        async with self._lock:
            found = await self._server.get(r.info, "session", session, directory=t.directory)
            out = await self._ask(t.directory)
            if found is None:
                t.deleted = True
            else:
                self._tracks.facts(found)
            return [*out, *self._tracks.of(t, k.leave(t, self._tracks.clock.now()))]

    def _shown(self) -> list[Track]:
        return [t for t in self._tracks.all.values() if t.shown and self._tracks.wanted(t.directory)]

    def _announce(self) -> list[g.Observation]:
        """The sessions that are asked about from now on."""
        now = self._tracks.clock.now()
        new = [t.id for t in self._shown() if t.id not in self._announced]
        self._announced = (self._announced & self._tracks.all.keys()) | set(new)
        return [g.Observation(session, g.SourceUp(now, self.name)) for session in new]

    async def _list(self) -> list[g.Observation]:
        """All sessions of all directories, as far as the home keeps them."""
        began = self._listed = self._tracks.clock.now()
        query = {"limit": str(LISTED)}
        found = await self._server.get(r.infos, "experimental", "session", query=query)
        if found is None:  # an older server lists those of one directory only
            found = await self._server.get(r.infos, "session", query=query) or []
        out = self.drain()
        for info in found:
            out += self._entry(info)
        if len(found) < LISTED:
            named = {info.id for info in found}
            for t in self._shown():
                if t.registered and t.id not in named and t.since < began:
                    t.deleted = True
                    out += self._tracks.of(t, k.leave(t, self._tracks.clock.now()))
        return out

    def _entry(self, info: r.Info) -> list[g.Observation]:
        now = self._tracks.clock.now()
        if not info.id or not self._tracks.wanted(info.directory):
            return []
        t = self._tracks.facts(info)
        updated = self._tracks.core(info.time.updated)
        t.touched = now if updated is None else min(now, updated)
        if t.shown or t.archived:
            return self._tracks.of(t, k.leave(t, now))
        t.settled = info.time.updated or 0.0
        return self._tracks.of(t, self._tracks.show(t, t.touched))

    async def _ask_all(self, tracks: Iterable[Track], *, missed: bool = False) -> list[g.Observation]:
        """Every directory of these sessions. One that is refused (its folder is gone) blinds no other."""
        newest: dict[str | None, float] = {}
        for t in tracks:
            newest[t.directory] = max(t.touched, newest.get(t.directory, t.touched))
        chosen = sorted(newest, key=newest.__getitem__, reverse=True)[:DIRECTORIES]
        out: list[g.Observation] = []
        refused: Refused | None = None
        for directory in chosen:
            try:
                out += await self._ask(directory, missed=missed)
            except Refused as why:
                refused = why
        if refused is not None and len(chosen) == 1:
            raise refused
        return out

    async def _ask(self, directory: str | None, *, missed: bool = False) -> list[g.Observation]:
        """What is at work in a directory, what is not, and what waits."""
        began = self._tracks.clock.now()
        words = await self._server.get(r.words, "session", "status", directory=directory) or {}
        out = self.drain()
        for session, word in words.items():
            out += await self._at_work(self._tracks.get(session), word, directory, began, missed=missed)
        for t in self._shown():
            if t.directory == directory and t.id not in words:
                out += await self._absent(t, began, missed=missed)
        if words:
            out += await self._requests.ask(directory, began, self.drain)
        return out

    async def _at_work(
        self, t: Track, word: r.Word, directory: str | None, began: float, *, missed: bool
    ) -> list[g.Observation]:
        """A session in the status map. What the stream told since is newer."""
        if t.heard >= began or not self._tracks.wanted(t.directory or directory):
            return []
        signals: list[g.Signal] = []
        if not t.shown:
            signals += await self._history.known(t, directory)
        if t.turn is not None and missed:
            signals += await self._history.missed(t, began)
        elif t.turn is None and (t.asked is None or began - t.asked.heard >= LANDING):
            signals += await self._history.join(t, began)
        t.absent = 0
        if t.heard < began:
            signals += self._tracks.word(t, word, self._tracks.clock.now())
        return self._tracks.of(t, signals)

    async def _absent(self, t: Track, began: float, *, missed: bool) -> list[g.Observation]:
        """The end of a turn that the stream did not tell: it had time to, or was not connected."""
        open_one = t.turn is not None or t.word == "busy"
        if not open_one or t.heard >= began or began - t.opened < LANDING:
            return []
        t.absent += 1
        if t.absent < 2 and not missed:  # noqa: PLR2004 - the next poll
            return []
        turn, outcome = t.turn, await self._history.ended(t)
        if t.turn != turn or t.heard >= began:
            return []
        now = self._tracks.clock.now()
        return self._tracks.of(t, [*k.end(t, now, outcome), *k.rest(t, now)])
