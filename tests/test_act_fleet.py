"""Acting on the sessions as the sidecar keeps them: listeners, families, sessions that close."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sidecar import changes as c
from sidecar import signals as g
from sidecar.act import Acts, Settings
from sidecar.agent import Can
from sidecar.clock import LiveClock
from sidecar.fleet import Fleet
from sidecar.journal import Journal
from sidecar.limits import Limit, Rules
from tests.test_act_world import EPOCH, Fake

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sidecar.agent import Order
    from sidecar.session import Session

pytestmark = pytest.mark.looptime

RULES = Rules(model_record=Limit(60.0), idle=Limit(300.0, "reap"))


class Sidecar:
    """The real fleet and the real acts, around an agent that is none."""

    def __init__(self, path: Path | None = None, *, shift: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LiveClock(lambda: loop.time() + shift, lambda: EPOCH + loop.time())
        self.agent = Fake([])
        self.fleet = Fleet(self, told_from=self.clock.now())
        agents = {"claude-code": self.agent}
        self.acts = Acts(self, agents, self.rules, Journal(path), Settings(mode="enforce"))
        self.told: list[c.Change] = []
        self.fleet.listeners += [self.acts, lambda _, change: self.told.append(change)]

    def see(self, *signals: g.Signal, session: str = "s1") -> None:
        seen = [g.Observation(session, signal) for signal in signals]
        self.fleet.observe("claude-code", seen, self.clock.now())

    async def pass_by(self, seconds: float) -> None:
        """Time passes, and the ticker ticks."""
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            self.fleet.tick(self.clock.now())
            self.acts.tick(self.clock.now())

    def of(self, kind: type[c.Change]) -> list[c.Change]:
        return [change for change in self.told if isinstance(change, kind)]

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(x.action, x.outcome) for x in self.told if isinstance(x, c.ActEnded)]

    # What the fleet asks.

    def rules(self, _: Session) -> Rules:
        return RULES

    def alone(self, session: Session) -> bool:
        return session.parent is None

    def luck(self) -> float:
        return 0.0

    def decide(self, session: Session, judged: g.Judged) -> None:
        self.agent.able = Can(interrupt=self.alone(session), reap=self.alone(session))
        self.acts.carry_out(session, judged)
        self.agent.able = Can(interrupt=True, reap=True)

    def opened(self, session: Session) -> Iterable[g.Signal]:
        return self.acts.recall(session)

    def woken(self, session: Session) -> None:
        self.acts.resume(session)

    # What acting asks.

    def session(self, agent: str, session_id: str) -> Session | None:
        found = self.fleet.get(agent, session_id)
        return None if found is None or found.dormant else found

    def fold(self, session: Session, signal: g.Signal) -> None:
        self.fleet.fold(session, signal)

    async def refresh(self, _: Session) -> None:
        pass


def prompt(at: float = 0.0) -> tuple[g.Signal, ...]:
    return (g.SourceUp(at, "transcript", "record"), g.Registered(at), g.TurnStarted(at, "t1", at))


async def test_a_stalled_turn_is_ended_once_and_everything_is_told_in_order() -> None:
    sidecar = Sidecar()

    async def obey(_: Order) -> None:
        sidecar.see(g.TurnEnded(sidecar.clock.now(), "interrupted"))

    sidecar.agent.does = obey
    sidecar.see(*prompt())
    await sidecar.pass_by(200)
    kinds = [
        type(x)
        for x in sidecar.told
        if isinstance(x, c.VerdictGiven | c.ActIntended | c.TurnClosed | c.ActEnded)
    ]
    assert kinds == [c.VerdictGiven, c.ActIntended, c.TurnClosed, c.ActEnded]
    assert sidecar.outcomes == [("interrupt", "effective")]


async def test_the_outcome_of_a_reap_is_told_though_the_session_is_gone() -> None:
    sidecar = Sidecar()

    async def leave(_: Order) -> None:
        sidecar.see(g.Unregistered(sidecar.clock.now()))

    sidecar.agent.does = leave
    sidecar.see(*prompt(), g.TurnEnded(0.0, "completed"))
    await sidecar.pass_by(400)
    assert sidecar.of(c.SessionClosed)
    assert sidecar.outcomes == [("reap", "effective")]
    assert sidecar.session("claude-code", "s1") is None


async def test_a_subagent_that_cannot_be_ended_alone_takes_its_parents_turn_with_it() -> None:
    sidecar = Sidecar()
    sidecar.see(*prompt(), g.ToolStarted(0.0, "c1", "Agent", delegates=True))
    sidecar.see(
        g.SourceUp(0.0, "transcript", "record"),
        g.Described(0.0, parent="s1"),
        g.TurnStarted(0.0, "child-turn", 0.0),
        session="child",
    )
    await sidecar.pass_by(200)
    assert sidecar.outcomes == [("interrupt", "reported"), ("interrupt", "ineffective")]
    assert [(o.session, o.turn) for o in sidecar.agent.orders] == [("s1", "t1")]


async def test_after_a_restart_the_past_is_known_and_not_told_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Sidecar(path)
    first.see(*prompt())
    await first.pass_by(120)
    assert first.outcomes == [("interrupt", "ineffective")]
    second = Sidecar(path, shift=5_000.0)
    second.see(*prompt(5_000.0))
    await second.pass_by(120)
    session = second.session("claude-code", "s1")
    assert session is not None
    assert [(v.bound, v.outcome) for v in session.verdicts] == [("model", "ineffective")]
    assert second.of(c.VerdictGiven) == second.of(c.ActIntended) == []
    assert second.outcomes == []
    assert second.agent.orders == []


async def test_an_act_cut_short_is_verified_and_told_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Sidecar(path)
    first.see(*prompt())
    await first.pass_by(62)
    tasks = list(first.acts._tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (len(first.agent.orders), first.outcomes) == (1, [])
    second = Sidecar(path, shift=5_000.0)
    second.see(*prompt(5_000.0))
    await second.pass_by(5)
    second.see(g.TurnEnded(second.clock.now(), "interrupted"))
    await second.pass_by(5)
    assert second.outcomes == [("interrupt", "effective")]
    assert second.agent.orders == []
