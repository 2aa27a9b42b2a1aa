"""An operator's command: run without a shell, bounded in time, and never told what to do by an id."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agent import Answer, Can, Order
from sidecar.control.exec import ExecControl, Refused, Settings, filled
from sidecar.sources.process import Process

if TYPE_CHECKING:
    from pathlib import Path

EXIT = (sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))")
ORDER = Order("interrupt", "s1", "t1", "no progress for 45m", 0.0)


def told(path: Path) -> tuple[str, ...]:
    """A command that writes down its arguments."""
    code = "import json, sys; open(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))"
    return (sys.executable, "-c", code, str(path))


async def test_the_arguments_are_filled_in_whole_and_in_part(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("{session}", "--turn={turn}", "{reason}", "{pid}:{pid}", "plain")
    control = ExecControl(Settings(interrupt=(*told(out), *words)), lambda _: Process(4711, 1))
    assert await control.interrupt(ORDER) == Answer("accepted", "exit code 0")
    assert json.loads(out.read_text()) == ["s1", "--turn=t1", "no progress for 45m", "4711:4711", "plain"]


async def test_an_id_is_never_a_shell_command_an_argument_or_a_placeholder(tmp_path: Path) -> None:
    out, trap = tmp_path / "out", tmp_path / "trap"
    nasty = f"$(touch {trap}); `touch {trap}` {{reason}} 'a' \"b\" *\n\u2028"
    control = ExecControl(Settings(reap=(*told(out), "{session}")))
    order = Order("reap", nasty, None, "idle", None)
    assert (await control.reap(order)).result == "accepted"
    assert json.loads(out.read_text()) == [nasty]
    assert not trap.exists()


@pytest.mark.parametrize("session", ["-rf", "--all", "a\0b", "\ud800"])
async def test_an_id_that_would_be_an_option_or_no_argument_is_refused(tmp_path: Path, session: str) -> None:
    out = tmp_path / "out"
    control = ExecControl(Settings(reap=(*told(out), "{session}")))
    assert (await control.reap(Order("reap", session, None, "idle", None))).result == "failed"
    assert not out.exists()


@given(st.text(), st.text(), st.text())
def test_filling_in_keeps_the_number_of_arguments_and_what_was_put_in(
    session: str, turn: str, reason: str
) -> None:
    template = ("end", "--session={session}", "{turn}{reason}")
    values = {"session": session, "turn": turn, "reason": reason}
    try:
        argv = filled(template, values)
    except Refused:
        return
    assert argv == ["end", f"--session={session}", turn + reason]


@pytest.mark.parametrize(
    ("code", "result"),
    [(0, "accepted"), (3, "accepted"), (4, "superseded"), (5, "unsupported"), (1, "failed")],
)
async def test_exit_codes_mean_what_was_configured(code: int, result: str) -> None:
    settings = Settings(interrupt=(*EXIT, str(code)), accepted=(0, 3), superseded=(4,), unsupported=(5,))
    assert await ExecControl(settings).interrupt(ORDER) == Answer(result, f"exit code {code}")  # type: ignore[arg-type]


async def test_a_command_that_was_killed_has_failed() -> None:
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert (await ExecControl(Settings(interrupt=killed)).interrupt(ORDER)).result == "failed"


async def test_without_a_command_it_is_unsupported() -> None:
    control = ExecControl(Settings(reap=EXIT))
    assert control.can("s1") == Can(interrupt=False, reap=True)
    assert (await control.interrupt(ORDER)).result == "unsupported"
    await control.close()


async def test_a_reap_of_a_turn_that_runs_has_to_be_meant() -> None:
    control = ExecControl(Settings(reap=(*EXIT, "0")))
    assert (await control.reap(Order("reap", "s1", "t1", "idle", None))).result == "superseded"
    assert (await control.reap(Order("reap", "s1", "t1", "idle", None, force=True))).result == "accepted"


async def test_a_program_that_does_not_exist_has_failed() -> None:
    answer = await ExecControl(Settings(interrupt=("/nonexistent/program",))).interrupt(ORDER)
    assert answer == Answer("failed", "cannot run the command: No such file or directory")


@pytest.mark.parametrize("holder", [None, lambda _: None])
async def test_a_pid_that_cannot_be_seen_is_not_made_up(holder: None) -> None:
    answer = await ExecControl(Settings(interrupt=(*EXIT, "{pid}")), holder).interrupt(ORDER)
    assert answer == Answer("failed", "no process of this session can be seen")


@pytest.mark.looptime
async def test_a_command_that_hangs_has_failed() -> None:
    hangs = (sys.executable, "-c", "import time; time.sleep(60)")
    control = ExecControl(Settings(interrupt=hangs, timeout=3.0))
    assert await control.interrupt(ORDER) == Answer("failed", "the command took longer than 3 s")


async def test_a_command_that_is_given_up_is_killed_with_its_children(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    heard = asyncio.StreamReader()
    pipe = os.fdopen(os.open(alive, os.O_RDONLY | os.O_NONBLOCK), "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(heard), pipe
    )
    child = f"import time; f = open({str(alive)!r}, 'w'); print('up', file=f, flush=True); time.sleep(60)"
    command = (
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])",
    )
    call = asyncio.ensure_future(ExecControl(Settings(interrupt=command, timeout=60.0)).interrupt(ORDER))
    assert await heard.readline() == b"up\n"
    call.cancel()
    assert await heard.read() == b""  # whoever held it is gone
    transport.close()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_output_without_end_harms_nobody() -> None:
    loud = (sys.executable, "-c", "import sys; [sys.stdout.write('x' * 65536) for _ in range(1000)]")
    assert (await ExecControl(Settings(interrupt=loud)).interrupt(ORDER)).result == "accepted"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("{session}",), "has to be named"),
        (("",), "has to be named"),
        (("end", "{sesion}"), "{sesion} is not known; allowed: {session}, {turn}, {reason}, {pid}"),
        (("end", "{}"), "{} is not known"),
        (("end", "a\0b"), "zero byte"),
    ],
)
def test_a_template_that_cannot_work_is_refused_at_the_start(argv: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match="interrupt: ") as refused:
        Settings(interrupt=argv)
    assert why in str(refused.value)
