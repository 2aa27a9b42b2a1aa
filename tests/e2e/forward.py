"""A way into the namespace of a sandbox: a unix socket that leads to a port there, and a port that leads to it.

Run as a program, this is what carries the bytes.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.process import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
TRUE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntrue"
)


def forward(sandbox: Sandbox, path: Path, port: int) -> None:
    """Let a socket lead to a port, whoever listens there and whenever."""
    command = [sys.executable, "-m", "tests.e2e.forward", str(path), str(port)]
    sandbox.start(command, {"PYTHONPATH": str(ROOT)})
    until(path.exists, "the forwarder listens")


def outside(path: Path, port: int) -> subprocess.Popen[bytes]:
    """Let a port of this side lead to a socket, for servers that are asked by their own address only."""
    command = [sys.executable, "-m", "tests.e2e.forward", str(port), str(path)]
    carrier = subprocess.Popen(command, env={"PYTHONPATH": str(ROOT)})
    until(lambda: _listens(port), "the way in listens")
    return carrier


def _listens(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


def ask(
    path: Path, method: str, target: str, body: object = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Ask a server behind a socket; gives status and text."""
    sent = {"Content-Type": "application/json", "Connection": "close"} | dict(headers or {})
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(str(path))
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = peer
        connection.request(method, target, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


async def carry(here: str, there: str) -> None:
    """Carry bytes between two places, sockets or ports; where nobody listens there, hang up.

    While a file with the ending `.deaf` lies beside the socket, one request to abort is answered with success
    and goes no further; that takes the file away.
    """
    deaf = Path(here).with_suffix(".deaf")

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        if deaf.exists():
            with suppress(asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
            if head.partition(b" HTTP")[0].endswith(b"/abort"):
                deaf.unlink()
                writer.write(TRUE)
                writer.close()
                return
        try:
            if there.isdigit():
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(there))
            else:
                far_reader, far_writer = await asyncio.open_unix_connection(there)
        except OSError:
            writer.close()
            return
        far_writer.write(head)
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    if here.isdigit():
        server = await asyncio.start_server(serve, "127.0.0.1", int(here))
    else:
        server = await asyncio.start_unix_server(serve, here)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(carry(sys.argv[1], sys.argv[2]))
