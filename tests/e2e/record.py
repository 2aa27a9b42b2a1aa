"""Records the real Claude Code in situations that decide something.

`python -m tests.e2e.record [SITUATION…]` leaves the transcripts of each situation in a directory of its own
below tests/recordings/claude-code/, where the tests of the adapter read them. Run it when the pinned version
of the agent changes.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.blank import keep, relocate
from tests.e2e.claude import Claude, prompt
from tests.e2e.process import until
from tests.e2e.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.process import Piped

RECORDINGS = Path(__file__).parents[1] / "recordings" / "claude-code"
COMMAND = "python3 -c 'import time;time.sleep(6)'"


def queued_message(claude: Claude) -> None:
    """Send a second message while a command runs: it joins the running turn."""
    talk = claude.stream()
    talk.send(prompt(f"[[bash {COMMAND};;text first done]]"))
    claude.until_open_tool()
    talk.send(prompt("[[text second answer]]"))
    finish(talk)


def queued_message_streaming(claude: Claude) -> None:
    """Send a second message while the model answers: it opens the next turn."""
    talk = claude.stream()
    talk.send(prompt("[[slow 4]]"))
    talk.expect(type="stream_event")
    talk.send(prompt("[[text second answer]]"))
    finish(talk, results=2)


def resume_after_kill_in_tool(claude: Claude) -> None:
    talk = claude.stream()
    talk.send(prompt(f"[[bash {COMMAND};;text first done]]"))
    claude.until_open_tool()
    kill_and_resume(claude, talk)


def resume_after_kill_in_blackhole(claude: Claude) -> None:
    talk = claude.stream()
    talk.send(prompt("[[blackhole]]"))
    claude.until_open_request()
    kill_and_resume(claude, talk)


def usage_limit(claude: Claude) -> None:
    """Reach a subscription's limit: its reset time is told only to those who log in with one."""
    del claude.env["ANTHROPIC_API_KEY"]
    claude.env["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-nobody"  # noqa: S105  # nobody's
    talk = claude.stream()
    talk.send(prompt("[[limit 3600]]"))
    finish(talk)


def permission_pending(claude: Claude) -> None:
    """Leave a command waiting for a decision: the file as it stands meanwhile."""
    ask(claude)


def permission_denied(claude: Claude) -> None:
    talk = ask(claude)
    denial = {"behavior": "deny", "message": "no"}
    request = talk.expect(type="control_request")["request_id"]
    answer = {"subtype": "success", "request_id": request, "response": denial}
    talk.send({"type": "control_response", "response": answer})
    finish(talk)


def permission_interrupted(claude: Claude) -> None:
    talk = ask(claude)
    interrupt(talk)
    finish(talk)


def interrupt_mid_stream(claude: Claude) -> None:
    """End a turn after some of its answer has come."""
    talk = claude.stream()
    talk.send(prompt("[[stall 3]]"))
    until(lambda: len(deltas(talk)) == 3, "three deltas")
    interrupt(talk)
    finish(talk)


def background_agent(claude: Claude) -> None:
    """Start a subagent that outlives its turn, and whose end opens the next."""
    talk = claude.stream()
    talk.send(prompt(f"[[agent {{{{bash {COMMAND},,text sub done}}}};;text agent started]]"))
    finish(talk, results=2)


def ask(claude: Claude) -> Piped:
    claude.allow()
    talk = claude.stream("--permission-prompt-tool", "stdio")
    talk.send(prompt("[[bash touch file;;text done]]"))
    talk.expect(type="control_request")
    claude.until_open_tool()
    return talk


def interrupt(talk: Piped) -> None:
    request = {"subtype": "interrupt"}
    talk.send({"type": "control_request", "request_id": "host-1", "request": request})


def deltas(talk: Piped) -> list[str]:
    events = [message["event"]["type"] for message in talk.messages(type="stream_event")]
    return [event for event in events if event == "content_block_delta"]


def kill_and_resume(claude: Claude, talk: Piped) -> None:
    session = claude.transcripts()[0].stem
    talk.signal(signal.SIGKILL)
    talk.wait()
    status, _ = claude.run("-p", "--resume", session, "[[text again]]")
    assert status == 0


def finish(talk: Piped, results: int = 1) -> None:
    """Wait for the answers, then for the agent to be idle, and let it go."""
    talk.expect(results, type="result")
    until(lambda: talk.messages(subtype="session_state_changed")[-1]["state"] == "idle", "idle")
    talk.close_stdin()
    talk.wait()


SITUATIONS: dict[str, Callable[[Claude], object]] = {
    "queued_message": queued_message,
    "queued_message_streaming": queued_message_streaming,
    "resume_after_kill_in_tool": resume_after_kill_in_tool,
    "resume_after_kill_in_blackhole": resume_after_kill_in_blackhole,
    "usage_limit": usage_limit,
    "permission_pending": permission_pending,
    "permission_denied": permission_denied,
    "permission_interrupted": permission_interrupted,
    "interrupt_mid_stream": interrupt_mid_stream,
    "background_agent": background_agent,
}


def save(claude: Claude, name: str) -> Path:
    """Copy what the agent left: transcripts, those of subagents, and registrations still there."""
    version: str = next(record["version"] for record in claude.records() if "version" in record)
    case = RECORDINGS / version / name
    shutil.rmtree(case, ignore_errors=True)
    for path in claude.config.glob("projects/**/*.jsonl"):
        copy = case.joinpath(*path.relative_to(claude.config / "projects").parts[1:])
        copy.parent.mkdir(parents=True, exist_ok=True)
        lines = [keep(line, claude.sandbox) for line in path.read_text().splitlines()]
        copy.write_text("\n".join(lines) + "\n")
    for path in claude.config.glob("projects/**/*.meta.json"):
        copy = case.joinpath(*path.relative_to(claude.config / "projects").parts[1:])
        copy.write_text(relocate(path.read_text(), claude.sandbox) + "\n")
    for path in claude.config.glob("sessions/*.json"):
        (case / "registration.json").write_text(relocate(path.read_text(), claude.sandbox) + "\n")
    return case


def main() -> None:
    for name in sys.argv[1:] or SITUATIONS:
        with Sandbox() as sandbox:
            claude = Claude(sandbox)
            SITUATIONS[name](claude)
            sys.stdout.write(f"{save(claude, name)}\n")


if __name__ == "__main__":
    main()
