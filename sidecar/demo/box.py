"""A reference box: how an agent behind an SDK offers the Agent Control API itself.

The pattern of a box around the Claude Agent SDK: every event of the SDK is progress, an open tool
is told so that its bound can be another one, a turn that is ended gets an error event with the
reason and then a done, and the session stays live for the next question. What the SDK does here
is a script of events, so that the box can be run and tested without a model.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from sidecar.clock import iso

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Event = dict[str, Any]
BEAT: Final = 15.0
"""Seconds between two signs of life of a stream that has nothing to tell."""

COALESCE: Final = 0.2
"""Seconds between two progress events to a listener: pieces come faster than anybody judges."""


class Talk:
    """One session of the box: at most one turn at a time.

    `client` gives a prompt's events as an SDK streams them: deltas, tool_use, tool_result, result.
    """

    def __init__(
        self, name: str, client: Callable[[str], AsyncIterator[Event]], tell: Callable[[Event], None]
    ) -> None:
        self.id = name
        self.turn: str | None = None
        self.tools: dict[str, str] = {}
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        """What the client of this session reads: its events, errors with their reasons, done."""
        self._client = client
        self._tell = tell
        self._created = self._active = time.time()
        self._turns = 0
        self._last: Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._progress_told = 0.0

    def shown(self) -> Event:
        """The session object of the API."""
        return {
            "id": self.id,
            "turn": self.turn,
            "status": "idle" if self.turn is None else "busy",
            "waiting_for": None,
            "attended": False,
            "resolution": "delta",
            "created_at": iso(self._created),
            "last_activity_at": iso(self._active),
            "pid": None,
            "can": {"interrupt": True, "reap": True},
            "last_verdict": self._last,
            "tools": dict(self.tools),
        }

    def ask(self, prompt: str) -> bool:
        """Begin a turn; False while one runs."""
        if self.turn is not None:
            return False
        self._turns += 1
        self.turn, self._active = f"turn-{self._turns}", time.time()
        self._task = asyncio.create_task(self._run(prompt))
        self._tell(self.shown())
        return True

    async def end(self, action: str, reason: str) -> None:
        """End the turn: the error with its reason first, then done; the session stays."""
        self._last = {"at": iso(time.time()), "action": action, "reason": reason}
        if self._task is not None and self.turn is not None:
            self.told.put_nowait({"type": "error", "reason": reason})
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._tell(self.shown())

    async def _run(self, prompt: str) -> None:
        try:
            async for event in self._client(prompt):
                self._heard(event)
        finally:
            self.turn, self.tools = None, {}
            self.told.put_nowait({"type": "done"})
            self._tell(self.shown())

    def _heard(self, event: Event) -> None:
        """Any event of the SDK is progress; tools are told when they open and close."""
        self._active = time.time()
        self.told.put_nowait(event)
        if event["type"] == "tool_use":
            self.tools[event["id"]] = event["name"]
            self._tell(self.shown())
        elif event["type"] == "tool_result":
            self.tools.pop(event["id"], None)
            self._tell(self.shown())
        elif self._active - self._progress_told >= COALESCE:
            self._progress_told = self._active
            self._tell({"id": self.id, "progress": True})


class Wish(msgspec.Struct):
    """The body of an order."""

    turn: str | None = None
    reason: str = ""
    force: bool = False


class Box:
    """The sessions and the four routes."""

    def __init__(self, client: Callable[[str], AsyncIterator[Event]]) -> None:
        self.talks: dict[str, Talk] = {}
        self._client = client
        self._listeners: set[asyncio.Queue[Event]] = set()

    def open(self, name: str) -> Talk:
        """Create a session."""
        self.talks[name] = talk = Talk(name, self._client, self._tell)
        self._tell(talk.shown())
        return talk

    def app(self) -> web.Application:
        """What serves the Agent Control API."""
        app = web.Application(client_max_size=64 << 10)
        app.add_routes(
            [
                web.get("/v1/sessions", self._sessions),
                web.get("/v1/events", self._events),
                web.post("/v1/sessions/{id}/interrupt", self._interrupt),
                web.post("/v1/sessions/{id}/reap", self._reap),
            ]
        )
        return app

    def _tell(self, what: Event) -> None:
        for listener in self._listeners:
            listener.put_nowait(what)

    async def _sessions(self, _: web.Request) -> web.Response:
        return web.json_response({"sessions": [talk.shown() for talk in self.talks.values()]})

    async def _interrupt(self, request: web.Request) -> web.Response:
        talk, wish = await self._asked(request)
        if wish.turn is not None and wish.turn != talk.turn and talk.turn is not None:
            raise web.HTTPConflict(text="another turn runs now")
        if talk.turn is not None:
            await talk.end("interrupt", wish.reason)
        return web.Response(status=202)

    async def _reap(self, request: web.Request) -> web.Response:
        talk, wish = await self._asked(request)
        if talk.turn is not None and not wish.force:
            raise web.HTTPConflict(text="a turn runs")
        del self.talks[talk.id]
        await talk.end("reap", wish.reason)
        return web.Response(status=202)

    async def _asked(self, request: web.Request) -> tuple[Talk, Wish]:
        talk = self.talks.get(request.match_info["id"])
        if talk is None:
            raise web.HTTPNotFound(text="no such session")
        try:
            return talk, msgspec.json.decode(await request.read() or b"{}", type=Wish)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=str(error)) from error

    async def _events(self, request: web.Request) -> web.StreamResponse:
        told: asyncio.Queue[Event] = asyncio.Queue()
        self._listeners.add(told)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        try:
            for talk in self.talks.values():
                told.put_nowait(talk.shown())
            while True:
                try:
                    async with asyncio.timeout(BEAT):
                        said = b"data: " + json.dumps(await told.get()).encode()
                except TimeoutError:
                    said = b": beat"
                await stream.write(said + b"\n\n")
        except ConnectionResetError:
            return stream
        finally:
            self._listeners.discard(told)
