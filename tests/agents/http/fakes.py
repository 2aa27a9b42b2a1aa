"""Servers that list sessions: one over a real socket, and a compile box in memory for simulated time."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from sidecar.agent import SourceDown
from sidecar.agents.http.settings import Settings
from sidecar.agents.registry import KINDS
from sidecar.clock import iso
from sidecar.config.load import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sidecar.config.agents import AgentConfig

    Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]

WALL = 1_800_000_000.0


def configured(preset: str | None, **entry: Any) -> AgentConfig:
    """An entry as the configuration file gives it."""
    tree = {"kind": "http", "url": "http://127.0.0.1:1", **entry} | (
        {} if preset is None else {"preset": preset}
    )
    (agent,) = load(json.dumps({"agents": [tree]}), {"HOME": "/h"}, KINDS).agents or ()
    return agent


def settings(preset: str | None, **entry: Any) -> Settings:
    made = configured(preset, **entry).settings
    assert isinstance(made, Settings)
    return made


class Site:
    """Answers by path, as asked of it; remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        """By `METHOD path`: JSON, a status, or what makes the answer."""
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = f"{request.method} {request.raw_path}"
        self.asked.append(asked)
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.read())
        answer = self.answers.get(asked, 404)
        if callable(answer):
            made: web.StreamResponse = await answer(request)
            return made
        return web.Response(status=answer) if isinstance(answer, int) else web.json_response(answer)


@asynccontextmanager
async def serving(site: Site, **options: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", r"/{path:[\s\S]*}", site.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, **options).start()
    try:
        yield f"{'https' if options else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Box:
    """A compile box: its sessions, and closes that take their time."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.down: str | None = None
        self.takes = 0.04
        self.closes: list[tuple[str, float]] = []
        self.under_way: dict[str, int] = {}
        self.leaked: list[str] = []
        self.requests: list[str] = []
        self.fails = False

    def open(self, tid: str) -> None:
        self.sessions[tid] = {"tid": tid, "parent_run_id": "r", "done": False, "created_at": self.now()}
        self.touch(tid)

    def touch(self, tid: str) -> None:
        self.sessions[tid]["last_activity_at"] = self.now()

    def now(self) -> str:
        return iso(WALL + asyncio.get_running_loop().time())[:19] + "Z"

    async def get(self, path: str) -> Any:
        self.requests.append(f"GET {path}")
        if self.down is not None:
            raise SourceDown(self.down)
        return {"sessions": [dict(session) for session in self.sessions.values()]}

    async def order(self, method: str, path: str, _: Any, body: str | None, deadline: float) -> int:
        assert (method, body) == ("POST", None)
        self.requests.append(f"POST {path}")
        tid = path.removeprefix("/test-session/").removesuffix("/close")
        self.closes.append((tid, asyncio.get_running_loop().time()))
        teardown = asyncio.create_task(self._close(tid))
        try:
            async with asyncio.timeout(deadline):
                await asyncio.shield(teardown)
        except TimeoutError as error:
            raise SourceDown("it did not answer in time") from error
        return 500 if self.fails else 200

    async def _close(self, tid: str) -> None:
        if self.under_way.get(tid):
            self.leaked.append(tid)
        self.under_way[tid] = self.under_way.get(tid, 0) + 1
        await asyncio.sleep(self.takes)
        self.under_way[tid] -= 1
        if not self.fails:
            self.sessions.pop(tid, None)
