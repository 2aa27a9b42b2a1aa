"""What a person may do that policy may not, and what binds both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.act import Settings
from sidecar.agent import Answer, Can
from tests.test_act_world import World, of

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.looptime


async def test_a_person_interrupts_in_observe_mode_and_with_the_budget_spent() -> None:
    world = World(settings=Settings(max=0))
    world.agent.does = world.end()
    session = world.open()
    assert await world.acts.ask(session, "interrupt", "not what I meant") == "effective"
    assert world.outcomes == [("interrupt", "effective")]
    [intended] = of(world, g.Intended)
    assert (intended.bound, intended.turn, intended.reason) == (None, "t1", "not what I meant")
    assert session.last is not None
    assert session.last.outcome == "stalled"


async def test_an_attended_person_request_is_carried_out() -> None:
    world = World()
    world.agent.does = world.end()
    session = world.open(attended=True)
    assert await world.acts.ask(session, "interrupt", "mine") == "effective"


async def test_a_person_may_interrupt_a_turn_that_works() -> None:
    world = World()
    world.agent.does = world.end()
    session = world.open()
    world.seen = [g.Progress(0.0), g.ToolStarted(0.0, "c1", "Bash")]
    assert await world.acts.ask(session, "interrupt", "wrong way") == "effective"
    assert world.agent.orders[0].progress_at is None  # nothing was judged by it


async def test_the_hold_file_binds_people_too(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.write_text("1")
    world = World(settings=Settings(hold_file=str(hold)))
    session = world.open()
    assert await world.acts.ask(session, "interrupt", "please") == "held"
    hold.unlink()
    await asyncio.sleep(10)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert world.calls == []  # a person asks again


async def test_a_person_gets_one_interrupt_a_turn_too() -> None:
    world = World()
    session = world.open()
    assert await world.acts.ask(session, "interrupt", "stop") == "ineffective"
    assert await world.acts.ask(session, "interrupt", "stop!") == "superseded"
    assert world.calls == ["interrupt"]


async def test_two_who_ask_at_once_make_one_interrupt() -> None:
    world = World()
    world.agent.does = world.end()
    session = world.open()
    asked = [world.acts.ask(session, "interrupt", "stop") for _ in range(3)]
    assert sorted(await asyncio.gather(*asked)) == ["effective", "superseded", "superseded"]
    assert world.calls == ["interrupt"]


async def test_an_interrupt_of_a_session_at_rest_is_superseded_and_harmless() -> None:
    world = World()
    session = world.open(turn=None)
    assert await world.acts.ask(session, "interrupt", "stop") == "superseded"
    assert world.calls == []


async def test_a_turn_that_ended_while_the_person_spoke_is_superseded() -> None:
    world = World()
    session = world.open()
    world.seen = [g.TurnEnded(0.0, "completed"), g.TurnStarted(0.0, "t2", 0.0)]
    assert await world.acts.ask(session, "interrupt", "stop") == "superseded"
    assert world.calls == []


async def test_what_cannot_be_done_is_said_to_a_person_as_well() -> None:
    world = World()
    world.agent.able = Can(interrupt=False, reap=False)
    session = world.open("child", parent="s1")
    assert await world.acts.ask(session, "interrupt", "stop") == "unsupported"
    assert await world.acts.ask(session, "reap", "stop") == "unsupported"


async def test_a_persons_reap_leaves_a_session_that_works_unless_it_is_forced() -> None:
    world = World()
    world.agent.does = world.leave
    session = world.open()
    assert await world.acts.ask(session, "reap", "tidy up") == "superseded"
    assert await world.acts.ask(session, "reap", "tidy up", force=True) == "effective"
    assert [(o.action, o.turn, o.force) for o in world.agent.orders] == [("reap", "t1", True)]


async def test_a_persons_ineffective_interrupt_does_not_escalate() -> None:
    world = World(settings=Settings(mode="enforce", escalate="reap"))
    session = world.open()
    assert await world.acts.ask(session, "interrupt", "stop") == "ineffective"
    await world.settle()
    assert world.calls == ["interrupt"]


async def test_an_act_goes_on_though_whoever_asked_went_away() -> None:
    world = World()
    world.agent.does = world.end()
    session = world.open()
    asking = asyncio.ensure_future(world.acts.ask(session, "interrupt", "stop"))
    await asyncio.sleep(0.2)
    asking.cancel()
    await world.settle()
    assert world.outcomes == [("interrupt", "effective")]


async def test_a_persons_words_are_one_bounded_line() -> None:
    world = World()
    world.agent.answers = [Answer("failed")]
    await world.acts.ask(world.open(), "interrupt", "two\nlines\x00 " + "x" * 10_000)
    reason = world.agent.orders[0].reason
    assert reason.startswith("two lines")
    assert len(reason) <= 500
