"""A host under test: its process, its client's side of the streams, and its control API."""

from __future__ import annotations

import array
import fcntl
import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from http.client import HTTPMessage

T = TypeVar("T")
Json = dict[str, Any]

HOST = Path(__file__).parents[2] / "sidecar" / "host.py"
PYTHON = os.environ.get("HOST_PYTHON", sys.executable)  # the host runs on any from 3.9
FAKE = [sys.executable, "-S", str(Path(__file__).with_name("fake_claude.py"))]
PATIENCE = 20.0


def until(check: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Ask again until the answer is true; the deadline turns a hang into a failure with a name."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (answer := check()):
        if time.monotonic() > deadline:
            message = f"not within {seconds} s: {what}"
            raise TimeoutError(message)
        pause.wait(0.01)
    return answer


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def user(text: str) -> Json:
    return {"type": "user", "message": {"role": "user", "content": text}}


@contextmanager
def running(command: Sequence[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that does not outlive a test, not even one that fails."""
    with subprocess.Popen(command, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


class Answer(NamedTuple):
    status: int
    body: Json
    headers: HTTPMessage


class Pipe:
    """The client's end of an output, read as it comes so that nothing blocks on us."""

    def __init__(self, descriptor: int) -> None:
        self.data = b""
        self._changed = threading.Condition()
        self._over = False
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # how a terminal says that its other side has gone
            while chunk := os.read(self._descriptor, 1 << 16):
                with self._changed:
                    self.data += chunk
                    self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def expect(self, check: Callable[[bytes], T], what: str, seconds: float = PATIENCE) -> T:
        """Wait until what has come so far satisfies a check."""
        with self._changed:
            self._changed.wait_for(lambda: check(self.data) or self._over, seconds)
            found = check(self.data)
        assert found, f"{what} not in {self.data[-2000:]!r}"
        return found

    def text(self, part: bytes, seconds: float = PATIENCE) -> bytes:
        """Wait for some bytes; return all so far."""
        self.expect(lambda data: part in data, repr(part), seconds)
        return self.data

    def messages(self, **fields: object) -> list[Json]:
        """Collect the messages so far that carry these fields."""
        lines = self.data.split(b"\n")[:-1]
        found: list[Json] = [json.loads(line) for line in lines if line.startswith(b"{")]
        return [message for message in found if fields.items() <= message.items()]

    def message(self, count: int = 1, **fields: object) -> Json:
        """Wait for the count-th message with these fields."""
        return self.expect(lambda _: self.messages(**fields)[count - 1 :], f"message {count} {fields}")[0]

    def rest(self) -> bytes:
        """Wait for the end; return everything."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.data

    def close(self) -> None:
        self._thread.join(PATIENCE)
        os.close(self._descriptor)


class Api:
    """A client of a host's control API."""

    def __init__(self, path: Path) -> None:
        self.socket = str(path)

    def check(self) -> None:
        """Give up early if there will never be anybody to talk to."""

    def connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(PATIENCE)

        def connected() -> bool:
            self.check()
            return peer.connect_ex(self.socket) == 0

        until(connected, "the host listens")
        return peer

    def call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        with self.connect() as peer:
            connection = http.client.HTTPConnection("host")
            connection.sock = peer
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read() or b"{}"), response.headers)

    def session(self) -> Json:
        sessions = self.call("GET", "/v1/sessions").body["sessions"]
        assert len(sessions) == 1
        found: Json = sessions[0]
        return found

    def post(self, act: str, **order: object) -> Answer:
        name = quote(self.session()["id"], safe="")
        return self.call("POST", f"/v1/sessions/{name}/{act}", json.dumps(order).encode())

    def interrupt(self, **order: object) -> Answer:
        return self.post("interrupt", **order)

    def reap(self, **order: object) -> Answer:
        return self.post("reap", **order)

    @contextmanager
    def events(self, seconds: float = PATIENCE) -> Iterator[Iterator[Json]]:
        """Read the event stream, for so long at most."""
        with self.connect() as peer:
            peer.sendall(b"GET /v1/events HTTP/1.1\r\nHost: host\r\n\r\n")
            deadline = time.monotonic() + seconds

            def read() -> Iterator[Json]:
                buffer = b""
                while readable(peer, deadline - time.monotonic()) and (chunk := peer.recv(1 << 16)):
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    yield from (json.loads(line[6:]) for line in lines if line.startswith(b"data: "))

            yield read()

    def expect(self, **fields: object) -> Json:
        """Wait on the event stream until the session has these fields."""
        seen: list[Json] = []
        with self.events() as events:
            for event in events:
                seen.append(event)
                if fields.items() <= event.items():
                    return event
        message = f"{fields} not in {seen}"
        raise AssertionError(message)


class Hosted(Api):
    """A host process in front of an agent."""

    def __init__(self, path: Path, options: Sequence[str], command: Sequence[str], **env: str) -> None:
        super().__init__(path)
        listen = [] if "--listen" in options else ["--listen", f"unix:{self.socket}"]
        self.command = [PYTHON, str(HOST), *listen, *options, "--", *command]
        self._open(env)

    def _open(self, env: Mapping[str, str]) -> None:
        out, its_out = os.pipe()
        error, its_error = os.pipe()
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=its_out, stderr=its_error, env=os.environ | dict(env)
        )
        os.close(its_out)
        os.close(its_error)
        self.out, self.error = Pipe(out), Pipe(error)

    def check(self) -> None:
        assert self.process.poll() is None, self.error.rest()

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Json) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def has_read(self) -> bool:
        """Whether the host has taken everything that was written."""
        assert self.process.stdin
        left = array.array("i", [0])
        fcntl.ioctl(self.process.stdin, termios.FIONREAD, left)
        return not left[0]

    def prompt(self, text: str) -> None:
        self.send(user(text))

    def close_stdin(self) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        """End whatever is still there; the agent goes with its host."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.close_stdin()
        self.out.close()
        self.error.close()


class Terminal(Hosted):
    """A host whose client sits at a terminal."""

    def _open(self, env: Mapping[str, str]) -> None:
        error, its_error = os.pipe()
        self.master, self.slave = os.openpty()  # the slave stays open: its settings are looked at
        self.process = subprocess.Popen(
            self.command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=its_error,
            env=os.environ | dict(env),
            start_new_session=True,
        )
        os.close(its_error)
        self.out, self.error = Pipe(os.dup(self.master)), Pipe(error)

    def write(self, data: bytes) -> None:
        os.write(self.master, data)

    def close_stdin(self) -> None:
        pass

    def close(self) -> None:
        os.close(self.slave)
        super().close()
        os.close(self.master)


def readable(peer: socket.socket, seconds: float) -> bool:
    """Whether something comes within a time."""
    with selectors.DefaultSelector() as selector:
        selector.register(peer, selectors.EVENT_READ)
        return bool(selector.select(max(0, seconds)))
