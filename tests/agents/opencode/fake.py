"""Something that answers like an OpenCode server, as badly as a test wants it to."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from aiohttp import web

from sidecar import signals as g
from sidecar.agents.opencode.adapter import OpenCode, Settings
from sidecar.clock import LiveClock
from sidecar.limits import Rules
from sidecar.replay import Replay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sidecar.session import Session

Json = dict[str, Any]
DIRECTORY = "/home/agent/a"


class Asked(NamedTuple):
    """A request, as it came over the wire."""

    method: str
    path: str
    directory: str | None


class Fake:
    """One server; what it holds is set by the test, what it was asked is kept."""

    def __init__(self) -> None:
        self.sessions: dict[str, Json] = {}
        self.statuses: dict[str | None, dict[str, Json]] = {}
        self.permissions: list[Json] = []
        self.questions: list[Json] = []
        self.messages: dict[str, list[Json]] = {}
        self.answers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}
        """What a path answers instead, by its beginning."""
        self.asked: list[Asked] = []
        self.bodies: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.streams: list[asyncio.Queue[bytes | None]] = []
        self.url = ""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.0, handler_cancellation=True)
        self._port = 0

    async def open(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        host, self._port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{self._port}"

    async def close(self) -> None:
        self.hang_up()
        await self._runner.cleanup()

    def session(self, session: str = "ses_1", **info: Any) -> Json:
        now = time.time() * 1000
        told = {"id": session, "directory": DIRECTORY, "version": "1.18.33", "title": "secret"}
        self.sessions[session] = told | {"time": {"created": now - 5000, "updated": now - 4000}} | info
        return self.sessions[session]

    def message(self, session: str, message: str, role: str, ago: float, *parts: Json, **info: Any) -> None:
        told = {"id": message, "role": role, "sessionID": session} | info
        told["time"] = {"created": stamp(ago)} | info.get("time", {})
        self.messages.setdefault(session, []).append({"info": told, "parts": list(parts)})

    def busy(self, *sessions: str, directory: str | None = DIRECTORY) -> None:
        self.statuses[directory] = {session: {"type": "busy"} for session in sessions}

    def tell(self, kind: str, **properties: Any) -> None:
        told = {"directory": DIRECTORY, "payload": {"id": "evt_1", "type": kind, "properties": properties}}
        for stream in self.streams:
            stream.put_nowait(b"data: " + json.dumps(told).encode() + b"\n\n")

    def hang_up(self) -> None:
        """End all streams."""
        for stream in self.streams:
            stream.put_nowait(None)
        self.streams.clear()

    def paths(self, method: str = "GET") -> list[str]:
        return [asked.path for asked in self.asked if asked.method == method]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        directory = request.headers.get("x-opencode-directory")
        directory = None if directory is None else unquote(directory)
        path = request.raw_path
        self.asked.append(Asked(request.method, path, directory))
        self.headers.append(dict(request.headers))
        special = next((answer for begin, answer in self.answers.items() if path.startswith(begin)), None)
        if special is not None:
            return await special(request)
        if path == "/global/event":
            return await self._stream(request)
        if request.method != "GET":
            self.bodies.append((path, await request.json() if request.can_read_body else None))
            return web.json_response(data=True)
        found = self._found(path.partition("?")[0].split("/")[1:], directory)
        return (
            web.json_response({"name": "NotFoundError"}, status=404)
            if found is None
            else web.json_response(found)
        )

    def _found(self, path: list[str], directory: str | None) -> Any:  # noqa: PLR0911 - a table
        match [unquote(part) for part in path]:
            case ["global", "health"]:
                return {"healthy": True, "version": "1.18.33"}
            case ["experimental", "session"]:
                return list(self.sessions.values())
            case ["session", "status"]:
                return self.statuses.get(directory, {})
            case ["permission"]:
                return self.permissions
            case ["question"]:
                return self.questions
            case ["session", session]:
                return self.sessions.get(session)
            case ["session", session, "children"]:
                return [info for info in self.sessions.values() if info.get("parentID") == session]
            case ["session", session, "message"]:
                return self.messages.get(session, [])
            case ["session", session, "message", message]:
                return next((m for m in self.messages.get(session, []) if m["info"]["id"] == message), None)
        return None

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        told: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.streams.append(told)
        await response.write(b'data: {"payload":{"type":"server.connected","properties":{}}}\n\n')
        while (piece := await told.get()) is not None:
            await response.write(piece)
        return response


def stamp(ago: float) -> float:
    """Epoch milliseconds of a while ago."""
    return (time.time() - ago) * 1000


class Watched:
    """An adapter, read as the watch reads it, and the sessions that come of it."""

    def __init__(self, server: Fake, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LiveClock(loop.time, time.time)
        settings = {"url": server.url, "timeout": 2.0, **settings}
        self.agent = OpenCode("opencode", Settings(**settings), self.clock)
        self.events, self.status = self.agent._events, self.agent._poll
        self.fleet = Replay("opencode", Rules()).fleet

    async def read(self, source: Any) -> list[g.Observation]:
        found = list(await source.read())
        self.fleet.observe("opencode", found, self.clock.now())
        return found

    async def look(self, session: str = "ses_1") -> list[g.Observation]:
        found = list(await self.agent.look(session))
        self.fleet.observe("opencode", found, self.clock.now())
        return found

    async def until(self, kind: type[g.Signal], session: str = "ses_1") -> g.Signal:
        """Read the stream until a signal comes."""
        async with asyncio.timeout(5):
            while True:
                for name, signal in await self.read(self.events):
                    if name == session and isinstance(signal, kind):
                        return signal
                assert self.events.wake is not None
                await self.events.wake.wait()
                self.events.wake.clear()

    def seen(self, session: str = "ses_1") -> Session | None:
        return self.fleet.get("opencode", session)


@asynccontextmanager
async def serving(server: Fake) -> AsyncIterator[Fake]:
    await server.open()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def watching(server: Fake, **settings: Any) -> AsyncIterator[Watched]:
    watched = Watched(server, **settings)
    try:
        yield watched
    finally:
        await watched.agent.close()


async def begun(server: Fake, watched: Watched) -> None:
    """The stream told of a turn."""
    await watched.read(watched.events)
    info = server.session()
    server.tell("session.created", sessionID="ses_1", info=info)
    user = {"id": "msg_1u", "role": "user", "time": {"created": stamp(0)}}
    server.tell("message.updated", sessionID="ses_1", info=user)
    server.busy("ses_1")
    server.tell("session.status", sessionID="ses_1", status={"type": "busy"})
    told = {"id": "msg_1a", "role": "assistant", "parentID": "msg_1u", "time": {"created": stamp(0)}}
    server.tell("message.updated", sessionID="ses_1", info=told)
    await watched.until(g.TurnStarted)
    await asyncio.sleep(0)
    await watched.look()
