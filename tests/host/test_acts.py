"""Interrupt and reap, and the exit status that follows."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.host.driver import FAKE, PATIENCE, alive, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.host.conftest import Start
    from tests.host.driver import Hosted

KNOWN = "5e55-10n/é"


def busy(host: Hosted, text: str, **fields: object) -> str:
    """Ask something, and return the turn once the agent has begun."""
    host.prompt(text)
    turn = host.expect(id=KNOWN, **{"status": "busy", **fields})["turn"]
    assert isinstance(turn, str)
    return turn


def requests_in(record: Path) -> list[dict[str, object]]:
    messages = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return [message for message in messages if message["type"] == "control_request"]


def test_an_interrupt_ends_the_turn_and_the_same_process_answers_the_next(start: Start) -> None:
    host = start()
    turn = busy(host, "hole")
    pid = host.session()["pid"]
    answer = host.interrupt(turn=turn, reason="no progress for 20m")
    assert (answer.status, answer.body["turn"]) == (202, turn)
    host.expect(status="idle", turn=None)
    host.prompt("text still here")
    assert host.out.message(type="result", result="still here")
    assert host.session()["pid"] == pid
    host.close_stdin()
    assert host.wait() == 0


def test_a_pending_permission_is_waiting_and_can_be_interrupted(start: Start) -> None:
    host = start()
    turn = busy(host, "ask", status="waiting", waiting_for="permission prompt")
    assert host.interrupt(turn=turn).status == 202
    assert host.expect(status="idle")["waiting_for"] is None


def test_an_answered_permission_is_waiting_no_more(start: Start) -> None:
    host = start()
    busy(host, "ask", status="waiting")
    host.send({"type": "control_response", "response": {"subtype": "success", "request_id": "ask-1"}})
    assert host.out.message(type="result")["result"] == "allowed"
    assert host.expect(status="idle")["waiting_for"] is None


def test_a_running_tool_is_interrupted_and_its_result_is_no_progress(start: Start) -> None:
    host = start()
    busy(host, "tool")
    host.out.message(type="assistant")
    before = host.session()["last_activity_at"]
    host.interrupt()
    host.expect(status="idle")
    assert host.out.message(type="user")
    assert host.session()["last_activity_at"] == before


def test_an_interrupt_of_an_idle_session_is_harmless(start: Start, home: Path) -> None:
    host = start(command=[*FAKE, "--record", str(home / "record")])
    host.prompt("text one")
    host.out.message(type="result")
    host.expect(status="idle")
    assert host.interrupt(reason="a person").status == 202
    assert len(requests_in(home / "record")) == 1
    host.prompt("text two")
    host.out.message(2, type="result")
    host.close_stdin()
    assert host.wait() == 0


def test_a_turn_is_interrupted_only_once(start: Start, home: Path) -> None:
    host = start(command=[*FAKE, "--record", str(home / "record")])
    turn = busy(host, "deaf")
    statuses: list[int] = []
    askers = [
        threading.Thread(target=lambda: statuses.append(host.interrupt(turn=turn, reason="again").status))
        for _ in range(3)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(PATIENCE)
    assert statuses == [202, 202, 202]
    assert len(requests_in(home / "record")) == 1
    assert host.error.data.count(b"again") == 1


def test_the_next_turn_can_be_interrupted_again(start: Start) -> None:
    host = start()
    first = busy(host, "hole")
    host.interrupt(turn=first)
    host.expect(status="idle")
    second = busy(host, "hole")
    assert second != first
    assert host.interrupt(turn=second).status == 202
    host.expect(status="idle")


def test_a_queued_message_becomes_a_turn_that_can_be_interrupted_too(start: Start) -> None:
    host = start()
    first = busy(host, "hole")
    host.prompt("hole")
    host.interrupt(turn=first)
    host.out.message(2, subtype="init")
    second = host.session()["turn"]
    assert second not in (None, first)
    assert host.interrupt(turn=second).status == 202
    host.expect(status="idle")


@pytest.mark.parametrize("act", ["interrupt", "reap"])
def test_another_turn_than_the_one_that_was_judged_is_left_alone(start: Start, act: str) -> None:
    host = start()
    turn = busy(host, "hole")
    assert host.post(act, turn="t0-00000000", force=True, reason="too late").status == 409
    assert host.session()["turn"] == turn
    host.interrupt(turn=turn)
    host.expect(status="idle")
    assert host.post(act, turn=turn, reason="too late").status == 409
    assert b"too late" not in host.error.data


def test_an_agent_that_refuses_gives_a_503_and_may_be_asked_again(start: Start) -> None:
    host = start()
    turn = busy(host, "stubborn")
    assert host.interrupt(turn=turn).status == 503
    assert host.interrupt(turn=turn).status == 503
    assert host.session()["turn"] == turn
    host.error.text(b"interrupt: not done")


def test_a_half_written_line_gives_a_503_after_the_deadline_and_nothing_is_done(start: Start) -> None:
    host = start("--line-deadline", "0.2")
    turn = busy(host, "hole")
    host.write(b'{"type":"fake"')
    until(host.has_read, "the half line has arrived")
    answer = host.interrupt(turn=turn, reason="never said")
    assert answer.status == 503
    assert answer.body["error"]
    assert host.session()["last_verdict"] is None
    assert b"never said" not in host.error.data
    host.write(b"}\n")
    assert host.interrupt(turn=turn).status == 202


def test_without_stdin_there_is_no_interrupt_and_the_api_says_so(start: Start) -> None:
    host = start(command=[*FAKE, "--stay"])
    host.close_stdin()
    until(lambda: not host.session()["can"]["interrupt"], "the end of input has been passed on")
    assert host.interrupt().status == 501


def test_a_plain_agent_cannot_be_interrupted_but_reaped(start: Start) -> None:
    host = start("--mode", "plain", "--grace", "0.5", command=["sleep", "60"])
    session = host.session()
    assert session["can"] == {"interrupt": False, "reap": True}
    assert (session["status"], session["resolution"]) == ("busy", "record")
    assert host.interrupt(turn=session["turn"]).status == 501
    assert host.reap(turn=session["turn"]).status == 409
    assert host.reap(turn=session["turn"], force=True).status == 202
    assert host.wait() == 75


def test_an_idle_session_is_reaped_by_closing_its_stdin(start: Start) -> None:
    host = start()
    host.prompt("text one")
    host.out.message(type="result")
    host.expect(status="idle")
    assert host.reap(force=False, reason="idle for 30m").status == 202
    assert host.wait() == 0
    assert host.error.rest() == b"agent-sidecar: reap: idle for 30m\n"


@pytest.mark.parametrize("work", ["hole", "ask", "background"])
def test_a_busy_session_is_not_reaped_unless_forced(start: Start, work: str) -> None:
    host = start()
    host.prompt(work)
    host.expect(
        id=KNOWN,
        status="waiting" if work == "ask" else "busy",
        **({"turn": None} if work == "background" else {}),
    )
    assert host.reap(force=False, reason="idle").status == 409
    assert host.error.data == b""
    assert host.reap(force=True, reason="person").status == 202
    assert host.wait() == (0 if work == "background" else 75)


def test_a_reap_interrupts_first_and_sends_sigterm_only_after_the_grace(start: Start, home: Path) -> None:
    host = start("--grace", "0.3", command=[*FAKE, "--record", str(home / "record"), "--stay"])
    busy(host, "hole")
    host.reap(force=True, reason="over")
    assert host.wait() == 75
    assert len(requests_in(home / "record")) == 1
    assert host.out.messages(subtype="error_during_execution")


def test_an_agent_may_take_its_time_to_leave(start: Start) -> None:
    host = start(command=["sh", "-c", "cat; sleep 0.5; exit 4"])
    assert host.reap().status == 202
    assert host.wait() == 4


def test_a_reap_ends_what_ignores_everything_else_by_sigkill(start: Start) -> None:
    host = start("--grace", "0.2", command=[*FAKE, "--unkillable"])
    host.prompt("text one")
    host.out.message(type="result")
    host.expect(status="idle")
    pid = host.session()["pid"]
    assert host.reap().status == 202
    assert host.reap().status == 202
    assert host.wait() == 128 + signal.SIGKILL
    assert not alive(pid)


def test_an_idle_reap_that_needs_a_sigterm_keeps_the_agents_status(start: Start) -> None:
    host = start("--grace", "0.2", command=[*FAKE, "--stay"])
    host.prompt("text one")
    host.out.message(type="result")
    host.expect(status="idle")
    host.reap()
    assert host.wait() == 143


@pytest.mark.parametrize(
    ("prompt", "status"),
    [("text fine", 0), ("fail", 0), ("exit 0", 75), ("exit 3", 75), ("die SIGKILL", 75), ("die SIGTERM", 75)],
)
def test_the_exit_status_is_the_agents_own_unless_its_turn_died(
    start: Start, prompt: str, status: int
) -> None:
    host = start()
    host.prompt(prompt)
    host.close_stdin()
    assert host.wait() == status


def test_an_agent_killed_while_idle_gives_the_status_a_shell_would_give(start: Start) -> None:
    host = start()
    host.prompt("text one")
    host.out.message(type="result")
    os.kill(host.expect(status="idle")["pid"], signal.SIGKILL)
    assert host.wait() == 137


def test_a_sigint_in_mid_turn_is_no_success_though_the_agent_says_0(start: Start) -> None:
    host = start()
    busy(host, "hole")
    os.kill(host.session()["pid"], signal.SIGINT)
    assert host.wait() == 75


def test_a_print_mode_agent_that_is_ended_without_an_answer_is_no_success(start: Start) -> None:
    host = start("--mode", "plain", command=[*FAKE, "--register", "--print", "hole"])
    os.kill(host.expect(id=KNOWN, status="busy")["pid"], signal.SIGINT)
    assert host.wait() == 75
    host = start("--mode", "plain", command=[*FAKE, "--register", "--print", "text hello"])
    assert host.wait() == 0
    assert host.out.rest() == b"hello\n"


def test_an_interrupted_turn_leaves_75_and_a_completed_one_clears_it(start: Start) -> None:
    host = start()
    host.interrupt(turn=busy(host, "hole"))
    host.expect(status="idle")
    host.close_stdin()
    assert host.wait() == 75
    host = start()
    host.interrupt(turn=busy(host, "hole"))
    host.expect(status="idle")
    host.prompt("text better")
    host.out.message(result="better")
    host.close_stdin()
    assert host.wait() == 0


def test_a_turn_that_the_client_interrupts_itself_is_not_ended_by_us(start: Start) -> None:
    host = start()
    busy(host, "hole")
    host.send({"type": "control_request", "request_id": "mine", "request": {"subtype": "interrupt"}})
    host.out.message(type="result")
    host.close_stdin()
    assert host.wait() == 0


def test_the_reason_is_written_before_the_act(start: Start, home: Path) -> None:
    log = home / "termination"
    log.write_text("")
    # The agent looks for the reason when the interrupt reaches it.
    look = f"import sys\nsys.stdin.readline()\nprint(open({str(log)!r}).read(), flush=True)\nsys.stdin.read()"
    host = start("--termination-log", str(log), command=[sys.executable, "-c", look])
    host.interrupt(reason="no progress\nfor 20m\x1b[2J")
    assert host.out.text(b"20m").startswith(b"agent-sidecar: interrupt: no progress for 20m")
    host.error.text(b"agent-sidecar: interrupt: no progress for 20m [2J\n")


def test_the_termination_log_is_bounded_and_keeps_the_newest(start: Start, home: Path) -> None:
    log = home / "termination"
    log.write_bytes(b"x" * 10_000)
    host = start("--termination-log", str(log))
    for number in range(12):
        host.interrupt(reason=f"{number} " + "y" * 1000)
    written = log.read_text()
    assert len(written) <= 4096
    lines = written.splitlines()
    assert re.match(r"agent-sidecar: interrupt: 11 y+$", lines[-1])
    assert len(lines[-1]) == len("agent-sidecar: interrupt: ") + 500


def test_a_termination_log_that_was_asked_for_is_created_and_a_bad_one_stops_nothing(
    start: Start, home: Path
) -> None:
    host = start("--termination-log", str(home / "new"))
    host.interrupt(reason="why")
    assert (home / "new").read_text() == "agent-sidecar: interrupt: why\n"
    host = start("--termination-log", str(home / "no" / "such" / "folder"))
    assert host.interrupt(reason="why").status == 202
    host.error.text(b"cannot write")


def test_the_last_verdict_is_shown(start: Start) -> None:
    host = start()
    assert host.session()["last_verdict"] is None
    host.interrupt(reason="why")
    verdict = host.session()["last_verdict"]
    assert (verdict["action"], verdict["reason"]) == ("interrupt", "why")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", verdict["at"])


def test_a_registration_tells_the_turn_where_no_states_are_told(start: Start) -> None:
    host = start(command=[*FAKE, "--mute", "--register"])
    assert host.expect(id=KNOWN, status="idle")
    turn = busy(host, "hole")
    assert host.interrupt(turn=turn).status == 202
    host.expect(status="idle")
    busy(host, "ask", status="waiting", waiting_for="permission prompt")
    host.interrupt()
    host.expect(status="idle", waiting_for=None)


def test_a_registration_of_another_process_with_the_same_pid_is_not_believed(
    start: Start, home: Path
) -> None:
    entry = {"sessionId": "stale", "status": "busy", "procStart": "1", "statusUpdatedAt": 1}
    script = f"mkdir -p {home}/.claude/sessions; echo '{json.dumps(entry)}' > {home}/.claude/sessions/$$.json; echo up; cat"
    host = start(command=["sh", "-c", script])
    host.out.text(b"up")
    session = host.session()
    assert session["id"].startswith("host-")
    assert session["status"] == "idle"


def test_an_agent_that_tells_no_states_at_all_ends_its_turn_with_result_and_silence(start: Start) -> None:
    host = start(command=[*FAKE, "--mute", "--spaced"])
    host.prompt("text hello")
    host.close_stdin()
    assert host.wait() == 0
    assert host.out.messages(type="result")
