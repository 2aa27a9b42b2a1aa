"""Why a request got no answer, said in words: with the HTTP client's real errors wherever one can be had."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING

import aiohttp
import pytest

from sidecar.sources.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

SECRET = b"what the user asked"


async def failure(url: str, connector: aiohttp.BaseConnector | None = None) -> Exception:
    """The error of a request that gets no answer."""
    with pytest.raises(aiohttp.ClientError) as raised:
        async with aiohttp.ClientSession(connector=connector) as http, http.get(url) as answer:
            await answer.read()
    return raised.value


async def said_of(peer: Callable[[asyncio.StreamWriter], Awaitable[None]], scheme: str = "http") -> str:
    """What is said of a server that answers every request like this, with secrets in its answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await peer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return unanswered(await failure(f"{scheme}://127.0.0.1:{port}/"))


async def nothing(_: asyncio.StreamWriter) -> None:
    """Close at once."""


async def half(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + SECRET)
    await writer.drain()


async def strange(writer: asyncio.StreamWriter) -> None:
    writer.write(SECRET + b"\r\n\r\n")
    await writer.drain()


async def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection the hard way."""
    held = writer.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_nobody_listens(host: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://{host}:{bound.getsockname()[1]}/"
        assert unanswered(await failure(url)) == "it cannot be connected to: Connection refused"


async def test_no_socket_is_there() -> None:
    connector = aiohttp.UnixConnector("/nowhere/agent.sock")
    said = unanswered(await failure("http://host/", connector))
    assert said == "it cannot be connected to: No such file or directory"


async def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert unanswered(await failure("http://box/")) == (
        "its name cannot be resolved: Name or service not known"
    )


@pytest.mark.parametrize(
    ("peer", "why"),
    [
        (nothing, "it closed the connection before it answered"),
        (half, "its answer breaks off"),
        (strange, "its answer is no HTTP"),
        (reset, "the connection broke: Connection reset by peer"),
    ],
)
async def test_an_answer_that_is_none(peer: Callable[..., Awaitable[None]], why: str) -> None:
    assert await said_of(peer) == why


async def test_plain_text_where_tls_was_expected() -> None:
    assert await said_of(strange, "https") == "it does not speak TLS as expected"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
async def test_a_certificate_that_is_not_accepted(tmp_path: Path) -> None:
    key, pem = tmp_path / "key", tmp_path / "pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: ASYNC221 - nothing runs beside it
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server:
        said = unanswered(await failure(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
    assert said == "its certificate is not accepted: self-signed certificate"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "of ours", "ca.pem"), "FileNotFoundError: No such file or directory"),
        (ValueError("the user's words"), "ValueError"),
        (aiohttp.InvalidURL("the user's words"), "InvalidURL"),
    ],
)
def test_anything_else_is_named_by_its_kind(error: Exception, said: str) -> None:
    assert unanswered(error) == said
