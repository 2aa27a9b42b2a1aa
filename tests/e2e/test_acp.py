"""Real agents that speak the Agent Client Protocol, behind a host, judged by a sidecar from what that tells."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import opencode, qwen
from tests.e2e.process import Json, until
from tests.e2e.sidecar import Sidecar, merged
from tests.host.driver import HOST, Api

if TYPE_CHECKING:
    from tests.e2e.sandbox import Sandbox

pytestmark = pytest.mark.timeout(120)


class Editor:
    """A client that opens a session, prompts, and leaves questions unanswered."""

    def __init__(self, sandbox: Sandbox, command: list[str], env: dict[str, str]) -> None:
        self.sandbox = sandbox
        self.config = sandbox.home
        self.socket = sandbox.root / "acp.sock"
        host = [sys.executable, str(HOST), "--mode", "acp", "--listen", f"unix:{self.socket}", "--"]
        self.agent = sandbox.start([*host, *command], env)
        self._asked = 0
        self.told(self.ask("initialize", protocolVersion=1, clientCapabilities={}), 60)
        opened = self.told(self.ask("session/new", cwd=str(sandbox.work), mcpServers=[]), 60)
        self.session = str(opened["result"]["sessionId"])

    def ask(self, method: str, **params: object) -> int:
        self._asked += 1
        self.agent.send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        return self._asked

    def prompt(self, script: str) -> int:
        return self.ask("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": script}])

    def told(self, request: int, seconds: float = 30) -> Json:
        """Wait for the answer to a request: ids of the agent's own requests are counted apart."""

        def answers() -> list[Json]:
            return [m for m in self.agent.messages(id=request) if "method" not in m]

        return until(answers, f"the answer to {request}", seconds)[0]

    def says(self, script: str, *words: str) -> None:
        """Have a question answered by the same process."""
        before = len(self.agent.lines)
        assert self.told(self.prompt(script))["result"]["stopReason"] == "end_turn"
        said = "".join(self.agent.lines[before:])
        assert all(word in said for word in words)


class Beside(Sidecar):
    """A sidecar that knows the agent by its host alone."""

    def __init__(self, editor: Editor, **config: Any) -> None:
        super().__init__(editor, None, None, **config)  # type: ignore[arg-type]
        told = json.loads(self.config.read_text())
        told["agents"] = [{"kind": "control-api", "url": f"unix:{editor.socket}"}]
        self.config.write_text(json.dumps(told))


def of_opencode(sandbox: Sandbox) -> tuple[Editor, str]:
    env = opencode.configured(sandbox)
    return Editor(sandbox, [str(opencode.BINARY.resolve()), "acp"], env), "bash touch x"


def of_qwen(sandbox: Sandbox) -> tuple[Editor, str]:
    folder = sandbox.home / ".qwen"
    folder.mkdir()
    chosen = merged(qwen.SETTINGS, {"tools": {"approvalMode": "default"}})
    (folder / "settings.json").write_text(json.dumps(chosen))
    env = {
        "OPENAI_API_KEY": "nobody",
        "OPENAI_BASE_URL": f"{sandbox.model_url}/v1",
        "OPENAI_MODEL": "scripted",
    }
    touch = json.dumps({"command": "touch x", "description": "x", "is_background": False})
    command = [str(qwen.HOME / "node"), str(qwen.HOME / "qwen"), "--acp"]
    return Editor(sandbox, command, env), f"tool run_shell_command {touch}"


@pytest.mark.parametrize("agent", [of_opencode, of_qwen])
def test_a_black_hole_and_a_permission_that_nobody_gives_are_ended_and_the_agent_goes_on(
    sandbox: Sandbox, agent: Any
) -> None:
    editor, asking = agent(sandbox)
    bounds = {"unsafe": True, "model": "3s", "waiting": "3s"}
    with Beside(editor, bounds=bounds) as sidecar:
        editor.says("[[text one two three four]]", "one", "four")
        hole = editor.prompt("[[blackhole]]")
        verdict = sidecar.expect("turn.stalled", session=editor.session, bound="model", action="interrupt")
        assert editor.told(hole)["result"]["stopReason"] == "cancelled"
        sidecar.expect("action.outcome", session=editor.session, action="interrupt", outcome="effective")
        editor.says("[[text still here]]", "still", "here")

        asked = editor.prompt(f"[[{asking};;text done]]")
        until(lambda: sidecar.sessions()[editor.session]["phase"] == "waiting", "it is seen to wait")
        assert Api(editor.socket).session()["waiting_for"] == "permission"
        waited = sidecar.expect("turn.stalled", session=editor.session, bound="waiting")
        assert waited["reason"].startswith("waiting for permission for 3")
        assert editor.told(asked)["result"]["stopReason"] == "cancelled"
        (question,) = editor.agent.messages(method="session/request_permission")
        chosen = {"outcome": "selected", "optionId": question["params"]["options"][0]["optionId"]}
        editor.agent.send({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": chosen}})
        editor.says("[[text and here]]", "and", "here")
        assert not (sandbox.work / "x").exists()

        assert verdict["turn"] != waited["turn"]
        for turn in verdict["turn"], waited["turn"]:
            assert sidecar.expect("turn.end", session=editor.session, turn=turn)["outcome"] == "stalled"
        assert sidecar.sessions()[editor.session]["turns"]["stalled"] == 2
        editor.agent.close_stdin()
        assert editor.agent.wait() == 0
