"""A world to act in: one fold, one agent that notes what it is asked, and stories told in seconds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sidecar import signals as g
from sidecar.act import Acts, Settings
from sidecar.agent import Answer, Can, Finding, Order, Sees, Source
from sidecar.clock import LiveClock
from sidecar.fold import fold
from sidecar.journal import Journal
from sidecar.limits import Limit, Rules
from sidecar.policy import judge
from sidecar.session import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

EPOCH = 1_796_040_000.0
ENFORCE = Settings(mode="enforce")
RULES = Rules(
    model_record=Limit(60.0),
    waiting=Limit(30.0),
    idle=Limit(300.0, "reap"),
    tool={"mcp__*": Limit(50.0)},
    busy=Limit(40.0),
)


class Fake:
    """An agent that notes what it is asked and answers as it was told to."""

    kind = "fake"
    sources: Sequence[Source] = ()

    def __init__(self, log: list[str]) -> None:
        self.name = "claude-code"
        self.log = log
        self.able = Can(interrupt=True, reap=True)
        self.orders: list[Order] = []
        self.answers: list[Answer] = []
        self.does: Callable[[Order], Awaitable[object]] | None = None
        """What the call brings about before it is answered."""

    sees = Sees("record", tools=True, waiting=True, status=True)

    def can(self, _: str) -> Can:
        return self.able

    async def interrupt(self, order: Order) -> Answer:
        return await self._obey(order)

    async def reap(self, order: Order) -> Answer:
        return await self._obey(order)

    async def _obey(self, order: Order) -> Answer:
        self.orders.append(order)
        self.log.append(f"call {order.action}")
        if self.does is not None:
            await self.does(order)
        return self.answers.pop(0) if self.answers else Answer("accepted")

    async def look(self, _: str) -> Sequence[g.Observation]:
        return ()

    async def probe(self) -> Sequence[Finding]:
        return ()

    async def close(self) -> None:
        pass


class World:
    """The sessions and the one fold; `log` is what happened in the order in which it did."""

    def __init__(self, path: Path | None = None, settings: Settings = ENFORCE, shift: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LiveClock(lambda: loop.time() + shift, lambda: EPOCH + loop.time())
        self.sessions: dict[str, Session] = {}
        self.log: list[str] = []
        self.signals: list[g.Signal] = []
        self.seen: list[g.Signal] = []
        """What the next look will find."""
        self.looks = 0
        self.looking: Callable[[], Awaitable[object]] | None = None
        self.agent = Fake(self.log)
        self.journal = Journal(path)
        self.rules = RULES
        self.acts = Acts(self, {"claude-code": self.agent}, lambda _: self.rules, self.journal, settings)

    def session(self, _: str, session_id: str) -> Session | None:
        return self.sessions.get(session_id)

    def fold(self, session: Session, signal: g.Signal) -> None:
        self.signals.append(signal)
        for change in fold(session, signal):
            self.log.append(type(change).__name__)
            self.acts(session, change)

    async def refresh(self, session: Session) -> None:
        self.looks += 1
        self.log.append("look")
        if self.looking is not None:
            await self.looking()
        seen, self.seen = self.seen, []
        for signal in seen:
            self.fold(session, signal)

    # Stories.

    def open(self, name: str = "s1", turn: str | None = "t1", **facts: str | bool) -> Session:
        """A session with an open turn whose transcript is read."""
        now = self.clock.now()
        session = self.sessions[name] = Session("claude-code", name, now, **facts)  # type: ignore[arg-type]
        self.fold(session, g.SourceUp(now, "transcript", "record"))
        if turn is not None:
            self.fold(session, g.TurnStarted(now, turn, now))
        return session

    def judge(self) -> list[g.Judged]:
        """As the watch does: fold each verdict, have it carried out."""
        given = []
        for session in self.sessions.values():
            for said in judge(session, self.rules, self.clock.now()):
                self.fold(session, said)
                if isinstance(said, g.Judged):
                    given.append(said)
                    self.acts.carry_out(session, said)
        return given

    async def stall(self, *sessions: Session, seconds: float = 61.0) -> list[g.Judged]:
        """Nothing happens for so long, and that is judged."""
        for session in sessions or [self.open()]:
            self.sessions[session.id] = session
        await asyncio.sleep(seconds)
        return self.judge()

    async def settle(self, seconds: float = 600.0) -> None:
        """Let whatever runs come to its end."""
        await asyncio.sleep(seconds)

    def end(self, outcome: g.Outcome = "interrupted") -> Callable[[Order], Awaitable[object]]:
        """What an agent does that obeys."""

        async def obey(order: Order) -> None:
            await asyncio.sleep(0.5)
            self.fold(self.sessions[order.session], g.TurnEnded(self.clock.now(), outcome))

        return obey

    def leave(self, order: Order) -> Awaitable[object]:
        """What an agent does that is torn down."""

        async def obey() -> None:
            await asyncio.sleep(0.5)
            self.fold(self.sessions[order.session], g.Unregistered(self.clock.now()))

        return obey()

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(x.action, x.outcome) for x in self.signals if isinstance(x, g.Acted)]

    @property
    def calls(self) -> list[str]:
        return [order.action for order in self.agent.orders]


def of(world: World, kind: type[g.Signal]) -> list[Any]:
    return [x for x in world.signals if isinstance(x, kind)]
