"""From a verdict to its outcome: what is done, in which order, and above all what is not done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.act import Settings
from sidecar.agent import Can, Order
from sidecar.limits import Limit, Rules
from tests.test_act_world import World, of

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar.journal import Deed

pytestmark = pytest.mark.looptime


# Verdicts that touch nothing.


async def test_a_report_is_an_outcome_at_once() -> None:
    world = World()
    world.rules = Rules(model_record=Limit(60.0, "report"))
    await world.stall()
    assert world.outcomes == [("report", "reported")]
    assert world.looks == 0


async def test_observe_mode_says_what_it_would_have_done_and_touches_nothing() -> None:
    world = World(settings=Settings())
    await world.stall()
    await world.settle()
    assert world.outcomes == [("interrupt", "observed")]
    assert (world.calls, world.looks) == ([], 0)


async def test_what_cannot_be_done_is_unsupported() -> None:
    world = World()
    world.agent.able = Can(interrupt=False, reap=False)
    await world.stall()
    await world.settle()
    assert world.outcomes == [("interrupt", "unsupported")]
    assert world.calls == []


async def test_an_agent_that_is_no_longer_configured_is_unsupported() -> None:
    world = World()
    session = world.open()
    session.agent = "gone"
    await world.stall(session)
    assert world.outcomes == [("interrupt", "unsupported")]


async def test_a_subagent_that_cannot_be_ended_alone_is_reported() -> None:
    world = World()
    world.agent.able = Can(interrupt=False, reap=False)
    await world.stall(world.open("child", parent="s1"))
    assert world.outcomes == [("interrupt", "reported")]


# The order of things.


async def test_the_reason_is_journaled_and_told_before_the_call(tmp_path: Path) -> None:
    world = World(tmp_path / "journal.jsonl")
    intend = world.journal.intend

    def noting(deed: Deed, reason: str, at: float) -> None:
        intend(deed, reason, at)
        world.log.append("journal")

    world.journal.intend = noting  # type: ignore[method-assign]
    world.agent.does = world.end()
    [judged] = await world.stall()
    world.log.clear()
    await world.settle()
    assert world.log == [
        "look",
        "journal",
        "ActIntended",
        "call interrupt",
        "PhaseLeft",
        "TurnClosed",
        "ActEnded",
    ]
    assert judged.reason == of(world, g.Intended)[0].reason == world.agent.orders[0].reason
    assert judged.reason.startswith("no progress for 1m01s while waiting for the model")


async def test_the_order_names_the_turn_and_the_progress_that_were_judged() -> None:
    world = World()
    await world.stall()
    await world.settle()
    assert world.agent.orders == [Order("interrupt", "s1", "t1", world.agent.orders[0].reason, 0.0)]


async def test_a_turn_that_ends_is_an_effective_act_and_stalled() -> None:
    world = World()
    world.agent.does = world.end("completed")
    session = world.open()
    await world.stall(session)
    await world.settle()
    assert world.outcomes == [("interrupt", "effective")]
    assert session.last is not None
    assert session.last.outcome == "stalled"
    assert [v.outcome for v in session.verdicts] == ["effective"]


async def test_the_loop_goes_on_while_an_act_waits() -> None:
    world = World()
    await world.stall(world.open("s1"), world.open("s2"))
    await asyncio.sleep(1)
    assert world.calls == ["interrupt", "interrupt"]
    assert world.outcomes == []
    await world.settle()
    assert world.outcomes == [("interrupt", "ineffective")] * 2


# Looking again.


async def superseded(*seen: g.Signal) -> World:
    """A stalled turn of which the last look shows these."""
    world = World()
    session = world.open()
    await asyncio.sleep(61)
    world.seen = list(seen)
    world.judge()
    await world.settle()
    assert world.calls == []
    assert world.outcomes == [("interrupt", "superseded")]
    assert of(world, g.Intended) == []
    assert session.turn is None or session.turn.ending == ""
    return world


async def test_a_turn_that_progressed_between_verdict_and_call_is_superseded() -> None:
    await superseded(g.Progress(61.0))


async def test_a_turn_that_ended_by_itself_is_superseded_and_keeps_its_outcome() -> None:
    world = await superseded(g.TurnEnded(61.0, "completed"))
    assert world.sessions["s1"].turns["completed"] == 1


async def test_a_turn_that_is_about_to_end_is_superseded() -> None:
    await superseded(g.TurnEnded(61.0, "completed", settle=2.0))


async def test_another_turn_is_superseded_even_if_silent() -> None:
    await superseded(g.TurnEnded(1.0, "completed"), g.TurnStarted(1.0, "t2", 1.0))


async def test_a_condition_that_is_gone_is_superseded() -> None:
    await superseded(g.ToolStarted(0.0, "c1", "Bash"))


async def test_a_session_that_somebody_attends_now_is_superseded() -> None:
    await superseded(g.Described(61.0, attended=True))


async def test_a_session_that_went_blind_is_superseded() -> None:
    await superseded(g.SourceLost(61.0, "transcript"))


async def test_a_session_that_closed_is_superseded() -> None:
    world = World()
    session = world.open()
    await asyncio.sleep(61)

    async def vanish() -> None:
        del world.sessions["s1"]

    world.looking = vanish
    world.acts.carry_out(
        session, g.Judged(61.0, "model", "model", "interrupt", "transcript", "silence", "t1")
    )
    await world.settle()
    assert world.outcomes == [("interrupt", "superseded")]


@pytest.mark.parametrize("fault", ["raises", "hangs"])
async def test_who_cannot_look_again_does_not_act(fault: str) -> None:
    world = World()

    async def broken() -> None:
        if fault == "raises":
            raise ConnectionError("content that nobody may see")
        await asyncio.Event().wait()

    world.looking = broken
    await world.stall()
    await world.settle()
    assert (world.calls, world.outcomes) == ([], [("interrupt", "failed")])


async def test_a_call_may_take_as_long_as_the_agent_is_known_to_need() -> None:
    async def slowly(_: Order) -> None:
        await asyncio.sleep(12)

    for patience, outcome in ((0.0, "failed"), (15.0, "ineffective")):
        world = World()
        world.agent.able = Can(interrupt=True, reap=True, patience=patience)
        world.agent.does = slowly
        await world.stall()
        await world.settle()
        assert world.outcomes == [("interrupt", outcome)]


# Once.


async def test_a_turn_gets_one_interrupt_whatever_trips_later() -> None:
    world = World()
    world.rules = Rules(model_record=Limit(60.0), turn=Limit(200.0))
    await world.stall()
    await world.settle()
    world.judge()
    await world.settle()
    assert world.calls == ["interrupt"]
    assert world.outcomes == [("interrupt", "ineffective"), ("report", "reported")]


async def test_a_verdict_for_a_turn_that_had_its_interrupt_is_superseded() -> None:
    world = World()
    session = world.open()
    assert await world.acts.ask(session, "interrupt", "somebody asked") == "ineffective"
    await world.stall(session)
    await world.settle()
    assert world.calls == ["interrupt"]
    assert world.outcomes == [("interrupt", "ineffective"), ("interrupt", "superseded")]


async def test_a_new_turn_starts_with_a_clean_slate() -> None:
    world = World()
    world.agent.does = world.end()
    session = world.open()
    for turn in ("t2", "t3"):
        await world.stall(session)
        await world.settle()
        now = world.clock.now()
        world.fold(session, g.TurnStarted(now, turn, now))
    assert world.outcomes == [("interrupt", "effective")] * 2


async def test_a_session_that_names_no_turn_gets_one_interrupt_for_each_time_it_hangs() -> None:
    world = World()
    session = world.open(turn=None)
    for _ in range(2):
        now = world.clock.now()
        world.fold(session, g.Status(now, "waiting", now, "permission prompt"))
        session.judged.clear()
        session.interrupted = False
        await world.stall(session, seconds=31)
        world.acts.carry_out(session, of(world, g.Judged)[-1])  # the same again: once
        await world.settle()
        now = world.clock.now()
        world.fold(session, g.Status(now, "idle", now))
    assert world.calls == ["interrupt", "interrupt"]
    assert world.agent.orders[0].turn is None
