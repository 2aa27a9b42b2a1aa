"""Signals reach the process they were meant for, then what it leaves behind, and nobody else."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from sidecar.agent import Can, Order
from sidecar.control.signal import Settings, SignalControl
from sidecar.sources.process import Process, start_ticks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

READY = "import signal, sys, time; {setup}; print('ready', flush=True); time.sleep(60)"


class Child:
    """A child that says when it is set up; its end is seen, not waited out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        start = start_ticks(process.pid)
        assert start is not None
        self.held = Process(process.pid, start)

    async def line(self) -> bytes:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).strip()

    async def end(self) -> int:
        return await self._process.wait()

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def kill(self) -> None:
        if self.running:
            self._process.kill()


class Nursery:
    """Starts children, and ends those that a test left."""

    def __init__(self) -> None:
        self.children: list[Child] = []

    async def start(self, code: str = READY.format(setup="pass")) -> Child:
        made = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
        )
        child = Child(made)
        self.children.append(child)
        assert (await child.line()).startswith(b"ready")
        return child


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    made = Nursery()
    yield made
    for child in made.children:
        child.kill()
        await child.end()


def control(held: Process | None, **settings: bool | str | float) -> SignalControl:
    return SignalControl(Settings(**settings), lambda _: held)  # type: ignore[arg-type]


def reap(turn: str | None = None, *, force: bool = False) -> Order:
    return Order("reap", "s1", turn, "idle for 31m", None, force)


async def test_the_process_gets_the_configured_signal(nursery: Nursery) -> None:
    child = await nursery.start()
    acting = control(child.held)
    assert (await acting.reap(reap())).result == "accepted"
    assert await child.end() == -signal.SIGTERM
    await acting.close()


@pytest.mark.parametrize("name", ["INT", "HUP"])
async def test_another_signal_may_be_configured(nursery: Nursery, name: str) -> None:
    child = await nursery.start(
        READY.format(setup=f"signal.signal(signal.SIG{name}, lambda *_: sys.exit(7))")
    )
    acting = control(child.held, signal=name)
    assert (await acting.reap(reap())).result == "accepted"
    assert await child.end() == 7
    await acting.close()


async def test_a_pid_with_another_start_time_is_never_signalled(nursery: Nursery) -> None:
    child = await nursery.start()
    acting = control(Process(child.held.pid, child.held.start + 1))
    answer = await acting.reap(reap())
    assert (answer.result, answer.detail) == ("failed", "no such process, or not ours to signal")
    await acting.close()
    assert child.running


async def test_a_process_that_is_gone_is_a_failed_answer(nursery: Nursery) -> None:
    child = await nursery.start()
    child.kill()
    await child.end()
    assert (await control(child.held).reap(reap())).result == "failed"


@pytest.mark.parametrize("pid", [1, os.getpid(), os.getppid()])
async def test_ourselves_and_who_started_us_are_no_agents(pid: int) -> None:
    acting = control(Process(pid, start_ticks(pid) or 0))
    assert (
        await acting.reap(
            reap(),
        )
    ).result == "unsupported"


async def test_a_session_whose_process_cannot_be_seen_is_unsupported() -> None:
    acting = control(None, interrupt=True)
    assert acting.can("s1") == Can(interrupt=False, reap=False)
    assert (await acting.reap(reap())).result == "unsupported"


async def test_an_interrupt_is_no_signal_unless_ending_the_process_is_its_form(nursery: Nursery) -> None:
    child = await nursery.start()
    order = Order("interrupt", "s1", "t1", "silence", 0.0)
    acting = control(child.held)
    assert acting.can("s1") == Can(interrupt=False, reap=True)
    assert (await acting.interrupt(order)).result == "unsupported"
    assert child.running
    acting = control(child.held, interrupt=True)
    assert acting.can("s1") == Can(interrupt=True, reap=True)
    assert (await acting.interrupt(order)).result == "accepted"
    assert await child.end() == -signal.SIGTERM
    await acting.close()


async def test_a_turn_that_runs_is_only_ended_where_that_is_meant(nursery: Nursery) -> None:
    child = await nursery.start()
    acting = control(child.held)
    assert (await acting.reap(reap("t1"))).result == "superseded"
    assert child.running
    assert (await acting.reap(reap("t1", force=True))).result == "accepted"
    assert await child.end() == -signal.SIGTERM
    await acting.close()


PARENT = """
import subprocess, sys, signal, time
{setup}
tool = subprocess.Popen(
    [sys.executable, "-c", "import time; print('tool', flush=True); time.sleep(60)"],
    start_new_session=True, stdout=subprocess.PIPE,
)
tool.stdout.readline()
print("ready", tool.pid, flush=True)
time.sleep(60)
"""


async def with_tool(nursery: Nursery, setup: str = "pass") -> tuple[Child, int]:
    """An agent with a tool in a session of its own, which outlives it."""
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT.format(setup=setup), stdout=asyncio.subprocess.PIPE
    )
    child = Child(made)
    nursery.children.append(child)
    _, pid = (await child.line()).split()
    return child, int(pid)


@asynccontextmanager
async def ending(pid: int) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the process ends."""
    pinned, ended = os.pidfd_open(pid), asyncio.Event()
    asyncio.get_running_loop().add_reader(pinned, ended.set)
    yield ended
    asyncio.get_running_loop().remove_reader(pinned)
    os.close(pinned)


async def test_what_outlives_the_agent_is_signalled_after_it(nursery: Nursery) -> None:
    child, tool = await with_tool(nursery)
    acting = control(child.held)
    assert (await acting.reap(reap())).result == "accepted"
    assert await child.end() == -signal.SIGTERM
    async with ending(tool) as ended:
        await acting.close()
        await ended.wait()


@pytest.mark.looptime
async def test_an_agent_that_ignores_the_signal_is_not_killed_and_its_tools_are_ended(
    nursery: Nursery,
) -> None:
    child, tool = await with_tool(nursery, "signal.signal(signal.SIGTERM, lambda *_: None)")
    acting = control(child.held, orphans_after=5.0)
    async with ending(tool) as ended:
        assert (await acting.reap(reap())).result == "accepted"
        assert not ended.is_set()
        await acting.close()
        await ended.wait()
    assert child.running
