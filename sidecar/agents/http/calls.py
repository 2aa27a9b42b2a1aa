"""The calls that end something: one at a time for each session, and no second without an answer.

A call that was cut off may still be at work over there, and two at once can leave a process behind
that nobody owns. So a call runs in a task of its own until its own deadline, whoever stops waiting
for it; who asks again meanwhile waits for the same call; and where no answer came, nothing more is
asked of that session for a while.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sidecar.agent import Answer, SourceDown
from sidecar.agents.http.server import Server, Unsent, ended
from sidecar.agents.http.template import body_of, path_of

if TYPE_CHECKING:
    from sidecar.agent import Order
    from sidecar.agents.http.shapes import Call
    from sidecar.clock import Clock


class Calls:
    """Calls under way, and those that were never answered."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._running: dict[str, tuple[Call, asyncio.Task[Answer]]] = {}
        self._resting: dict[str, float] = {}

    async def make(self, call: Call, order: Order) -> Answer:
        """Make the call, or wait for the one that is under way."""
        if order.session in self._running:
            other, running = self._running[order.session]
            if other is not call:
                return Answer("failed", "another call for this session is under way")
            return await asyncio.shield(running)
        now = self._clock.now()
        self._resting = {session: until for session, until in self._resting.items() if until > now}
        if order.session in self._resting:
            return Answer("failed", "an earlier call was not answered and may still be at work")
        task = asyncio.create_task(self._made(call, order), name=f"{call.method} for a session")
        self._running[order.session] = (call, task)
        task.add_done_callback(lambda _: self._running.pop(order.session, None))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Let go. What was asked for goes on over there."""
        for _, task in list(self._running.values()):
            await ended(task)

    async def _made(self, call: Call, order: Order) -> Answer:
        values = {"id": order.session, "turn": order.turn, "reason": order.reason}
        try:
            path = path_of(call.path, values)
        except ValueError as error:
            return Answer("failed", str(error))
        body = None if call.body is None else body_of(call.body, values)
        try:
            status = await self._server.order(call.method, path, call.headers, body, call.deadline)
        except Unsent as unsent:
            return Answer("failed", str(unsent))
        except SourceDown as down:
            self._resting[order.session] = self._clock.now() + call.rest
            return Answer("failed", str(down))
        if status in call.success:
            return Answer("accepted", f"HTTP {status}")
        if status in call.gone:
            return Answer("accepted", f"HTTP {status}: it is gone already")
        return Answer("superseded" if status in call.busy else "failed", f"HTTP {status}")
