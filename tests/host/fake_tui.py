"""A stand-in for a terminal agent: an input box, Esc, and a registration, and a transcript if asked for.

A line typed is a prompt: `hole` says nothing, `talk` leaves a record in the transcript and then says nothing,
`deaf` is a hole that does not mind Esc.
Esc ends the turn; if it left no record, the prompt comes back into the box, one line for each `/` in it.
Every key is written to the file given.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import termios
import time
import tty
from pathlib import Path

SESSION = "5e551077-0000"


class Tui:
    def __init__(self, keys: Path) -> None:
        self.keys = keys
        self.box: list[str] = [""]
        self.prompt = ""
        home = Path(os.environ["HOME"]) / ".claude"
        self.registration = home / "sessions" / f"{os.getpid()}.json"
        self.transcript = home / "projects" / "-work" / f"{SESSION}.jsonl"
        for path in (self.registration, self.transcript):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.transcript.touch()

    def register(self, status: str) -> None:
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        entry = {
            "sessionId": SESSION,
            "procStart": started,
            "status": status,
            "statusUpdatedAt": time.time_ns() // 10**6,
        }
        self.registration.write_text(json.dumps(entry))

    def record(self, kind: str) -> None:
        with self.transcript.open("a") as file:
            file.write(json.dumps({"type": kind}, separators=(",", ":")) + "\n")

    def draw(self, text: str) -> None:
        sys.stdout.write(f"\x1b[2K\r{text}")
        sys.stdout.flush()

    def press(self, key: str) -> None:
        with self.keys.open("a") as file:
            file.write(key)
        if key == "\r":
            self.submit()
        elif key == "\x1b":
            self.escape()
        elif key == "\x15":
            self.clear()
        elif key == "\x03":
            sys.exit(0)
        else:
            self.box[-1] += key

    def submit(self) -> None:
        self.prompt, self.box = "/".join(self.box), [""]
        self.register("busy")
        self.draw(f"working on {self.prompt}")
        self.record("attachment")
        if self.prompt == "talk":
            self.record("assistant")

    def escape(self) -> None:
        if not self.prompt:
            self.draw("Rewind")
        if self.prompt in ("", "deaf"):
            return
        if self.prompt == "talk":
            self.record("user")
        else:
            self.box = self.prompt.split("/")
        self.prompt = ""
        self.register("idle")
        self.draw("interrupted")

    def clear(self) -> None:
        if self.box == [""]:
            return
        self.box = self.box[:-1] or [""]
        self.draw(f"box of {len(self.box)}")


def main() -> None:
    tui = Tui(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    signal.signal(signal.SIGWINCH, lambda *_: tui.draw(f"size {termios.tcgetwinsize(1)}"))
    tty.setraw(0)
    tui.register("idle")
    tui.draw(f"ready {termios.tcgetwinsize(1)}")
    while key := os.read(0, 1):
        tui.press(key.decode("latin-1"))


if __name__ == "__main__":
    main()
