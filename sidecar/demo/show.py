"""The demonstration: a real sidecar, a host, and an agent that works, hangs and is ended.

Everything is real but the model: the agent writes transcripts and registrations as Claude Code
does, its host owns its input, the sidecar finds both, judges by its usual rules with short bounds,
and acts through the host's socket. It takes under a minute and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar import changes as c
from sidecar.agents.registry import KINDS
from sidecar.config import load
from sidecar.server import ListenError
from sidecar.service import Service, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.session import Session

CONFIG: Final = """\
mode: enforce
listen: {listen}
state_dir: {root}/state
agents:
  - kind: claude-code
    name: demo
    config_dir: {root}/claude
    control: {{kind: host, url: "unix:{root}/*.sock"}}
bounds: {{unsafe: true, model: 4s, idle: {{limit: 6s, action: reap}}}}
actions: {{jitter: 0, grace: 5s}}
telemetry: {{lines: false}}
"""
"""The demo's bounds: seconds where a real agent has minutes, hence `unsafe`."""

LIMIT: Final = 60.0
"""Seconds after which the demonstration has failed."""

Turn = tuple[str, str, str]

SCRIPT: Final[tuple[Turn, ...]] = (
    ("work", "completed", "It streams an answer and calls a short tool."),
    ("long tool", "completed", "Its tool outlasts the model's bound of 4 s. A running tool is left alone."),
    (
        "wedge",
        "stalled",
        "Its request is black-holed: no error, no answer, busy. 4 s of silence end it.",
    ),
    ("again", "completed", "The same process answers the next question: only the turn was ended."),
)
"""Prompt, expected outcome, and what is to be seen."""


class Stage:
    """Tells what happens, and lets the script wait for it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.closed = asyncio.Event()

    def __call__(self, session: Session, change: c.Change, /) -> None:
        """Tell what a reader of the demonstration should see."""
        if isinstance(change, c.VerdictGiven):
            self._say(f"    verdict   {change.verdict.action}: {change.verdict.reason}")
        elif isinstance(change, c.ActIntended):
            self._say(f"    intent    {change.action}: the reason is written before the call")
        elif isinstance(change, c.ActEnded):
            self._say(f"    outcome   {change.action}: {change.outcome}")
        elif isinstance(change, c.TurnClosed):
            took = (change.turn.ended_at or 0.0) - change.turn.started_at
            self._say(f"    turn      {change.turn.outcome} after {took:.1f} s")
            self.ended.put_nowait(change.turn.outcome or "")
        elif isinstance(change, c.SessionClosed):
            self._say(f"    session   {session.id} closed")
            self.closed.set()


class Show:
    """One run of the demonstration."""

    def __init__(self, root: Path, listen: str) -> None:
        self._root = root
        self._listen = listen
        self._stop = asyncio.Event()
        self.stage = Stage(self.say)
        self.failures: list[str] = []

    def say(self, text: str) -> None:
        """A line to whoever watches."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    async def run(self, *, stay: bool) -> int:
        """Play it; with `stay`, serve on until interrupted."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, self._stop.set)
        config = load(CONFIG.format(root=self._root, listen=self._listen), os.environ, KINDS)
        service = Service(config, lines(config))
        service.watch.fleet.listeners.append(self.stage)
        up = asyncio.Event()
        serving = asyncio.create_task(service.run(self._stop, up.set))
        playing = asyncio.create_task(self._play(up, service))
        await asyncio.wait([serving, playing], return_when=asyncio.FIRST_COMPLETED)
        if stay and not serving.done():
            self.say("Serving on; end it with Ctrl-C.")
            await self._stop.wait()
        self._stop.set()
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await serving
        return 1 if self.failures or not playing.done() or playing.cancelled() else 0

    async def _play(self, up: asyncio.Event, service: Service) -> None:
        await up.wait()
        url = f"http://{service.server.address}"
        self.say(f"Open {url}/ and watch.")
        self.say(f"The metric to look at: ai_agent_sessions_overdue, at {url}/metrics\n")
        agent = await self._agent()
        try:
            async with asyncio.timeout(LIMIT):
                await self._script(agent)
        except TimeoutError:
            self.failures.append(f"it took longer than {LIMIT:.0f} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                agent.terminate()
            await agent.wait()
        for failure in self.failures:
            self.say(f"FAILED: {failure}")
        if not self.failures:
            self.say("\nA hung turn was ended by its silence, a long tool was spared, the session was kept.")
            self.say("Again, and serving on after it: agent-sidecar run --demo")

    async def _script(self, agent: asyncio.subprocess.Process) -> None:
        for number, (prompt, expected, says) in enumerate(SCRIPT, 1):
            self.say(f"{number}. {says}")
            await self._ask(agent, prompt)
            outcome = await self.stage.ended.get()
            if outcome != expected:
                self.failures.append(f"turn {number} is {outcome}, not {expected}")
        self.say(f"{len(SCRIPT) + 1}. Nobody asks any more. 6 s idle, and it is reaped by closing its input.")
        await self.stage.closed.wait()
        status = await agent.wait()
        self.say(f"    exit      {status}")
        if status != 0:
            self.failures.append(f"the agent's exit status is {status}, not 0")

    async def _agent(self) -> asyncio.subprocess.Process:
        """The agent under its host; its output is the client's business, here nobody's."""
        here = Path(__file__).parent
        host = [sys.executable, str(here.parent / "host.py"), "--listen", f"unix:{self._root}/{{pid}}.sock"]
        (self._root / "work").mkdir()
        env = os.environ | {"CLAUDE_CONFIG_DIR": f"{self._root}/claude"}
        return await asyncio.create_subprocess_exec(
            *host,
            "--",
            sys.executable,
            str(here / "agent.py"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            cwd=self._root / "work",
            env=env,
        )

    async def _ask(self, agent: asyncio.subprocess.Process, prompt: str) -> None:
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        if agent.stdin is not None:
            agent.stdin.write(json.dumps(message).encode() + b"\n")
            await agent.stdin.drain()


def show(listen: str, *, stay: bool) -> int:
    """Play the demonstration; 0 when everything came out as told."""
    with tempfile.TemporaryDirectory(prefix="agent-sidecar-demo-") as root:
        try:
            return asyncio.run(_shown(Path(root), listen, stay=stay))
        except ListenError as error:
            sys.stderr.write(f"agent-sidecar: {error}\n")
            return 1


async def _shown(root: Path, listen: str, *, stay: bool) -> int:
    return await Show(root, listen).run(stay=stay)
