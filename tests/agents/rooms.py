"""Every adapter in front of something that lives: one session, told what to do in the same few words."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from sidecar.agents.registry import KINDS
from sidecar.clock import LiveClock, iso
from sidecar.config import load
from sidecar.limits import Rules
from sidecar.replay import Replay
from tests.agents.claude_code.homes import WALL, Home
from tests.agents.http.fakes import Site, serving
from tests.agents.opencode.fake import Fake as OpenCodeServer
from tests.control.api_server import Server as BoxServer
from tests.control.api_server import session as boxed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from sidecar.session import Session

Json = dict[str, Any]


class Room:
    """One adapter, and its only session. A subclass brings the world."""

    id = "s/1"

    def __init__(self, **entry: Any) -> None:
        tree = {"agents": [entry], "bounds": {"unsafe": True}}
        config = load(json.dumps(tree), {"HOME": "/h"}, KINDS)
        assert config.agents
        self.agent = KINDS[entry["kind"]].build(config.agents[0], self.clock())
        self.rules = config.agents[0].rules
        self.fleet = Replay("a", Rules()).fleet

    def clock(self) -> LiveClock:
        return LiveClock(asyncio.get_running_loop().time, time.time)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def read(self) -> Session | None:
        """Read everything once, and look at the session; gives it if it is shown."""
        found = [seen for source in self.agent.sources for seen in await source.read()]
        if self.fleet.get("a", self.id) is not None:
            found += await self.agent.look(self.id)
        self.fleet.observe("a", found, self.now())
        self.fleet.tick(self.now())
        shown = self.fleet.get("a", self.id)
        return None if shown is None or shown.dormant else shown

    async def until(self, check: Callable[[Session | None], object], what: str) -> Session | None:
        """Read until it is so."""
        for _ in range(500):
            if check(shown := await self.read()):
                return shown
            await asyncio.sleep(0.02)
        raise AssertionError(f"{what}: {shown}")

    async def be(self, state: str) -> None:
        """What a poll shows from now on: idle, busy, waiting or gone."""
        raise NotImplementedError(state)

    async def do(self, what: str) -> None:
        """What the agent does now: turn, piece, tool, tool over, end."""
        raise NotImplementedError(what)

    def orders(self) -> int:
        """How many orders came through."""
        raise NotImplementedError


class Listed(Room):
    """A preset's server, with the documented routes and fields and no others."""

    def __init__(self, preset: str, site: Site, url: str, **entry: Any) -> None:
        super().__init__(kind="http", preset=preset, url=url, **entry)
        self.site, self.preset = site, preset
        self.told: asyncio.Queue[Json] = asyncio.Queue()
        self._state, self._turns = "gone", 0
        site.answers["GET /session/s%2F1/events"] = self._stream
        for path in ("POST /session/s%2F1/cancel", "DELETE /session/s%2F1", "POST /test-session/s%2F1/close"):
            site.answers[path] = 200
        for path in ("POST /v1/runs/s%2F1/stop", "POST /api/conversations/s%2F1/interrupt", "POST /message"):
            site.answers[path] = 200

    async def be(self, state: str) -> None:
        path, answer = LISTINGS[self.preset](state)
        self.site.answers[path] = answer

    async def do(self, what: str) -> None:
        self._turns += what == "turn"
        update = {
            "turn": {"sessionUpdate": "user_message_chunk"},
            "piece": {"sessionUpdate": "agent_message_chunk"},
            "tool": {"sessionUpdate": "tool_call", "toolCallId": "c", "_meta": {"toolName": "Bash"}},
            "tool over": {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"},
        }.get(what)
        data = {"stopReason": "end_turn"} if update is None else {"update": update}
        kind = "turn_complete" if update is None else "session_update"
        self.told.put_nowait({"type": kind, "promptId": f"p{self._turns}", "data": data})

    def orders(self) -> int:
        return sum(1 for asked in self.site.asked if not asked.startswith("GET"))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        event: Json = {"type": "replay_complete"}
        while True:
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
            event = await self.told.get()


def created() -> str:
    """A moment ago."""
    return iso(time.time() - 5)


def kbc_box(state: str) -> tuple[str, Any]:
    shown = {"tid": "s/1", "parent_run_id": "r", "done": state == "waiting", "created_at": created()}
    return "GET /test-sessions", {"sessions": [] if state == "gone" else [shown]}


def qwen_serve(state: str) -> tuple[str, Any]:
    works = state in ("busy", "waiting")
    shown = {"sessionId": "s/1", "createdAt": created(), "hasActivePrompt": works, "activeWorkState": "x"}
    shown |= {"isWaitingForPermission": state == "waiting", "isWaitingForUserQuestion": False}
    return "GET /workspace/%2Fw/sessions", {"sessions": [] if state == "gone" else [shown]}


def hermes_runs(state: str) -> tuple[str, Any]:
    words = {"busy": "running", "waiting": "waiting_for_approval"}
    told = {"object": "hermes.run", "run_id": "s/1", "status": words.get(state, "completed")}
    return "GET /v1/runs/s%2F1", told | {"created_at": time.time() - 5, "updated_at": 1.0, "last_event": "x"}


def openhands(state: str) -> tuple[str, Any]:
    words = {"busy": "running", "waiting": "waiting_for_confirmation", "gone": "deleting"}
    shown = {"id": "s/1", "execution_status": words.get(state, state), "created_at": created()}
    return "GET /api/conversations/search?limit=100", {"items": [shown], "next_page_id": None}


def agentapi(state: str) -> tuple[str, Any]:
    told = {"status": "running" if state == "busy" else "stable", "agent_type": "claude", "transport": "pty"}
    return "GET /status", told


LISTINGS: Final[dict[str, Callable[[str], tuple[str, Any]]]] = {
    "kbc-box": kbc_box,
    "qwen-serve": qwen_serve,
    "hermes-runs": hermes_runs,
    "openhands": openhands,
    "agentapi": agentapi,
}
MORE: Final[dict[str, Json]] = {"qwen-serve": {"directory": "/w"}, "hermes-runs": {"ids": ["s/1"]}}


class Agentapi(Listed):
    """One agent a server, which has no id and no end."""

    id = "agent"


class Boxed(Room):
    """A box that speaks the Agent Control API."""

    def __init__(self, server: BoxServer, url: str, **entry: Any) -> None:
        super().__init__(kind="control-api", url=url, **entry)
        self.server = server
        self._shown: Json = {}
        self._turns = 0

    async def be(self, state: str) -> None:
        words = {"status": state, "waiting_for": "permission" if state == "waiting" else None}
        turn = {"turn": None} if state == "idle" else {}
        self._show(**words, **turn, gone=state == "gone")

    async def do(self, what: str) -> None:
        if what == "piece":
            self.server.tell({"id": self.id, "progress": True})
            return
        self._turns += what == "turn"
        tools = {"c": "Bash"} if what == "tool" else {}
        self._show(turn=None if what == "end" else f"t{self._turns}", tools=tools)

    def orders(self) -> int:
        return len(self.server.orders)

    def _show(self, *, gone: bool = False, **facts: Any) -> None:
        self._shown |= facts | {"last_activity_at": time.time()}
        shown = boxed(self.id, **({"turn": None} | self._shown))
        self.server.sessions = [] if gone else [shown]
        if not gone:
            self.server.tell(shown)


class OpenCodeRoom(Room):
    """An OpenCode server, or redcode's."""

    id = "ses_1"

    def __init__(self, kind: str, server: OpenCodeServer, **entry: Any) -> None:
        super().__init__(kind=kind, url=server.url, **entry)
        self.server = server
        self._turns = 0

    async def be(self, state: str) -> None:
        if state == "gone":
            del self.server.sessions[self.id]
            self.server.statuses.clear()
            self.server.tell("session.deleted", sessionID=self.id, info={"id": self.id})
            return
        if self.id not in self.server.sessions:
            while not self.server.streams:
                await self.read()
                await asyncio.sleep(0.02)
            self.server.tell("session.created", sessionID=self.id, info=self.server.session(self.id))
        asked = {"id": "per_1", "sessionID": self.id, "permission": "bash", "tool": {"messageID": "msg_1a"}}
        if state == "waiting":
            self.server.permissions = [asked]
            self.server.tell("permission.asked", **asked)
        elif self.server.permissions:
            self.server.permissions = []
            self.server.tell("permission.replied", sessionID=self.id, requestID="per_1", reply="once")
        self.server.busy(*([] if state == "idle" else [self.id]))
        word = "idle" if state == "idle" else "busy"
        self.server.tell("session.status", sessionID=self.id, status={"type": word})

    async def do(self, what: str) -> None:
        user, answer = f"msg_{self._turns + (what == 'turn')}u", f"msg_{self._turns + (what == 'turn')}a"
        ms = time.time() * 1000
        told: Json = {
            "id": answer,
            "role": "assistant",
            "parentID": user,
            "modelID": "m",
            "time": {"created": ms},
        }
        if what == "turn":
            self._turns += 1
            prompt = {"id": user, "role": "user", "time": {"created": ms}}
            self.server.tell("message.updated", sessionID=self.id, info=prompt)
            self.server.tell("message.updated", sessionID=self.id, info=told)
        elif what == "piece":
            part = {"messageID": answer, "partID": "prt_1", "field": "text", "delta": "x"}
            self.server.tell("message.part.delta", sessionID=self.id, **part)
        elif what == "end":
            told["time"]["completed"] = ms
            self.server.tell("message.updated", sessionID=self.id, info=told | {"finish": "stop"})
        else:
            state: Json = {"status": "running" if what == "tool" else "completed", "input": {}}
            part = {"id": "prt_c", "messageID": answer, "sessionID": self.id, "type": "tool", "tool": "bash"}
            self.server.tell(
                "message.part.updated", sessionID=self.id, part=part | {"callID": "c", "state": state}
            )

    def orders(self) -> int:
        return sum(1 for asked in self.server.asked if asked.method != "GET")


class ClaudeRoom(Room):
    """A configuration folder; behind a host where there is a socket."""

    def __init__(self, folder: Path, server: BoxServer | None = None, url: str = "") -> None:
        self._now = 100.0
        control = {} if server is None else {"control": {"kind": "host", "url": url}}
        super().__init__(kind="claude-code", config_dir=str(folder), **control)
        self.server = server
        self.script = Home(folder).session()
        self.id = self.script.id

    def clock(self) -> LiveClock:
        return LiveClock(lambda: self._now, lambda: WALL + self._now - 100)

    def now(self) -> float:
        return self._now

    async def read(self) -> Session | None:
        self._now += 3
        return await super().read()

    async def be(self, state: str) -> None:
        if state == "gone":
            (self.script.home.root / "sessions" / f"{os.getpid()}.json").unlink()
        else:
            waits = "permission prompt" if state == "waiting" else None
            stamp = int((WALL + self._now - 100) * 1000)
            self.script.home.register(self.script, status=state, waitingFor=waits, statusUpdatedAt=stamp)
        if self.server is not None:
            turn = "host-turn-7" if state in ("busy", "waiting") else None
            shown = boxed(self.id, status=state, turn=turn, last_activity_at=None)
            self.server.sessions = [] if state == "gone" else [shown]

    async def do(self, what: str) -> None:
        self._now += 1
        ago = 100 - self._now
        if what == "turn":
            self.script.prompt(ago)
        elif what == "tool":
            self.script.calls("Bash", ago=ago)
        elif what == "tool over":
            self.script.result(ago=ago)
        else:
            self.script.says(ago, "end_turn" if what == "end" else "tool_use")

    def orders(self) -> int:
        return 0 if self.server is None else len(self.server.orders)


@asynccontextmanager
async def room(label: str, folder: Path, **entry: Any) -> AsyncIterator[Room]:
    """The room of a kind or a preset, while it lives; `entry` is configured beside."""
    if label in LISTINGS:
        made_by = Agentapi if label == "agentapi" else Listed
        site = Site()
        async with (
            serving(site) as url,
            closing(made_by(label, site, url, **MORE.get(label, {}), **entry)) as made,
        ):
            yield made
    elif label in ("opencode", "redcode"):
        server = OpenCodeServer()
        await server.open()
        async with closing(OpenCodeRoom(label, server, **entry)) as made:
            yield made
        await server.close()
    elif label == "claude-code":
        async with closing(ClaudeRoom(folder)) as made:
            yield made
    else:
        box = BoxServer()
        hosted = label == "claude-code, hosted"
        url = await box.open(folder / "h.sock" if hosted else None)
        async with closing(ClaudeRoom(folder, box, url) if hosted else Boxed(box, url, **entry)) as made:
            yield made
        await box.close()


@asynccontextmanager
async def closing(made: Room) -> AsyncIterator[Room]:
    try:
        yield made
    finally:
        await made.agent.close()
