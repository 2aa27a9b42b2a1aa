"""Our own host and our own client of it, with a real process between them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, asynccontextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sidecar import host
from sidecar.agent import Answer, Can, Order
from sidecar.clock import RecordedClock
from sidecar.control.host import HostControl, Hosted, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SILENT = "import sys; print('ready', flush=True); sys.stdin.read()"

# Runs a turn as soon as it is asked anything, and ends it when it is interrupted.
OBEDIENT = """
import json, sys
def say(**message): print(json.dumps(message, separators=(",", ":")), flush=True)
def state(now): say(type="system", subtype="session_state_changed", state=now, session_id="s/1")
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "user":
        state("running")
        print("ready", flush=True)
    elif asked["type"] == "control_request":
        say(type="control_response", response={"subtype": "success", "request_id": asked["request_id"]})
        say(type="result", subtype="error_during_execution", is_error=True)
        state("idle")
        print("interrupted", flush=True)
"""
PROMPT = b'{"type":"user","message":{"role":"user","content":"work"}}\n'


@asynccontextmanager
async def hosted(mode: str, agent: str) -> AsyncIterator[tuple[HostControl, asyncio.subprocess.Process]]:
    """An agent behind a host that listens; whatever it is asked, it has begun."""
    pipe = asyncio.subprocess.PIPE
    with TemporaryDirectory(prefix="run") as run:
        command = ("--listen", f"unix:{run}/a.sock", "--session", "s/1", "--mode", mode, "--", sys.executable)
        process = await asyncio.create_subprocess_exec(
            sys.executable, host.__file__, *command, "-c", agent, stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert process.stdin is not None
        process.stdin.write(PROMPT)
        await line(process, b"ready\n")
        try:
            yield HostControl(Settings(url=f"unix:{run}/*.sock"), RecordedClock()), process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def line(process: asyncio.subprocess.Process, wanted: bytes) -> None:
    assert process.stdout is not None
    while (said := await process.stdout.readline()) != wanted:
        assert said, "it ended"


async def test_a_turn_behind_a_host_is_interrupted_and_the_session_lives() -> None:
    async with hosted("stream-json", OBEDIENT) as (control, process):
        answer = await control.interrupt(Order("interrupt", "s/1", "t1", "no progress for 45m", None))
        assert answer == Answer("accepted", "HTTP 202")
        await line(process, b"interrupted\n")
        assert (await control.sessions()).sessions["s/1"].turn is None
        again = await control.interrupt(Order("interrupt", "s/1", "t1", "no progress for 45m", None))
        assert again.result == "superseded"


async def test_a_turn_that_moved_after_it_was_judged_is_left_alone() -> None:
    async with hosted("stream-json", OBEDIENT) as (control, _):
        answer = await control.interrupt(Order("interrupt", "s/1", "t1", "no progress for 45m", 1.0))
        assert answer.result == "superseded"


async def test_a_session_behind_a_host_is_reaped_with_its_reason() -> None:
    async with hosted("plain", SILENT) as (control, process):
        assert control.can("s/1") == Can(interrupt=True, reap=True)
        assert (
            await control.reap(Order("reap", "s/1", "t1", "idle for 31m", None, force=True))
        ).result == "accepted"
        assert control.can("s/1") == Can(interrupt=False, reap=True)
        _, said = await process.communicate()
        assert b"idle for 31m" in said


async def test_a_host_that_cannot_interrupt_says_so() -> None:
    async with hosted("plain", SILENT) as (control, _):
        answer = await control.interrupt(Order("interrupt", "s/1", "t1", "silence", None))
        assert answer.result == "unsupported"


async def test_a_host_tells_what_it_has() -> None:
    async with hosted("plain", SILENT) as (control, process), aclosing(control.events()) as told:
        event = await anext(told)
        assert event.session == "s/1"
        assert isinstance(event.what, Hosted)
        assert event.what.pid not in (None, process.pid)
