"""The documented servers, as fakes of their routes: what is read of them and how they are ended."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from aiohttp import web

from sidecar.agent import Can, Order, SourceDown
from sidecar.agents.http.adapter import Http
from sidecar.clock import LiveClock
from sidecar.fleet import Fleet
from tests.agents.http.fakes import WALL, Site, configured, serving

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar.limits import Rules
    from sidecar.session import Session

QWEN = "GET /workspace/%2Fsrv%2Fw%2E1/sessions"


class Law:
    """Nothing but rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def rules(self, _: Session) -> Rules:
        return self._rules

    def alone(self, _: Session) -> bool:
        return True

    def luck(self) -> float:
        return 0.0

    def decide(self, *_: Any) -> None:
        return

    def opened(self, _: Session) -> tuple[()]:
        return ()

    def woken(self, _: Session) -> None:
        return


class Desk:
    """An adapter, and what its observations come to."""

    def __init__(self, url: str, preset: str, **entry: Any) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LiveClock(loop.time, lambda: loop.time() + WALL)
        made: Any = configured(preset, url=url, **entry)
        self.agent = Http(made.name, made.settings, self.clock)
        self.fleet = Fleet(Law(made.rules), told_from=float("-inf"))

    async def read(self) -> dict[str, tuple[str, str | None]]:
        for source in self.agent.sources:
            self.fleet.observe("a", await source.read(), self.clock.now())
        return {s.id: (s.phase, s.phase_waits) for s in self.fleet.live()}

    async def ended(self, action: Literal["interrupt", "reap"], session: str) -> str:
        order = Order(action, session, None, "silence", None)
        answer = await (self.agent.interrupt(order) if action == "interrupt" else self.agent.reap(order))
        return answer.result


def order_of(site: Site) -> list[tuple[str, bytes]]:
    return [(a, b) for a, b in zip(site.asked, site.bodies, strict=True) if not a.startswith("GET")]


def qwen(name: str, **facts: Any) -> dict[str, Any]:
    """A running session as the listing of qwen serve 0.24.4 shows it."""
    state = {"activeWorkState": "idle", "hasActivePrompt": False, "hasRunningBackgroundTasks": False}
    waits = {"isWaitingForPermission": False, "isWaitingForUserQuestion": False, "pendingInteractionCount": 0}
    shown = {"workspaceCwd": "/srv/w.1", "createdAt": "2026-05-17T08:30:00.000Z", "isArchived": False}
    return {"sessionId": name, "clientCount": 1, "hasTurnError": False} | state | waits | shown | facts


BUSY = {"hasActivePrompt": True, "activeWorkState": "active"}


async def test_qwen_serve() -> None:
    site = Site()
    stored = {"sessionId": "stored", "clientCount": 0, "hasActivePrompt": False, "isArchived": False}
    behind = qwen("s3", hasRunningBackgroundTasks=True)

    def has(*sessions: dict[str, Any]) -> None:
        site.answers[QWEN] = {"sessions": [*sessions, stored], "nextCursor": 17}

    has(qwen("s/1", **BUSY, isWaitingForPermission=True), behind)
    site.answers |= {
        f"{QWEN}?cursor=17": {"sessions": [qwen("s2"), stored | {"sessionId": "stored too"}]},
        "POST /session/s%2F1/cancel": 204,
        "DELETE /session/s%2F1": 204,
    }
    async with serving(site) as url:
        desk = Desk(url, "qwen-serve", directory="/srv/w.1", events="off")
        first = {"s/1": ("waiting", "permission"), "s2": ("idle", None), "s3": ("delegated", None)}
        assert await desk.read() == first
        has(qwen("s/1", **BUSY), behind)
        assert (await desk.read())["s/1"] == ("model", None)
        has(qwen("s/1", **BUSY, isWaitingForUserQuestion=True), behind)
        assert (await desk.read())["s/1"] == ("waiting", "question")
        assert order_of(site) == []
        assert await desk.ended("interrupt", "s/1") == "accepted"
        assert await desk.ended("reap", "s/1") == "accepted"
        assert order_of(site) == [("POST /session/s%2F1/cancel", b""), ("DELETE /session/s%2F1", b"")]
        has(stored | {"sessionId": "s/1"}, behind)
        assert set(await desk.read()) == {"s2", "s3"}
        pages = {QWEN, f"{QWEN}?cursor=17"}
        assert {a for a in site.asked if a.startswith("GET")} == {*pages, "GET /daemon/status"}


@pytest.mark.parametrize(("told", "limit"), [(32, 32), (None, None), (0, None), (-1, None), (True, None)])
async def test_the_daemon_tells_how_many_sessions_there_may_be(told: object, limit: int | None) -> None:
    site = Site()
    site.answers |= {QWEN: {"sessions": []}, "GET /daemon/status": {"limits": {"maxSessions": told}}}
    async with serving(site) as url:
        desk = Desk(url, "qwen-serve", directory="/srv/w.1", events="off")
        assert desk.agent.sessions_limit is None
        await desk.read()
        assert desk.agent.sessions_limit == limit


