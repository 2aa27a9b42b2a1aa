"""Tearing a session down: after an interrupt without effect, and when it rests too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.act import Settings
from sidecar.agent import Answer, Order
from sidecar.limits import Limit, Rules
from tests.test_act_world import World, of

if TYPE_CHECKING:
    from sidecar.session import Session


pytestmark = pytest.mark.looptime


# Escalation.


async def test_an_ineffective_interrupt_escalates_once_where_that_is_wanted() -> None:
    world = World(settings=Settings(mode="enforce", escalate="reap"))
    await world.stall()
    await world.settle()
    assert world.calls == ["interrupt", "reap"]
    assert world.outcomes == [("interrupt", "ineffective"), ("reap", "ineffective")]
    reap = world.agent.orders[1]
    assert (reap.turn, reap.force) == ("t1", True)
    assert [x.action for x in of(world, g.Intended)] == ["interrupt", "reap"]


async def test_a_turn_that_moved_after_its_interrupt_is_not_reaped() -> None:
    world = World(settings=Settings(mode="enforce", escalate="reap"))
    await world.stall()
    await asyncio.sleep(20)
    world.fold(world.sessions["s1"], g.Progress(world.clock.now()))
    await world.settle()
    assert world.calls == ["interrupt"]
    assert world.outcomes == [("interrupt", "ineffective"), ("reap", "superseded")]


async def test_an_echo_of_the_interrupt_does_not_save_a_turn_from_its_reap() -> None:
    world = World(settings=Settings(mode="enforce", escalate="reap"))
    session = world.open()
    world.fold(session, g.ToolStarted(0.0, "c1", "mcp__slow"))
    await world.stall(session)
    await asyncio.sleep(1)
    world.fold(session, g.ToolEnded(world.clock.now(), "c1", echo=True))
    await world.settle()
    assert world.calls == ["interrupt", "reap"]


async def test_a_turn_without_a_name_is_never_reaped_by_escalation() -> None:
    world = World(settings=Settings(mode="enforce", escalate="reap"))
    session = world.open(turn=None)
    world.fold(session, g.Status(0.0, "busy", 0.0))
    await world.stall(session)
    await world.settle()
    assert world.calls == ["interrupt"]


# Reaping.


async def idle(world: World) -> Session:
    """A session whose turn is over for longer than the idle limit."""
    session = world.open()
    world.fold(session, g.TurnEnded(1.0, "completed"))
    await asyncio.sleep(302)
    return session


async def test_an_idle_session_is_reaped() -> None:
    world = World()
    world.agent.does = world.leave
    session = await idle(world)
    world.judge()
    await world.settle()
    assert world.agent.orders == [Order("reap", "s1", None, world.agent.orders[0].reason, 0.0)]
    assert ("reap", "effective") in [(x.action, x.outcome) for x in of(world, g.Acted)]
    assert session.closed is not None


@pytest.mark.parametrize(
    "seen",
    [
        g.Background(302.0, 1),
        g.Status(302.0, "background", 302.0),
        g.TurnStarted(302.0, "t2", 302.0),
        g.Status(302.0, "busy", 302.0),
        g.ChildMoved(302.0, "child", running=True, progress=302.0),
    ],
    ids=["a background task", "a background job", "a turn", "a busy word", "a subagent"],
)
async def test_an_idle_reap_is_not_done_when_the_last_look_shows(seen: g.Signal) -> None:
    world = World()
    await idle(world)
    world.seen = [seen]
    world.judge()
    await world.settle()
    assert (world.calls, world.outcomes) == ([], [("reap", "superseded")])


async def test_a_failed_reap_is_tried_three_times_then_reported() -> None:
    world = World()
    await idle(world)
    world.agent.answers = [Answer("failed")] * 5
    world.judge()
    times = []
    for _ in range(20):
        times.append(len(world.calls))
        await asyncio.sleep(1)
    assert [times[n] for n in (1, 3, 9, 11, 19)] == [1, 2, 2, 3, 3]
    assert world.outcomes == [("reap", "failed")]
    assert len(of(world, g.Intended)) == 1


async def test_a_session_that_woke_between_two_tries_is_not_reaped() -> None:
    world = World()
    session = await idle(world)
    world.agent.answers = [Answer("failed")] * 5
    world.judge()
    await asyncio.sleep(1)
    world.fold(session, g.TurnStarted(303.0, "t2", 303.0))
    await world.settle()
    assert (world.calls, world.outcomes) == (["reap"], [("reap", "superseded")])


async def test_a_reap_that_seemed_to_fail_and_closed_the_session_is_effective() -> None:
    world = World()
    session = await idle(world)
    world.agent.answers = [Answer("failed")]
    world.judge()
    await asyncio.sleep(1)
    world.fold(session, g.Unregistered(world.clock.now()))
    await world.settle()
    assert world.calls == ["reap"]
    assert ("reap", "effective") in world.outcomes


async def test_a_reap_that_is_the_configured_end_of_a_turn_names_and_forces_it() -> None:
    world = World()
    world.rules = Rules(model_record=Limit(60.0, "reap"))
    await world.stall()
    await world.settle()
    assert [(o.action, o.turn, o.force) for o in world.agent.orders] == [("reap", "t1", True)]


async def test_a_session_that_says_busy_without_a_turn_is_never_reaped() -> None:
    world = World()
    world.rules = Rules(busy=Limit(40.0, "reap"))
    session = world.open(turn=None)
    world.fold(session, g.Status(0.0, "busy", 0.0))
    await world.stall(session)
    await world.settle()
    assert (world.calls, world.outcomes) == ([], [("reap", "superseded")])
