"""A one-shot prompt that is asked in a conversation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.host.driver import FAKE, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.host.conftest import Start

KNOWN = "5e55-10n/é"


def test_a_prompt_prints_its_answer_as_text_mode_does(start: Start) -> None:
    host = start("--prompt", "text hello there")
    assert host.wait() == 0
    assert host.out.rest() == b"hello there\n"
    assert host.error.rest() == b""


def test_an_answer_of_many_megabytes_is_printed_whole(start: Start, home: Path) -> None:
    (home / "prompt").write_text("text " + "w" * 3_000_000)
    host = start("--prompt", f"@{home}/prompt")
    assert host.wait() == 0
    assert host.out.rest() == b"w" * 3_000_000 + b"\n"


def test_follow_ups_are_asked_one_after_the_other(start: Start, home: Path) -> None:
    (home / "second").write_text("text two\nlines")
    host = start("--prompt", "text one", "--follow-up", f"@{home}/second", "--follow-up", "text three")
    assert host.wait() == 0
    assert host.out.rest() == b"one\ntwo\nlines\nthree\n"


def test_a_follow_up_is_not_asked_before_its_turn(start: Start, home: Path) -> None:
    record = home / "record"
    host = start("--prompt", "hole", "--follow-up", "text two", command=[*FAKE, "--record", str(record)])
    turn = host.expect(id=KNOWN, status="busy")["turn"]
    host.interrupt(turn=turn)
    assert host.wait() == 0
    kinds = [json.loads(line)["type"] for line in record.read_text().splitlines()]
    assert kinds == ["user", "control_request", "user"]


def test_a_text_that_begins_with_an_at_sign_is_written_with_two(start: Start, home: Path) -> None:
    host = start("--prompt", "@@file", command=[*FAKE, "--record", str(home / "record")])
    record = home / "record"
    until(lambda: record.exists() and '"content": "@file"' in record.read_text(), "the text has been asked")
    assert host.session()["status"] == "busy"


def test_stdin_is_not_passed_on(start: Start, home: Path) -> None:
    host = start("--prompt", "text one", command=[*FAKE, "--record", str(home / "record")])
    host.write(b'{"type":"user","message":{"role":"user","content":"text mine"}}\n')
    assert host.wait() == 0
    assert "mine" not in (home / "record").read_text()


def test_an_error_is_printed_and_leaves_1(start: Start) -> None:
    host = start("--prompt", "fail")
    assert host.wait() == 1
    assert host.out.rest() == b"API Error: 400\n"
    host = start("--prompt", "fail", "--follow-up", "text better")
    assert host.wait() == 0
    assert host.out.rest() == b"API Error: 400\nbetter\n"


def test_a_turn_ended_through_the_api_leaves_75_and_its_reason_on_stderr(start: Start) -> None:
    host = start("--prompt", "hole")
    turn = host.expect(id=KNOWN, status="busy")["turn"]
    assert host.interrupt(turn=turn, reason="no progress for 20m").status == 202
    assert host.wait() == 75
    assert host.out.rest() == b""
    assert host.error.rest() == b"agent-sidecar: interrupt: no progress for 20m\n"


def test_the_follow_up_of_an_interrupted_turn_is_still_asked(start: Start) -> None:
    for follow_up, status in (("text rescued", 0), ("fail", 1)):
        host = start("--prompt", "hole", "--follow-up", follow_up)
        host.interrupt(turn=host.expect(id=KNOWN, status="busy")["turn"], reason="over")
        assert host.wait() == status
        assert host.out.rest().count(b"\n") == 1
    host = start("--prompt", "text fine", "--follow-up", "hole")
    host.out.text(b"fine")
    host.interrupt(turn=host.expect(id=KNOWN, status="busy")["turn"], reason="over")
    assert host.wait() == 75


def test_a_prompt_whose_agent_dies_leaves_75(start: Start) -> None:
    for prompt in ("exit 0", "die SIGKILL"):
        host = start("--prompt", prompt, "--follow-up", "text never")
        assert host.wait() == 75
        assert host.out.rest() == b""


def test_what_is_no_message_goes_to_stderr(start: Start) -> None:
    host = start("--prompt", "text hi", command=["sh", "-c", f"echo warning; exec {' '.join(FAKE)}"])
    assert host.wait() == 0
    assert host.out.rest() == b"hi\n"
    assert host.error.rest() == b"warning\n"


@pytest.mark.parametrize("reap", [False, True])
def test_a_permission_that_nobody_gives_can_be_ended(start: Start, reap: bool) -> None:
    host = start("--prompt", "ask")
    turn = host.expect(id=KNOWN, status="waiting")["turn"]
    assert (host.reap(turn=turn, force=True) if reap else host.interrupt(turn=turn)).status == 202
    assert host.wait() == 75
