"""Child processes with a conversation: pipes or a terminal, and waiting for what they say, never for time."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import termios
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")
Json = dict[str, Any]


def until(check: Callable[[], T], what: str, seconds: float = 30) -> T:
    """Ask again until the answer is true; the deadline turns a hang into a failure with a name."""
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        if time.monotonic() > deadline:
            message = f"not within {seconds} s: {what}"
            raise TimeoutError(message)
        time.sleep(0.02)
    return answer


class Piped:
    """A child with pipes, its stdout read as it comes so that it can never block on us."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, stderr: Path) -> None:
        with stderr.open("ab") as errors:
            self._child = subprocess.Popen(
                command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self.pid = self._child.pid
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout
        for line in self._child.stdout:
            self.lines.append(line.decode())

    def send(self, message: Json) -> None:
        """Write one line of JSON."""
        assert self._child.stdin
        self._child.stdin.write(json.dumps(message).encode() + b"\n")
        self._child.stdin.flush()

    def close_stdin(self) -> None:
        assert self._child.stdin
        with suppress(BrokenPipeError):
            self._child.stdin.close()

    def messages(self, **fields: object) -> list[Json]:
        """Collect the stdout messages so far that carry these fields."""
        parsed: list[Json] = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [message for message in parsed if fields.items() <= message.items()]

    def expect(self, count: int = 1, seconds: float = 30, **fields: object) -> Json:
        """Wait for the count-th stdout message with these fields."""

        def found() -> Json | None:
            hits = self.messages(**fields)
            return hits[count - 1] if len(hits) >= count else None

        hit = until(found, f"stdout message {count} with {fields}", seconds)
        assert hit
        return hit

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def wait(self, seconds: float = 30) -> int:
        status = self._child.wait(seconds)
        self._reader.join(seconds)
        return status

    def close(self) -> None:
        self.close_stdin()
        self.wait()
        assert self._child.stdout
        self._child.stdout.close()


class Terminal:
    """A child on a pseudo terminal of its own."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (50, 160))
        child = ["setsid", "--ctty", *command]
        self._child = subprocess.Popen(child, env=env, cwd=cwd, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.pid = self._child.pid
        self.output = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # how a terminal says that its other side has gone
            while chunk := os.read(self._master, 65536):
                self.output += chunk

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def expect(self, text: str, seconds: float = 30) -> None:
        """Wait until the output so far contains the text."""
        until(lambda: text.encode() in self.output, f"{text!r} on the terminal", seconds)

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def wait(self, seconds: float = 30) -> int:
        return self._child.wait(seconds)

    def close(self) -> None:
        self._child.wait(30)
        self._reader.join(30)
        os.close(self._master)
