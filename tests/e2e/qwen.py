"""Qwen Code in a sandbox: `qwen serve`, which answers only to its own address, so its port leads in."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.e2e.forward import ask, forward, outside
from tests.e2e.process import Json, until
from tests.e2e.sidecar import ROOT, Sidecar, free_port, merged

if TYPE_CHECKING:
    from tests.e2e.process import Piped
    from tests.e2e.sandbox import Sandbox

HOME = ROOT / ".e2e" / "qwen"
LISTENS = "qwen serve listening"
SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "model": {"name": "scripted"},
    "telemetry": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
}


class Qwen:
    """One home and one daemon at a time."""

    def __init__(self, sandbox: Sandbox, approval: str = "yolo") -> None:
        assert (HOME / "qwen").exists(), "the real agents are missing: tests/e2e/install.sh brings them"
        self.sandbox = sandbox
        self.config = sandbox.home
        self.socket = sandbox.root / "qwen.sock"
        self.port = free_port()
        self.env = {
            "OPENAI_API_KEY": "nobody",
            "OPENAI_BASE_URL": f"{sandbox.model_url}/v1",
            "OPENAI_MODEL": "scripted",
        }
        folder = sandbox.home / ".qwen"
        folder.mkdir()
        chosen = merged(SETTINGS, {"tools": {"approvalMode": approval}})
        (folder / "settings.json").write_text(json.dumps(chosen))
        forward(sandbox, self.socket, self.port)
        self._carrier = outside(self.socket, self.port)
        self.start()

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        command = [str(HOME / "node"), str(HOME / "qwen"), "serve", "--no-web", "--port", str(self.port)]
        self.server: Piped = self.sandbox.start(command, self.env)
        until(lambda: any(LISTENS in line for line in list(self.server.lines)), "the daemon listens", 60)
        until(lambda: self.ask("GET", "/health?deep=1")[0] == 200, "the daemon is healthy", 60)

    def kill(self) -> None:
        self.server.signal(signal.SIGKILL)
        self.server.wait()

    def close(self) -> None:
        self._carrier.kill()
        self._carrier.wait()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        return ask(self.socket, method, path, body, {"Host": f"127.0.0.1:{self.port}"})

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Ask the daemon; gives the decoded answer, which has to be a good one."""
        status, text = self.ask(method, path, body)
        assert status in (200, 202, 204), (status, text[:200])
        return json.loads(text) if text else None

    def session(self) -> str:
        """Create a session of its own; by default all clients of a folder share one."""
        wanted = {"cwd": str(self.sandbox.work), "sessionScope": "thread"}
        return str(self.api("POST", "/session", wanted)["sessionId"])

    def prompt(self, session: str, script: str) -> str:
        """Send a prompt, and do not wait for the answer; gives the prompt's id."""
        parts = [{"type": "text", "text": script}]
        return str(self.api("POST", f"/session/{session}/prompt", {"prompt": parts})["promptId"])

    def status(self, session: str) -> Json:
        told: Json = self.api("GET", f"/session/{session}/status")
        return told

    def listed(self) -> list[str]:
        """The sessions that are listed, stored ones too."""
        found = self.api("GET", f"/workspace/{quote(str(self.sandbox.work), safe='')}/sessions")
        return [session["sessionId"] for session in found["sessions"]]


class Beside(Sidecar):
    """A sidecar beside one daemon."""

    def __init__(self, qwen: Qwen, agent: Json | None = None, **config: Any) -> None:
        super().__init__(qwen, None, None, **config)  # type: ignore[arg-type]
        told = json.loads(self.config.read_text())
        entry = {
            "kind": "http",
            "preset": "qwen-serve",
            "url": f"http://127.0.0.1:{qwen.port}",
            "directory": str(qwen.sandbox.work),
            "every": "1s",
        }
        told["agents"] = [merged(entry, agent or {})]
        self.config.write_text(json.dumps(told))
