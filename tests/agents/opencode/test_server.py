"""Whatever is wrong with a server is blindness with a reason, and costs little."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.opencode import events
from sidecar.agents.opencode.adapter import Settings
from tests.agents.opencode.fake import Fake, serving, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def server() -> AsyncIterator[Fake]:
    async with serving(Fake()) as fake:
        yield fake


SENT = 0


async def html(_: web.Request) -> web.Response:
    return web.Response(text="<html>secret</html>", content_type="text/html")


async def broken(_: web.Request) -> web.Response:
    return web.Response(status=500, text="secret")


async def locked(_: web.Request) -> web.Response:
    return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="Secure Area"'})


async def elsewhere(_: web.Request) -> web.Response:
    raise web.HTTPFound("/elsewhere")


async def hanging(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def other(_: web.Request) -> web.Response:
    return web.json_response({"not": "a list"})


async def endless(request: web.Request) -> web.StreamResponse:
    global SENT  # noqa: PLW0603 - how much the other end took
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for _ in range(100):
        await response.write(b" " * (1 << 20))
        SENT += 1
    return response


WRONG = [
    (html, "its answer is not what this endpoint gives"),
    (broken, "HTTP 500"),
    (locked, "HTTP 401: it wants another user or password"),
    (elsewhere, "HTTP 302: it sends elsewhere"),
    (hanging, "it did not answer in time"),
    (other, "its answer is not what this endpoint gives"),
    (endless, "its answer is too large"),
]


@pytest.mark.parametrize(("answer", "why"), WRONG)
async def test_a_listing_that_is_none_is_blindness(server: Fake, answer: Any, why: str) -> None:
    server.answers["/experimental/session"] = answer
    async with watching(server, timeout=0.5) as watched:
        with pytest.raises(SourceDown) as down:
            await watched.read(watched.status)
        assert str(down.value) == why
        with pytest.raises(SourceDown):
            await watched.read(watched.events)
        del server.answers["/experimental/session"]
        server.session()
        assert await watched.read(watched.status)
        assert SENT < 30
        assert not any("elsewhere" in path for path in server.paths())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (html, "its answer is no event stream"),
        (broken, "HTTP 500"),
        (locked, "HTTP 401: it wants another user or password"),
        (elsewhere, "HTTP 302: it sends elsewhere"),
    ],
)
async def test_a_stream_that_is_none_is_blindness(server: Fake, answer: Any, why: str) -> None:
    server.answers["/global/event"] = answer
    async with watching(server) as watched:
        with pytest.raises(SourceDown, match=why):
            await watched.read(watched.events)


async def test_a_stream_without_a_word_is_waited_for_and_then_dead(
    server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FIRST", 0.1)
    server.answers["/global/event"] = hanging
    async with watching(server, stream_timeout=0.3) as watched:
        with pytest.raises(SourceDown, match="it does not answer"):
            await watched.read(watched.events)
        async with asyncio.timeout(5):
            await watched.events._tried.wait()
        with pytest.raises(SourceDown, match="it did not answer in time"):
            await watched.read(watched.events)


async def test_a_stream_that_falls_silent_is_dead(server: Fake) -> None:
    async with watching(server, stream_timeout=0.3) as watched:
        await watched.read(watched.events)
        assert watched.events.wake is not None
        watched.events.wake.clear()
        async with asyncio.timeout(5):
            await watched.events.wake.wait()
        with pytest.raises(SourceDown):
            await watched.read(watched.events)


async def test_nobody_listens(server: Fake) -> None:
    await server.close()
    async with watching(server) as watched:
        for source in (watched.status, watched.events):
            with pytest.raises(SourceDown, match="it cannot be connected to: Connection refused"):
                await watched.read(source)


async def test_the_password_is_sent_and_read_anew(server: Fake, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    async with watching(server, password_file=str(secret), username="me") as watched:
        with pytest.raises(SourceDown, match="the password file cannot be read"):
            await watched.read(watched.status)
        secret.write_text("a: b\n")
        await watched.read(watched.status)
        assert server.headers[-1]["Authorization"] == "Basic bWU6YTogYg=="


async def test_an_address_may_be_a_socket_or_have_a_path(server: Fake, tmp_path: Path) -> None:
    server.session()
    await web.UnixSite(server._runner, str(tmp_path / "s.sock")).start()
    async with watching(server, url=f"unix:{tmp_path}/s.sock") as watched:
        assert await watched.read(watched.status)
    async with watching(server, url=f"{server.url}/behind/a/proxy") as watched:
        with contextlib.suppress(SourceDown):
            await watched.read(watched.status)
        assert all(asked.path.startswith("/behind/a/proxy/") for asked in server.asked[-1:])


async def test_a_large_event_is_skipped_and_counted(server: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_EVENT", 10_000)
    async with watching(server) as watched:
        await watched.read(watched.events)
        server.tell("session.diff", sessionID="ses_1", diff="x" * 50_000)
        server.tell("session.created", sessionID="ses_1", info=server.session())
        records = await watched.until(g.Records)
        assert isinstance(records, g.Records)
        assert records.oversized == 1
        assert records.presence >= 1


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(ValueError, match="client_key_file needs client_cert_file"):
        Settings(url="https://x", client_key_file="/x.pem")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
async def test_a_server_is_known_by_its_certificate_and_knows_us_by_ours(tmp_path: Path) -> None:
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = (
        "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(pem)]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem))
    context.load_cert_chain(pem, key)
    context.verify_mode = ssl.CERT_REQUIRED
    async with serving(Fake()) as server:
        server.session()
        site = web.TCPSite(server._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        url = f"https://127.0.0.1:{server._runner.addresses[-1][1]}"
        ours = {"client_cert_file": str(pem), "client_key_file": str(key)}
        async with watching(server, url=url, ca_file=str(pem), **ours) as watched:
            assert await watched.read(watched.status)
        for less in ({"ca_file": str(pem)}, ours, {"ca_file": str(tmp_path / "none")}):
            async with watching(server, url=url, **less) as watched:
                with pytest.raises(SourceDown):
                    await watched.read(watched.status)
