"""Agents that work, hang, ask and rest, round and round: `python -m dashboards.stack.fleet ROOT PLAY...`.

Each PLAY is one agent: the prompts it gets, separated by commas. `rest` asks nothing for a while, long enough to be
reaped where that is set; then another agent takes its place. They are the demo's agents under the real host.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from itertools import cycle
from pathlib import Path
from typing import Final

import sidecar

PATIENCE: Final = 40.0
"""Seconds until whoever asked gives up and interrupts the turn: nobody else does in observe mode."""

REST: Final = 12.0
PAUSE: Final = 1.5
"""Seconds without a question: the long rest, and between two turns."""

CODE: Final = Path(sidecar.__file__).parent


class Agent:
    """An agent under its host, and whoever asks it."""

    def __init__(self, root: Path, play: str) -> None:
        self._root = root
        self._prompts = cycle(play.split(","))

    async def run(self) -> None:
        """One agent after the other, until cancelled."""
        while True:
            child = await self._start()
            try:
                await self._ask(child)
            except (BrokenPipeError, ConnectionResetError, asyncio.IncompleteReadError):
                pass  # it was reaped: the next one takes over
            finally:
                await _end(child)

    async def _start(self) -> asyncio.subprocess.Process:
        listen = f"unix:{self._root}/{{pid}}.sock"
        host = [sys.executable, str(CODE / "host.py"), "--listen", listen, "--"]
        return await asyncio.create_subprocess_exec(
            *host,
            sys.executable,
            str(CODE / "demo" / "agent.py"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._root,
            env=os.environ | {"CLAUDE_CONFIG_DIR": str(self._root / "claude")},
        )

    async def _ask(self, child: asyncio.subprocess.Process) -> None:
        for prompt in self._prompts:
            if prompt == "rest":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(child.wait(), REST)
                    return
                continue
            await _say(child, type="user", message={"role": "user", "content": prompt})
            try:
                await asyncio.wait_for(_result(child), PATIENCE)
            except TimeoutError:
                request = {"subtype": "interrupt"}
                await _say(child, type="control_request", request_id="enough", request=request)
                await _result(child)
            await asyncio.sleep(PAUSE)


async def _say(child: asyncio.subprocess.Process, **message: object) -> None:
    assert child.stdin is not None  # noqa: S101 - a pipe was asked for
    child.stdin.write(json.dumps(message).encode() + b"\n")
    await child.stdin.drain()


async def _result(child: asyncio.subprocess.Process) -> None:
    """Read on to the end of the turn."""
    assert child.stdout is not None  # noqa: S101 - as above
    while True:
        line = await child.stdout.readuntil(b"\n")
        if json.loads(line)["type"] == "result":
            return


async def _end(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    await child.wait()


async def _main(root: Path, plays: list[str]) -> None:
    (root / "claude").mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    running = [asyncio.create_task(Agent(root, play).run()) for play in plays]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    for task in (*running, stopping):
        task.cancel()
    failures = await asyncio.gather(*running, return_exceptions=True)
    for failure in failures:
        if isinstance(failure, Exception):
            raise failure


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2:]))
