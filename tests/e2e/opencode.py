"""OpenCode in a sandbox: its server, asked through a unix socket that leads into the namespace."""

from __future__ import annotations

import base64
import json
import signal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.e2e.forward import ask, forward
from tests.e2e.process import Json, until
from tests.e2e.sidecar import ROOT, Sidecar, merged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.process import Piped
    from tests.e2e.sandbox import Sandbox

BINARY = ROOT / ".e2e" / "opencode" / "opencode"
PORT = 4096
LISTENS = "opencode server listening"
MODEL = {"name": "scripted", "limit": {"context": 100_000, "output": 30_000}, "tool_call": True}
ALLOWED = {"bash": {"*": "allow", "touch *": "ask"}, "question": "allow"}


def configured(sandbox: Sandbox, **options: object) -> dict[str, str]:
    """Have it ask the scripted model and no other, with these options of the provider; what it is started with."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{sandbox.model_url}/v1", "apiKey": "nobody"} | options,
        "models": {"scripted": MODEL},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "stub/scripted",
        "small_model": "stub/scripted",
        "enabled_providers": ["stub"],
        "provider": {"stub": provider},
        "permission": ALLOWED,
    }
    path = sandbox.home / "opencode.json"
    path.write_text(json.dumps(config))
    return {"OPENCODE_CONFIG": str(path), "OPENCODE_DISABLE_AUTOUPDATE": "1"}


class OpenCode:
    """One home, one server at a time, and its forwarder."""

    def __init__(self, sandbox: Sandbox, password: str | None = None, **options: object) -> None:
        """`options` are the provider's."""
        assert BINARY.exists(), "the real agents are missing: tests/e2e/install.sh brings them"
        self.sandbox = sandbox
        self.config = sandbox.home
        self.socket = sandbox.root / "opencode.sock"
        self.deaf = self.socket.with_suffix(".deaf")
        """While this file is there, the next abort is answered as always and never arrives."""
        self.password = password
        self.env = configured(sandbox, **options)
        if password is not None:
            self.env["OPENCODE_SERVER_PASSWORD"] = password
        forward(sandbox, self.socket, PORT)
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        self.server: Piped = self.sandbox.start(
            [str(BINARY.resolve()), "serve", "--port", str(PORT)], self.env
        )
        until(lambda: any(LISTENS in line for line in list(self.server.lines)), "the server listens", 60)

    def kill(self) -> None:
        self.server.signal(signal.SIGKILL)
        self.server.wait()

    def instances(self) -> list[str]:
        """The folders that the server has opened, by its own log."""
        logs = (self.sandbox.home / ".local/share/opencode/log").glob("*")
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return [line.rpartition("directory=")[2] for line in lines if "creating instance" in line]

    def api(self, method: str, path: str, body: object = None, directory: Path | None = None) -> Any:
        """Ask the server; gives the decoded answer, which has to be a good one."""
        headers = {}
        if directory is not None:
            headers["x-opencode-directory"] = quote(str(directory))
        if self.password is not None:
            pair = base64.b64encode(f"opencode:{self.password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        status, text = ask(self.socket, method, path, body, headers)
        assert status in (200, 204), (status, text[:200])
        return json.loads(text) if text else None

    def session(self, directory: Path | None = None) -> str:
        """Create a session."""
        return str(self.api("POST", "/session", {}, directory)["id"])

    def prompt(self, session: str, script: str, directory: Path | None = None) -> None:
        """Send a prompt, and do not wait for the answer."""
        parts = [{"type": "text", "text": script}]
        self.api("POST", f"/session/{session}/prompt_async", {"parts": parts}, directory)

    def busy(self, directory: Path | None = None) -> dict[str, Json]:
        status: dict[str, Json] = self.api("GET", "/session/status", directory=directory)
        return status

    def answers(self, session: str) -> list[str]:
        """The texts of the assistant's messages."""
        messages = self.api("GET", f"/session/{session}/message")
        said = [m for m in messages if m["info"]["role"] == "assistant"]
        return ["".join(p.get("text", "") for p in m["parts"] if p["type"] == "text") for m in said]


class Beside(Sidecar):
    """A sidecar beside one OpenCode server."""

    def __init__(self, opencode: OpenCode, agent: Json | None = None, **config: Any) -> None:
        super().__init__(opencode, None, None, **config)  # type: ignore[arg-type]
        told = json.loads(self.config.read_text())
        told["agents"] = [
            merged({"kind": "opencode", "url": f"unix:{opencode.socket}", "every": "1s"}, agent or {})
        ]
        self.config.write_text(json.dumps(told))
