"""The source `listing`: asks what there is, and changes nothing by asking.

Only what is documented not to wake or extend a session is asked for, and of an answer that comes
after a newer one nothing is believed.
"""

from __future__ import annotations

import asyncio
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sidecar.agent import SourceDown
from sidecar.agents.http.entries import Entry, Listed, cap_of, entry, listed, merged
from sidecar.agents.http.paths import find, word
from sidecar.agents.http.server import Missing, Server
from sidecar.agents.http.template import path_of
from sidecar.agents.http.track import SOURCE, Track

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.agents.http.settings import Settings
    from sidecar.agents.http.shapes import Listing, StatusOf
    from sidecar.clock import Clock
    from sidecar.signals import Observation

MAX_PAGES: Final = 20
MAX_IDS: Final = 64 << 10
AT_ONCE: Final = 8
MOST: Final = 1_000
"""Sessions of one server that are kept; more are a mistake, or meant to be one."""

MOST_ASKED: Final = 500
"""Sessions that are asked for their own status; of those beyond, the listing's word has to do."""

CAP_FOR: Final = 60.0
"""Seconds for which a cap is taken for known: it changes when the server is started anew."""

PATIENCE: Final = 30.0
LONGEST_READ: Final = 25.0


class Poll:
    """One server, asked again and again."""

    name = SOURCE
    patience = PATIENCE
    wake: asyncio.Event | None = None

    def __init__(self, server: Server, track: Track, clock: Clock) -> None:
        self.limit: int | None = None
        self.told: Callable[[], None] | None = None
        """Called whenever the known sessions may have changed."""
        self._server = server
        self._settings: Settings = server.settings
        self._track = track
        self._clock = clock
        self._cap_at = float("-inf")
        self._tickets = count(1)
        self._applied = 0
        self.every = self._settings.every

    async def read(self) -> Sequence[Observation]:
        """Ask for everything. Raises SourceDown."""
        ticket = next(self._tickets)
        try:
            async with asyncio.timeout(LONGEST_READ):
                found, failed = await self._asked()
                await self._ask_cap()
        except (SourceDown, TimeoutError) as error:
            self._track.unseen.clear()  # all are now, and who is regained is told again
            raise SourceDown(str(error) or "it did not answer in time") from error
        if ticket < self._applied:
            return []
        self._applied = ticket
        if self._settings.capacity is None:
            self.limit = found.limit
        now = self._clock.now()
        if self._server.dated is not None:
            self._track.behind = max(0.0, self._clock.wall(now) - self._server.dated)
        out = self._track.feed(found, failed, now)
        if self.told is not None:
            self.told()
        return out

    async def count(self) -> int:
        """How many sessions there are now; for `check`, which watches nothing. Raises SourceDown."""
        found, _ = await self._asked()
        return len(found.entries)

    async def _ask_cap(self) -> None:
        """Ask for the cap, where a request of its own tells it. Nothing is blind that cannot."""
        capacity, now = self._settings.capacity, self._clock.now()
        if capacity is None or now - self._cap_at < CAP_FOR:
            return
        try:
            self.limit = cap_of(await self._server.get(path_of(capacity.path, {})), capacity.limit)
        except SourceDown:
            self.limit = None
        else:
            self._cap_at = now

    async def _asked(self) -> tuple[Listed, set[str]]:
        settings = self._settings
        found = Listed({})
        if settings.listing is not None:
            found = await self._listing(settings.listing)
        named = [*settings.ids, *_named(settings.ids_file)]
        if settings.status is None:
            return found, set()
        return await self._statuses(settings.status, found, named)

    async def _listing(self, listing: Listing) -> Listed:
        """Every page. One that never ends is not whole."""
        path = first = path_of(listing.path, {"directory": self._settings.directory})
        entries: dict[str, Entry] = {}
        whole, limit = True, None
        for _ in range(MAX_PAGES):
            answer = await self._server.get(path)
            page = listed(self._settings, listing, answer)
            entries |= page.entries
            if len(entries) > MOST:
                return Listed(dict(islice(entries.items(), MOST)), whole=False, limit=page.limit)
            whole, limit = whole and page.whole, page.limit if limit is None else limit
            more = word(find(answer, listing.next)) if listing.next is not None else None
            if not more or more == "false":
                return Listed(entries, whole, limit)
            path = f"{first}{'&' if '?' in first else '?'}{listing.cursor}={quote(more, safe='')}"
        return Listed(entries, whole=False, limit=limit)

    async def _statuses(
        self, status: StatusOf, found: Listed, named: Sequence[str]
    ) -> tuple[Listed, set[str]]:
        """What each session says of itself; one that is not known there is not listed either."""
        names = list(dict.fromkeys([*found.entries, *named]))
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(name: str) -> Any:  # noqa: ANN401 - JSON is anything
            async with gate:
                return await self._server.get(path_of(status.path, {"id": name}))

        asked = names[:MOST_ASKED]
        answers = await asyncio.gather(*(ask(name) for name in asked), return_exceptions=True)
        entries = dict(found.entries)
        failed: set[str] = set()
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Missing):
                entries.pop(name, None)
            elif isinstance(answer, SourceDown | ValueError):
                failed.add(name)
                entries.setdefault(name, Entry(name))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                told = entry(self._settings, status, name, answer)
                entries[name] = merged(entries.get(name), told)
        if asked and len(failed) == len(asked) and not found.entries:
            raise SourceDown(str(answers[0]))
        return Listed(entries, found.whole, found.limit), failed


def _named(file: str | None) -> list[str]:
    if file is None:
        return []
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(MAX_IDS).decode("utf-8", "replace")
    except OSError as error:
        raise SourceDown("the file of ids cannot be read") from error
    return [name for line in text.split("\n") if (name := line.strip()) and not name.startswith("#")]
