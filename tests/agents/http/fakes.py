"""A server that lists sessions, over a real socket."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from sidecar.agents.http.settings import Settings
from sidecar.agents.registry import KINDS
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
        self.instead: Any = None
        """What makes every answer, whatever was asked for."""
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = f"{request.method} {request.raw_path}"
        self.asked.append(asked)
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.read())
        answer = self.instead or self.answers.get(asked, 404)
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
