"""The source `events`: what busy sessions stream. A stream shows progress, and with it the turn.

A session is listened to only while it is busy: on some servers a listener keeps a session from
being idle, and none is needed where nothing runs. A turn begins with the first work that is seen,
so that whatever ran before somebody listened is never taken for silence; where the server sends again
what it kept, that tells how the turn began and what it is at.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.http.happenings import Happenings
from sidecar.agents.http.past import Past
from sidecar.agents.http.server import Missing, Server, ended
from sidecar.agents.http.template import path_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sidecar.agents.http.stream import Events as Settings
    from sidecar.clock import Clock

SOURCE: Final = "events"
MOST: Final = 64
"""Streams at once; of sessions beyond, only what is listed is known."""

READ_AHEAD: Final = 1_000
LONGEST_PAUSE: Final = 30.0

ALL: Final = "0"
"""The event before the first: what is kept is sent again from there."""

BLIND: Final = 60.0
"""Seconds without its stream after which an open turn is given up: its silence would be ours."""


class Told(NamedTuple):
    """What a stream told of its session: an event, that it is there, or that it is lost."""

    session: str
    what: bytes | None
    at: float
    since: float = 0.0
    """When this stream began."""
    first: bool = False
    """Whether it is the session's first, and tells of the past."""


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
        self._after: dict[str, str] = {}
        self._past: dict[str, Past] = {}
        self._open: set[str] = set()
        self._lost: dict[str, float] = {}
        self._over: list[str] = []
        self._busy: set[str] = set()

    def want(self, busy: set[str], known: set[str]) -> None:
        """Listen to those that are busy and to no other, but until its end was told, too.

        One that was busy a look ago is listened to for one more: its stream says how the turn ended.
        """
        wanted = busy | (self._busy & known)
        self._busy = busy
        for session in [session for session in self._streams if session not in wanted]:
            self._streams.pop(session).cancel()
            self._lost.pop(session, None)
            self._over += [session] if session in self._open and session in known else []
        self._open &= known
        self._after = {session: last for session, last in self._after.items() if session in known}
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
            if told.session in self._streams or told.session in self._over:
                out += [g.Observation(told.session, signal) for signal in self._heard(told)]
        over, self._over = self._over, []
        blind = [session for session, since in self._lost.items() if now - since > BLIND]
        out += self._given_up(over, "completed", now)
        out += self._given_up(blind, "abandoned", now)
        return out

    async def close(self) -> None:
        """Stop listening."""
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            await ended(stream)

    def _given_up(self, sessions: list[str], outcome: g.Outcome, now: float) -> list[g.Observation]:
        """The end of those whose own end was not seen."""
        ended = [session for session in sessions if session in self._open]
        self._open.difference_update(ended)
        return [g.Observation(session, g.TurnEnded(now, outcome)) for session in ended]

    def _heard(self, told: Told) -> list[g.Signal]:
        session, what, now = told.session, told.what, told.at
        if what is None:
            self._lost.setdefault(session, now)
            return [*self._noted(session, self._kept(session)), g.SourceLost(now, SOURCE)]
        if not what:
            self._lost.pop(session, None)
            if told.first:
                self._past[session] = Past()
            return [g.SourceUp(now, SOURCE, "delta")]
        signals = self._happenings.of(what, now, told.since)
        past = self._past.get(session)
        if past is None:
            return self._noted(session, signals)
        past.add(signals)
        return self._noted(session, self._kept(session)) if self._happenings.over(what) else []

    def _kept(self, session: str) -> list[g.Signal]:
        past = self._past.pop(session, None)
        return [] if past is None else past.signals

    def _noted(self, session: str, signals: list[g.Signal]) -> list[g.Signal]:
        for signal in signals:
            if isinstance(signal, g.TurnEnded):
                self._open.discard(session)
            elif isinstance(signal, g.TurnStarted | g.Progress | g.ToolStarted):
                self._open.add(session)
        return signals

    async def _follow(self, session: str) -> None:
        """One session's stream, connected again and again for as long as it is wanted."""
        failures, there = 0, True
        while there:
            try:
                path = path_of(self._settings.path, {"id": session})
                async for sent in self._sent(session, path):
                    failures = 0
                    await self._tell(sent)
            except (SourceDown, ValueError) as error:
                there = not isinstance(error, Missing)
            await self._tell(Told(session, None, self._clock.now()))
            failures += 1
            await asyncio.sleep(min(LONGEST_PAUSE, 0.5 * 2 ** min(failures, 10)))

    async def _sent(self, session: str, path: str) -> AsyncGenerator[Told, None]:
        """What one connection tells, going on from where the last one was."""
        keeps = self._settings.replayed is not None
        first = keeps and session not in self._after
        after = self._after.get(session, ALL) if keeps else None
        since = self._clock.now()
        async with aclosing(self._server.events(path, self._settings.silence, after)) as stream:
            async for sent in stream:
                yield Told(session, sent.data, self._clock.now(), since, first)
                if sent.id is not None and sent.data:
                    self._after[session] = sent.id

    async def _tell(self, told: Told) -> None:
        await self._told.put(told)
        if self.wake is not None:
            self.wake.set()
