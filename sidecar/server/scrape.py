"""The scrape listener: metrics and health for the pod's network, from threads of its own.

It answers while the event loop is blocked: that is when health has something to say. It speaks to
the network, so everything is bounded: connections, bytes, and the seconds that each may take.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from sidecar.config_units import split_address
from sidecar.server import answers
from sidecar.server.guard import HEADERS
from sidecar.server.listen import ListenError, bound_to

if TYPE_CHECKING:
    import asyncio

    from sidecar.server.ports import Vitals

TRIES: Final = 3
"""Renderings beside the loop before state that keeps changing is called an error."""

log = logging.getLogger("sidecar.server")


class Limits(Struct, frozen=True):
    """What one listener bears. Seconds and counts."""

    connections: int = 16
    read: float = 5.0
    """Longest wait for a client's next bytes."""
    whole: float = 15.0
    """Longest life of a connection, however steadily it drips."""
    loop: float = 1.0
    """How long the event loop may take to begin rendering before it is called blocked."""
    render: float = 5.0
    """How long one rendering may take, and the wait for another one."""


class Scrape:
    """The listener and its thread."""

    def __init__(
        self, address: str, vitals: Vitals, loop: asyncio.AbstractEventLoop, limits: Limits | None = None
    ) -> None:
        """Bind at once; raises ListenError."""
        self._vitals = vitals
        self._loop = loop
        self._limits = limits or Limits()
        self._rendering = threading.Lock()
        try:
            self._server = _Listener(address, self, self._limits)
        except OSError as error:
            raise ListenError("scrape_listen", address, error) from error
        self.address = bound_to(self._server.socket)
        run = self._server.serve_forever
        self._thread = threading.Thread(target=run, args=(0.25,), name="scrape", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering; waits for the thread, so not to be called on the event loop's."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, path: str, accept: str) -> answers.Answer:
        """What a path answers; nothing else exists here."""
        if path == "/healthz":
            return answers.alive(self._vitals)
        if path == "/readyz":
            return answers.ready(self._vitals)
        if path == "/metrics":
            return self._metrics(accept)
        return answers.said(404, {"error": "only /metrics, /healthz and /readyz are served here"})

    def _metrics(self, accept: str) -> answers.Answer:
        """One rendering at a time: scrapers that pile up must not pile up the work."""
        if not self._rendering.acquire(timeout=self._limits.render):
            return answers.said(503, {"error": "another scrape is still being answered"})
        try:
            return self._rendered(accept)
        except TimeoutError:
            return answers.said(503, {"error": "rendering the metrics takes too long"})
        finally:
            self._rendering.release()

    def _rendered(self, accept: str) -> answers.Answer:
        """Render on the loop's thread, where nothing changes meanwhile, as long as it answers."""
        future: Future[answers.Answer] = Future()

        def render() -> None:
            if future.set_running_or_notify_cancel():
                future.set_result(answers.metrics(self._vitals, accept))

        try:
            self._loop.call_soon_threadsafe(render)
        except RuntimeError:  # the loop is closed
            return answers.metrics(self._vitals, accept, TRIES)
        try:
            return future.result(self._limits.loop)
        except TimeoutError:
            if future.cancel():
                return answers.metrics(self._vitals, accept, TRIES)
        return future.result(self._limits.render)  # begun, only slow


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Not http.server's own server: that one asks the DNS for its name before it listens."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, address: str, scrape: Scrape, limits: Limits) -> None:
        host, port = split_address(address)
        self.scrape = scrape
        self.limits = limits
        self._open: dict[socket.socket, float] = {}
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        super().__init__((host, port), _Request)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base's
        """Take a connection, or close it where there are too many."""
        if len(self._open) >= self.limits.connections:
            self.shutdown_request(request)
            return
        self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - the base's
        """Close a connection and forget it."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Between connections: end those that have lived too long."""
        latest = time.monotonic() - self.limits.whole
        for connection, since in list(self._open.items()):
            if since < latest:
                with suppress(OSError):  # closed meanwhile
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - the base's
        """Log what went wrong; a client that left is nothing that did."""
        log.debug("a scrape connection ended early: %s", sys.exception())


class _Request(BaseHTTPRequestHandler):
    """One request a connection: HTTP/1.0 keeps nothing open."""

    server: _Listener
    error_content_type = answers.JSON
    error_message_format = '{"error": "%(message)s"}\n'

    def setup(self) -> None:
        self.request.settimeout(self.server.limits.read)
        super().setup()

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.path.split("?", 1)[0]
        status, kind, content = self.server.scrape.answer(path, self.headers.get("Accept", ""))
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            if name != "Server":
                self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def version_string(self) -> str:
        return HEADERS["Server"]

    def log_message(self, *_: object) -> None:
        """Probes and scrapes are no news."""
