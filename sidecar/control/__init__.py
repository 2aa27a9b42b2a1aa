"""Ways to end an agent's turn or session that are not the adapter's own: one file for each.

An adapter that is configured with one hands its orders over. A control does what it is told and
says what it was answered; whether that had an effect is seen by whoever watches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.agent import Answer, Can, Order
    from sidecar.sources.process import Process

    Holder = Callable[[str], Process | None]
    """The process that holds a session, with its start time; None where none can be seen."""


class Control(Protocol):
    """What every kind offers. Nothing here raises: what goes wrong is a failed answer."""

    def can(self, session: str, /) -> Can:
        """What can be done to this session now."""

    async def interrupt(self, order: Order, /) -> Answer:
        """End the open turn and keep the session."""

    async def reap(self, order: Order, /) -> Answer:
        """Tear the session down."""

    async def close(self) -> None:
        """Let go of whatever is held."""
