"""The Python SDK in front: its client lives on when a turn of its agent is ended, and hears of it once."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.claude import SDK_PYTHON, Claude
from tests.e2e.process import until
from tests.e2e.sidecar import ROOT, Sidecar
from tests.e2e.test_main_job import control, markers, reasons

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.process import Json, Piped

# Asks every question of its input, one a line, through one client, and says how each turn ended. `query`
# asks the first one only, as a script does that has a single question and closes the agent's input.
ASKS = """
import asyncio, json, sys
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, query

async def tell(messages):
    async for message in messages:
        if isinstance(message, ResultMessage):
            told = {"type": "result", "subtype": message.subtype, "result": message.result}
            print(json.dumps(told | {"session": message.session_id}), flush=True)

async def main(way, cli):
    options = ClaudeAgentOptions(cli_path=cli, include_partial_messages=way == "pieces")
    if way == "query":
        return await tell(query(prompt=sys.stdin.readline(), options=options))
    async with ClaudeSDKClient(options) as client:
        while question := await asyncio.to_thread(sys.stdin.readline):
            await client.query(question)
            await tell(client.receive_response())

asyncio.run(main(*sys.argv[1:]))
"""


def hosting(claude: Claude) -> Path:
    """A command for the SDK's `cli_path`: the agent with a host in front, whatever its arguments."""
    wrapper = claude.sandbox.root / "hosted-claude"
    host = f"{sys.executable} {ROOT / 'sidecar' / 'host.py'}"
    listen = f"--listen unix:{claude.sandbox.root}/{{pid}}.sock"
    wrapper.write_text(f'#!/bin/sh\nexec {host} {listen} -- {claude.binary} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def client(claude: Claude, way: str = "client") -> Piped:
    return claude.sandbox.start([str(SDK_PYTHON), "-c", ASKS, way, str(hosting(claude))], claude.env)


def ask(conversation: Piped, script: str) -> None:
    """A line is a question; the model finds its script in it, whatever stands around."""
    conversation.send({"question": f"[[{script}]]"})


@pytest.mark.parametrize("way", ["client", "pieces"])
def test_a_black_hole_behind_the_sdk_is_ended_and_the_same_client_gets_its_next_answer(
    claude: Claude, way: str
) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = client(claude, way)
        ask(conversation, "blackhole")
        verdict = sidecar.expect("turn.stalled", bound="model", action="interrupt")
        assert verdict["reason"].startswith("no progress for 5")
        sidecar.expect("action.outcome", action="interrupt", outcome="effective")
        ended: Json = conversation.expect(type="result")
        assert ended["subtype"] == "error_during_execution"
        assert reasons(claude.sandbox) == [f"agent-sidecar: interrupt: {verdict['reason']}"]
        ask(conversation, "text still here")
        answer = conversation.expect(2, type="result")
        assert (answer["subtype"], answer["result"]) == ("success", "still here")
        assert answer["session"] == ended["session"] == verdict["session"]
        sidecar.expect("turn.end", outcome="completed")
        turns = sidecar.session()["turns"]
        assert {name: count for name, count in turns.items() if count} == {"stalled": 1, "completed": 1}
        assert claude.records(type="user")[0]["entrypoint"] == "sdk-py"
        conversation.close_stdin()
        assert conversation.wait() == 0
    assert markers(claude) == 1


@pytest.mark.parametrize("moment", ["before the verdict", "after the call"])
def test_one_interrupt_reaches_the_agent_behind_the_sdk_though_the_sidecar_is_killed(
    claude: Claude, moment: str
) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = client(claude)
        ask(conversation, "blackhole")
        if moment == "before the verdict":
            sidecar.expect("turn.warned")
        else:
            until(lambda: reasons(claude.sandbox), "the host's word before it acts")
        restart(sidecar)
        assert conversation.expect(type="result")["subtype"] == "error_during_execution"
        until(lambda: sidecar.session()["phase"] == "idle", "the turn's end in the sidecar")
        ask(conversation, "text still here")
        assert conversation.expect(2, type="result")["result"] == "still here"
        sidecar.expect("turn.end", outcome="completed")
        conversation.close_stdin()
        assert conversation.wait() == 0
    assert markers(claude) == 1
    assert len(reasons(claude.sandbox)) == 1


def test_a_sidecar_killed_with_its_intent_written_never_interrupts_twice_and_says_what_came_of_it(
    claude: Claude,
) -> None:
    """Nobody can tell whether the call was made, so it is not made again: its effect is waited for."""
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = client(claude)
        ask(conversation, "blackhole")
        intent = sidecar.expect("action.intent")
        restart(sidecar)
        outcome = sidecar.expect("action.outcome", action="interrupt", turn=intent["turn"])["outcome"]
        called = len(reasons(claude.sandbox))
        assert (outcome, called) in [("effective", 1), ("ineffective", 0)]
        assert sidecar.events("action.intent") == []
        assert markers(claude) == called
        conversation.close_stdin()


def restart(sidecar: Sidecar) -> None:
    sidecar.stop(signal.SIGKILL)
    sidecar.lines.clear()
    sidecar.start()


def test_a_single_question_that_hangs_can_be_ended_though_its_input_is_closed(claude: Claude) -> None:
    """`query()` closes the agent's input at once: the host withholds that, so there is a way in."""
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = client(claude, "query")
        ask(conversation, "blackhole")
        verdict = sidecar.expect("turn.stalled", bound="model", action="interrupt")
        assert conversation.expect(type="result")["subtype"] == "error_during_execution"
        sidecar.expect("action.outcome", action="interrupt", outcome="effective")
        conversation.wait()
        sidecar.expect("session.close", session=verdict["session"])
    assert reasons(claude.sandbox) == [f"agent-sidecar: interrupt: {verdict['reason']}"]
    assert markers(claude) == 1
