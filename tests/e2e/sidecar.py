"""A running sidecar, as a process of its own, beside a real agent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.e2e.process import Json, until

if TYPE_CHECKING:
    from tests.e2e.claude import Claude

ROOT = Path(__file__).parents[2]

CONFIG: Json = {
    "mode": "enforce",
    "bounds": {"unsafe": True, "model": "5s"},
    "actions": {"jitter": 0, "grace": "10s"},
}
"""Short bounds, and acting: what the tests of the main job share."""


def merged(base: Json, over: Json) -> Json:
    """One map over another, map by map."""
    both = dict(base)
    for key, value in over.items():
        below = both.get(key)
        both[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Sidecar:
    """`agent-sidecar run` with a configuration file; its lifecycle lines are read as they come."""

    def __init__(
        self, claude: Claude, control: Json | None = None, agent: Json | None = None, **config: Any
    ) -> None:
        self.root = claude.sandbox.root
        self.port = free_port()
        entry: Json = {"kind": "claude-code", "config_dir": str(claude.config)} | (agent or {})
        if control is not None:
            entry["control"] = control
        places = {
            "listen": f"127.0.0.1:{self.port}",
            "state_dir": str(self.root / "state"),
            "agents": [entry],
        }
        self.config = self.root / "sidecar.yaml"
        self.config.write_text(json.dumps(merged(CONFIG | places, config)))
        self.errors = self.root / "sidecar.stderr"
        self.lines: list[str] = []
        self.env: dict[str, str] = {}
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None and self._child.poll() is None:
            self.stop(signal.SIGTERM)

    def start(self) -> None:
        """Start it, and wait until it answers that it is ready."""
        command = [sys.executable, "-m", "sidecar.cli", "run", "--config", str(self.config)]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root), "PYTHONPATH": str(ROOT)} | self.env
        with self.errors.open("ab") as errors:
            self._child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors)
        self._reader = threading.Thread(target=self._read, args=(self._child,), daemon=True)
        self._reader.start()
        until(self._ready, "the sidecar is ready")

    def stop(self, number: signal.Signals) -> int:
        """End it and give its exit status."""
        assert self._child is not None
        self._child.send_signal(number)
        status = self._child.wait(30)
        self._reader.join(30)
        assert self._child.stdout
        self._child.stdout.close()
        return status

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def events(self, event: str | None = None, **fields: object) -> list[Json]:
        """The lifecycle lines so far, of one kind and with these fields."""
        parsed: list[Json] = [json.loads(line) for line in list(self.lines)]
        wanted = fields if event is None else {"event": event} | fields
        return [line for line in parsed if wanted.items() <= line.items()]

    def expect(self, event: str, seconds: float = 30, **fields: object) -> Json:
        """Wait for a lifecycle line."""
        return until(lambda: self.events(event, **fields), f"{event} with {fields}", seconds)[0]

    def get(self, path: str) -> tuple[int, str]:
        """Ask the API: status and body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def sessions(self) -> dict[str, Json]:
        """The session objects, by id."""
        return {s["session"]: s for s in json.loads(self.get("/api/sessions")[1])["sessions"]}

    def session(self) -> Json:
        """The only session."""
        (only,) = until(self.sessions, "a session").values()
        found: Json = only
        return found

    def metric(self, line: str) -> float:
        """A series' value; absent is zero."""
        for row in self.get("/metrics")[1].splitlines():
            if row.startswith(line):
                return float(row.rpartition(" ")[2])
        return 0.0

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout
        for line in child.stdout:
            self.lines.append(line.decode())

    def _ready(self) -> bool:
        assert self._child is not None
        assert self._child.poll() is None, self.errors.read_text()
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False
