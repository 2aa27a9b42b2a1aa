"""What the stack is made of: programs that are started, asked whether they are ready, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

READY: Final = 20.0
ENDING: Final = 10.0
"""Seconds a part has to come up, and to end before it is killed."""


class StackError(Exception):
    """The stack does not come up, or a part of it ended; the text says which, and what to change."""


def program(name: str, folder: Path | None) -> str:
    """Where a program is: in `folder`, else on the PATH."""
    found = shutil.which(name, path=None if folder is None else str(folder / "usr" / "bin"))
    if found is None:
        raise StackError(
            f"{name} is not there; on Debian, `dashboards/stack/debian.sh own .e2e/stack/own` unpacks it"
        )
    return found


def need_free(port: int, what: str, option: str) -> None:
    """Refuse a port that somebody listens on, before anything is started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise StackError(
                f"port {port} for {what}: {error.strerror}; choose another with {option} PORT"
            ) from error


class Part:
    """A program. It gets a session of its own, so that Ctrl-C reaches only who ends it in order."""

    def __init__(self, name: str, command: Sequence[str], log: Path, ready: str = "") -> None:
        self.name = name
        self._log = log
        self._ready = ready
        with log.open("wb") as out:
            self._child = subprocess.Popen(  # noqa: S603 - our own parts
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it says that it is ready."""
        deadline = time.monotonic() + READY
        while self._ready and not self._answers():
            self.check()
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} is not ready within {READY:.0f} s; it says:\n{self._said()}")
            time.sleep(0.05)

    def check(self) -> None:
        """Raise if it has ended."""
        if self._child.poll() is not None:
            raise StackError(f"{self.name} ended with {self._child.returncode}; it says:\n{self._said()}")

    def stop(self) -> None:
        """End it, and whatever it started."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(ENDING)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._ready, timeout=1):  # noqa: S310 - loopback
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _said(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-8:])


class Webhook:
    """Takes what Alertmanager sends; `told` is called with the receiver and each alert."""

    def __init__(self, told: Callable[[str, dict[str, Any]], None]) -> None:
        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in body["alerts"]:
                    told(self.path.lstrip("/"), alert)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing of requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
