"""Claude Code in a sandbox: how it is started there, and where it leaves what a sidecar reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.process import until

if TYPE_CHECKING:
    from tests.e2e.process import Json, Piped, Terminal
    from tests.e2e.sandbox import Sandbox

INSTALLED = Path(__file__).parents[2] / ".e2e"
BINARY = INSTALLED / "claude" / "claude"
SDK_PYTHON = INSTALLED / "sdk" / "bin" / "python"
INPUT_BOX = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
STREAM = [
    *("-p", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--verbose", "--include-partial-messages"),
]


class Claude:
    """The command and its traces in one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        assert BINARY.exists(), "the real agents are missing: tests/e2e/install.sh brings them"
        self.sandbox = sandbox
        self.binary = str(BINARY.resolve())
        self.config = sandbox.home / ".claude"
        self.env = {
            "ANTHROPIC_API_KEY": "sk-ant-nobody",
            "ANTHROPIC_BASE_URL": sandbox.model_url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }
        self.settle()

    def settle(self) -> None:
        """Answer beforehand what a first start asks, and allow the commands that the scripts run."""
        self.config.mkdir(exist_ok=True)
        key = self.env["ANTHROPIC_API_KEY"][-20:]
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [key], "rejected": []},
            "projects": {str(self.sandbox.work): {"hasTrustDialogAccepted": True}},
        }
        (self.sandbox.home / ".claude.json").write_text(json.dumps(state))
        self.allow("Bash(*)")

    def allow(self, *rules: str) -> None:
        """Replace the permission rules; none at all makes every command ask."""
        # Without the mode a terminal session would let the model judge each command.
        permissions = {"allow": list(rules), "defaultMode": "default"}
        (self.config / "settings.json").write_text(json.dumps({"permissions": permissions}))

    def run(self, *arguments: str, seconds: float = 60) -> tuple[int, str]:
        """Run to the end: exit status and stdout."""
        return self.sandbox.run([self.binary, *arguments], self.env, seconds)

    def start(self, *arguments: str, **env: str) -> Piped:
        return self.sandbox.start([self.binary, *arguments], self.env | env)

    def stream(self, *arguments: str) -> Piped:
        """Start a conversation in stream-json, with partial messages and state events."""
        return self.start(*STREAM, *arguments, CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS="1")

    def terminal(self, *arguments: str) -> Terminal:
        """Start as a person would, and wait for the input box."""
        screen = self.sandbox.start_terminal([self.binary, *arguments], self.env)
        screen.expect(INPUT_BOX)
        return screen

    def transcripts(self) -> list[Path]:
        """List the sessions' own files, not those of subagents."""
        return sorted(self.config.glob("projects/*/*.jsonl"))

    def records(self, **fields: object) -> list[Json]:
        """Read the records of all sessions that carry these fields."""
        # A last line without its end is being written.
        texts = [path.read_text().rpartition("\n")[0] for path in self.transcripts()]
        lines = [line for text in texts for line in text.split("\n") if line]
        parsed: list[Json] = [json.loads(line) for line in lines]
        return [record for record in parsed if fields.items() <= record.items()]

    def until_open_tool(self) -> None:
        """Wait until the transcript shows a tool call that has no result yet."""
        until(lambda: self._last_stop() == "tool_use", "a tool call in the transcript")

    def until_open_request(self) -> None:
        """Wait until the model holds a request and the transcript says so."""
        until(lambda: self.sandbox.stats()["open"] == 1, "a request that the model holds")
        until(lambda: self.records(type="api-request"), "the request in the transcript")

    def _last_stop(self) -> str | None:
        turns = [record for record in self.records() if record["type"] in ("assistant", "user")]
        return turns[-1]["message"].get("stop_reason") if turns else None

    def registration(self, pid: int) -> Json | None:
        """Read what the process says about itself; half-written counts as not yet there."""
        try:
            entry: Json = json.loads((self.config / "sessions" / f"{pid}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return entry


def prompt(script: str) -> Json:
    """Spell a user message for stream-json."""
    return {"type": "user", "message": {"role": "user", "content": script}, "parent_tool_use_id": None}


def type_prompt(screen: Terminal, script: str) -> None:
    """Type a message, and send it once the box shows it: keys that come too early would be lost."""
    screen.type(script)
    screen.expect(script)
    screen.type("\r")
