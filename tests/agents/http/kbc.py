"""The compile box as it is documented, over a real socket: routes, field names, stamps, its own reaper.

Time is the loop's, so that a test can fast-forward it. Its wall clock may be off (`skew`).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from sidecar.clock import iso
from tests.agents.http.fakes import WALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp.typedefs import Handler

TTL: Final = 1800.0
SWEEP: Final = 60.0
CAP: Final = 10


class KbcBox:
    """Test sessions of one compile box."""

    def __init__(self, *, ttl: float | None = None) -> None:
        """`ttl`: the box's own idle limit; None: its reaper does not run."""
        self.sessions: dict[str, dict[str, Any]] = {}
        self.skew = 0.0
        self.ttl = ttl
        self.takes = 0.04
        """Seconds a teardown takes: 5 in mid-turn, 10 with a stopped CLI."""
        self.closes: list[tuple[str, float]] = []
        """Every close that was asked for over the wire."""
        self.reaped: list[str] = []
        """What the box closed by itself."""
        self.tearing: dict[str, int] = {}
        self.leaked: list[str] = []
        """Sessions with two teardowns at once: their process stays behind."""
        self.asked: list[str] = []
        self.down: int | str | None = None
        """What every listing is answered with instead: a status, or a page."""
        self.fails = False
        """Whether a teardown ends with an error and the session stays."""
        self.before: Callable[[], None] = _nothing
        """Called before every listing."""
        self._tasks: set[asyncio.Task[None]] = set()

    # What a gateway does.

    def open(self, tid: str, run: str = "r1", **other: Any) -> None:
        stamp = self.now()
        entry = {
            "tid": tid,
            "parent_run_id": run,
            "created_at": stamp,
            "last_activity_at": stamp,
            "done": False,
        }
        self.sessions[tid] = entry | other

    def touch(self, tid: str) -> None:
        self.sessions[tid]["last_activity_at"] = self.now()

    def now(self) -> str:
        """Its wall clock in whole seconds."""
        return iso(self.time())[:19] + "Z"

    def time(self) -> float:
        return WALL + self.skew + asyncio.get_running_loop().time()

    # Its routes.

    async def listing(self, _: web.Request) -> web.StreamResponse:
        self.before()
        if isinstance(self.down, int):
            return web.json_response({"error": "no"}, status=self.down)
        if self.down is not None:
            return web.Response(text=self.down, content_type="text/html")
        return web.json_response({"sessions": list(self.sessions.values())})

    async def start(self, request: web.Request) -> web.StreamResponse:
        if sum(not s["done"] for s in self.sessions.values()) >= CAP:
            error = {"code": "test_session_limit", "message": "too many", "retriable": False}
            return web.json_response({"error": error}, status=429)
        tid = f"t{len(self.asked)}"
        self.open(tid, request.match_info["run"])
        return web.json_response({"ok": True, "test_session_id": tid, "idempotent_replay": False})

    async def message(self, request: web.Request) -> web.StreamResponse:
        tid = request.match_info["tid"]
        if tid not in self.sessions:
            return web.json_response({"error": "unknown test session"}, status=404)
        self.touch(tid)
        return web.json_response({"ok": True})

    async def close(self, request: web.Request) -> web.StreamResponse:
        tid = request.match_info["tid"]
        self.closes.append((tid, asyncio.get_running_loop().time()))
        if tid not in self.sessions:
            return web.json_response({"ok": True, "already_closed": True})
        # A client that goes away does not abort it.
        await asyncio.shield(self._begin(tid))
        return web.json_response({"ok": True}, status=500 if self.fails else 200)

    async def health(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok", "runs": 1, "test_sessions": len(self.sessions)})

    # Its own affairs.

    def _begin(self, tid: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._tear(tid))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _tear(self, tid: str) -> None:
        self.tearing[tid] = self.tearing.get(tid, 0) + 1
        if self.tearing[tid] > 1:
            self.leaked.append(tid)
            self.sessions.pop(tid, None)
            return
        await asyncio.sleep(self.takes)
        self.tearing[tid] = 0
        if not self.fails:
            self.sessions.pop(tid, None)

    async def reap(self) -> None:
        """Close what was not used for the limit, one after the other; the dead are skipped."""
        while True:
            await asyncio.sleep(SWEEP)
            for tid, entry in list(self.sessions.items()):
                used = entry.get("last_activity_at")
                limit = iso(self.time() - (self.ttl or 0))[:19] + "Z"
                if self.ttl is not None and used and not entry["done"] and used <= limit:
                    self.reaped.append(tid)
                    await self._begin(tid)

    @web.middleware
    async def seen(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.raw_path}")
        answer = await handler(request)
        answer.headers["Date"] = formatdate(self.time(), usegmt=True)
        return answer


def _nothing() -> None:
    """Nobody looks on."""


@asynccontextmanager
async def serving(box: KbcBox) -> AsyncIterator[str]:
    """The box's address, while it serves."""
    app = web.Application(middlewares=[box.seen])
    app.router.add_get("/test-sessions", box.listing)
    app.router.add_post("/test-session/{run}", box.start)
    app.router.add_post("/test-message/{tid}", box.message)
    app.router.add_post("/test-session/{tid}/close", box.close)
    app.router.add_get("/health", box.health)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reaper = asyncio.create_task(box.reap())
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        reaper.cancel()
        with suppress(asyncio.CancelledError):
            await reaper
        await runner.cleanup()
