"""Whatever lists its sessions over HTTP: read by template, ended by template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.agent import Answer, Can, Finding, Sees, SourceDown
from sidecar.agents.http.calls import Calls
from sidecar.agents.http.events import Events
from sidecar.agents.http.poll import Poll
from sidecar.agents.http.server import Server
from sidecar.agents.http.settings import Settings
from sidecar.agents.http.track import Track

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.agent import Order, Source
    from sidecar.agents.http.entries import Entry
    from sidecar.agents.http.shapes import Call
    from sidecar.agents.http.stream import Events as Stream
    from sidecar.clock import Clock
    from sidecar.signals import Observation

__all__ = ["Http", "Settings"]


class Http:
    """One server."""

    kind = "http"

    def __init__(self, name: str, settings: Settings, clock: Clock, *, attended: bool | None = None) -> None:
        """`attended` is what the configuration says: no listing does."""
        self.name = name
        self._settings = settings
        self._server = Server(settings)
        self._track = Track(settings, clock, attended=attended)
        self._poll = Poll(self._server, self._track, clock)
        self._calls = Calls(self._server, clock)
        stream = settings.events if settings.events is not None and settings.events.listen else None
        self.sees = _sees(settings, stream)
        self._events = None if stream is None else Events(self._server, stream, clock)
        self._poll.told = self._listen
        self.sources: list[Source] = [self._poll]
        if self._events is not None:
            self.sources.append(self._events)

    @property
    def sessions_limit(self) -> int | None:
        """How many sessions there may be, where the listing tells."""
        return self._poll.limit

    async def look(self, session: str) -> Sequence[Observation]:  # noqa: ARG002 - one answer tells of all
        """What is streamed and listed now. Of the others, too: what they did is told only once."""
        streamed = [] if self._events is None else await self._events.read()
        return [*streamed, *await self._poll.read()]

    def can(self, session: str) -> Can:
        """What there is a template for, if its conditions hold. What is dead can only be closed."""
        entry = self._track.known.get(session)
        if entry is None:
            return Can(interrupt=False, reap=False)
        settings = self._settings
        reap = _holds(settings.reap, entry)
        patience = max((c.deadline for c in (settings.interrupt, settings.reap) if c), default=0.0)
        return Can(reap if entry.done else _holds(settings.interrupt, entry), reap, patience)

    async def interrupt(self, order: Order) -> Answer:
        """End the turn; of a dead session, whose entry waits for that, close the entry."""
        entry = self._track.known.get(order.session)
        dead = entry is not None and entry.done
        return await self._call(self._settings.reap if dead else self._settings.interrupt, entry, order)

    async def reap(self, order: Order) -> Answer:
        """End the session."""
        return await self._call(self._settings.reap, self._track.known.get(order.session), order)

    async def probe(self) -> Sequence[Finding]:
        """Whether the server answers, and what it lists."""
        settings = self._settings
        try:
            count = await self._poll.count()
        except SourceDown as down:
            return [Finding("listing", ok=False, detail=f"{settings.url}: {down}")]
        ends = [name for name, call in (("interrupt", settings.interrupt), ("reap", settings.reap)) if call]
        return [
            Finding("listing", ok=True, detail=f"{count} session{'' if count == 1 else 's'}"),
            Finding("control", ok=bool(ends), detail=" and ".join(ends) or "nothing can be ended"),
        ]

    async def close(self) -> None:
        """Stop listening."""
        if self._events is not None:
            await self._events.close()
        await self._calls.close()

    def _listen(self) -> None:
        if self._events is not None:
            known = self._track.known
            busy = {name for name, entry in known.items() if entry.state in ("busy", "waiting")}
            self._events.want(busy, set(known))

    async def _call(self, call: Call | None, entry: Entry | None, order: Order) -> Answer:
        if call is None or entry is None or not _holds(call, entry):
            return Answer("unsupported", "nothing can do that to this session")
        return await self._calls.make(call, order)


def _sees(settings: Settings, stream: Stream | None) -> Sees:
    """What the templates tell of: only a stream shows turns."""
    asked = [fields for fields in (settings.listing, settings.status) if fields is not None]
    waits = settings.leftovers or any(f.waiting or "waiting" in f.words.values() for f in asked)
    told = any(f.status is not None for f in asked)
    tools = stream is not None and bool(stream.tool_started)
    return Sees(None if stream is None else "delta", tools=tools, waiting=waits, status=told)


def _holds(call: Call | None, entry: Entry) -> bool:
    """Whether there is a call, and what it asks of the entry is so."""
    return call is not None and all(entry.facts.get(path) == value for path, value in call.when.items())
