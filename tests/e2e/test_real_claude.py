"""The real Claude Code answers in the sandbox, in each of the ways that people run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.claude import SDK_PYTHON, prompt, type_prompt
from tests.e2e.process import until

if TYPE_CHECKING:
    from tests.e2e.claude import Claude

SDK_CLIENT = Path(__file__).with_name("sdk_client.py")


def test_the_real_cli_answers(claude: Claude) -> None:
    status, output = claude.run("-p", "--output-format", "json", "[[text hello]]")
    assert status == 0
    assert json.loads(output)["result"] == "hello"
    assert claude.records(type="user")[0]["entrypoint"] == "sdk-cli"


def test_a_conversation_goes_on_after_a_command(claude: Claude) -> None:
    talk = claude.stream()
    talk.send(prompt("[[bash echo one;;text done]]"))
    assert talk.expect(type="result")["result"] == "done"
    talk.send(prompt("[[text more]]"))
    assert talk.expect(2, type="result")["result"] == "more"
    talk.close_stdin()
    assert talk.wait() == 0


def test_a_terminal_shows_the_answer(claude: Claude) -> None:
    screen = claude.terminal()
    type_prompt(screen, "[[text hello]]")
    until(lambda: claude.records(type="system", subtype="turn_duration"), "the turn ends")
    assert claude.records(type="user")[0]["entrypoint"] == "cli"


def test_the_sdk_answers(claude: Claude) -> None:
    command = [str(SDK_PYTHON), str(SDK_CLIENT), claude.binary, "[[text hello]]"]
    status, output = claude.sandbox.run(command, claude.env)
    assert (status, output) == (0, "hello\n")
    assert claude.records(type="user")[0]["entrypoint"] == "sdk-py"
