"""Ending an agent by a signal to its process: the last resort, for no signal ends only a turn.

A pid is a name that is given again, so nothing is signalled whose start time is not the one that
the session was registered with. The agent comes first and gets time to end its tools itself;
whoever of its family is left after that was cut loose, and is signalled too. Nobody is killed:
what ignores the signal is seen to live on, and the act is ineffective.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from sidecar.agent import Answer, Can, Order
from sidecar.config_units import Seconds
from sidecar.sources import process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.control import Holder

POLL: Final = 0.1
"""Seconds between two looks at whether a process has ended."""


class Settings(Struct, frozen=True, kw_only=True):
    """How a process is ended."""

    signal: Literal["TERM", "INT", "HUP"] = "TERM"
    """What is sent. TERM: on INT some agents exit with 0, which a Job takes for success."""

    interrupt: bool = False
    """Whether a turn may be ended by ending its process, for agents that run one turn a process.
    False: the session would be lost with the turn."""

    orphans_after: Seconds = 5.0
    """How long the agent may take to end its own children. 5s: an agent that ends them needs less,
    and what it leaves behind eats the machine until somebody looks."""


class SignalControl:
    """Sends signals to the processes that hold sessions."""

    def __init__(self, settings: Settings, holder: Holder) -> None:
        self._settings = settings
        self._holder = holder
        self._number = signal.Signals[f"SIG{settings.signal}"]
        self._sweeps: set[asyncio.Task[None]] = set()

    def can(self, session: str, /) -> Can:
        """Whatever is held by a process that can be seen."""
        seen = self._holder(session) is not None
        return Can(interrupt=seen and self._settings.interrupt, reap=seen)

    async def interrupt(self, order: Order, /) -> Answer:
        """End the turn with its process, where that was configured."""
        if not self._settings.interrupt:
            return Answer("unsupported", "no signal ends only a turn")
        return self._end(order.session)

    async def reap(self, order: Order, /) -> Answer:
        """End the process, unless a turn runs and that was not meant."""
        if order.turn is not None and not order.force:
            return Answer("superseded", "a turn runs")
        return self._end(order.session)

    async def close(self) -> None:
        """Wait for the families of what was ended: nobody else remembers them."""
        if self._sweeps:
            await asyncio.wait(self._sweeps)

    def _end(self, session: str) -> Answer:
        held = self._holder(session)
        if held is None:
            return Answer("unsupported", "no process of this session can be seen")
        if held.pid in (1, os.getpid(), os.getppid()):
            return Answer("unsupported", "that process is not an agent's")
        family = process.descendants(held.pid)
        if not process.signal_process(held.pid, held.start, self._number):
            return Answer("failed", "no such process, or not ours to signal")
        sweep = asyncio.create_task(self._sweep(held, family), name=f"orphans of {held.pid}")
        self._sweeps.add(sweep)
        sweep.add_done_callback(self._sweeps.discard)
        return Answer("accepted")

    async def _sweep(self, held: process.Process, family: Sequence[process.Process]) -> None:
        """Signal those of the family that outlive the agent, or its patience."""
        now = asyncio.get_running_loop().time
        until = now() + self._settings.orphans_after
        # A foreign process tells nobody that it ends.
        while now() < until and process.alive(held.pid, held.start) is not False:  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        late = process.descendants(held.pid) if process.alive(held.pid, held.start) else []
        for one in {*family, *late}:
            process.signal_process(one.pid, one.start, self._number)
