"""The host in front of the real Claude Code, driven through its control API alone."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.claude import STREAM, Claude, prompt
from tests.e2e.process import Piped, Terminal, until
from tests.host.driver import HOST, Api

if TYPE_CHECKING:
    from tests.e2e.process import Json

PRINT = ["-p", "--output-format", "text"]


def command(claude: Claude, *options: str) -> tuple[Api, list[str]]:
    path = claude.sandbox.root / "control.sock"
    return Api(path), [sys.executable, str(HOST), "--listen", f"unix:{path}", *options, "--", claude.binary]


def hosted(claude: Claude, *arguments: str, host: tuple[str, ...] = ()) -> tuple[Api, Piped]:
    """Start a conversation behind a host."""
    api, line = command(claude, *host)
    return api, claude.sandbox.start([*line, *STREAM, *arguments], claude.env)


def on_terminal(claude: Claude) -> tuple[Api, Terminal]:
    """Start a terminal session behind a host, and wait until its input box is there."""
    api, line = command(claude, "--mode", "pty")
    terminal = claude.sandbox.start_terminal(line, claude.env)
    until(lambda: api.session()["id"].count("-") == 4, "the session has its id")
    terminal.expect("\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}")
    return api, terminal


def submit(terminal: Terminal, text: str) -> None:
    """Type a prompt; an Enter that comes with the text would be one more line of it."""
    before = len(terminal.output)
    terminal.type(text)
    until(
        lambda: text.rsplit(maxsplit=1)[-1].encode() in terminal.output[before:],
        "the prompt in the input box",
    )
    terminal.type("\r")


def stderr(claude: Claude) -> str:
    return (claude.sandbox.root / "stderr").read_text()


def asked_for(claude: Claude, count: int = 1) -> None:
    """Wait until the model has an open request: the turn is certainly under way."""
    until(lambda: claude.sandbox.stats()["open"] >= count, "a request to the model")


def test_a_black_hole_is_ended_and_the_same_process_answers_the_next_question(claude: Claude) -> None:
    api, conversation = hosted(claude)
    named = until(lambda: (found := api.session())["id"].count("-") == 4 and found, "the registration")
    assert (named["status"], named["turn"], named["resolution"]) == ("idle", None, "record")
    conversation.send(prompt("[[blackhole]]"))
    asked_for(claude)
    turn = api.session()["turn"]
    answer = api.interrupt(turn=turn, reason="no progress for 20m")
    assert answer.status == 202
    idle = api.expect(status="idle", turn=None)
    assert idle["pid"] == named["pid"]
    assert idle["id"] == named["id"]
    conversation.send(prompt("[[text still here]]"))
    said = conversation.expect(2, type="result")
    assert (said["result"], said["session_id"]) == ("still here", named["id"])
    assert api.expect(status="idle", resolution="delta")
    conversation.close_stdin()
    assert conversation.wait() == 0
    assert stderr(claude) == "agent-sidecar: interrupt: no progress for 20m\n"
    assert not conversation.messages(type="control_response")
    assert not conversation.messages(subtype="session_state_changed")


def test_the_client_gets_the_same_messages_as_without_a_host(claude: Claude) -> None:
    def shapes(conversation: Piped) -> list[tuple[object, object]]:
        conversation.send(prompt("[[bash echo hello;;text done]]"))
        conversation.expect(type="result")
        conversation.close_stdin()
        assert conversation.wait() == 0
        return [(message["type"], message.get("subtype")) for message in conversation.messages()]

    assert shapes(hosted(claude)[1]) == shapes(claude.start(*STREAM))


def test_a_one_shot_client_that_closes_its_input_can_be_interrupted_all_the_same(claude: Claude) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[blackhole]]"))
    conversation.close_stdin()
    asked_for(claude)
    assert api.interrupt(turn=api.session()["turn"], reason="over").status == 202
    assert conversation.wait() == 75
    assert conversation.messages(type="result", subtype="error_during_execution")


def test_a_one_shot_client_gets_all_its_answers(claude: Claude) -> None:
    _, conversation = hosted(claude)
    for text in ("[[text one]]", "[[text two]]"):
        conversation.send(prompt(text))
    conversation.close_stdin()
    assert conversation.wait() == 0
    assert [message["result"] for message in conversation.messages(type="result")] == ["one", "two"]


def test_a_pending_permission_is_waiting_and_is_ended(claude: Claude) -> None:
    claude.allow()
    api, conversation = hosted(claude, "--permission-prompt-tool", "stdio")
    conversation.send(prompt("[[bash touch x;;text done]]"))
    waiting = api.expect(status="waiting", waiting_for="permission prompt")
    assert api.interrupt(turn=waiting["turn"]).status == 202
    api.expect(status="idle", waiting_for=None)
    conversation.send(prompt("[[bash touch y;;text done]]"))
    question = conversation.expect(2, type="control_request")
    api.expect(status="waiting")
    allowed = {"behavior": "allow", "updatedInput": question["request"]["input"]}
    response = {"subtype": "success", "request_id": question["request_id"], "response": allowed}
    conversation.send({"type": "control_response", "response": response})
    assert conversation.expect(2, type="result")["result"] == "done"
    assert api.expect(status="idle")
    conversation.close_stdin()
    assert conversation.wait() == 0


def test_a_question_to_the_user_is_waiting_too(claude: Claude) -> None:
    api, conversation = hosted(claude, "--permission-prompt-tool", "stdio")
    conversation.send(prompt("[[ask]]"))
    conversation.expect(type="control_request")
    waiting = until(
        lambda: (found := api.session())["waiting_for"] == "input needed" and found, "the question"
    )
    assert waiting["status"] == "waiting"
    api.interrupt()
    api.expect(status="idle")


def test_a_queued_message_runs_after_an_interrupt_and_can_be_interrupted_itself(claude: Claude) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[blackhole]]"))
    asked_for(claude)
    conversation.send(prompt("[[blackhole]]"))
    first = api.session()["turn"]
    assert api.interrupt(turn=first).status == 202
    conversation.expect(2, subtype="init")
    second = until(lambda: (turn := api.session()["turn"]) not in (None, first) and turn, "a turn of its own")
    assert api.interrupt(turn=first).status == 409
    assert api.interrupt(turn=second).status == 202
    api.expect(status="idle")


def test_a_long_tool_is_busy_without_progress_and_left_alone(claude: Claude) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[bash python3 -c 'import time;time.sleep(4)';;text done]]"))
    conversation.expect(type="assistant")
    before = api.session()
    with api.events(2) as events:
        during = list(events)
    assert [event for event in during if "progress" in event] == []
    assert before["status"] == "busy"
    assert conversation.expect(type="result")["result"] == "done"
    after = api.expect(status="idle")
    assert after["last_activity_at"] > before["last_activity_at"]


def test_a_stream_of_pings_is_no_progress_and_a_slow_one_is(claude: Claude) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[pings]]"))
    api.expect(resolution="delta")
    with api.events(2) as events:
        assert [event for event in events if "progress" in event] == []
    api.interrupt()
    api.expect(status="idle")
    conversation.send(prompt("[[slow 3]]"))
    with api.events() as events:
        assert next(event for event in events if "progress" in event)
    conversation.expect(2, type="result")


def test_an_idle_session_is_reaped_by_the_end_of_its_input(claude: Claude) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[text hello]]"))
    conversation.expect(type="result")
    api.expect(status="idle")
    assert api.reap(reason="idle for 30m").status == 202
    assert conversation.wait() == 0
    assert stderr(claude) == "agent-sidecar: reap: idle for 30m\n"


def test_a_busy_session_is_reaped_only_by_force(claude: Claude) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[blackhole]]"))
    asked_for(claude)
    assert api.reap().status == 409
    assert api.reap(turn=api.session()["turn"], force=True).status == 202
    assert conversation.wait() == 75
    assert conversation.messages(subtype="error_during_execution")


def test_a_task_left_in_the_background_keeps_the_session_from_being_reaped(claude: Claude) -> None:
    api, conversation = hosted(claude)
    task = {
        "command": "python3 -c 'import time;time.sleep(3)'",
        "description": "x",
        "run_in_background": True,
    }
    conversation.send(prompt(f"[[tool Bash {json.dumps(task)};;text left behind]]"))
    conversation.expect(type="result")
    assert api.expect(status="busy", turn=None)
    assert api.reap().status == 409
    conversation.close_stdin()  # held back until the task is done and has been answered
    assert conversation.wait() == 0
    assert len(conversation.messages(type="result")) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_turn_is_no_success(claude: Claude, number: signal.Signals) -> None:
    api, conversation = hosted(claude)
    conversation.send(prompt("[[blackhole]]"))
    asked_for(claude)
    assert api.session()["status"] == "busy"
    conversation.signal(number)
    assert conversation.wait() == 75


def test_print_mode_behind_a_plain_host_is_no_success_where_it_was_ended(claude: Claude) -> None:
    for script, status, output in (("[[text hello]]", 0, "hello\n"), ("[[blackhole]]", 75, "")):
        api, line = command(claude, "--mode", "plain")
        conversation = claude.sandbox.start([*line, *PRINT, script], claude.env)
        conversation.close_stdin()
        if status:
            asked_for(claude)
            busy = api.expect(status="busy", can={"interrupt": False, "reap": True})
            assert api.interrupt(turn=busy["turn"]).status == 501
            assert api.reap(turn=busy["turn"], force=True).status == 202
        assert conversation.wait() == status
        assert "".join(conversation.lines) == output


@pytest.mark.parametrize(
    "arguments",
    [
        ["[[text hello]]"],
        ["[[text hello;; text never]]", "--max-turns", "1"],
        ["[[bash touch x;;text done]]"],
        ["[[bash touch x;;text done]]", "--max-turns", "1"],
        ["[[error 400]]"],
        ["/cost"],
    ],
)
def test_a_prompt_prints_and_leaves_what_print_mode_does(claude: Claude, arguments: list[str]) -> None:
    claude.allow()  # nothing: a command is denied
    script, *options = arguments
    _, line = command(claude, "--prompt", script)
    asked = claude.sandbox.run([*line, *STREAM, *options], claude.env)
    plain = claude.run("-p", script, *options)
    assert (asked[0], steady(asked[1])) == (plain[0], steady(plain[1]))


def steady(text: str) -> str:
    """Leave out what no two runs have in common."""
    return re.sub(r"\d+(\.\d+)?s", "_s", text)


def test_a_prompt_that_hangs_is_ended_and_its_follow_up_is_asked(claude: Claude) -> None:
    for follow_up, status, output in (("[[text rescued]]", 0, "rescued\n"), (None, 75, "")):
        more = ["--follow-up", follow_up] if follow_up else []
        api, line = command(claude, "--prompt", "[[blackhole]]", *more)
        conversation = claude.sandbox.start([*line, *STREAM], claude.env)
        asked_for(claude)
        assert api.interrupt(turn=api.session()["turn"], reason="it hangs").status == 202
        assert conversation.wait() == status
        assert "".join(conversation.lines) == output
    assert stderr(claude) == "agent-sidecar: interrupt: it hangs\n" * 2


def test_esc_ends_a_black_hole_on_a_terminal_and_the_next_prompt_stands_alone(claude: Claude) -> None:
    api, terminal = on_terminal(claude)
    for script in ("[[blackhole]]", "x" * 200 + " [[blackhole]]"):
        submit(terminal, script)
        asked_for(claude)
        busy = api.expect(status="busy")
        assert api.interrupt(turn=busy["turn"], reason="over").status == 202
        api.expect(status="idle")
    submit(terminal, "[[text after it]]")
    answered(api, claude, "after it")
    assert typed(claude)[-1] == "[[text after it]]"
    terminal.signal(signal.SIGTERM)
    assert terminal.wait() == 143


def answered(api: Api, claude: Claude, text: str) -> None:
    """Wait until the last answer is this one and its turn has ended."""

    def last() -> object:
        records = claude.records(type="assistant")
        return records and records[-1]["message"]["content"][0].get("text")

    until(lambda: last() == text, "the answer")
    until(lambda: api.session()["status"] == "idle", "the turn's end")


def typed(claude: Claude) -> list[str]:
    """List the prompts that were typed, as the transcript has them."""
    records: list[Json] = claude.records(type="user", promptSource="typed")
    return [record["message"]["content"] for record in records]


def test_esc_ends_a_tool_a_permission_and_a_stream_on_a_terminal(claude: Claude) -> None:
    api, terminal = on_terminal(claude)
    for script in ("[[bash python3 -c 'import time;time.sleep(60)']]", "[[stall 5]]"):
        before = len(claude.records(type="assistant"))
        submit(terminal, script)
        turn = api.expect(status="busy")["turn"]
        if "bash" in script:
            until(lambda: len(claude.records(type="assistant")) > before, "the tool runs")  # noqa: B023
        else:
            terminal.expect("tokens)")  # the first of them have come
        assert api.interrupt(turn=turn).status == 202
        api.expect(status="idle")
    submit(terminal, "[[text after it]]")
    answered(api, claude, "after it")
    assert typed(claude)[-1] == "[[text after it]]"
    terminal.signal(signal.SIGTERM)
    assert terminal.wait() == 143


def test_a_permission_on_a_terminal_is_waiting_and_esc_ends_it(claude: Claude) -> None:
    claude.allow()
    api, terminal = on_terminal(claude)
    submit(terminal, "[[bash touch x]]")
    waiting = api.expect(status="waiting", waiting_for="permission prompt")
    assert api.interrupt(turn=waiting["turn"]).status == 202
    api.expect(status="idle", waiting_for=None)
    assert not Path(claude.sandbox.work, "x").exists()
    assert api.reap(reason="done").status == 202
    assert terminal.wait() == 75  # its last turn was ended by us


def test_the_command_can_be_wrapped_as_a_shim(claude: Claude) -> None:
    api, line = command(claude)
    shim = claude.sandbox.root / "claude"
    shim.write_text(f'#!/bin/sh\nexec {shlex.join(line)} "$@"\n')
    shim.chmod(0o755)
    conversation = claude.sandbox.start([str(shim), *STREAM], claude.env)
    conversation.send(prompt("[[text hello]]"))
    conversation.expect(type="result")
    assert api.expect(status="idle")
    conversation.close_stdin()
    assert conversation.wait() == 0
