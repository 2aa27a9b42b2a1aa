"""The API: every route, who may ask, and what a request to end something comes to."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from sidecar.server import Ask, Done, ListenError, Options, Server
from sidecar.server.app import STATUS, Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from aiohttp import web

    from sidecar.signals import ActOutcome

    Client = TestClient[web.Request, web.Application]

TOKEN = "s3cret-token"  # noqa: S105 - the tests' own
OWN = {"Authorization": f"Bearer {TOKEN}"}
METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def shown(session: str, agent: str = "claude-code", **more: Any) -> dict[str, Any]:
    return {"agent": agent, "session": session, "phase": "model", "verdicts": [], **more}


class World:
    """Sessions and vital signs as the tests want them."""

    def __init__(self, *sessions: dict[str, Any]) -> None:
        self.all = {(s["agent"], s["session"]): s for s in sessions}
        self.tell: list[Callable[[str, str], None]] = []
        self.asked: list[Ask] = []
        self.heard = asyncio.Event()
        self.left = asyncio.Event()
        self.outcome: ActOutcome = "effective"
        self.hold: asyncio.Event | None = None
        self.dead: list[str] = []
        self.late: list[str] = []
        self.broken: list[BaseException] = []
        self.rendered: list[str] = []

    def sessions(self) -> Sequence[dict[str, Any]]:
        return list(self.all.values())

    def session(self, session: str, agent: str | None) -> Sequence[dict[str, Any]]:
        return [s for (a, i), s in self.all.items() if i == session and agent in (None, a)]

    def explain(self, agent: str, session: str) -> dict[str, Any]:
        bound = {
            "name": "model",
            "since": "x",
            "limit_seconds": 900,
            "remaining_seconds": 60,
            "tripped": False,
        }
        return {
            "evidence": f"of {agent} {session}",
            "sources": {"transcript": True},
            "bounds": [bound | {"action": "interrupt"}, bound | {"action": "report", "tripped": True}],
            "changes": [{"at": "y", "change": "TurnOpened", "text": "turn <i>t1</i> opened"}],
        }

    def subscribe(self, tell: Callable[[str, str], None]) -> Callable[[], None]:
        self.tell.append(tell)

        def stop() -> None:
            self.tell.remove(tell)
            self.left.set()

        return stop

    async def ask(self, ask: Ask) -> Done:
        self.asked.append(ask)
        self.heard.set()
        if self.hold is not None:
            await self.hold.wait()
        return Done(self.outcome, "as asked")

    def stale(self) -> Sequence[str]:
        if self.broken:
            raise self.broken[0]
        return self.dead

    def unready(self) -> Sequence[str]:
        return self.late

    def render(self, accept: str) -> tuple[bytes, str]:
        self.rendered.append(accept)
        if self.broken:
            raise self.broken.pop(0)
        return b"up 1\n# EOF\n", METRICS


@asynccontextmanager
async def serving(world: World, options: Options | None = None) -> AsyncIterator[Client]:
    app = Api(world, world, options or Options("127.0.0.1:9475")).app()
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", "utf-8")
    return file


def guarded(token: Path) -> Options:
    return Options("127.0.0.1:9475", (), str(token))


async def test_sessions_are_listed() -> None:
    async with serving(World(shown("a"), shown("b"))) as client:
        answer = await client.get("/api/sessions")
        assert answer.status == 200
        assert await answer.json() == {"sessions": [shown("a"), shown("b")]}


async def test_one_session_and_its_explanation() -> None:
    async with serving(World(shown("a"))) as client:
        assert await (await client.get("/api/sessions/a")).json() == shown("a")
        for query in ("?explain", "?explain=1", "?explain=true"):
            explained = await (await client.get(f"/api/sessions/a{query}")).json()
            assert explained.pop("explain")["evidence"] == "of claude-code a"
            assert explained == shown("a")
        assert "explain" not in await (await client.get("/api/sessions/a?explain=0")).json()


async def test_a_session_that_is_not_there() -> None:
    async with serving(World(shown("a"))) as client:
        for path in ("/api/sessions/b", "/api/sessions/a?agent=codex", "/api/sessions/a?agent="):
            answer = await client.get(path)
            assert (answer.status, await answer.json()) == (404, {"error": "there is no such session"})


async def test_two_agents_with_the_same_id_have_to_be_told_apart() -> None:
    world = World(shown("a", "codex"), shown("a", "pi"), shown("b", "pi"))
    async with serving(world) as client:
        answer = await client.get("/api/sessions/a")
        assert answer.status == 409
        assert (await answer.json())["candidates"] == ["codex", "pi"]
        assert (await (await client.get("/api/sessions/a?agent=pi")).json())["agent"] == "pi"
        assert (await client.get("/api/sessions/b")).status == 200


@pytest.mark.parametrize(
    "session",
    [
        "a/b",
        "a%2Fb",
        "ä ö",
        "a?b=c",
        "a#b",
        "<script>alert(1)</script>",
        "a\x00b",
        "..a",
        "x" * 2000,
        "%",
        '"',
    ],
)
async def test_ids_are_whatever_agents_make_of_them(session: str) -> None:
    async with serving(World(shown(session))) as client:
        answer = await client.get(URL(f"/api/sessions/{quote(session, safe='')}", encoded=True))
        assert answer.status == 200
        assert (await answer.json())["session"] == session
        assert answer.content_type == "application/json"


@pytest.mark.parametrize(
    "path", ["/api/sessions/../../etc/passwd", "/api", "/api/session", "/page/", "/index.html"]
)
async def test_there_is_nothing_else(path: str) -> None:
    async with serving(World()) as client:
        answer = await client.get(URL(path, encoded=True))
        assert (answer.status, await answer.json()) == (404, {"error": "Not Found"})


async def test_other_methods_are_refused() -> None:
    async with serving(World()) as client:
        answer = await client.post("/api/sessions")
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET,HEAD"
        assert (await client.head("/api/sessions")).status == 200
        assert (await client.head("/api/events")).status == 405


async def test_metrics_in_the_format_that_is_asked_for() -> None:
    world = World()
    async with serving(world) as client:
        answer = await client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
        assert await answer.read() == b"up 1\n# EOF\n"
        assert answer.headers["Content-Type"] == METRICS
    assert world.rendered == ["application/openmetrics-text"]


async def test_metrics_that_cannot_be_made_are_an_error() -> None:
    world = World()
    world.broken = [ValueError("x")]
    async with serving(world) as client:
        answer = await client.get("/metrics")
        assert answer.status == 500
        assert await answer.json() == {"error": "the metrics could not be rendered; see the log"}


async def test_health_names_the_workers_that_stand_still() -> None:
    world = World()
    async with serving(world) as client:
        answer = await client.get("/healthz")
        assert (answer.status, await answer.json()) == (200, {"alive": True, "stale": []})
        world.dead = ["claude-code/transcripts"]
        answer = await client.get("/healthz")
        assert answer.status == 503
        assert await answer.json() == {"alive": False, "stale": ["claude-code/transcripts"]}
        world.broken = [RuntimeError("x")]
        answer = await client.get("/healthz")
        assert answer.status == 503
        assert (await answer.json())["stale"] == ["the check itself failed; see the log"]


async def test_readiness_is_apart_from_health() -> None:
    world = World()
    world.late = ["the first look is under way"]
    async with serving(world) as client:
        answer = await client.get("/readyz")
        assert answer.status == 503
        assert await answer.json() == {"ready": False, "unready": ["the first look is under way"]}
        assert (await client.get("/healthz")).status == 200
        world.late, world.dead = [], ["ticker"]
        assert (await client.get("/readyz")).status == 200


async def test_every_answer_carries_what_keeps_a_browser_safe() -> None:
    async with serving(World(shown("a"))) as client:
        for path in ("/", "/api/sessions", "/api/sessions/none", "/healthz", "/metrics"):
            headers = (await client.get(path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Server"] == "agent-sidecar"
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert not [name for name in headers if name.lower().startswith("access-control-")]


async def test_a_mistake_of_ours_is_told_without_its_insides(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(world, "sessions", lambda: 1 / 0)
    async with serving(world) as client:
        answer = await client.get("/api/sessions")
        assert (answer.status, await answer.json()) == (500, {"error": "internal error; see the log"})


# Ending something.


@pytest.mark.parametrize("action", ["interrupt", "reap"])
async def test_without_a_token_file_nothing_can_be_ended(action: str) -> None:
    world = World(shown("a"))
    async with serving(world) as client:
        answer = await client.post(f"/api/sessions/a/{action}", headers=OWN)
        assert answer.status == 404
    assert world.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer \xfc"},
        {"X-Token": TOKEN},
    ],
)
async def test_without_the_token_nothing_is_ended(token: Path, headers: dict[str, str]) -> None:
    world = World(shown("a"))
    async with serving(world, guarded(token)) as client:
        for path in ("/api/sessions/a/interrupt", "/api/sessions/none/reap"):
            answer = await client.post(path, headers=headers)
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="agent-sidecar"'
            assert await answer.json() == {"error": "a bearer token is needed"}
    assert world.asked == []


async def test_reading_needs_no_token(token: Path) -> None:
    async with serving(World(shown("a")), guarded(token)) as client:
        assert (await client.get("/api/sessions/a")).status == 200
        assert (await client.get("/api/sessions/a/interrupt")).status == 405


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_with_the_token_it_is_asked_for(token: Path, scheme: str) -> None:
    world = World(shown("a"))
    async with serving(world, guarded(token)) as client:
        answer = await client.post(
            "/api/sessions/a/interrupt", headers={"Authorization": f"{scheme} {TOKEN}"}
        )
        assert (answer.status, await answer.json()) == (200, {"outcome": "effective", "detail": "as asked"})
    assert world.asked == [Ask("claude-code", "a", "interrupt", "", force=False)]


async def test_reason_and_force_are_passed_on(token: Path) -> None:
    world = World(shown("a", "codex"), shown("a", "pi"))
    async with serving(world, guarded(token)) as client:
        body = {"reason": "  it\nloops \x1b[31m" + "x" * 300, "force": True}
        answer = await client.post("/api/sessions/a/reap?agent=pi", headers=OWN, json=body)
        assert answer.status == 200
    (ask,) = world.asked
    assert (ask.agent, ask.session, ask.action, ask.force) == ("pi", "a", "reap", True)
    assert ask.reason.startswith("it loops [31mxxx")
    assert len(ask.reason) == 200


async def test_an_ambiguous_or_unknown_session_is_not_ended(token: Path) -> None:
    world = World(shown("a", "codex"), shown("a", "pi"))
    async with serving(world, guarded(token)) as client:
        assert (await client.post("/api/sessions/a/reap", headers=OWN)).status == 409
        assert (await client.post("/api/sessions/b/reap", headers=OWN)).status == 404
        assert (await client.post("/api/sessions/a/kill?agent=pi", headers=OWN)).status == 404
    assert world.asked == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ('{"reason": 5}', 400),
        ('{"force": "yes"}', 400),
        ('{"froce": true}', 400),
        ('{"reason": "' + "x" * 5000 + '"}', 413),
        ("", 200),
        (" \n", 200),
        ("{}", 200),
    ],
)
async def test_a_body_is_as_expected_or_refused(token: Path, body: str, status: int) -> None:
    world = World(shown("a"))
    async with serving(world, guarded(token)) as client:
        answer = await client.post("/api/sessions/a/interrupt", headers=OWN, data=body)
        assert answer.status == status
        assert "error" in await answer.json() or status == 200
    assert len(world.asked) == (status == 200)


@pytest.mark.parametrize(("outcome", "status"), STATUS.items())
async def test_the_outcome_is_the_answer(token: Path, outcome: ActOutcome, status: int) -> None:
    world = World(shown("a"))
    world.outcome = outcome
    async with serving(world, guarded(token)) as client:
        answer = await client.post("/api/sessions/a/interrupt", headers=OWN)
        assert answer.status == status
        assert (await answer.json())["outcome"] == outcome


def rotate(token: Path, content: str | None) -> None:
    token.unlink()
    if content is not None:
        token.write_text(content, "utf-8")


async def test_a_rotated_token_counts_at_once(token: Path) -> None:
    async with serving(World(shown("a")), guarded(token)) as client:
        assert (await client.post("/api/sessions/a/interrupt", headers=OWN)).status == 200
        rotate(token, "another")
        assert (await client.post("/api/sessions/a/interrupt", headers=OWN)).status == 401
        fresh = {"Authorization": "Bearer another"}
        assert (await client.post("/api/sessions/a/interrupt", headers=fresh)).status == 200


@pytest.mark.parametrize("content", [None, "", " \n", "x" * 5000])
async def test_a_token_file_without_a_token_lets_nobody_in(token: Path, content: str | None) -> None:
    rotate(token, content)
    world = World(shown("a"))
    async with serving(world, guarded(token)) as client:
        for header in ("Bearer ", "Bearer", f"Bearer {(content or '').strip()}"):
            answer = await client.post("/api/sessions/a/reap", headers={"Authorization": header})
            assert answer.status == 503
            assert "the token file" in (await answer.json())["error"]
    assert world.asked == []


async def test_a_client_that_leaves_does_not_cut_an_act_in_two(token: Path) -> None:
    world = World(shown("a"))
    world.hold = asyncio.Event()
    done = asyncio.Event()
    ask = world.ask

    async def asked(request: Ask) -> Done:
        answer = await ask(request)
        done.set()
        return answer

    world.ask = asked  # type: ignore[assignment,method-assign]
    async with serving(world, guarded(token)) as client:
        request = asyncio.create_task(client.post("/api/sessions/a/interrupt", headers=OWN))
        await world.heard.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
    # The server is down by now, and the act still comes to its end.
    world.hold.set()
    await asyncio.wait_for(done.wait(), 5)


# Who may be addressed.


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9475", "LOCALHOST", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:9475", "10.1.2.3:1",
     "box", "box:9475", "box.", "side.car:1"],
)  # fmt: skip
async def test_names_that_are_ours_are_answered(host: str) -> None:
    async with serving(World(), Options("box:9475", ["Side.Car"])) as client:
        assert (await client.get("/api/sessions", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9475", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "[evil]",
     "127.0.0.1@evil.example", "127.0.0.1:9475:9475", "0x7f000001", "2130706433", "box"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/sessions", "/api/events", "/metrics", "/none"])
async def test_a_foreign_name_is_refused(host: str, path: str) -> None:
    async with serving(World(shown("a"))) as client:
        answer = await client.get(path, headers={"Host": host})
        assert answer.status in (400, 403)
        assert "claude" not in await answer.text()


async def test_a_foreign_name_is_refused_with_the_token_too(token: Path) -> None:
    world = World(shown("a"))
    async with serving(world, guarded(token)) as client:
        answer = await client.post("/api/sessions/a/reap", headers=OWN | {"Host": "evil.example"})
        assert answer.status == 403
        assert "allowed_hosts" in (await answer.json())["error"]
    assert world.asked == []


# Up and down.


async def test_both_listeners_come_up_and_go_down() -> None:
    world = World(shown("a"))
    server = Server(world, world, Options("127.0.0.1:0"), "127.0.0.1:0")
    await server.start()
    try:
        async with ClientSession() as http:
            async with http.get(f"http://{server.address}/api/sessions") as answer:
                assert len((await answer.json())["sessions"]) == 1
            async with http.get(f"http://{server.scrape_address}/healthz") as answer:
                assert answer.status == 200
    finally:
        await server.stop()
    for address in (server.address, server.scrape_address):
        assert address is not None
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))


async def test_the_scrape_listener_is_there_only_when_it_is_asked_for() -> None:
    world = World()
    server = Server(world, world, Options("127.0.0.1:0"))
    await server.start()
    assert server.scrape_address is None
    await server.stop()


async def test_a_stream_that_its_client_left_is_over_at_once() -> None:
    world = World()
    server = Server(world, world, Options("127.0.0.1:0"))
    await server.start()
    async with ClientSession() as http:
        answer = await http.get(f"http://{server.address}/api/events")
        assert len(world.tell) == 1
        answer.close()
        await asyncio.wait_for(world.left.wait(), 5)
    assert world.tell == []
    await server.stop()


async def test_a_port_in_use_is_said_and_nothing_stays_open() -> None:
    taken = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    busy = f"127.0.0.1:{port}"
    world = World()
    with pytest.raises(ListenError) as caught:
        await Server(world, world, Options(busy)).start()
    assert (
        str(caught.value)
        == f"listen: cannot listen on {busy}: the port is in use, perhaps by another sidecar"
    )
    server = Server(world, world, Options("127.0.0.1:0"), busy)
    with pytest.raises(ListenError, match=f"scrape_listen: cannot listen on {busy}: the port is in use"):
        await server.start()
    host, own = server.address.split(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(own))
    taken.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("198.51.100.7:9475", "this machine has no such address"),
        ("no-such-host.invalid:9475", "the host name cannot be resolved"),
    ],
)
async def test_an_address_that_is_not_ours_is_said(address: str, why: str) -> None:
    world = World()
    for server, setting in (
        (Server(world, world, Options(address)), "listen"),
        (Server(world, world, Options("127.0.0.1:0"), address), "scrape_listen"),
    ):
        with pytest.raises(ListenError) as caught:
            await server.start()
        assert str(caught.value) == f"{setting}: cannot listen on {address}: {why}"


async def test_what_is_shown_is_json_all_through() -> None:
    async with serving(World(shown("a"))) as client:
        for path in ("/api/sessions", "/api/sessions/a", "/healthz", "/readyz", "/none"):
            answer = await client.get(path)
            assert answer.content_type == "application/json"
            json.loads(await answer.text())
