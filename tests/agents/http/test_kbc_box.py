"""The compile box by its preset, in simulated time: who is ended, who is spared, and how often it is asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.act import Acts
from sidecar.act import Settings as ActSettings
from sidecar.agent import Can, Order
from sidecar.agents.http.adapter import Http
from sidecar.clock import LiveClock
from sidecar.journal import Journal
from sidecar.watch import Settings as WatchSettings
from sidecar.watch import Watch
from tests.agents.http.fakes import WALL, Box, configured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sidecar.session import Session

pytestmark = pytest.mark.looptime

MIN = 60.0


class Room:
    """A watch of one box."""

    def __init__(self, box: Box, agent: Http, watch: Watch) -> None:
        self.box, self.agent, self.watch = box, agent, watch

    def session(self, tid: str) -> Session:
        found = self.watch.fleet.get("kbc-box", tid)
        assert found is not None
        return found

    def verdicts(self, tid: str) -> list[tuple[str, str, str | None]]:
        return [(v.bound, v.action, v.outcome) for v in self.session(tid).verdicts]


@asynccontextmanager
async def watched(box: Box, state: Path, mode: Any = "enforce") -> AsyncIterator[Room]:
    loop = asyncio.get_running_loop()
    clock = LiveClock(loop.time, lambda: loop.time() + WALL)
    entry = configured("kbc-box")
    made: Any = entry.settings
    agent = Http(entry.name, made, clock, attended=entry.attended)
    server: Any = agent._server
    server.get, server.order = box.get, box.order
    watch = Watch([agent], WatchSettings({entry.name: entry.rules}, lambda: 0.0), clock)
    watch.doing = acts = Acts(watch, watch.agents, watch.rules, Journal(state / "j"), ActSettings(mode=mode))
    watch.fleet.listeners.append(acts)
    task = asyncio.create_task(watch.run())
    try:
        yield Room(box, agent, watch)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await acts.drain(60)
        await agent.close()


async def test_an_orphan_is_closed_after_35_minutes_and_an_active_one_is_spared(tmp_path: Path) -> None:
    box = Box()
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
    box = Box()
    box.open("t")
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(40 * MIN)
        assert set(box.requests) == {"GET /test-sessions"}
        assert len(box.requests) == pytest.approx(40 * MIN / 5, rel=0.01)
        assert room.verdicts("t") == [("idle", "reap", "observed")]
        assert room.agent.can("t") == Can(interrupt=False, reap=True)


async def test_where_it_moves_again_it_can_be_judged_again(tmp_path: Path) -> None:
    box = Box()
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
    box = Box()
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
    box = Box()
    box.takes = 9.0
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(1)
        order = Order("reap", "t", None, "somebody asked", None)
        answers = await asyncio.gather(*(room.agent.reap(order) for _ in range(5)))
        assert {answer.result for answer in answers} == {"accepted"}
        assert (len(box.closes), box.leaked) == (1, [])


async def test_without_an_answer_nothing_more_is_asked_for_a_while(tmp_path: Path) -> None:
    box = Box()
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
    box = Box()
    box.open("dead")
    box.open("alive")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(2 * MIN)
        box.sessions["dead"]["done"] = True
        await asyncio.sleep(4.8 * MIN)
        assert room.session("dead").phase == "waiting"
        assert room.agent.can("dead") == Can(interrupt=True, reap=True)
        assert box.closes == []
        await asyncio.sleep(0.6 * MIN)
        assert [tid for tid, _ in box.closes] == ["dead"]
        assert set(box.sessions) == {"alive"}
        assert room.verdicts("dead") == [("waiting", "interrupt", "effective")]
        assert "its close for 5m" in room.session("dead").verdicts[0].reason
        assert not any(room.session("dead").turns.values())


async def test_left_over_ones_are_only_reported_where_nothing_may_be_touched(tmp_path: Path) -> None:
    box = Box()
    box.open("dead")
    box.sessions["dead"]["done"] = True
    async with watched(box, tmp_path, "observe") as room:
        await asyncio.sleep(10 * MIN)
        assert box.closes == []
        assert room.verdicts("dead") == [("waiting", "interrupt", "observed")]


async def test_a_refused_close_is_tried_three_times_and_then_reported(tmp_path: Path) -> None:
    box = Box()
    box.fails = True
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(38 * MIN)
        assert (len(box.closes), box.leaked) == (3, [])
        assert room.verdicts("t") == [("idle", "reap", "failed")]


async def test_what_vanishes_is_closed_and_lives_on_when_it_is_listed_again(tmp_path: Path) -> None:
    box = Box()
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
    box = Box()
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(35 * MIN - 10)
        asked = box.get

        async def touched(path: str) -> Any:
            if room.session("t").verdicts:
                box.touch("t")
            return await asked(path)

        server: Any = room.agent._server
        server.get = touched
        await asyncio.sleep(30)
        assert room.verdicts("t") == [("idle", "reap", "superseded")]
        server.get = asked
        assert box.closes == []
        await asyncio.sleep(36 * MIN)
        assert [tid for tid, _ in box.closes] == ["t"]


async def test_a_box_that_cannot_be_asked_is_blindness_and_ends_nothing(tmp_path: Path) -> None:
    box = Box()
    box.open("t")
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10 * MIN)
        box.down = "HTTP 401"
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
    box = Box()
    for n in range(20):
        box.open(f"t{n}")
    async with watched(box, tmp_path) as room:
        for n in range(16):
            box.down = "HTTP 502" if n % 2 else None
            for tid in box.sessions:
                box.touch(tid)
            await asyncio.sleep(MIN)
        assert len(room.watch.fleet.known("kbc-box")) == 20
        assert (box.closes, len(asyncio.all_tasks()) < 10) == ([], True)


async def test_another_clock_over_there_kills_nothing_that_moves(tmp_path: Path) -> None:
    box = Box()
    async with watched(box, tmp_path) as room:
        await asyncio.sleep(10)
        for hours in (-5, 5):
            tid = f"t{hours}"
            stamp = WALL + hours * 3600
            box.sessions[tid] = {"tid": tid, "done": False, "created_at": stamp, "last_activity_at": stamp}
            for n in range(8):
                await asyncio.sleep(5 * MIN)
                box.sessions[tid]["last_activity_at"] = stamp + n * 300 + 300
        assert [v for tid in ("t-5", "t5") for v in room.verdicts(tid) if tid == "t5"] == []
        assert [tid for tid, _ in box.closes] == ["t-5"]  # it has not moved for 40 minutes by then
