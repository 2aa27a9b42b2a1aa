"""OpenCode and redcode: one server's stream and its answers in; abort and archive out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.agent import Answer, Can, Finding, Sees, SourceDown
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode.acts import Acts
from sidecar.agents.opencode.decode import Decoder
from sidecar.agents.opencode.events import Events
from sidecar.agents.opencode.poll import Poll
from sidecar.agents.opencode.server import Server
from sidecar.agents.opencode.settings import Settings
from sidecar.agents.opencode.tracks import Tracks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.agent import Order, Source
    from sidecar.clock import Clock
    from sidecar.signals import Observation

__all__ = ["OpenCode", "RedcodeSettings", "Settings"]


class RedcodeSettings(Settings, frozen=True, kw_only=True):
    """As of OpenCode, with the fork's own user."""

    username: str = "redcode"
    """The user that the server expects beside the password: its REDCODE_SERVER_USERNAME. Versions
    without a guard of their own still expect `opencode`."""


class OpenCode:
    """One server."""

    sees = Sees("delta", tools=True, waiting=True, status=True)

    def __init__(self, name: str, settings: Settings, clock: Clock, *, attended: bool | None = None) -> None:
        """`attended` is what the configuration says: no answer of the server does."""
        self.name = name
        self.kind = "redcode" if isinstance(settings, RedcodeSettings) else "opencode"
        self._server = Server(settings)
        self._tracks = Tracks(clock, attended=attended, directories=settings.directories)
        self._poll = Poll(self._server, self._tracks)
        self._events = Events(self._server, self._tracks, Decoder(self._tracks), self._poll)
        self._poll.drain = self._events.drain
        self._acts = Acts(self._server, self._tracks)
        self.sources: Sequence[Source] = (self._events, self._poll)

    async def look(self, session: str) -> Sequence[Observation]:
        """What the stream has told by now, and the server's answers of now."""
        return [*self._events.drain(), *await self._poll.look(session)]

    def can(self, session: str) -> Can:
        """Whatever this server was seen working on, subagents too; others are another process's."""
        t = self._tracks.all.get(session)
        owned = t is not None and t.owned
        return Can(interrupt=owned, reap=owned)

    async def interrupt(self, order: Order) -> Answer:
        """Abort the turn."""
        return await self._acts.interrupt(order)

    async def reap(self, order: Order) -> Answer:
        """Archive the session."""
        return await self._acts.reap(order)

    async def probe(self) -> Sequence[Finding]:
        """What `check` says of this server."""
        url = self._server.settings.url
        try:
            health = await self._server.get(r.health, "global", "health")
            version = "an unknown version" if health is None else f"version {health.version or 'unknown'}"
            found = await self._server.get(r.infos, "experimental", "session", query={"limit": "1"})
        except SourceDown as down:
            return [
                Finding("server", ok=False, detail=f"{url}: {down}"),
                Finding("control", ok=False, detail="the server cannot be asked"),
            ]
        listing = "lists the sessions of all directories" if found is not None else "lists one directory only"
        return [
            Finding("server", ok=True, detail=f"{url}: {version}"),
            Finding("sessions", ok=found is not None, detail=listing),
            Finding("control", ok=True, detail="turns and subagents can be aborted, sessions archived"),
        ]

    async def close(self) -> None:
        """Stop listening."""
        await self._events.close()
