"""What an agent answers, what it then does, and which of the two is the outcome."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any, Literal

import pytest

from sidecar import changes as c
from sidecar import signals as g
from sidecar.agent import Answer, Order
from sidecar.session import Turn
from tests.test_act_world import World

pytestmark = pytest.mark.looptime


# Answers.


@pytest.mark.parametrize("result", ["failed", "unsupported", "superseded"])
async def test_what_the_control_answers_is_the_outcome(
    result: Literal["failed", "unsupported", "superseded"],
) -> None:
    world = World()
    world.agent.answers = [Answer(result, "HTTP 503")]
    session = world.open()
    await world.stall(session)
    await world.settle()
    assert world.outcomes == [("interrupt", result)]
    assert world.calls == ["interrupt"]
    assert session.turn is not None
    assert session.turn.ending == ""


async def test_a_call_has_a_deadline() -> None:
    world = World()
    world.agent.does = lambda _: asyncio.Event().wait()
    await world.stall()
    await asyncio.sleep(9)
    assert world.outcomes == []
    await asyncio.sleep(2)
    assert world.outcomes == [("interrupt", "failed")]


async def test_an_adapter_that_raises_has_failed_and_nothing_else_happens() -> None:
    world = World()

    async def fault(_: Order) -> None:
        raise KeyError("a bug")

    world.agent.does = fault
    await world.stall()
    await world.settle()
    assert world.outcomes == [("interrupt", "failed")]


async def test_a_call_whose_answer_was_lost_is_effective_if_the_turn_ended() -> None:
    world = World()

    async def lost(order: Order) -> None:
        await world.end()(order)
        await asyncio.Event().wait()

    world.agent.does = lost
    await world.stall()
    await world.settle()
    assert world.outcomes == [("interrupt", "effective")]


async def test_a_fault_of_ours_is_a_failed_act_with_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.stall()
    world.rules = None  # type: ignore[assignment]
    await world.settle()
    assert world.outcomes == [("interrupt", "failed")]
    assert "Traceback" in caplog.text


# Effects.


async def test_an_accepted_act_without_effect_within_the_grace_is_ineffective() -> None:
    world = World()
    session = world.open()
    await world.stall(session)
    await asyncio.sleep(29)
    assert world.outcomes == []
    await asyncio.sleep(2)
    assert world.outcomes == [("interrupt", "ineffective")]
    assert world.calls == ["interrupt"]
    assert session.turn is not None
    assert session.turn.ending == "spent"


async def test_an_agent_that_is_only_polled_is_looked_at_until_it_shows_the_end() -> None:
    world = World()
    await world.stall()
    await asyncio.sleep(7)
    assert 1 < world.looks < 5
    world.seen = [g.TurnEnded(world.clock.now(), "interrupted")]
    await asyncio.sleep(5)
    assert world.outcomes == [("interrupt", "effective")]


@pytest.mark.parametrize("answer", ["accepted", "failed"])
async def test_a_turn_that_its_own_guard_ended_supersedes_the_act_under_way(answer: Any) -> None:
    """Both count the same silence, so they often come to it at once."""
    world = World()

    async def first(_: Order) -> None:
        world.fold(session, g.TurnEnded(world.clock.now(), "interrupted", guarded=True))

    session = world.open()
    world.agent.does = first
    world.agent.answers = [Answer(answer)]
    await world.stall(session)
    await world.settle()
    assert world.outcomes == [("interrupt", "superseded")]
    assert session.last is not None
    assert session.last.outcome == "interrupted"
    assert (session.turns["interrupted"], session.turns["stalled"]) == (1, 0)


async def test_an_end_that_only_the_agents_own_word_shows_is_an_effect() -> None:
    world = World()

    async def obey(order: Order) -> None:
        now = world.clock.now()
        world.fold(world.sessions[order.session], g.Status(now, "idle", now))

    world.agent.does = obey
    session = world.open()
    world.fold(session, g.Status(0.0, "busy", 0.0))
    await world.stall(session)
    await world.settle(2)
    assert world.outcomes == [("interrupt", "effective")]


async def test_the_end_of_another_turn_is_no_effect() -> None:
    world = World()
    session, other = world.open(), world.open("s2", turn="t9", attended=True)
    await world.stall(session)
    await asyncio.sleep(1)
    world.acts(session, c.TurnClosed(62.0, Turn("t0", 0.0)))
    world.fold(other, g.TurnEnded(62.0, "completed"))
    await asyncio.sleep(1)
    assert ("interrupt", "effective") not in world.outcomes
    await world.acts.drain(600)


async def test_a_look_that_fails_while_waiting_for_the_effect_changes_nothing() -> None:
    world = World()
    await world.stall()
    await asyncio.sleep(1)

    async def broken() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    world.looking = broken
    await asyncio.sleep(20)
    world.fold(world.sessions["s1"], g.TurnEnded(world.clock.now(), "interrupted"))
    await asyncio.sleep(1)
    assert world.outcomes == [("interrupt", "effective")]


# Shutting down.


async def test_a_shutdown_waits_for_what_runs_and_begins_nothing_more() -> None:
    world = World()
    world.agent.does = world.end()
    await world.stall()
    await world.acts.drain(5)
    assert world.outcomes == [("interrupt", "effective")]
    world.open("s2")
    await asyncio.sleep(61)
    world.judge()
    await world.settle()
    assert world.calls == ["interrupt"]
    assert world.outcomes == [("interrupt", "effective")]


async def test_a_shutdown_with_nothing_to_wait_for_is_over_at_once() -> None:
    world = World()
    await world.acts.drain(5)
    assert world.clock.now() == 0


async def test_a_shutdown_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.stall()
    await world.acts.drain(5)
    assert world.clock.now() < 70
    assert "1 acts still wait for their effect" in caplog.text
    await world.settle()
