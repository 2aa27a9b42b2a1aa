"""An agent on a terminal."""

from __future__ import annotations

import os
import signal
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.driver import until

if TYPE_CHECKING:
    from tests.host.conftest import Start
    from tests.host.driver import Hosted

TUI = [sys.executable, "-S", str(Path(__file__).with_name("fake_tui.py"))]


@pytest.fixture
def keys(home: Path) -> Path:
    return home / "keys"


def asked(host: Hosted, prompt: str) -> str:
    host.out.text(b"ready")
    host.write(prompt.encode() + b"\r")
    turn = host.expect(status="busy")["turn"]
    assert isinstance(turn, str)
    return turn


def test_the_terminal_is_a_channel_and_is_left_as_it_was(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    before = termios.tcgetattr(host.slave)  # type: ignore[attr-defined]
    host.out.text(b"ready")
    assert termios.tcgetattr(host.slave) != before  # type: ignore[attr-defined]
    host.write(b"caf\xc3\xa9\x7f\x1a\x03")
    assert host.wait() == 0
    assert keys.read_bytes().decode("utf-8").encode("latin-1") == b"caf\xc3\xa9\x7f\x1a\x03"
    assert termios.tcgetattr(host.slave) == before  # type: ignore[attr-defined]


def test_the_size_of_our_terminal_is_the_agents(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    host.out.text(b"ready (")
    termios.tcsetwinsize(host.slave, (33, 101))  # type: ignore[attr-defined]
    host.process.send_signal(signal.SIGWINCH)
    host.out.text(b"size (33, 101)")


def test_pipes_are_relayed_too_and_their_end_is_not_the_agents(start: Start, keys: Path) -> None:
    host = start("--mode", "pty", command=[*TUI, str(keys)])
    host.out.text(b"ready (24, 80)")
    host.write(b"hole\r")
    host.expect(status="busy", id="5e551077-0000")
    host.close_stdin()
    assert host.interrupt(reason="over").status == 202
    host.expect(status="idle")
    assert host.session()["can"]["interrupt"]


def test_an_interrupt_is_one_esc_and_empties_the_box_if_the_prompt_came_back(
    start_terminal: Start, keys: Path
) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    turn = asked(host, "hole")
    assert host.interrupt(turn=turn, reason="over").status == 202
    until(
        lambda: keys.read_bytes() == b"hole\r\x1b\x15\x15", "Esc, Ctrl-U, and one more that changed nothing"
    )
    assert host.session()["status"] == "idle"
    host.error.text(b"agent-sidecar: interrupt: over")


def test_a_box_of_several_lines_is_emptied_line_by_line(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    host.interrupt(turn=asked(host, "one/two/three"))
    until(lambda: keys.read_bytes().endswith(b"\x1b" + b"\x15" * 4), "three lines and one more")


def test_a_turn_that_left_a_record_leaves_the_box_alone(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    host.interrupt(turn=asked(host, "talk"))
    assert keys.read_bytes() == b"talk\r\x1b"


def test_a_draft_that_was_typed_meanwhile_is_kept(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    turn = asked(host, "hole")
    host.write(b"draft")
    until(lambda: keys.read_bytes().endswith(b"draft"), "the draft is typed")
    host.interrupt(turn=turn)
    assert keys.read_bytes() == b"hole\rdraft\x1b"


def test_esc_is_pressed_once_a_turn_and_never_while_idle(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    host.out.text(b"ready")
    host.expect(status="idle", id="5e551077-0000")
    assert host.interrupt().status == 202
    assert not keys.exists()
    turn = asked(host, "talk")
    assert host.interrupt(turn=turn).status == 202
    assert host.interrupt(turn=turn).status == 409
    assert host.interrupt().status == 202
    assert keys.read_bytes().count(b"\x1b") == 1
    assert b"Rewind" not in host.out.data


def test_esc_is_not_pressed_again_where_it_did_not_help(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    turn = asked(host, "deaf")
    assert [host.interrupt(turn=turn).status for _ in range(2)] == [202, 202]
    assert keys.read_bytes() == b"deaf\r\x1b"


def test_a_reap_of_an_idle_terminal_is_a_sigterm(start_terminal: Start, keys: Path) -> None:
    host = start_terminal("--grace", "60", command=[*TUI, str(keys)])
    host.expect(status="idle", id="5e551077-0000")
    assert host.reap(reason="idle for 30m").status == 202
    assert host.wait() == 143


def test_a_forced_reap_presses_esc_first_and_leaves_75(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    turn = asked(host, "hole")
    assert host.reap(turn=turn).status == 409
    assert host.reap(turn=turn, force=True).status == 202
    assert host.wait() == 75
    assert keys.read_bytes().startswith(b"hole\r\x1b")


def test_a_terminal_agent_that_leaves_in_mid_turn_has_not_ended_by_itself(
    start_terminal: Start, keys: Path
) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    asked(host, "hole")
    with host.events(0.6) as events:  # longer than a registration may lag behind
        list(events)
    host.write(b"\x03")
    assert host.wait() == 75


def test_the_agent_is_told_when_its_terminal_goes(start_terminal: Start, keys: Path) -> None:
    host = start_terminal(command=[*TUI, str(keys)])
    pid = host.expect(status="idle", id="5e551077-0000")["pid"]
    assert os.readlink(f"/proc/{pid}/fd/0").startswith("/dev/pts/")  # noqa: PTH115 - not a file
    assert os.getsid(pid) == pid
    host.process.send_signal(signal.SIGHUP)
    assert host.wait() == 129
