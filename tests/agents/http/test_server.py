"""A server that may be anything: what is wrong with it is said, in time and within bounds."""

from __future__ import annotations

import asyncio
import resource
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from sidecar.agent import Order, SourceDown
from sidecar.agents.http.adapter import Http
from sidecar.agents.http.server import Server
from sidecar.clock import LiveClock
from tests.agents.http.fakes import WALL, Site, serving, settings
from tests.agents.http.test_templates import HOSTILE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LISTED = "GET /test-sessions"
GOOD = {"sessions": [{"tid": "t", "done": False}]}


def http(url: str, **entry: Any) -> Http:
    loop = asyncio.get_running_loop()
    clock = LiveClock(loop.time, lambda: loop.time() + WALL)
    return Http("box", settings("kbc-box", url=url, **({"timeout": "500ms"} | entry)), clock)


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, str]]:
    made = Site()
    async with serving(made) as url:
        yield made, url


def page(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Any:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            body=text.encode(), status=status, headers={"Content-Type": "text/html"} | (headers or {})
        )

    return answer


async def big(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(b"[" * (1 << 20))
    return response


async def drop(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:  # a byte now and then, for ever
        await response.write(b" ")
        await asyncio.sleep(0.05)


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


WRONG = {
    "a login page": (page("<html>Log in</html>"), "no JSON"),
    "an error page": (page("<html>oops</html>", 502), "HTTP 502"),
    "no longer allowed": (401, "HTTP 401"),
    "an error": (500, "HTTP 500"),
    "not there": (404, "HTTP 404"),
    "nothing": (page(""), "no JSON"),
    "half of it": (page('{"sessions": ['), "no JSON"),
    "too deep": (page("[" * 100_000), "no JSON"),
    "another answer": ({"error": "later"}, "no listing"),
    "elsewhere": (page("", 302, {"Location": "http://127.0.0.2:9/test-sessions"}), "sends elsewhere"),
    "packed": (page("\x1f\x8b", 200, {"Content-Encoding": "gzip"}), "no JSON"),
    "100 MB": (big, "too large"),
    "a byte at a time": (drop, "in time"),
    "nothing at all": (never, "in time"),
    "a closed connection": (cut, "it closed the connection before it answered"),
}


@pytest.mark.parametrize("how", WRONG)
async def test_whatever_is_wrong_with_it_is_a_lost_source_soon_and_small(
    site: tuple[Site, str], how: str
) -> None:
    server, url = site
    agent = http(url)
    server.answers[LISTED], why = WRONG[how]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asyncio.timeout(5):
        for _ in range(2):
            with pytest.raises(SourceDown, match=why) as down:
                await agent.sources[0].read()
            assert "Log in" not in str(down.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000
    server.answers[LISTED] = GOOD
    assert len(await agent.sources[0].read()) == 3
    assert (await agent.probe())[0].ok
    server.answers[LISTED] = 500
    assert [(f.what, f.ok) for f in await agent.probe()] == [("listing", False)]
    assert set(server.asked) == {LISTED}


async def test_one_that_is_not_there_at_all() -> None:
    with pytest.raises(SourceDown, match="it cannot be connected to: Connection refused"):
        await http("http://127.0.0.1:1").sources[0].read()


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_a_hostile_id_reaches_the_server_as_it_was(site: tuple[Site, str], hostile: str) -> None:
    server, url = site
    seen: list[str] = []

    async def close(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.json_response({"ok": True})

    server.answers[LISTED] = {"sessions": [{"tid": hostile, "done": False}]}
    agent = http(url)
    await agent.sources[0].read()
    for asked in list(server.answers):
        assert asked == LISTED
    app: Any = server.answers
    server.answers = type("Any", (dict,), {"get": lambda _, key, __: app.get(key) or close})()
    answer = await agent.reap(Order("reap", hostile, None, "x", None))
    assert answer.result == "accepted"
    assert seen == [f"/test-session/{hostile}/close"]
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, "accepted"),
        (404, "accepted"),
        (409, "superseded"),
        (500, "failed"),
        (302, "failed"),
        (403, "failed"),
    ],
)
async def test_what_a_close_is_answered(site: tuple[Site, str], status: int, result: str) -> None:
    server, url = site
    server.answers |= {LISTED: GOOD, "POST /test-session/t/close": status}
    agent = http(url)
    order = Order("reap", "t", None, "x", None)
    assert (await agent.reap(order)).result == "unsupported"
    await agent.sources[0].read()
    assert (await agent.reap(order)).result == result
    assert (await agent.interrupt(order)).result == "unsupported"


async def test_a_call_that_never_left_may_be_made_again_at_once(
    site: tuple[Site, str], tmp_path: Path
) -> None:
    server, url = site
    token = tmp_path / "token"
    token.write_text("one\n")
    server.answers |= {LISTED: GOOD, "POST /test-session/t/close": 200}
    agent = http(url, token_file=str(token))
    await agent.sources[0].read()
    token.unlink()
    order = Order("reap", "t", None, "x", None)
    assert (await agent.reap(order)).detail == "the token file cannot be read"
    token.write_text("two\n")
    assert (await agent.reap(order)).result == "accepted"
    assert [h.get("Authorization") for h in server.headers] == ["Bearer one", "Bearer two"]
    token.write_text("two\nlines")
    with pytest.raises(SourceDown, match="more than one line"):
        await agent.sources[0].read()


async def test_a_call_that_goes_on_when_nobody_waits_is_let_go_at_the_end(site: tuple[Site, str]) -> None:
    server, url = site
    server.answers |= {LISTED: GOOD, "POST /test-session/t/close": never}
    agent = http(url)
    await agent.sources[0].read()
    order = Order("reap", "t", None, "x", None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await agent.reap(order)
    assert [t.get_name() for t in asyncio.all_tasks() if "session" in t.get_name()] == ["POST for a session"]
    await agent.close()
    assert [t for t in asyncio.all_tasks() if "for a session" in t.get_name()] == []


async def test_over_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subject = ["-subj", "/OU=Runtime", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run([*made, "-out", certificate, "-keyout", key], check=True, capture_output=True)  # noqa: ASYNC221
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    site = Site()
    site.answers[LISTED] = GOOD
    files = {"client_cert_file": str(certificate), "client_key_file": str(key)}
    async with serving(site, ssl_context=context) as url:
        for entry in ({}, files, {"ca_file": str(certificate)}, {"ca_file": str(tmp_path / "missing")}):
            with pytest.raises(SourceDown):
                await http(url, timeout="2s", **entry).sources[0].read()
        assert site.asked == []
        trusted = http(url, timeout="2s", ca_file=str(certificate), **files)
        assert len(await trusted.sources[0].read()) == 3


async def test_it_listens_on_a_socket_too(tmp_path: Path) -> None:
    site = Site()
    site.answers[LISTED] = GOOD
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    assert len(await http(f"unix:{tmp_path}/s").sources[0].read()) == 3
    await runner.cleanup()


async def test_a_stream_that_is_none_is_refused(site: tuple[Site, str]) -> None:
    server, url = site
    server.answers["GET /e"] = {"a": "page"}
    with pytest.raises(SourceDown, match="no event stream"):
        _ = [sent async for sent in Server(settings("kbc-box", url=url)).events("/e", 1.0)]


async def test_an_empty_event_is_not_the_beginning_of_a_stream(site: tuple[Site, str]) -> None:
    server, url = site

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: a\n\ndata:\n\ndata: b\n\n")
        return response

    server.answers["GET /e"] = stream
    told = [sent.data async for sent in Server(settings("kbc-box", url=url)).events("/e", 1.0)]
    assert told == [b"", b"a", b"b"]
