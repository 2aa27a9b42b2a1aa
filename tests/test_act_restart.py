"""A sidecar that dies in the middle: what the next one knows, and what it must not do twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from sidecar import signals as g
from sidecar.act import Settings
from sidecar.journal import Entry
from sidecar.limits import Limit, Rules
from tests.test_act_world import ENFORCE, EPOCH, World, of

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar.session import Session

pytestmark = pytest.mark.looptime

SHIFT = 5_000.0
"""The next process has a clock of its own: only the wall's is shared."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def restart(path: Path, *then: g.Signal, settings: Settings = ENFORCE, turn: str | None = "t1") -> World:
    """Start anew on what an earlier run left; the transcript tells the turn again, then `then`."""
    world = World(path, settings, shift=SHIFT)
    session = world.open(turn=None)
    session.first_seen = SHIFT
    if turn is not None:
        world.fold(session, g.TurnStarted(SHIFT, turn, SHIFT))
    for signal in then:
        world.fold(session, signal)
    world.signals.clear()
    for signal in world.acts.recall(session):
        world.fold(session, signal)
    world.acts.resume(session)
    return world


def one(world: World) -> Session:
    return world.sessions["s1"]


async def killed(world: World) -> None:
    """End all its tasks where they are, as a kill does."""
    tasks = list(world.acts._tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_was_decided_and_came_of_it_is_known_again(path: Path) -> None:
    first = World(path)
    await first.stall()
    await first.settle()
    second = restart(path)
    session = one(second)
    assert [(v.bound, v.key, v.action, v.outcome) for v in session.verdicts] == [
        ("model", "model", "interrupt", "ineffective")
    ]
    assert session.verdicts[0].at == SHIFT + 61
    assert session.verdicts[0].reason == of(first, g.Judged)[0].reason
    assert session.interrupted
    assert session.turn is not None
    assert session.turn.ending == "spent"
    assert second.judge() == []
    await second.settle()
    assert second.calls == []


async def test_killed_between_intent_and_outcome_there_is_no_second_call_and_the_effect_is_awaited(
    path: Path,
) -> None:
    first = World(path)
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    assert (first.calls, first.outcomes) == (["interrupt"], [])
    second = restart(path)
    session = one(second)
    assert session.turn is not None
    assert session.turn.ending == "sent"
    await asyncio.sleep(5)
    second.fold(session, g.TurnEnded(second.clock.now(), "interrupted"))
    await second.settle()
    assert second.calls == []
    assert second.outcomes == [("interrupt", "effective")]
    assert session.turns["stalled"] == 1


async def test_a_person_who_asks_after_a_restart_waits_for_what_may_still_be_at_work(path: Path) -> None:
    first = World(path)
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    second = restart(path)
    asked = asyncio.create_task(second.acts.ask(one(second), "reap", "now", force=True))
    await asyncio.sleep(20)
    assert (second.calls, asked.done()) == ([], False), "the first may yet have its effect"
    await second.settle()
    await asked
    assert second.calls == ["reap"]
    await second.acts.ask(one(second), "reap", "now", force=True)
    assert second.calls == ["reap", "reap"], "it is waited for once"


async def test_an_act_cut_short_that_has_no_effect_is_ineffective_and_may_escalate(path: Path) -> None:
    first = World(path)
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    second = restart(path, settings=Settings(mode="enforce", escalate="reap"))
    await second.settle()
    assert second.calls == ["reap"]
    assert second.outcomes == [("interrupt", "ineffective"), ("reap", "ineffective")]


async def test_a_turn_that_moved_since_the_act_that_was_cut_short_is_not_reaped(path: Path) -> None:
    first = World(path)
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    settings = Settings(mode="enforce", escalate="reap")
    second = restart(path, g.Progress(SHIFT + 61.9), settings=settings)
    await second.settle()
    assert second.calls == []
    assert second.outcomes == [("interrupt", "ineffective"), ("reap", "superseded")]


async def test_an_agent_that_came_to_rest_while_nobody_looked_was_interrupted_effectively(path: Path) -> None:
    first = World(path)
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    second = restart(path, g.Status(SHIFT + 61.8, "idle", SHIFT + 61.8))
    await asyncio.sleep(1)
    assert second.outcomes == [("interrupt", "effective")]


async def test_an_act_on_a_turn_without_a_name_is_verified_after_a_restart_too(path: Path) -> None:
    first = World(path)
    session = first.open(turn=None)
    first.fold(session, g.Status(0.0, "waiting", 0.0, "permission prompt"))
    await first.stall(session, seconds=31)
    await asyncio.sleep(1)
    await killed(first)
    second = restart(path, g.Status(SHIFT, "waiting", SHIFT, "permission prompt"), turn=None)
    await asyncio.sleep(5)
    now = second.clock.now()
    second.fold(one(second), g.Status(now, "idle", now))
    await second.settle()
    assert (second.calls, second.outcomes) == ([], [("interrupt", "effective")])


async def test_killed_between_verdict_and_intent_the_verdict_is_taken_up_again(path: Path) -> None:
    first = World(path)
    first.looking = asyncio.Event().wait
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    second = restart(path)
    second.agent.does = second.end()
    await second.settle()
    assert second.calls == ["interrupt"]
    assert second.outcomes == [("interrupt", "effective")]
    assert len(one(second).verdicts) == 1


async def test_killed_between_verdict_and_intent_a_turn_that_works_again_is_left_alone(path: Path) -> None:
    first = World(path)
    first.looking = asyncio.Event().wait
    await first.stall()
    await asyncio.sleep(1)
    await killed(first)
    second = restart(path, g.Progress(SHIFT + 61.9))
    await second.settle()
    assert (second.calls, second.outcomes) == ([], [("interrupt", "superseded")])


async def test_what_a_brake_held_is_still_held_and_not_said_again(path: Path, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.write_text("1")
    settings = Settings(mode="enforce", hold_file=str(hold))
    first = World(path, settings)
    await first.stall()
    assert first.outcomes == [("interrupt", "held")]
    second = restart(path, settings=settings)
    assert second.outcomes == [("interrupt", "held")]  # recalled
    hold.unlink()
    await asyncio.sleep(10)
    second.acts.tick(second.clock.now())
    await second.settle()
    assert second.calls == ["interrupt"]
    assert second.outcomes == [("interrupt", "held"), ("interrupt", "ineffective")]


async def test_a_report_is_not_given_again(path: Path) -> None:
    first = World(path)
    first.rules = Rules(model_record=Limit(60.0, "report"))
    await first.stall()
    second = restart(path)
    second.rules = first.rules
    assert second.judge() == []
    assert [v.outcome for v in one(second).verdicts] == ["reported"]


async def test_a_turn_that_was_reported_dead_stays_dead(path: Path) -> None:
    first = World(path)
    session = first.open()
    first.fold(session, g.ProcessGone(1.0))
    await first.stall(session, seconds=2)
    assert session.turns["died"] == 1
    second = restart(path, g.ProcessGone(SHIFT + 1))
    assert one(second).turns["died"] == 1


async def test_a_turn_that_moved_after_it_was_reported_left_behind_is_not_closed_again(path: Path) -> None:
    first = World(path)
    session = first.open()
    first.fold(session, g.Status(1.0, "idle", 1.0))
    await first.stall(session, seconds=92)
    assert session.turns["abandoned"] == 1
    second = restart(path, g.Progress(SHIFT + 92.5))
    assert one(second).turn is not None
    assert one(second).verdicts == []


async def test_only_the_present_turn_is_recalled(path: Path) -> None:
    first = World(path)
    await first.stall()
    await first.settle()
    second = restart(path, turn="t2")
    assert one(second).verdicts == []
    await asyncio.sleep(61)
    second.judge()
    await second.settle()
    assert second.calls == ["interrupt"]


async def test_the_reap_of_a_session_at_rest_is_recalled_with_the_turn_it_rests_after(path: Path) -> None:
    first = World(path)
    session = first.open()
    first.fold(session, g.TurnEnded(1.0, "completed"))
    await first.stall(session, seconds=302)
    await first.settle()
    assert first.outcomes == [("reap", "ineffective")]
    second = restart(path, g.TurnEnded(SHIFT + 1.0, "completed"))
    assert second.judge() == []
    assert [(v.bound, v.outcome) for v in one(second).verdicts] == [("idle", "ineffective")]


async def test_a_session_without_turns_recalls_what_was_said_about_its_present_state_only(path: Path) -> None:
    first = World(path)
    session = first.open(turn=None)
    first.fold(session, g.Status(0.0, "waiting", 0.0, "permission prompt"))
    await first.stall(session, seconds=31)
    await first.settle(100)
    still = restart(path, g.Status(SHIFT, "waiting", SHIFT, "permission prompt"), turn=None)
    assert [v.bound for v in one(still).verdicts] == ["waiting"]
    anew = restart(path, g.Status(SHIFT + 100, "waiting", SHIFT + 100, "permission prompt"), turn=None)
    assert one(anew).verdicts == []


@pytest.mark.parametrize(
    "known",
    [g.Registered(SHIFT + 700.0), g.ProcessSeen(SHIFT + 700.0, 4711, SHIFT + 700.0)],
    ids=["listed", "held"],
)
async def test_a_session_that_never_began_recalls_nothing_of_its_namesake(
    path: Path, known: g.Signal
) -> None:
    first = World(path)
    session = first.open(turn=None)
    first.fold(session, g.Registered(0.0))
    await first.stall(session, seconds=601)
    assert [v.bound for v in session.verdicts] == ["starting"]
    assert [v.bound for v in one(restart(path, g.Registered(SHIFT), turn=None)).verdicts] == ["starting"]
    assert one(restart(path, known, turn=None)).verdicts == []


async def test_what_a_person_did_to_a_turn_is_known_again(path: Path) -> None:
    first = World(path, Settings())
    assert await first.acts.ask(first.open(), "interrupt", "stop") == "ineffective"
    second = restart(path)
    assert [(x.bound, x.reason) for x in of(second, g.Intended)] == [(None, "stop")]
    assert await second.acts.ask(one(second), "interrupt", "stop!") == "superseded"
    assert second.calls == []


async def test_a_session_that_wakes_again_is_told_its_past_once(path: Path) -> None:
    first = World(path)
    await first.stall()
    await first.settle()
    second = restart(path)
    assert second.acts.recall(one(second)) == []
    second.acts.resume(one(second))
    assert len(one(second).verdicts) == 1


async def test_long_and_odd_ids_are_recalled_as_themselves(path: Path) -> None:
    turn = "t" * 5_000
    first = World(path)
    await first.stall(first.open(turn=turn))
    await first.settle()
    second = restart(path, turn=turn)
    assert [(v.turn, v.outcome) for v in one(second).verdicts] == [(turn, "ineffective")]


async def test_an_interrupt_of_long_ago_is_recalled_from_its_one_line(path: Path) -> None:
    line = Entry("intent", EPOCH, "claude-code", "s1", "interrupt", "t1", "model", "model", "ineffective")
    path.write_bytes(msgspec.json.encode(line))  # noqa: ASYNC240 - a line
    second = restart(path)
    assert [type(x).__name__ for x in second.signals] == ["Intended", "Acted"]
    await second.settle()
    assert second.looks == 0  # nothing is left to verify
