"""What hosts and boxes told since the last read: their events, kept until a source asks for them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sidecar.control.events import Event
    from sidecar.control.host import HostControl

READ_AHEAD: Final = 1_000
"""Events kept between two reads; the streams wait when that many were not taken."""


class Told:
    """Follows the events of a control in a task of its own, and wakes the source that reads them."""

    def __init__(self, control: HostControl) -> None:
        self.wake = asyncio.Event()
        self._control = control
        self._events: asyncio.Queue[Event] = asyncio.Queue(READ_AHEAD)
        self._stream: asyncio.Task[None] | None = None

    def take(self) -> list[Event]:
        """What came since the last time; begins to listen the first time, and anew where that ended."""
        if self._stream is None or self._stream.done():
            self._stream = asyncio.create_task(self._follow(), name="events of a control")
        return [self._events.get_nowait() for _ in range(self._events.qsize())]

    async def close(self) -> None:
        """Stop listening."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)

    async def _follow(self) -> None:
        async with aclosing(self._control.events()) as events:
            async for event in events:
                await self._events.put(event)
                self.wake.set()
