"""What stops an act that is otherwise right: the hold file, the budget, a journal that cannot be written."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.act import Settings
from tests.test_act_world import World, of

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar.agent import Order

pytestmark = pytest.mark.looptime


# The hold file.


def holding(path: Path) -> Settings:
    return Settings(mode="enforce", hold_file=str(path))


@pytest.mark.parametrize("text", ["", "\n", "0", " 0\n", "false", "False\n"])
async def test_a_hold_file_that_says_nothing_holds_nothing(tmp_path: Path, text: str) -> None:
    hold = tmp_path / "hold"
    hold.write_text(text)
    world = World(settings=holding(hold))
    await world.stall()
    await world.settle()
    assert world.calls == ["interrupt"]


@pytest.mark.parametrize("text", ["1", "true", "incident 4711", "00", "\x00", "no"])
async def test_a_hold_file_that_says_anything_else_holds(tmp_path: Path, text: str) -> None:
    hold = tmp_path / "hold"
    hold.write_text(text)
    world = World(settings=holding(hold))
    await world.stall()
    await world.settle()
    assert (world.calls, world.outcomes) == ([], [("interrupt", "held")])


async def test_an_absent_hold_file_holds_nothing(tmp_path: Path) -> None:
    world = World(settings=holding(tmp_path / "no" / "hold"))
    await world.stall()
    await world.settle()
    assert world.calls == ["interrupt"]


@pytest.mark.parametrize("kind", ["directory", "loop", "pipe", "below a file"])
async def test_a_hold_file_that_cannot_be_read_holds(tmp_path: Path, kind: str) -> None:
    hold = tmp_path / "hold"
    if kind == "directory":
        hold.mkdir()
    elif kind == "loop":
        hold.symlink_to(hold)
    elif kind == "pipe":
        os.mkfifo(hold)
    else:
        hold.write_text("")
        hold /= "key"
    world = World(settings=holding(hold))
    await world.stall()
    assert world.outcomes == [("interrupt", "held")]


async def test_a_held_act_is_taken_up_when_the_hold_is_released(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.write_text("1")
    world = World(settings=holding(hold))
    world.agent.does = world.end()
    session = world.open()
    await world.stall(session)
    for _ in range(30):
        await asyncio.sleep(1)
        world.acts.tick(world.clock.now())
    assert world.outcomes == [("interrupt", "held")]  # said once, however often it was tried
    hold.write_text("0")
    await asyncio.sleep(10)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert world.outcomes == [("interrupt", "held"), ("interrupt", "effective")]
    assert [v.outcome for v in session.verdicts] == ["effective"]


async def test_a_hold_that_appears_during_the_last_look_holds(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    world = World(settings=holding(hold))

    async def meanwhile() -> None:
        hold.write_text("1")

    world.looking = meanwhile
    await world.stall()
    await asyncio.sleep(1)
    assert (world.calls, world.outcomes) == ([], [("interrupt", "held")])
    assert of(world, g.Intended) == []


async def test_a_held_act_waits_while_its_turn_works_and_is_done_when_it_hangs_again(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.write_text("1")
    world = World(settings=holding(hold))
    session = world.open()
    await world.stall(session)
    hold.unlink()
    await asyncio.sleep(10)
    world.fold(session, g.Progress(world.clock.now()))
    world.acts.tick(world.clock.now())
    await asyncio.sleep(30)
    world.acts.tick(world.clock.now())
    assert world.calls == []
    await asyncio.sleep(31)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert world.calls == ["interrupt"]


@pytest.mark.parametrize("after", [[], [g.TurnStarted(100.0, "t2", 100.0)]], ids=["nothing", "another turn"])
async def test_a_held_act_is_dropped_when_its_turn_is_over(tmp_path: Path, after: list[g.Signal]) -> None:
    hold = tmp_path / "hold"
    hold.write_text("1")
    world = World(settings=holding(hold))
    session = world.open()
    await world.stall(session)
    for signal in (g.TurnEnded(80.0, "completed"), *after):
        world.fold(session, signal)
    hold.unlink()
    await asyncio.sleep(200)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert (world.calls, world.outcomes) == ([], [("interrupt", "held")])


async def test_what_is_held_when_observe_mode_comes_back_is_only_observed(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.write_text("1")
    world = World(settings=holding(hold))
    await world.stall()
    hold.unlink()
    world.acts.settings = Settings()
    await asyncio.sleep(10)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert (world.calls, world.outcomes) == ([], [("interrupt", "held"), ("interrupt", "observed")])


# The budget.


async def test_more_acts_than_the_budget_allows_are_held_and_done_when_it_does_again() -> None:
    world = World(settings=Settings(mode="enforce", max=2, per=100.0))
    world.agent.does = world.end()
    await world.stall(*[world.open(f"s{n}") for n in range(3)])
    await asyncio.sleep(5)
    assert sorted(world.outcomes) == [("interrupt", "effective")] * 2 + [("interrupt", "held")]
    await asyncio.sleep(60)
    world.acts.tick(world.clock.now())
    assert len(world.calls) == 2
    await asyncio.sleep(40)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert len(world.calls) == 3


async def test_an_act_that_was_not_needed_costs_nothing() -> None:
    world = World(settings=Settings(mode="enforce", max=1))
    session = world.open()
    await asyncio.sleep(61)
    world.seen = [g.Progress(61.0)]
    world.judge()
    await asyncio.sleep(1)
    world.fold(session, g.TurnEnded(62.0, "completed"))
    world.fold(session, g.TurnStarted(62.0, "t2", 62.0))
    await asyncio.sleep(61)
    world.judge()
    await world.settle()
    assert world.calls == ["interrupt"]


async def test_a_restart_is_no_way_around_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    settings = Settings(mode="enforce", max=1)
    first = World(path, settings)
    await first.stall()
    await first.settle(100)
    second = World(path, settings)
    await second.stall(second.open("s2"))
    await asyncio.sleep(1)
    assert second.outcomes == [("interrupt", "held")]
    await asyncio.sleep(600)
    second.acts.tick(second.clock.now())
    await second.settle()
    assert second.calls == ["interrupt"]


async def test_an_escalation_is_an_act_too() -> None:
    world = World(settings=Settings(mode="enforce", max=1, escalate="reap"))
    await world.stall()
    await world.settle(100)
    assert world.outcomes == [("interrupt", "ineffective"), ("reap", "held")]
    await asyncio.sleep(600)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert world.calls == ["interrupt", "reap"]


# The journal.


async def test_an_act_whose_reason_cannot_be_written_is_held_and_watching_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.jsonl"
    world = World(path)
    path.parent.write_text("in the way")
    await world.stall()
    await asyncio.sleep(1)
    assert (world.calls, world.outcomes) == ([], [("interrupt", "held")])
    assert world.journal.failures > 0
    path.parent.unlink()
    await asyncio.sleep(10)
    world.acts.tick(world.clock.now())
    await world.settle()
    assert world.calls == ["interrupt"]


async def test_an_outcome_that_cannot_be_written_is_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.jsonl"
    world = World(path)

    async def meanwhile(order: Order) -> None:
        path.unlink()
        path.mkdir()
        await world.end()(order)

    world.agent.does = meanwhile
    await world.stall()
    await world.settle()
    assert world.outcomes == [("interrupt", "effective")]
