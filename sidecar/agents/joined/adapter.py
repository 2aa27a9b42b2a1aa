"""A server that lists sessions, and the transcripts of the agents behind it, as one agent.

Only the server ends anything: whoever stands between it and its agents breaks its bookkeeping.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from sidecar.agent import Agent, Resumes, Sees, looks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sidecar.agent import Answer, Can, Finding, Order, Source, WatchLoss
    from sidecar.agents.joined.join import Join
    from sidecar.clock import Clock
    from sidecar.signals import Observation

WRITTEN = ("transcript", "registry")
"""The sources that are read of the agents behind the server. Their processes are its own affair."""


class Written(Agent, Resumes, Protocol):
    """The adapter of what the agents behind the server write."""


class Named:
    """A source whose observations go out under other names."""

    def __init__(self, source: Source, told: Callable[[Source], Awaitable[Sequence[Observation]]]) -> None:
        self.name = source.name
        self.patience = source.patience
        self._source = source
        self._told = told

    @property
    def every(self) -> float:
        """As the source itself."""
        return self._source.every

    @property
    def wake(self) -> asyncio.Event | None:
        """As the source itself."""
        return self._source.wake

    async def read(self) -> Sequence[Observation]:
        """What the source saw, as far as it counts. Raises SourceDown."""
        return await self._told(self._source)


class Joined:
    """One server and one configuration folder of its agents."""

    def __init__(self, listing: Agent, transcripts: Written, join: Join, clock: Clock) -> None:
        self.name, self.kind = listing.name, listing.kind
        self._listing, self._transcripts = listing, transcripts
        self._join = join
        self._clock = clock
        self._reading = asyncio.Lock()
        self.sources: list[Source] = [Named(source, self._listed) for source in listing.sources]
        self.sources += [Named(s, self._written) for s in transcripts.sources if s.name in WRITTEN]

    @property
    def sessions_limit(self) -> int | None:
        """How many sessions there may be, where the listing tells."""
        return getattr(self._listing, "sessions_limit", None)

    @property
    def watch_mode(self) -> str | None:
        """How changes of the transcripts are noticed."""
        return getattr(self._transcripts, "watch_mode", None)

    @property
    def watch_losses(self) -> Mapping[WatchLoss, int]:
        """What kept changes of the transcripts from being told of, and how often."""
        return getattr(self._transcripts, "watch_losses", {})

    def places(self) -> bytes:
        """How far the transcripts were read."""
        return self._transcripts.places()

    def resume(self, places: bytes) -> bool:
        """Read the transcripts on from there, if these are they."""
        return self._transcripts.resume(places)

    @property
    def sees(self) -> Sees:
        """What either sees."""
        one, other = self._listing.sees, self._transcripts.sees
        return Sees(
            one.resolution or other.resolution,
            tools=one.tools or other.tools,
            waiting=one.waiting or other.waiting,
            status=one.status or other.status,
        )

    async def look(self, session: str) -> Sequence[Observation]:
        """What is listed now, and the session's transcript to its end."""
        listed = await self._listing.look(session)
        async with self._reading:
            out = await self._heard(listed)
            for run in self._join.runs(session):
                out += self._join.written(await self._to_its_end(run), self._clock.now())
            return out

    def can(self, session: str) -> Can:
        """What the server can do."""
        return self._listing.can(session)

    async def interrupt(self, order: Order) -> Answer:
        """End the turn through the server."""
        return await self._listing.interrupt(order)

    async def reap(self, order: Order) -> Answer:
        """End the session through the server."""
        return await self._listing.reap(order)

    async def probe(self) -> Sequence[Finding]:
        """What `check` says: of the server, and whether the files can be read."""
        written = [f for f in await self._transcripts.probe() if f.what != "control"]
        return [*await self._listing.probe(), *written]

    async def close(self) -> None:
        """Let go of both."""
        await self._listing.close()
        await self._transcripts.close()

    async def _listed(self, source: Source) -> Sequence[Observation]:
        listed = await source.read()
        async with self._reading:
            return await self._heard(listed)

    async def _written(self, source: Source) -> Sequence[Observation]:
        async with self._reading:
            return self._join.written(await source.read(), self._clock.now())

    async def _heard(self, observations: Sequence[Observation]) -> list[Observation]:
        """What the listing said. Who is over by it is first read to the end."""
        last: list[Observation] = []
        for session in self._join.ends(observations):
            for run in self._join.runs(session):
                last += await self._to_its_end(run)
        now = self._clock.now()
        return [*self._join.written(last, now), *self._join.listed(observations, now)]

    async def _to_its_end(self, run: str) -> list[Observation]:
        """A run's files to their end, in pieces. Sources wait: what they saw would be told first."""
        return [told async for found in looks(self._transcripts, run) for told in found]
