"""The whole way from a server to an act and back: the real watch, judge and acts around the adapter."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from sidecar import changes as c
from sidecar.act import Acts
from sidecar.act import Settings as ActSettings
from sidecar.journal import Journal
from sidecar.limits import Limit, Rules
from sidecar.watch import Settings, Watch
from tests.agents.opencode.fake import Watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sidecar.session import Session
    from tests.agents.opencode.fake import Fake

SHORT = Rules(model_delta=Limit(0.3), waiting=Limit(0.3), retrying=Limit(0.3))


class Beside:
    """A sidecar beside one server."""

    def __init__(self, server: Fake, rules: Rules = SHORT, **acting: Any) -> None:
        watched = Watched(server, every=0.1)
        self.agent, self.clock = watched.agent, watched.clock
        self.watch = Watch([self.agent], Settings({"opencode": rules}, lambda: 0.0), self.clock)
        settings = ActSettings(mode="enforce", **({"grace": 1.0} | acting))
        self.acts = Acts(self.watch, self.watch.agents, self.watch.rules, Journal(None), settings)
        self.watch.doing = self.acts
        self.told: list[c.Change] = []
        self.watch.fleet.listeners += [self.acts, lambda _, change: self.told.append(change)]

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(x.action, x.outcome) for x in self.told if isinstance(x, c.ActEnded)]

    @property
    def bounds(self) -> list[str]:
        return [x.verdict.bound for x in self.told if isinstance(x, c.VerdictGiven)]

    def seen(self, session: str = "ses_1") -> Session:
        found = self.watch.fleet.get("opencode", session)
        assert found is not None
        return found

    def ended(self) -> list[str | None]:
        return [x.turn.outcome for x in self.told if isinstance(x, c.TurnClosed)]

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110 - what it waits for is on the other side of a socket
                await asyncio.sleep(0.02)


@asynccontextmanager
async def beside(server: Fake, rules: Rules = SHORT, **acting: Any) -> AsyncIterator[Beside]:
    """Watch until the block is left."""
    sidecar = Beside(server, rules, **acting)
    running = asyncio.create_task(sidecar.watch.run())
    try:
        await sidecar.until(lambda: sidecar.watch.ready and server.streams)
        yield sidecar
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await sidecar.agent.close()
