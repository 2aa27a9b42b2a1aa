"""What passes between client and agent, and what does not."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.host.driver import FAKE, HOST, PATIENCE, PYTHON, running, until, user

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.host.conftest import Start

PRINT_ENVIRONMENT = [
    sys.executable,
    "-c",
    "import os;print(os.environ['CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS'])",
]


def fed(
    data: bytes, folder: Path, command: Sequence[str], *options: str
) -> subprocess.CompletedProcess[bytes]:
    listen = f"unix:{folder / 'control.sock'}"
    line = [PYTHON, str(HOST), "--listen", listen, *options, "--", *command]
    return subprocess.run(line, input=data, capture_output=True, timeout=PATIENCE * 2, check=False)


@pytest.mark.parametrize("mode", ["stream-json", "plain"])
@pytest.mark.parametrize("kind", ["random", "one-line", "short-lines", "no-newline", "late-type"])
def test_the_streams_pass_byte_for_byte(home: Path, mode: str, kind: str) -> None:
    data = {
        "random": os.urandom(8_000_000),
        "one-line": b'{"type":"assistant","text":"' + b"x" * 8_000_000 + b'"}\n',
        "short-lines": b'{"type":"user"}\r\n\n{}\n\xe2\x80\xa8\n' * 100_000,
        "no-newline": b"\0" * 100_000,
        "late-type": (b'{"long":"' + b"y" * 100_000 + b'","type":"result"}\n') * 50,
    }[kind]
    passed = fed(data, home, ["cat"], "--mode", mode)
    assert hashlib.sha256(passed.stdout).digest() == hashlib.sha256(data).digest()
    assert passed.returncode == 0
    assert passed.stderr == b""


def test_60_mb_in_one_line_take_no_more_time_than_in_many(home: Path) -> None:
    one = b'{"type":"system","x":"' + b"x" * 60_000_000 + b'"}\n'
    many = (b"x" * 99 + b"\n") * 600_000
    seconds = []
    for data in (many, one):
        begun = time.monotonic()
        assert fed(data, home, ["cat"]).stdout == data
        seconds.append(time.monotonic() - begun)
    assert seconds[1] < 2 * seconds[0] + 1


def test_bytes_are_passed_on_at_once_and_not_at_the_end_of_the_line(start: Start) -> None:
    host = start(command=["cat"])
    host.write(b'{"type":"assistant","text":"beg')
    host.out.text(b"beg")
    host.write(b'un"}')
    host.out.text(b'un"}')


def test_stderr_is_the_clients_own(start: Start) -> None:
    host = start(command=["sh", "-c", "printf 'to \\0 stderr' >&2"])
    assert host.wait() == 0
    assert host.error.rest() == b"to \0 stderr"


def test_a_client_that_does_not_read_blocks_nobody_else(home: Path, start: Start) -> None:
    unread, its_out = os.pipe()
    other = start("--listen", f"unix:{home}/unused.sock", command=["cat"])
    other.socket = f"{home}/second.sock"
    command = [PYTHON, str(HOST), "--listen", f"unix:{other.socket}", "--", *FAKE]
    with running(command, stdin=subprocess.PIPE, stdout=its_out) as process:
        os.close(its_out)
        assert process.stdin
        process.stdin.write(json.dumps(user("flood 20000")).encode() + b"\n")
        process.stdin.close()
        assert other.expect(status="busy", resolution="delta")["turn"]
        with os.fdopen(unread, "rb") as pipe:
            assert b'"flooded"' in pipe.read()
        assert process.wait(PATIENCE) == 0


def test_a_client_that_is_gone_is_seen_by_the_agent(home: Path) -> None:
    writing = "import os\ntry:\n while 1: os.write(1, b'x')\nexcept BrokenPipeError: os._exit(9)"
    ignoring = f"import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_IGN)\n{writing}"
    for agent, status in ((ignoring, 9), ("while 1: print('x')", 1)):
        unread, its_out = os.pipe()
        listen = f"unix:{home}/control.sock"
        command = [PYTHON, str(HOST), "--listen", listen, "--", sys.executable, "-c", agent]
        with running(command, stdin=subprocess.PIPE, stdout=its_out, stderr=subprocess.DEVNULL) as process:
            os.close(its_out)
            os.read(unread, 10)
            os.close(unread)
            assert process.wait(PATIENCE) == status


def test_the_end_of_input_is_withheld_until_the_agent_is_idle(start: Start) -> None:
    host = start()
    host.prompt("tool")
    host.out.message(type="assistant")
    host.close_stdin()
    busy = host.expect(status="busy")
    assert busy["can"]["interrupt"]
    assert host.interrupt(reason="over").status == 202
    assert host.wait() == 75
    assert host.out.messages(subtype="error_during_execution")


def test_a_one_shot_client_gets_its_answer_and_an_end(start: Start) -> None:
    host = start()
    host.write(b"".join(json.dumps(user(text)).encode() + b"\n" for text in ("text one", "text two")))
    host.close_stdin()
    assert host.wait() == 0
    assert [result["result"] for result in host.out.messages(type="result")] == ["one", "two"]


def test_the_end_of_input_waits_for_what_the_agent_left_running(start: Start, home: Path) -> None:
    fifo = home / "fifo"
    os.mkfifo(fifo)
    host = start(command=["sh", "-c", f"cat {fifo} - | {' '.join(FAKE)}"])
    host.prompt("background")
    with fifo.open("w"):  # a second way in, for when stdin has ended
        pass
    host.out.message(type="result")
    assert host.expect(status="busy", turn=None)
    host.close_stdin()
    assert host.session()["status"] == "busy"
    assert host.process.poll() is None


def test_the_end_of_input_passes_at_once_where_nothing_runs(start: Start) -> None:
    begun = time.monotonic()
    host = start(command=["cat"])
    host.write(b"not a message")
    host.close_stdin()
    assert host.wait() == 0
    assert time.monotonic() - begun < 5


def test_state_events_are_swallowed_where_the_host_switched_them_on(start: Start) -> None:
    host = start()
    host.prompt("text hello")
    host.out.message(type="result")
    host.expect(status="idle")
    host.close_stdin()
    host.wait()
    assert b"session_state_changed" not in host.out.rest()
    assert start(command=PRINT_ENVIRONMENT).out.rest() == b"1\n"


@pytest.mark.parametrize("theirs", ["1", "0", ""])
def test_state_events_are_the_clients_where_it_decided_about_them(start: Start, theirs: str) -> None:
    host = start(CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=theirs)
    host.prompt("text hello")
    host.out.message(type="result")
    if theirs == "1":
        host.out.message(type="system", subtype="session_state_changed", state="idle")
        assert host.expect(status="idle")["turn"] is None
    environment = start(command=PRINT_ENVIRONMENT, CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=theirs)
    assert environment.out.rest() == theirs.encode() + b"\n"


def test_our_answer_is_swallowed_and_the_clients_own_is_passed_on(start: Start) -> None:
    host = start()
    host.prompt("hole")
    host.expect(status="busy", id="5e55-10n/é")
    assert host.interrupt().status == 202
    host.out.message(type="result")
    host.send({"type": "control_request", "request_id": "mine", "request": {"subtype": "interrupt"}})
    answer = host.out.message(type="control_response")
    assert answer["response"]["request_id"] == "mine"
    host.close_stdin()
    host.wait()
    assert len(host.out.messages(type="control_response")) == 1
    assert b"agent-sidecar" not in host.out.rest()


def test_what_the_agent_hears_is_what_the_client_said_and_our_line_between_lines(
    start: Start, home: Path
) -> None:
    host = start(command=[*FAKE, "--record", str(home / "record")])
    said = [json.dumps(user("hole")).encode() + b"\n", b'{"type":"fake", "x":"\xc3\xa9"}\n']
    host.write(said[0])
    host.expect(status="busy", id="5e55-10n/é")
    host.write(said[1][:9])
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(host.interrupt().status))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()  # a line of the client's is half written
    host.write(said[1][9:])
    waiting.join(PATIENCE)
    assert answers == [202]
    host.close_stdin()
    host.wait()
    lines = (home / "record").read_bytes().splitlines(keepends=True)
    assert lines[:2] == said
    assert len(lines) == 3
    assert json.loads(lines[2])["request"] == {"subtype": "interrupt"}


def test_an_insertion_waits_for_an_agent_that_does_not_read_and_gives_up(start: Start) -> None:
    reader = "import sys,time; sys.stdin.readline(); sys.stdout.write('ready\\n'); sys.stdout.flush(); time.sleep(99)"
    host = start("--line-deadline", "0.3", command=[sys.executable, "-c", reader])
    host.write(b"go\n")
    host.out.text(b"ready")

    def fill() -> None:
        with suppress(BrokenPipeError):
            host.write(b"x\n" * 400_000)

    filling = threading.Thread(target=fill)
    filling.start()
    until(lambda: host.interrupt(reason="too full").status == 503, "the pipe is full")
    host.process.kill()
    filling.join(PATIENCE)


def test_an_insertion_gets_its_turn_between_the_lines_of_a_busy_client(start: Start, home: Path) -> None:
    slow = (
        "import sys,time\nfor line in sys.stdin.buffer:\n sys.stdout.buffer.write(line); sys.stdout.flush()"
    )
    host = start(command=[sys.executable, "-c", slow])
    line = b"y" * 5_000 + b"\n"
    over = threading.Event()

    def talk() -> None:
        while not over.is_set():
            host.write(line * 20)

    talking = threading.Thread(target=talk)
    talking.start()
    assert host.interrupt().status == 202
    over.set()
    talking.join(PATIENCE)
    host.out.text(b"agent-sidecar-")
    host.close_stdin()
    host.wait()
    lines = host.out.rest().splitlines(keepends=True)
    assert next(each for each in lines if each != line).startswith(b'{"type":"control_request"')
    assert sum(each != line for each in lines) == 1
    assert home.exists()


def test_a_held_line_is_not_lost_when_the_agent_ends(start: Start) -> None:
    host = start(command=["printf", '{"type":"sys'])
    assert host.wait() == 0
    assert host.out.rest() == b'{"type":"sys'


def test_80_mb_pass_in_a_moment_and_in_little_memory(home: Path) -> None:
    feed = "import os\nfor _ in range(800): os.write(1, b'y' * 99_999 + b'\\n')"
    agent = "import os,sys\nwhile b := os.read(0, 1 << 16): os.write(1, b)\nsys.stderr.write(open(f'/proc/{os.getppid()}/status').read())"
    line = [PYTHON, str(HOST), "--listen", f"unix:{home}/c", "--", sys.executable, "-c", agent]
    begun = time.monotonic()
    pipe = subprocess.PIPE
    with (
        running([sys.executable, "-c", feed], stdout=pipe) as client,
        running(line, stdin=client.stdout, stdout=pipe, stderr=pipe) as host,
    ):
        assert host.stdout
        assert host.stderr
        output = host.stdout.fileno()
        passed = sum(len(chunk) for chunk in iter(lambda: os.read(output, 1 << 16), b""))
        peak = re.search(rb"VmHWM:\s*(\d+) kB", host.stderr.read())
    assert passed == 80_000_000
    assert time.monotonic() - begun < 10
    assert peak
    assert int(peak.group(1)) < 40_000
