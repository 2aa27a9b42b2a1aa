"""The agent's own telemetry and ours about the same turn: what joins them, and what cannot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.claude import STREAM, Claude, prompt
from tests.e2e.process import until
from tests.e2e.receiver import receiving
from tests.e2e.sidecar import Sidecar
from tests.telemetry.collector import REQUESTS, plain

if TYPE_CHECKING:
    from tests.e2e.sandbox import Sandbox

PORT = 4318
OWN = {
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{PORT}",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
    "OTEL_LOGS_EXPORT_INTERVAL": "100",
}
"""What has Claude Code send traces and logs of its own."""


class Inbox:
    """What the agent sent, within its sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._folder = sandbox.root / "inbox"
        self._folder.mkdir()
        script = str(Path(__file__).with_name("inbox.py"))
        sandbox.start([sys.executable, script, str(PORT), str(self._folder)], {})

    def _scopes(self, signal: str) -> list[Any]:
        scopes = []
        for path in self._folder.glob(f"{signal}-*"):
            if path.suffix != ".part":
                request = REQUESTS[f"/v1/{signal}"]()
                request.ParseFromString(path.read_bytes())
                groups = request.resource_spans if signal == "traces" else request.resource_logs
                scopes += [scope for g in groups for scope in getattr(g, g.DESCRIPTOR.fields[1].name)]
        return scopes

    @property
    def spans(self) -> dict[str, Any]:
        return {span.name: span for scope in self._scopes("traces") for span in scope.spans}

    @property
    def prompts(self) -> set[str]:
        logs = [log for scope in self._scopes("logs") for log in scope.log_records]
        return {plain(log.attributes).get("prompt.id", "") for log in logs} - {""}


def test_claudes_own_spans_and_ours_share_session_turn_and_call_but_no_trace(claude: Claude) -> None:
    inbox = Inbox(claude.sandbox)
    for off in ("DISABLE_TELEMETRY", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"):
        del claude.env[off]
    with receiving("http") as collector:
        sidecar = Sidecar(claude, telemetry={"otlp": collector.settings})
        sidecar.env["OTEL_BSP_SCHEDULE_DELAY"] = "100"
        with sidecar:
            conversation = claude.start(*STREAM, **OWN)
            conversation.send(prompt("[[bash echo one;;text done]]"))
            conversation.expect(type="result")
            root = collector.span("invoke_agent claude-code")
            tool = collector.span("execute_tool Bash")
            until(lambda: "claude_code.interaction" in inbox.spans, "its span")
            until(lambda: inbox.prompts, "its log events")
            theirs, prompts = inbox.spans, inbox.prompts
    own = {name: plain(span.attributes) for name, span in theirs.items()}
    assert {a["gen_ai.conversation.id"] for a in own.values()} == {root.attributes["gen_ai.conversation.id"]}
    assert own["claude_code.tool"]["gen_ai.tool.call.id"] == tool.attributes["gen_ai.tool.call.id"]
    assert prompts == {root.attributes["agent_sidecar.turn.id"]}
    # The day that a transcript names the trace, ours can be its child; until then nothing could say which.
    written = "".join(path.read_text() for path in claude.config.rglob("*.json*"))
    assert len(written) > 1000
    for span in theirs.values():
        assert span.trace_id.hex() not in written
        assert span.span_id.hex() not in written
    assert root.trace not in {span.trace_id.hex() for span in theirs.values()}
