"""The compile box by its preset, in simulated time: who is ended, who is spared, and how often it is asked."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from sidecar.act import Acts
from sidecar.act import Settings as ActSettings
from sidecar.agent import Can, Order
from sidecar.agents.registry import KINDS
from sidecar.clock import LiveClock
from sidecar.journal import Journal
from sidecar.watch import Settings as WatchSettings
from sidecar.watch import Watch
from tests.agents.http.fakes import WALL, configured
from tests.agents.http.kbc import CAP, TTL, KbcBox, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sidecar.session import Session

pytestmark = pytest.mark.looptime

MIN = 60.0


class Room:
    """A watch of one box."""

    def __init__(self, box: KbcBox, agent: Any, watch: Watch, acts: Acts) -> None:
        self.box, self.agent, self.watch, self.acts = box, agent, watch, acts

    def session(self, tid: str) -> Session:
        found = self.watch.fleet.get("kbc-box", tid)
        assert found is not None
        return found

    def verdicts(self, tid: str) -> list[tuple[str, str, str | None]]:
        return [(v.bound, v.action, v.outcome) for v in self.session(tid).verdicts]


@asynccontextmanager
async def watched(box: KbcBox, state: Path, mode: Any = "enforce", **entry: Any) -> AsyncIterator[Room]:
    """A sidecar beside the box; what is in `entry` is set beside the preset."""
    loop = asyncio.get_running_loop()
    clock = LiveClock(loop.time, lambda: loop.time() + WALL)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(box)) if "url" not in entry else entry.pop("url")
        config = configured("kbc-box", url=url, **entry)
        agent = KINDS["http"].build(config, clock)
        watch = Watch([agent], WatchSettings({config.name: config.rules}, lambda: 0.0), clock)
        journal = Journal(state / "j")
        watch.doing = acts = Acts(watch, watch.agents, watch.rules, journal, ActSettings(mode=mode))
        watch.fleet.listeners.append(acts)
        task = asyncio.create_task(watch.run())
        try:
            yield Room(box, agent, watch, acts)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await acts.drain(60)
            await agent.close()


async def test_an_orphan_is_closed_after_35_minutes_and_an_active_one_is_spared(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("orphan")
    box.open("busy")
    async with watched(box, tmp_path) as room:
        for _ in range(12):
            await asyncio.sleep(3 * MIN)
            box.touch("busy")
            if asyncio.get_running_loop().time() < 35 * MIN:
                assert set(box.sessions) == {"orphan", "busy"}
        assert set(box.sessions) == {"busy"}
        assert [tid for tid, _ in box.closes] == ["orphan"]
        assert 35 * MIN <= box.closes[0][1] < 35.5 * MIN
        assert room.verdicts("orphan") == [("idle", "reap", "effective")]
        assert room.session("busy").verdicts == []
        assert room.session("busy").phase == "idle"


async def test_asking_never_changes_anything(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(40 * MIN)
        assert set(box.asked) == {"GET /test-sessions"}
        assert len(box.asked) == pytest.approx(40 * MIN / 5, rel=0.01)
        assert room.verdicts("t") == [("idle", "reap", "observed")]
        assert room.agent.can("t") == Can(interrupt=False, reap=True, patience=15.0)


async def test_where_it_moves_again_it_can_be_judged_again(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(36 * MIN)
        box.touch("t")
        await asyncio.sleep(34 * MIN)
        assert len(room.session("t").verdicts) == 1
        await asyncio.sleep(2 * MIN)
        assert len(room.session("t").verdicts) == 2


@pytest.mark.parametrize("takes", [5.0, 10.0, 14.0, 40.0])
async def test_there_are_never_two_closes_of_one_session_however_long_one_takes(
    tmp_path: Path, takes: float
) -> None:
    box = KbcBox()
    box.takes = takes
    for tid in ("a", "b"):
        box.open(tid)
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(40 * MIN)
        assert box.leaked == []
        assert sorted(tid for tid, _ in box.closes) == ["a", "b"]
        assert box.sessions == {}
        assert room.verdicts("a")[0][:2] == ("idle", "reap")
        if takes <= 14:
            assert room.verdicts("a")[0][2] == "effective"


async def test_a_person_who_asks_meanwhile_waits_for_the_same_close(tmp_path: Path) -> None:
    box = KbcBox()
    box.takes = 9.0
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(1)
        order = Order("reap", "t", None, "somebody asked", None)
        answers = await asyncio.gather(*(room.agent.reap(order) for _ in range(5)))
        assert {answer.result for answer in answers} == {"accepted"}
        assert (len(box.closes), box.leaked) == (1, [])


async def test_without_an_answer_nothing_more_is_asked_for_a_while(tmp_path: Path) -> None:
    box = KbcBox()
    box.takes = 300.0
    box.open("t")
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(1)
        order = Order("reap", "t", None, "somebody asked", None)
        assert (await room.agent.reap(order)).result == "failed"
        again = await room.agent.reap(order)
        assert (again.result, len(box.closes)) == ("failed", 1)
        assert "may still be at work" in again.detail


async def test_what_is_left_over_is_closed_after_five_minutes(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("dead")
    box.open("alive")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(2 * MIN)
        box.sessions["dead"]["done"] = True
        await asyncio.sleep(4.8 * MIN)
        assert room.session("dead").phase == "waiting"
        assert room.agent.can("dead") == Can(interrupt=True, reap=True, patience=15.0)
        assert box.closes == []
        await asyncio.sleep(0.6 * MIN)
        assert [tid for tid, _ in box.closes] == ["dead"]
        assert set(box.sessions) == {"alive"}
        assert room.verdicts("dead") == [("waiting", "interrupt", "effective")]
        assert "its close for 5m" in room.session("dead").verdicts[0].reason
        assert not any(room.session("dead").turns.values())


async def test_left_over_ones_are_only_reported_where_nothing_may_be_touched(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("dead")
    box.sessions["dead"]["done"] = True
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(10 * MIN)
        assert box.closes == []
        assert room.verdicts("dead") == [("waiting", "interrupt", "observed")]


async def test_a_refused_close_is_tried_three_times_and_then_reported(tmp_path: Path) -> None:
    box = KbcBox()
    box.fails = True
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(38 * MIN)
        assert (len(box.closes), box.leaked) == (3, [])
        assert room.verdicts("t") == [("idle", "reap", "failed")]


async def test_what_vanishes_is_closed_and_lives_on_when_it_is_listed_again(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10)
        entry = box.sessions.pop("t")
        await asyncio.sleep(10)
        assert room.watch.sessions() == []
        await asyncio.sleep(40 * MIN)
        assert box.closes == []
        box.sessions["t"] = entry
        await asyncio.sleep(10)
        assert [s.id for s in room.watch.sessions()] == ["t"]
        await asyncio.sleep(34 * MIN)
        assert box.closes == []
        await asyncio.sleep(2 * MIN)
        assert [tid for tid, _ in box.closes] == ["t"]


async def test_activity_between_verdict_and_act_saves_it(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(35 * MIN - 10)

        def touched() -> None:
            if room.session("t").verdicts:
                box.touch("t")

        box.before = touched
        await asyncio.sleep(30)
        assert room.verdicts("t") == [("idle", "reap", "superseded")]
        box.before = lambda: None
        assert box.closes == []
        await asyncio.sleep(36 * MIN)
        assert [tid for tid, _ in box.closes] == ["t"]


async def test_a_box_that_cannot_be_asked_is_blindness_and_ends_nothing(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10 * MIN)
        box.down = 401
        await asyncio.sleep(10)
        assert str(room.session("t").phase) == "unknown"
        await asyncio.sleep(40 * MIN)
        assert (room.session("t").verdicts, box.closes) == ([], [])
        box.down = None
        box.touch("t")
        await asyncio.sleep(2 * MIN)
        assert room.session("t").phase == "idle"
        assert room.session("t").verdicts == []
        await asyncio.sleep(36 * MIN)
        assert [tid for tid, _ in box.closes] == ["t"]


async def test_a_flapping_box_is_lost_and_regained_without_a_trace(tmp_path: Path) -> None:
    box = KbcBox()
    for n in range(20):
        box.open(f"t{n}")
    async with watched(box, tmp_path) as room:
        for n in range(16):
            box.down = 502 if n % 2 else None
            for tid in box.sessions:
                box.touch(tid)
            await asyncio.sleep(MIN)
        assert len(room.watch.fleet.known("kbc-box")) == 20
        assert (box.closes, len(asyncio.all_tasks()) < 10) == ([], True)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_another_clock_over_there_ends_nothing_that_moves(tmp_path: Path, hours: int) -> None:
    box = KbcBox()
    box.skew = hours * 3600.0
    box.open("early")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10)
        box.open("late")
        for _ in range(8):
            await asyncio.sleep(5 * MIN)
            for tid in ("early", "late"):
                box.touch(tid)
        assert (box.closes, room.verdicts("early"), room.verdicts("late")) == ([], [], [])
        await asyncio.sleep(36 * MIN)
        assert sorted(tid for tid, _ in box.closes) == ["early", "late"]


async def test_a_clock_over_there_that_jumps_back_ends_nothing_that_moves(tmp_path: Path) -> None:
    box = KbcBox()
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10)
        for hours in (-5, 5):
            tid = f"t{hours}"
            box.open(tid)
            box.skew = hours * 3600.0
            for _ in range(8):
                await asyncio.sleep(5 * MIN)
                box.touch(tid)
            if hours == 5:
                assert room.verdicts(tid) == []
        assert [tid for tid, _ in box.closes] == ["t-5"]  # it has not moved for 40 minutes by then


# The box's own reaper, its other answers, and a sidecar that dies in the middle.


async def test_the_boxs_own_reaper_goes_first_and_we_stay_behind_it(tmp_path: Path) -> None:
    box = KbcBox(ttl=TTL)
    box.takes = 10.0
    for n in range(8):
        box.open(f"t{n}")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(60 * MIN)
        assert sorted(box.reaped) == [f"t{n}" for n in range(8)]
        assert (box.closes, box.leaked, room.watch.sessions()) == ([], [], [])
        assert all(room.verdicts(tid) == [] for tid in box.reaped)


async def test_what_the_boxs_reaper_skips_is_closed_all_the_same(tmp_path: Path) -> None:
    box = KbcBox(ttl=TTL)
    box.open("dead", done=True)
    async with watched(box, tmp_path):
        await asyncio.sleep(40 * MIN)
        assert (box.reaped, [tid for tid, _ in box.closes], box.leaked) == ([], ["dead"], [])


async def test_a_person_who_asks_while_the_policy_closes_makes_no_second_close(tmp_path: Path) -> None:
    box = KbcBox()
    box.takes = 10.0
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(35 * MIN - 30)
        while not box.closes:  # noqa: ASYNC110 - the box is another process
            await asyncio.sleep(1)
        asked = [room.acts.ask(room.session("t"), "reap", "now") for _ in range(3)]
        assert set(await asyncio.gather(*asked)) <= {"effective", "superseded"}
        assert (len(box.closes), box.leaked) == (1, [])


async def test_after_a_restart_a_close_that_may_still_be_at_work_is_waited_for(tmp_path: Path) -> None:
    box = KbcBox()
    box.takes = 10.0
    box.open("t")
    async with serving(box) as url:
        async with watched(box, tmp_path, url=url) as room:
            await asyncio.sleep(35 * MIN - 30)
            while not box.closes:  # noqa: ASYNC110 - the box is another process
                await asyncio.sleep(0.5)
            for task in room.acts._tasks:
                task.cancel()  # killed, with the close under way
        async with watched(box, tmp_path, url=url) as room:
            await asyncio.sleep(1)
            assert "t" in box.sessions
            assert room.verdicts("t")[0][:2] == ("idle", "reap")
            await room.acts.ask(room.session("t"), "reap", "now")
            await asyncio.sleep(40 * MIN)
        assert (len(box.closes), box.leaked, box.sessions) == (1, [], {})


async def test_what_is_closed_already_counts_as_closed(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(1)
        del box.sessions["t"]
        answer = await room.agent.reap(Order("reap", "t", None, "now", None))
        assert (answer.result, len(box.closes)) == ("accepted", 1)
        await asyncio.sleep(10)
        assert room.watch.sessions() == []


async def test_a_box_that_is_full_loses_nothing_by_being_watched(tmp_path: Path) -> None:
    box = KbcBox()
    async with watched(box, tmp_path) as room, aiohttp.ClientSession() as http:
        url = room.agent._server.settings.url
        for n in range(CAP + 1):
            async with http.post(f"{url}/test-session/r1") as answer:
                assert answer.status == (429 if n == CAP else 200)
        await asyncio.sleep(10)
        assert len(room.watch.sessions()) == CAP
        entry = next(iter(box.sessions.values()))
        assert set(entry) == {"tid", "parent_run_id", "created_at", "last_activity_at", "done"}


# Listings that are odd: nothing wrong is ended.


@pytest.mark.parametrize("tid", ["a/b", "a?b=c", "\u00fc\u2028\U0001f600", "a%2Fb", "a b", "..x", "a#b"])
async def test_an_odd_id_is_closed_as_itself(tmp_path: Path, tid: str) -> None:
    box = KbcBox()
    box.open(tid)
    box.open("bystander")
    async with watched(box, tmp_path):
        for _ in range(37):
            await asyncio.sleep(MIN)
            box.touch("bystander")
        assert [tid for tid, _ in box.closes] == [tid]
        assert set(box.sessions) == {"bystander"}


@pytest.mark.parametrize("tid", [".", "..", "", None, 1.5, True, ["x"], {"a": 1}, "x" * 5000])
async def test_what_is_no_id_is_never_called(tmp_path: Path, tid: object) -> None:
    box = KbcBox()
    box.open("odd")
    box.sessions["odd"]["tid"] = tid
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(40 * MIN)
        assert box.closes == []
        assert {asked for asked in box.asked if "close" in asked} == set()
        assert all(v[2] == "failed" for s in room.watch.sessions() for v in room.verdicts(s.id))


@pytest.mark.parametrize(("entries", "known"), [(900, 900), (5000, 1000), (10_000, 0)])
async def test_a_listing_of_thousands_is_bounded(tmp_path: Path, entries: int, known: int) -> None:
    box = KbcBox()
    box.sessions = {
        str(n): {"tid": f"{n:036d}", "done": False, "created_at": box.now()} for n in range(entries)
    }
    if entries == 10_000:
        for entry in box.sessions.values():
            entry["last_activity_at"] = entry["created_at"]
    async with watched(box, tmp_path, "observe", every="1m") as room:
        await asyncio.sleep(2 * MIN)
        assert len(room.watch.fleet.known("kbc-box")) == known


async def test_of_a_doubled_entry_the_livelier_counts(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    box.sessions["again"] = dict(box.sessions["t"]) | {"done": True}
    async with watched(box, tmp_path) as room:
        for _ in range(40):
            await asyncio.sleep(MIN)
            box.touch("t")
        assert (room.verdicts("t"), box.closes) == ([], [])


@pytest.mark.parametrize("missing", ["created_at", "last_activity_at", "both", "garbage"])
async def test_without_stamps_what_counts_is_first_sight(tmp_path: Path, missing: str) -> None:
    box = KbcBox()
    await asyncio.sleep(60 * MIN)
    box.open("t")
    fields = ("created_at", "last_activity_at")
    for field in fields if missing in ("both", "garbage") else (missing,):
        box.sessions["t"][field] = None if missing != "garbage" else "yesterday"
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(34 * MIN)
        assert (room.verdicts("t"), box.closes) == ([], [])
        await asyncio.sleep(2 * MIN)
        assert len(box.closes) == 1


async def test_an_entry_that_is_alive_again_is_not_closed(tmp_path: Path) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path) as room:
        for n in range(30):
            box.sessions["t"]["done"] = n % 2 == 0
            await asyncio.sleep(4 * MIN)
            box.touch("t")
        assert (box.closes, room.verdicts("t")) == ([], [])


@pytest.mark.parametrize("down", [401, 500, 302, "<html>", '{"sessions": 1}', "[]", '{"sessions": [1]}'])
async def test_a_box_that_answers_something_else_is_blindness(tmp_path: Path, down: int | str) -> None:
    box = KbcBox()
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10)
        box.down = down
        await asyncio.sleep(40 * MIN)
        assert str(room.session("t").phase) == "unknown"
        box.down = None
        box.touch("t")
        await asyncio.sleep(MIN)
        assert (str(room.session("t").phase), room.verdicts("t"), box.closes) == ("idle", [], [])
