"""The source `events`: the server's own stream of all directories, every piece of text in it.

Nothing is replayed after a break, so whatever could have been missed is asked for before anything
is judged again; until then an open turn counts as one whose records lie there unread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import aiohttp

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.opencode.server import check
from sidecar.sources.sse import Cutter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.agents.opencode.decode import Decoder
    from sidecar.agents.opencode.poll import Poll
    from sidecar.agents.opencode.server import Server
    from sidecar.agents.opencode.tracks import Tracks

MAX_EVENT: Final = 8 << 20
"""Bytes of one event; a tool's output or a file in it can be large, and larger ones are skipped."""

READ_AHEAD: Final = 16 << 20
"""Bytes kept undecoded between two reads: a poll may take long, and a stream may tell much meanwhile."""

FIRST: Final = 3.0
"""Seconds that a read waits for the connection."""

LONGEST_PAUSE: Final = 10.0
"""Between two tries to connect. A stream that breaks sooner than this counts as one more failure:
after each, everything that could have been missed is asked for."""


class Events:
    """One server's stream."""

    name = "events"
    every = 5.0
    patience = 90.0

    def __init__(self, server: Server, tracks: Tracks, decoder: Decoder, poll: Poll) -> None:
        self.wake: asyncio.Event | None = asyncio.Event()
        self._server = server
        self._tracks = tracks
        self._decoder = decoder
        self._poll = poll
        self._told: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._decoded: list[g.Observation] = []
        self._stream: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._connection = 0
        self._synced = 0
        self._up = False
        self._why = "it does not answer"
        self._behind: set[str] = set()

    async def read(self) -> Sequence[g.Observation]:
        """What was told since the last read. Raises SourceDown."""
        if self._stream is None or self._stream.done():
            broken, self._stream = (
                self._stream,
                asyncio.create_task(self._follow(), name="events of opencode"),
            )
            if broken is not None:
                broken.result()  # it never ends by itself: whatever ended it is for the watch to tell
        try:
            async with asyncio.timeout(FIRST):
                await self._tried.wait()
        except TimeoutError:
            raise SourceDown(self._why) from None
        if not self._up:
            return self._lost()
        out: list[g.Observation] = []
        connection = self._connection
        if self._synced != connection:
            out += await self._poll.sync(connection)
            self._synced = connection
        out += self.drain()
        now = self._tracks.clock.now()
        out += [g.Observation(session, g.CatchingUp(now, behind=False)) for session in self._behind]
        self._behind.clear()
        return out

    def drain(self) -> list[g.Observation]:
        """Decode what has arrived."""
        self._decode()
        out, self._decoded = self._decoded, []
        return out + (self._decoder.counted(out[-1].session, out[-1].signal.at) if out else [])

    def _decode(self) -> None:
        while self._told:
            at, data = self._told.popleft()
            if not data:
                self._decoder.oversized()
            else:
                self._decoded += self._decoder.feed(data, at)
        self._size = 0

    async def close(self) -> None:
        """Stop listening."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)

    def _lost(self) -> list[g.Observation]:
        """What came before the break, and that more may have come since: told before we are blind."""
        out, now = self.drain(), self._tracks.clock.now()
        open_ones = {t.id for t in self._tracks.all.values() if t.turn is not None and t.shown}
        new = open_ones - self._behind
        self._behind |= new
        out += [g.Observation(session, g.CatchingUp(now, behind=True)) for session in sorted(new)]
        if not out:
            raise SourceDown(self._why)
        if self.wake is not None:
            self.wake.set()
        return out

    async def _follow(self) -> None:
        failures = 0
        while True:
            began = self._tracks.clock.now()
            try:
                await self._listen()
                self._why = "its stream ended"
            except SourceDown as down:
                self._why = str(down)
            self._up = False
            self._noticed()
            held = self._tracks.clock.now() - began >= LONGEST_PAUSE
            failures = 1 if held else failures + 1
            await asyncio.sleep(min(LONGEST_PAUSE, 0.25 * 2 ** min(failures, 10)))

    async def _listen(self) -> None:
        settings = self._server.settings
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=settings.timeout, sock_read=settings.stream_timeout
        )
        now = asyncio.get_running_loop().time
        try:
            # A server that has just begun to listen takes a request and may never answer it.
            async with asyncio.timeout(settings.timeout) as dead:
                async with self._server.request("GET", "global", "event", timeout=timeout) as answer:
                    check(answer.status)
                    if answer.content_type != "text/event-stream":
                        raise SourceDown("its answer is no event stream")
                    cutter = Cutter(MAX_EVENT)
                    # What drips without ever being an event is no stream either.
                    dead.reschedule(now() + settings.stream_timeout)
                    async for chunk in answer.content.iter_any():
                        for sent in cutter.feed(chunk):
                            self._tell(sent.data)
                            dead.reschedule(now() + settings.stream_timeout)
        except TimeoutError:
            raise SourceDown("it did not answer in time") from None

    def _tell(self, data: bytes) -> None:
        """Keep an event for the next read; what is kept undecoded is bounded, its signals are small."""
        self._told.append((self._tracks.clock.now(), data))
        self._size += len(data)
        if self._size > READ_AHEAD:
            self._decode()
        if not self._up:
            self._up, self._connection = True, self._connection + 1
        self._noticed()

    def _noticed(self) -> None:
        self._tried.set()
        if self.wake is not None:
            self.wake.set()
