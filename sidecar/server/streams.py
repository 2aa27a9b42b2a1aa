"""`/api/events`: every client gets the session objects as they change, each at its own pace.

A client's queue holds which sessions changed, not the objects, so one that is slow gets the newest
state once instead of every state in between; one that does not read at all is dropped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

if TYPE_CHECKING:
    from sidecar.server.ports import Sessions, Shown

MOST_CLIENTS: Final = 16
MOST_PENDING: Final = 1000
"""Sessions that may wait for one client; more than that and it is not reading."""

ALIVE_EVERY: Final = 15.0
"""Seconds after which a quiet stream says that it lives, so that proxies keep it open."""

PAUSE: Final = 0.25
"""Seconds between two batches: a session that streams changes many times a second."""

WRITE_DEADLINE: Final = 10.0
"""Seconds after which a client that takes nothing is dropped."""


class _Client:
    """What one client has not been told yet."""

    def __init__(self) -> None:
        self.pending: dict[tuple[str, str], None] = {}
        self.wake = asyncio.Event()
        self.dropped = False

    def tell(self, agent: str, session: str) -> None:
        """Note that a session is different."""
        self.pending[agent, session] = None
        self.dropped = self.dropped or len(self.pending) > MOST_PENDING
        self.wake.set()

    def take(self) -> list[tuple[str, str]]:
        """Everything noted so far, once."""
        taken = list(self.pending)
        self.pending.clear()
        self.wake.clear()
        return taken


class Streams:
    """All open event streams."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._clients: set[_Client] = set()
        self._closing = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Send the sessions as they are, then every one that changes."""
        if len(self._clients) >= MOST_CLIENTS:
            raise web.HTTPServiceUnavailable(
                reason=f"there are {MOST_CLIENTS} clients already", headers={"Retry-After": "10"}
            )
        client = _Client()
        self._clients.add(client)
        stop = self._sessions.subscribe(client.tell)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            await self._follow(client, response)
        except (TimeoutError, ConnectionError):
            pass  # it stopped reading, or left; whoever leaves while all is quiet is cancelled
        finally:
            stop()
            self._clients.discard(client)
        return response

    async def _follow(self, client: _Client, response: web.StreamResponse) -> None:
        for shown in self._sessions.sessions():
            await _send(response, _event("session", shown))
        await _send(response, _event("listed", {}))
        while not (self._closing or client.dropped):
            try:
                async with asyncio.timeout(ALIVE_EVERY):
                    await client.wake.wait()
            except TimeoutError:
                await _send(response, b": alive\n\n")
                continue
            for agent, session in client.take():
                await _send(response, self._state(agent, session))
            await asyncio.sleep(PAUSE)

    def _state(self, agent: str, session: str) -> bytes:
        found = self._sessions.session(session, agent)
        if not found:
            return _event("closed", {"agent": agent, "session": session})
        return _event("session", found[0])

    async def close(self) -> None:
        """End every stream; clients come back by themselves."""
        self._closing = True
        for client in self._clients:
            client.wake.set()


def _event(name: str, shown: Shown) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(shown) + b"\n\n"


async def _send(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_DEADLINE):
        await response.write(data)
