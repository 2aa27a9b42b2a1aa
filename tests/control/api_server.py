"""Something that speaks the Agent Control API, as badly as a test wants it to."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

Json = dict[str, Any]


def session(name: str = "s1", /, **facts: object) -> Json:
    """A session object as a host lists it: busy, and interruptible."""
    return {
        "id": name,
        "turn": "host-turn-7",
        "status": "busy",
        "waiting_for": None,
        "attended": False,
        "resolution": "delta",
        "created_at": "2026-11-30T12:00:00.000Z",
        "last_activity_at": "2026-11-30T12:00:00.000Z",
        "pid": 4711,
        "can": {"interrupt": True, "reap": True},
        "last_verdict": None,
        "something_new": {"of": "a later version"},
    } | facts


class Server:
    """One endpoint."""

    def __init__(self, *sessions: Json) -> None:
        self.sessions = list(sessions)
        self.status = 202
        self.refuses = False
        self.requests: list[tuple[str, str]] = []
        self.orders: list[Json] = []
        self.headers: dict[str, str] = {}
        self.listing: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.listeners = 0
        self.listening = asyncio.Event()
        self.over = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.0, handler_cancellation=True)

    async def open(self, where: Path | None = None) -> str:
        """Listen on a socket, or on a port of the loopback; gives the URL."""
        await self._runner.setup()
        if where is not None:
            await web.UnixSite(self._runner, str(where)).start()
            return f"unix:{where}"
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def close(self) -> None:
        self.over.set()
        self.events.put_nowait(None)
        await self._runner.cleanup()

    def tell(self, event: object) -> None:
        self.events.put_nowait(b"data: " + json.dumps(event).encode() + b"\n\n")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.raw_path))
        self.headers = dict(request.headers)
        if request.raw_path.endswith("/v1/events"):
            return await self._stream(request)
        if request.method == "POST":
            self.orders.append(await request.json())
            return web.json_response({}, status=self.status)
        if self.listing is not None:
            return await self.listing(request)
        return web.json_response({"sessions": self.sessions})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self.refuses:
            return web.Response(status=503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.listeners += 1
        self.listening.set()
        while (piece := await self.events.get()) is not None:
            await response.write(piece)
        return response


@asynccontextmanager
async def serving(server: Server, where: Path | None = None) -> AsyncIterator[str]:
    url = await server.open(where)
    try:
        yield url
    finally:
        await server.close()
