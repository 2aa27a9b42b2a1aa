"""The source `events`: what busy sessions stream. A stream shows progress, and with it the turn.

A session is listened to only while it is busy: on some servers a listener keeps a session from
being idle, and none is needed where nothing runs. A turn begins with the first work that is seen,
so that whatever ran before somebody listened is never taken for silence.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.http.happenings import Happenings
from sidecar.agents.http.server import Missing, Server, ended
from sidecar.agents.http.template import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.agents.http.shapes import Events as Settings
    from sidecar.clock import Clock

SOURCE: Final = "events"
MOST: Final = 64
"""Streams at once; of sessions beyond, only what is listed is known."""

READ_AHEAD: Final = 1_000
LONGEST_PAUSE: Final = 30.0

BLIND: Final = 60.0
"""Seconds without its stream after which an open turn is given up: its silence would be ours."""


class Told(NamedTuple):
    """What a stream told of its session: an event, that it is there, or that it is lost."""

    session: str
    what: bytes | None
    at: float


class Events:
    """The streams of one server."""

    name = SOURCE
    every = 5.0
    patience = 30.0

    def __init__(self, server: Server, settings: Settings, clock: Clock) -> None:
        self.wake: asyncio.Event | None = asyncio.Event()
        self._server, self._settings, self._clock = server, settings, clock
        self._happenings = Happenings(settings, clock)
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._told: asyncio.Queue[Told] = asyncio.Queue(READ_AHEAD)
        self._open: set[str] = set()
        self._lost: dict[str, float] = {}
        self._over: list[str] = []

    def want(self, busy: set[str], known: set[str]) -> None:
        """Listen to those that are busy and to no other."""
        for session in [session for session in self._streams if session not in busy]:
            self._streams.pop(session).cancel()
            self._lost.pop(session, None)
            if session in self._open:
                self._open.discard(session)
                self._over += [session] if session in known else []
        for session in sorted(busy - self._streams.keys())[: MOST - len(self._streams)]:
            self._streams[session] = asyncio.create_task(self._follow(session), name="events")
        if self._over and self.wake is not None:
            self.wake.set()

    async def read(self) -> Sequence[g.Observation]:
        """What was told since the last read."""
        now = self._clock.now()
        out: list[g.Observation] = []
        while not self._told.empty():
            told = self._told.get_nowait()
            if told.session in self._streams:
                out += [g.Observation(told.session, signal) for signal in self._heard(told)]
        over, self._over = self._over, []
        out += [g.Observation(session, g.TurnEnded(now, "completed")) for session in over]
        for session in [s for s, since in self._lost.items() if now - since > BLIND and s in self._open]:
            self._open.discard(session)
            out.append(g.Observation(session, g.TurnEnded(now, "abandoned")))
        return out

    async def close(self) -> None:
        """Stop listening."""
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            await ended(stream)

    def _heard(self, told: Told) -> list[g.Signal]:
        session, what, now = told
        if what is None:
            self._lost.setdefault(session, now)
            return [g.SourceLost(now, SOURCE)]
        if not what:
            self._lost.pop(session, None)
            return [g.SourceUp(now, SOURCE, "delta")]
        signals = self._happenings.of(what, now)
        for signal in signals:
            if isinstance(signal, g.TurnEnded):
                self._open.discard(session)
            elif isinstance(signal, g.Progress | g.ToolStarted):
                self._open.add(session)
        return signals

    async def _follow(self, session: str) -> None:
        """One session's stream, connected again and again for as long as it is wanted."""
        failures = 0
        while True:
            try:
                path = path_of(self._settings.path, {"id": session})
                async for data in self._server.events(path, self._settings.silence):
                    failures = 0
                    await self._tell(session, data)
            except Missing:
                break
            except (SourceDown, ValueError):
                pass
            await self._tell(session, None)
            failures += 1
            await asyncio.sleep(min(LONGEST_PAUSE, 0.5 * 2 ** min(failures, 10)))

    async def _tell(self, session: str, what: bytes | None) -> None:
        await self._told.put(Told(session, what, self._clock.now()))
        if self.wake is not None:
            self.wake.set()
