"""The reference box, judged by a running watch and checked for conformance, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from msgspec.structs import fields, replace

from sidecar.act import Acts
from sidecar.act import Settings as ActSettings
from sidecar.agents.control_api import ControlApi, Settings
from sidecar.clock import LiveClock
from sidecar.control.api import Hosted, decoded
from sidecar.control.conformance import conform
from sidecar.demo.box import Box
from sidecar.journal import Journal
from sidecar.limits import Limit, Rules
from sidecar.watch import Settings as WatchSettings
from sidecar.watch import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

import json
import time
from pathlib import Path as FilePath

RULES = replace(Rules(), model_delta=Limit(0.6, warn=0.3), idle=Limit(None))


async def scripted(prompt: str) -> AsyncIterator[dict[str, Any]]:
    """What an SDK would stream, by what the prompt says."""
    yield {"type": "delta"}
    if prompt == "wedge":
        await asyncio.Event().wait()
    if prompt == "tool":
        yield {"type": "tool_use", "id": "c1", "name": "Bash"}
        await asyncio.sleep(1.5)
        yield {"type": "tool_result", "id": "c1"}
    if prompt == "stream":
        for _ in range(12):
            await asyncio.sleep(0.1)
            yield {"type": "delta"}
    yield {"type": "result"}


@asynccontextmanager
async def serving(box: Box) -> AsyncIterator[str]:
    runner = web.AppRunner(box.app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert runner.addresses
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def watched(url: str, state: Path) -> AsyncIterator[Watch]:
    loop = asyncio.get_running_loop()
    clock = LiveClock(loop.time, time.time)
    agent = ControlApi("box", Settings(url=url), clock)
    watch = Watch([agent], WatchSettings({"box": RULES}, lambda: 0.0), clock)
    settings = ActSettings(mode="enforce", grace=3.0)
    watch.doing = acts = Acts(watch, watch.agents, watch.rules, Journal(state / "journal"), settings)
    watch.fleet.listeners.append(acts)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await agent.close()


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(15):
        while not check():  # noqa: ASYNC110 - whatever is waited for has no event
            await asyncio.sleep(0.01)


async def test_a_wedged_turn_is_ended_with_its_reason_and_the_session_answers_again(tmp_path: Path) -> None:
    box = Box(scripted)
    talk = box.open("s/1 ?")
    async with serving(box) as url, watched(url, tmp_path) as watch:
        await until(lambda: watch.session("box", talk.id))
        session = watch.session("box", talk.id)
        assert session is not None
        assert talk.ask("wedge")
        assert not talk.ask("one at a time")
        await until(lambda: session.turns["stalled"] == 1)
        await until(lambda: session.verdicts[0].outcome == "effective")
        told = [talk.told.get_nowait() for _ in range(talk.told.qsize())]
        assert [event["type"] for event in told] == ["delta", "error", "done"]
        assert told[1]["reason"] == session.verdicts[0].reason
        assert talk.ask("again")
        await until(lambda: session.turns["completed"] == 1)


async def test_an_open_tool_and_a_stream_that_moves_are_left_alone(tmp_path: Path) -> None:
    box = Box(scripted)
    talk = box.open("s1")
    async with serving(box) as url, watched(url, tmp_path) as watch:
        await until(lambda: watch.session("box", "s1"))
        session = watch.session("box", "s1")
        assert session is not None
        for number, prompt in enumerate(("tool", "stream"), 1):
            assert talk.ask(prompt)
            await until(lambda: session.turns["completed"] == number)  # noqa: B023 - called at once
        assert session.verdicts == []


async def test_it_keeps_to_the_api() -> None:
    box = Box(scripted)
    box.open("idle")
    busy = box.open("busy")
    busy.ask("wedge")
    async with serving(box) as url:
        found = await conform(Settings(url=url), "busy")
    assert [f for f in found if not f.ok] == []
    assert {"busy is reaped", "idle is idle: an interrupt is harmless", "events"} <= {f.what for f in found}
    assert set(box.talks) == {"idle"}


async def test_a_box_that_does_not_is_told_where() -> None:
    async def accepts(_: web.Request) -> web.Response:
        return web.Response(status=202)

    async def lists(_: web.Request) -> web.Response:
        return web.json_response({"sessions": [{"id": "s1", "turn": "t1", "status": "busy"}]})

    app = web.Application()
    app.add_routes([web.get("/v1/sessions", lists), web.post("/v1/sessions/{id}/{action}", accepts)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = await conform(Settings(url=f"http://127.0.0.1:{runner.addresses[0][1]}"))
    await runner.cleanup()
    wrong = {f.what for f in found if not f.ok}
    assert {
        "an unknown session is 404",
        "s1: a turn that does not run is 409",
        "s1 is busy: no reap unless forced",
    } <= wrong
    assert {f.detail for f in found if f.what == "events"} == {"HTTP 404"}


Answers = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answers(status: int) -> Any:
    async def instead(_: web.Request, __: Answers) -> web.Response:
        return web.Response(status=status)

    return instead


def retold(**facts: Any) -> Any:
    """A listing whose every session says something else of itself."""

    async def instead(request: web.Request, really: Answers) -> web.StreamResponse:
        told = await really(request)
        assert isinstance(told, web.Response)
        assert told.body is not None
        sessions = json.loads(bytes(told.body))["sessions"]  # type: ignore[arg-type]
        return web.json_response({"sessions": [session | facts for session in sessions]})

    return instead


async def mute(request: web.Request, _: Answers) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    return stream


BROKEN: dict[str, tuple[str, str, Any]] = {
    "list": ("GET", "/v1/sessions", retold(id="")),
    "idle tells what it can": ("GET", "/v1/sessions", retold(resolution=None)),
    "an unknown session is 404": ("POST", "/v1/sessions/no", answers(202)),
    "so is its reap": ("POST", "/v1/sessions/no", answers(500)),
    "idle is idle: an interrupt is harmless": ("POST", "/v1/sessions/idle/interrupt", answers(409)),
    "busy: a turn that does not run is 409": ("POST", "/v1/sessions/busy/interrupt", answers(202)),
    "busy is busy: no reap unless forced": ("POST", "/v1/sessions/busy/reap", answers(202)),
    "busy cannot be interrupted: 501": (
        "GET",
        "/v1/sessions",
        retold(can={"interrupt": False, "reap": True}),
    ),
    "events": ("GET", "/v1/events", mute),
    "busy: the turn ended, the session lives": ("POST", "/v1/sessions/busy/interrupt", answers(202)),
    "busy: the reason is handed on": ("GET", "/v1/sessions", retold(last_verdict=None)),
    "busy is reaped": ("POST", "/v1/sessions/busy/reap", answers(409)),
    "busy is gone: 404": ("POST", "/v1/sessions/busy/reap", answers(202)),
}


@pytest.mark.parametrize("point", BROKEN)
async def test_a_box_that_breaks_one_promise_is_told_which(point: str) -> None:
    method, path, instead = BROKEN[point]

    @web.middleware
    async def breaks(request: web.Request, handler: Answers) -> web.StreamResponse:
        hit = request.method == method and (
            request.path == path or path == request.path[: len(path)] != "/v1/sessions"
        )
        return await (instead(request, handler) if hit else handler(request))

    box = Box(scripted)
    box.open("idle")
    box.open("busy").ask("wedge")
    app = box.app()
    app.middlewares.append(breaks)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = await conform(Settings(url=f"http://127.0.0.1:{runner.addresses[0][1]}"), "busy")
    await runner.cleanup()
    assert point in {f.what for f in found if not f.ok}


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"turn": 7}, "turn: Expected `str | null`, got `int`"),
        ({"resolution": "a secret"}, "resolution: no word of the description"),
        ({"tools": {"c": 1}}, "tools[...]: Expected `str`, got `int`"),
        ({"turn": "x" * 300}, "id, turn: of 1 to 256 whole characters"),
    ],
)
async def test_a_listing_that_says_something_else_is_told_where(facts: dict[str, Any], why: str) -> None:
    instead = retold(**facts)

    @web.middleware
    async def says(request: web.Request, handler: Answers) -> web.StreamResponse:
        listing = request.path == "/v1/sessions"
        return await (instead(request, handler) if listing else handler(request))

    box = Box(scripted)
    box.open("s1")
    app = box.app()
    app.middlewares.append(says)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = await conform(Settings(url=f"http://127.0.0.1:{runner.addresses[0][1]}"))
    await runner.cleanup()
    assert [f.detail for f in found if f.what == "list"] == [
        f"0 sessions, and 1 entries that are none, the first by {why}"
    ]


async def test_a_stream_with_nothing_to_tell_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.demo.box.BEAT", 0.05)
    box = Box(scripted)
    box.open("s1")
    runner = web.AppRunner(box.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/events"
    async with asyncio.timeout(5), aiohttp.ClientSession() as http, http.get(url) as stream:
        lines = [await stream.content.readline() for _ in range(6)]
    await runner.cleanup()
    assert lines[0].startswith(b'data: {"id": "s1"')
    assert lines[1:] == [b"\n", b": beat\n", b"\n", b": beat\n", b"\n"]


def test_an_entry_is_bounded_in_every_name() -> None:
    tools = {"c" * 257: "Read"} | {f"c{n}": "Read" for n in range(1_000)}
    hosted = decoded(json.dumps({"id": "s", "turn": "t", "tools": tools}).encode())
    assert hosted is not None
    assert len(hosted.tools) == 100
    assert "c" * 257 not in hosted.tools


async def test_nobody_there_is_told() -> None:
    (found,) = await conform(Settings(url="http://127.0.0.1:1"))
    assert (found.ok, found.what) == (False, "reach http://127.0.0.1:1")


async def test_the_document_describes_what_the_box_shows() -> None:
    document = yaml.safe_load((FilePath(__file__).parents[2] / "sidecar/control/openapi.yaml").read_text())
    described = set(document["components"]["schemas"]["Session"]["properties"])
    talk = Box(scripted).open("s1")
    assert set(talk.shown()) == described == {field.name for field in fields(Hosted)}
    assert set(described) >= set(document["components"]["schemas"]["Session"]["required"])
    routes = {
        (route.method, route.resource.canonical)
        for route in Box(scripted).app().router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert routes == {(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs}
    assert decoded(json.dumps(talk.shown()).encode()) is not None
    assert set(document["paths"]) == {
        "/v1/sessions", "/v1/sessions/{id}/interrupt", "/v1/sessions/{id}/reap", "/v1/events",
    }  # fmt: skip