@pytest.mark.looptime
async def test_a_cap_is_asked_for_now_and_then_and_nothing_hangs_on_it() -> None:
    site = Site()
    site.answers |= {QWEN: {"sessions": [qwen("s1")]}, "GET /daemon/status": {"limits": {"maxSessions": 4}}}
    async with serving(site) as url:
        desk = Desk(url, "qwen-serve", directory="/srv/w.1", events="off")
        for _ in range(3):
            await desk.read()
            await asyncio.sleep(25)
        assert site.asked.count("GET /daemon/status") == 1
        site.answers["GET /daemon/status"] = 500
        assert await desk.read() == {"s1": ("idle", None)}
        assert desk.agent.sessions_limit is None, "it may be another daemon by now"
        site.answers["GET /daemon/status"] = {"limits": {"maxSessions": 5}}
        await desk.read()
        assert desk.agent.sessions_limit == 5


async def test_a_turn_of_qwen_serve_is_seen_in_its_stream_and_ends_there() -> None:
    site, told = Site(), asyncio.Queue[dict[str, Any]]()
    after: list[str | None] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        after.append(request.headers.get("Last-Event-ID"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            event = json.dumps({"promptId": "p1", "data": {"sessionId": "s"}} | await told.get())
            await response.write(f"id: 1\ndata: {event}\n\n".encode())

    async def cancel(_: web.Request) -> web.Response:
        told.put_nowait({"type": "prompt_cancelled"})
        told.put_nowait({"type": "turn_complete", "data": {"stopReason": "cancelled"}})
        return web.Response(status=204)

    site.answers |= {
        QWEN: {"sessions": [qwen("s", **BUSY)]},
        "GET /session/s/events": stream,
        "POST /session/s/cancel": cancel,
    }
    async with serving(site) as url, asyncio.timeout(20):
        desk = Desk(url, "qwen-serve", directory="/srv/w.1")
        told.put_nowait({"data": {"update": {"sessionUpdate": "user_message_chunk"}}})
        told.put_nowait({"type": "replay_complete"})
        await desk.read()
        session = desk.fleet.get("a", "s")
        assert session is not None
        while session.turn is None:
            await desk.read()
        assert (session.turn.id, session.phase, session.resolution) == ("p1", "model", "delta")
        assert (await desk.agent.probe())[0].detail == "1 session"
        assert await desk.ended("interrupt", "s") == "accepted"
        while not session.turns["interrupted"]:
            desk.fleet.observe("a", await desk.agent.look("s"), desk.clock.now())
        assert session.turns["interrupted"] == 1
        site.answers[QWEN] = {"sessions": [qwen("s")]}
        assert await desk.read() == {"s": ("idle", None)}
        await desk.agent.close()
        assert after == ["0"]


async def test_an_id_that_is_a_step_up_is_sent_nowhere() -> None:
    site = Site()
    site.answers["GET /test-sessions"] = {"sessions": [{"tid": "..", "done": True}]}
    async with serving(site) as url:
        desk = Desk(url, "kbc-box")
        assert await desk.read() == {"..": ("waiting", "its close")}
        assert desk.agent.can("..") == Can(interrupt=True, reap=True, patience=15.0)
        assert await desk.ended("interrupt", "..") == "failed"
        assert order_of(site) == []


async def test_pages_that_never_end_are_no_whole_listing() -> None:
    site = Site()

    async def page(_: web.Request) -> web.Response:
        return web.json_response({"items": [{"id": "c", "execution_status": "idle"}], "next_page_id": "n"})

    search = "GET /api/conversations/search?limit=100"
    site.answers |= {search: page, f"{search}&page_id=n": page}
    async with serving(site) as url:
        desk = Desk(url, "openhands")
        assert set(await desk.read()) == {"c"}
        assert len(site.asked) == 20
        site.answers[search] = {"items": [], "next_page_id": "n"}
        site.answers[f"{search}&page_id=n"] = {"items": [], "next_page_id": "n"}
        assert set(await desk.read()) == {"c"}


async def test_a_listing_without_measure_is_cut() -> None:
    site = Site()
    site.answers["GET /test-sessions"] = {"sessions": [{"tid": n} for n in range(9_000)]}
    async with serving(site) as url:
        desk = Desk(url, "kbc-box")
        assert len(await desk.read()) == 1_000


async def test_openhands(tmp_path: Path) -> None:
    site = Site()
    token = tmp_path / "key"
    token.write_text("k1")
    search = "GET /api/conversations/search?limit=100"
    states = {
        "c1": "running",
        "c2": "waiting_for_confirmation",
        "c3": "finished",
        "c4": "deleting",
        "c5": "new",
    }
    conversations = [
        {"id": i, "execution_status": s, "updated_at": "2026-11-30T19:08:15Z"} for i, s in states.items()
    ]
    site.answers |= {
        search: {"items": conversations, "next_page_id": None},
        "POST /api/conversations/c1/interrupt": 200,
    }
    async with serving(site) as url:
        desk = Desk(url, "openhands", token_file=str(token))
        assert await desk.read() == {
            "c1": ("model", None),
            "c2": ("waiting", None),
            "c3": ("idle", None),
            "c5": ("model", None),
        }
        assert desk.agent.can("c1") == Can(interrupt=True, reap=False, patience=15.0)
        assert await desk.ended("interrupt", "c1") == "accepted"
        assert await desk.ended("reap", "c1") == "unsupported"
        assert {h.get("X-Session-API-Key") for h in site.headers} == {"k1"}
        assert {a for a in site.asked if a.startswith("GET")} == {search}


async def test_hermes_runs(tmp_path: Path) -> None:
    site = Site()
    runs = tmp_path / "runs"
    runs.write_text("# of tonight\nrun_1\n\nrun_2\n")
    site.answers |= {
        "GET /v1/runs/run_1": {"status": "running", "created_at": WALL, "updated_at": WALL},
        "GET /v1/runs/run_2": {"status": "waiting_for_approval"},
        "POST /v1/runs/run_1/stop": 200,
        "POST /v1/runs/run_2/stop": 404,
    }
    async with serving(site) as url:
        desk = Desk(url, "hermes-runs", ids_file=str(runs))
        assert await desk.read() == {"run_1": ("model", None), "run_2": ("waiting", None)}
        assert await desk.ended("interrupt", "run_1") == "accepted"
        assert await desk.ended("interrupt", "run_2") == "accepted"
        assert desk.agent.can("run_1") == Can(interrupt=True, reap=False, patience=15.0)
        site.answers["GET /v1/runs/run_1"] = {"status": "cancelled"}
        runs.write_text("run_1\nrun_2\nrun_3\n")
        assert set(await desk.read()) == {"run_2"}
        site.answers["GET /v1/runs/run_2"] = 500
        site.answers["GET /v1/runs/run_3"] = {"status": "queued"}
        assert await desk.read() == {"run_2": ("unknown", None), "run_3": ("model", None)}
        site.answers["GET /v1/runs/run_2"] = {"status": "waiting_for_approval"}
        site.answers["GET /v1/runs/run_3"] = 404
        assert await desk.read() == {"run_2": ("waiting", None)}
        assert not [asked for asked in site.asked if "events" in asked]
        runs.unlink()
        with pytest.raises(SourceDown, match="ids cannot be read"):
            await desk.read()
        runs.write_text("run_2\n")
        site.answers["GET /v1/runs/run_2"] = 401
        with pytest.raises(SourceDown, match="HTTP 401"):
            await desk.read()


@pytest.mark.parametrize(
    ("transport", "result"), [("pty", "accepted"), ("acp", "unsupported"), (None, "unsupported")]
)
async def test_agentapi_is_sent_an_escape_only_where_it_is_a_terminal(
    transport: str | None, result: str
) -> None:
    site = Site()
    site.answers |= {
        "GET /status": {"status": "running", "agent_type": "claude", "transport": transport},
        "POST /message": {"ok": True},
    }
    async with serving(site) as url:
        desk = Desk(url, "agentapi")
        assert await desk.read() == {"agent": ("model", None)}
        assert desk.agent.can("agent") == Can(interrupt=result == "accepted", reap=False, patience=15.0)
        assert await desk.ended("interrupt", "agent") == result
        sent = [("POST /message", b'{"type": "raw", "content": "\\u001b"}')]
        assert order_of(site) == (sent if result == "accepted" else [])
        session = desk.fleet.get("a", "agent")
        assert session is not None
        assert (session.progress_at, session.turn) == (None, None)
        site.answers["GET /status"] = {"status": "stable", "transport": transport}
        assert await desk.read() == {"agent": ("idle", None)}


async def test_a_look_at_one_tells_what_happened_to_all(tmp_path: Path) -> None:
    site = Site()
    (tmp_path / "x").touch()
    site.answers["GET /test-sessions"] = {"sessions": [{"tid": "a"}, {"tid": "b"}], "cap": 3}
    async with serving(site) as url:
        desk = Desk(url, "kbc-box", listing={"limit": "cap"})
        await desk.read()
        assert desk.agent.sessions_limit == 3
        site.answers["GET /test-sessions"] = {"sessions": []}
        assert {o.session for o in await desk.agent.look("a")} == {"a", "b"}


async def test_an_answer_that_was_overtaken_is_not_believed() -> None:
    site = Site()
    slow = asyncio.Event()

    async def old(_: web.Request) -> web.Response:
        await slow.wait()
        return web.json_response({"sessions": []})

    async with serving(site) as url:
        desk = Desk(url, "kbc-box")
        site.answers["GET /test-sessions"] = old
        first = asyncio.create_task(desk.agent.look("a"))
        async with asyncio.timeout(5):
            while not site.asked:  # noqa: ASYNC110 - the fake has no event
                await asyncio.sleep(0.01)
        site.answers["GET /test-sessions"] = {"sessions": [{"tid": "a"}]}
        assert set(await desk.read()) == {"a"}
        slow.set()
        assert await first == []
        assert desk.agent.can("a").reap
