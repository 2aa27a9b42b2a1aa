"""A compile box whose transcripts are visible, over a real socket and real files, in simulated time."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from sidecar import signals as g
from sidecar.agent import Can
from sidecar.agents.http.track import CLOSE
from sidecar.agents.joined.adapter import Joined
from sidecar.agents.joined.join import Join
from sidecar.clock import RecordedClock, iso
from tests.agents.http.fakes import WALL
from tests.agents.http.kbc import KbcBox
from tests.agents.http.test_kbc_box import MIN, Room, watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.looptime

TID = "bf08c6ca-8755-40b2-9faf-175de220d7c0"
RUN = "d087cd33-8f7c-446a-b9c1-2ee949010ace"
NEXT = "b3048793-7948-4411-8364-43c2f4fbc2e2"


class Cli:
    """One process of Claude Code 2.1.191 in the box, as far as its files go."""

    def __init__(self, root: Path, run: str, cwd: str, pid: int) -> None:
        self.run, self.cwd = run, cwd
        self.file = root / "projects" / cwd.replace("/", "-") / f"{run}.jsonl"
        self.registration = root / "sessions" / f"{pid}.json"
        self.turns = 0
        self.registration.parent.mkdir(parents=True, exist_ok=True)
        told: dict[str, Any] = {"pid": pid, "sessionId": run, "cwd": cwd, "startedAt": int(self.now() * 1000)}
        told |= {"procStart": "500512", "version": "2.1.191", "kind": "interactive", "entrypoint": "sdk-py"}
        told |= {"pidDomain": "linux:box:pid:[1]"}  # another namespace: nothing is known of its pids
        self._write(self.registration, json.dumps(told))

    def now(self) -> float:
        return WALL + asyncio.get_running_loop().time()

    def prompt(self) -> None:
        self.turns += 1
        self.line(
            "user", {"content": "question"}, promptId=f"{self.run[:8]}-{self.turns}", promptSource="sdk"
        )

    def answer(self, *blocks: dict[str, Any], stop: str = "end_turn") -> None:
        content = list(blocks) or [{"type": "text", "text": "answer"}]
        self.line(
            "assistant", {"id": f"m{self.now()}", "model": "m", "content": content, "stop_reason": stop}
        )

    def line(self, kind: str, message: dict[str, Any], **other: Any) -> None:
        stamp = iso(self.now())
        record: dict[str, Any] = {
            "type": kind,
            "uuid": f"{self.run}{self.now()}{kind}",
            "timestamp": stamp,
            "cwd": self.cwd,
        }
        record |= {"sessionId": self.run, "version": "2.1.191", "entrypoint": "sdk-py", "message": message}
        self._write(self.file, json.dumps(record | other) + "\n")

    def stop(self, *, mark: bool = True) -> None:
        """End as on SIGTERM: no mark in the transcript but the last prompt."""
        if mark:
            self._write(self.file, json.dumps({"type": "last-prompt", "sessionId": self.run}) + "\n")
            self.registration.unlink()

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        os.utime(path, (self.now(), self.now()))


class Place:
    """A box and its configuration folder."""

    def __init__(self, tmp_path: Path) -> None:
        self.box = KbcBox()
        self.root = tmp_path / "claude"
        self.state = tmp_path
        self.root.mkdir()

    def cli(self, run: str = RUN, cwd: str = f"/home/kbc/kbc-tests/{TID}", pid: int = 11) -> Cli:
        return Cli(self.root, run, cwd, pid)

    def ask(self, cli: Cli) -> None:
        """What a message does: the box notes it, then the process writes it down."""
        self.box.touch(TID)
        cli.prompt()

    @asynccontextmanager
    async def watched(self, mode: str = "enforce", **entry: Any) -> AsyncIterator[Room]:
        # Shorter than the preset's, whose own are tested without files: an hour of them is 20,000 looks.
        bounds = {"idle": "6m", "model": {"record": "5m"}}
        config = {"claude_config_dir": str(self.root), "bounds": bounds, **entry}
        async with watched(self.box, self.state, mode, **config) as room:
            yield room


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_black_hole_is_a_stall_that_is_reported_and_never_ended(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        for _ in range(9):
            await asyncio.sleep(0.5 * MIN)
            place.box.touch(TID)  # retries move the activity, and are no progress
        assert room.verdicts(TID) == []
        assert (room.session(TID).phase, room.session(TID).status) == ("model", None)
        await asyncio.sleep(MIN)
        assert room.verdicts(TID) == [("model", "interrupt", "unsupported")]
        assert room.agent.can(TID) == Can(interrupt=False, reap=True, patience=15.0)
        assert [s.id for s in room.watch.sessions()] == [TID]
        await asyncio.sleep(15 * MIN)
        assert place.box.closes == [], "a turn is open"


async def test_a_long_silent_tool_is_left_alone(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        cli.answer({"type": "tool_use", "id": "c1", "name": "Grep", "input": {}}, stop="tool_use")
        await asyncio.sleep(20 * MIN)
        assert (room.session(TID).phase, room.verdicts(TID), place.box.closes) == ("tool", [], [])


async def test_a_rest_counts_from_the_turns_end_or_the_last_use_whichever_is_later(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        await asyncio.sleep(4 * MIN)
        cli.answer()
        await asyncio.sleep(5 * MIN)
        assert room.session(TID).turns["completed"] == 1
        place.box.touch(TID)  # a message that the process never wrote down
        await asyncio.sleep(5 * MIN)
        assert (place.box.closes, room.verdicts(TID)) == ([], [])
        await asyncio.sleep(1.5 * MIN)
        assert [tid for tid, _ in place.box.closes] == [TID]
        assert 15 * MIN + 10 <= place.box.closes[0][1] <= 15.5 * MIN + 10
        assert room.verdicts(TID) == [("idle", "reap", "effective")]


async def test_a_use_between_verdict_and_close_saves_it(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        cli.answer()

        def used() -> None:
            if room.session(TID).verdicts:
                place.box.touch(TID)

        place.box.before = used
        await asyncio.sleep(7 * MIN)
        assert room.verdicts(TID) == [("idle", "reap", "superseded")]
        place.box.before = lambda: None
        await asyncio.sleep(7 * MIN)
        assert room.verdicts(TID)[1:] == [("idle", "reap", "effective")]
        assert len(place.box.closes) == 1


async def test_the_turn_of_a_process_that_was_killed_died_and_its_entry_is_closed(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        await asyncio.sleep(MIN)
        cli.stop(mark=False)
        place.box.sessions[TID]["done"] = True
        await asyncio.sleep(10)
        session = room.session(TID)
        assert (session.phase, session.turns["died"], session.turn) == ("waiting", 1, None)
        await asyncio.sleep(5 * MIN)
        assert [tid for tid, _ in place.box.closes] == [TID]
        assert room.verdicts(TID) == [("waiting", "interrupt", "effective")]


async def test_a_turn_that_was_answered_before_the_end_is_completed(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        place.ask(cli)
        cli.answer()
        await asyncio.sleep(12)
        asked = asyncio.Event()
        place.box.before = asked.set
        await asked.wait()
        await asyncio.sleep(4.5)
        place.ask(cli)
        cli.answer()
        place.box.sessions[TID]["done"] = True
        await asyncio.sleep(1)  # sooner than a provisional end settles by itself
        session = room.session(TID)
        assert session.status is not None
        assert (session.turns["completed"], session.turns["died"]) == (2, 0), (
            "a file at rest is read every 2 s: here at once"
        )


@pytest.mark.parametrize("mark", [True, False])
async def test_a_turn_that_somebody_closed_died_with_the_session(place: Place, *, mark: bool) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        await asyncio.sleep(MIN)
        cli.stop(mark=mark)
        del place.box.sessions[TID]
        await asyncio.sleep(10)
        session = room.session(TID)
        assert (session.turn, session.turns["died"]) == (None, 1)
        assert room.verdicts(TID) == [("gone", "report", "reported")]
        cli.answer()  # a process that two closes left behind goes on for nobody
        await asyncio.sleep(10 * MIN)
        assert (room.watch.sessions(), place.box.closes) == ([], [])


async def test_a_person_may_close_a_session_in_mid_turn_by_one_close(place: Place) -> None:
    place.box.open(TID)
    place.box.takes = 5.0
    cli = place.cli()
    async with place.watched("observe") as room:
        await asyncio.sleep(10)
        place.ask(cli)
        await asyncio.sleep(MIN)
        session = room.session(TID)
        assert await room.acts.ask(session, "reap", "enough") == "superseded"
        assert await room.acts.ask(session, "reap", "enough", force=True) == "effective"
        assert (len(place.box.closes), place.box.leaked) == (1, [])
        assert session.turns["stalled"] == 1


async def test_a_rebuilt_process_goes_on_under_the_same_name(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        await asyncio.sleep(MIN)
        cli.stop(mark=False)  # a hard teardown: the registration stays
        again = place.cli(NEXT, pid=12)
        place.ask(again)
        again.answer()
        await asyncio.sleep(10)
        session = room.session(TID)
        assert [s.id for s in room.watch.sessions()] == [TID]
        assert {name: count for name, count in session.turns.items() if count} == {"died": 1, "completed": 1}
        place.ask(again)
        await asyncio.sleep(5)
        assert session.turn is not None


async def test_the_process_that_compiles_is_neither_orphan_nor_session(place: Place) -> None:
    place.box.open(TID)
    compiles = place.cli(NEXT, "/home/kbc/work", 12)
    async with place.watched() as room:
        compiles.prompt()
        await asyncio.sleep(15 * MIN)
        assert {s.id for s in room.watch.fleet.known("kbc-box")} == {TID}
        assert {tid for tid, _ in place.box.closes} == {TID}


async def test_an_unused_session_has_no_transcript_and_is_judged_by_the_listing(place: Place) -> None:
    place.box.open(TID)
    place.cli()
    async with place.watched() as room:
        await asyncio.sleep(5.5 * MIN)
        assert (room.session(TID).phase, room.session(TID).resolution) == ("idle", None)
        assert place.box.closes == []
        await asyncio.sleep(MIN)
        assert len(place.box.closes) == 1


async def test_a_sidecar_that_starts_late_knows_the_turn_and_takes_no_old_one_for_it(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    place.ask(cli)
    cli.answer()
    await asyncio.sleep(3 * MIN)
    place.ask(cli)
    await asyncio.sleep(3 * MIN)
    async with place.watched() as room:
        await asyncio.sleep(10)
        session = room.session(TID)
        assert (session.phase, session.turn and session.turn.id) == ("model", f"{RUN[:8]}-2")
        await asyncio.sleep(1.5 * MIN)
        assert room.verdicts(TID) == []
        await asyncio.sleep(MIN)
        assert room.verdicts(TID) == [("model", "interrupt", "unsupported")]


async def test_while_the_box_cannot_be_asked_nobody_is_called_idle_and_turns_are_still_judged(
    place: Place,
) -> None:
    other = "cb679197-2e1f-4cc2-a329-b902b4bbacd4"
    place.box.open(TID)
    place.box.open(other)
    cli, hung = place.cli(), place.cli(NEXT, f"/home/kbc/kbc-tests/{other}", 12)
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        cli.answer()
        hung.prompt()
        await asyncio.sleep(MIN)
        place.box.down = 502
        await asyncio.sleep(10 * MIN)
        assert room.verdicts(TID) == []
        assert room.verdicts(other) == [("model", "interrupt", "unsupported")]
        place.box.down = None
        place.box.touch(TID)
        await asyncio.sleep(MIN)
        assert (room.verdicts(TID), place.box.closes) == ([], [])


async def test_a_transcript_that_is_lost_is_blindness(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    async with place.watched() as room:
        await asyncio.sleep(10)
        place.ask(cli)
        await asyncio.sleep(MIN)
        cli.file.unlink()
        await asyncio.sleep(15 * MIN)
        assert (room.verdicts(TID), place.box.closes) == ([], [])


async def test_check_tells_of_the_server_and_of_the_files(place: Place) -> None:
    place.box.open(TID)
    cli = place.cli()
    cli.prompt()
    async with place.watched() as room:
        await asyncio.sleep(1)
        found = {f.what: f for f in await room.agent.probe()}
        assert {"listing", "control", "transcripts", "registrations"} <= found.keys()
        assert all(f.ok for f in found.values())
        assert found["control"].detail == "reap"
        assert found["listing"].detail == "1 session", "what it shows of turns, both together do"
        assert room.agent.sessions_limit is None
        sees = room.agent.sees
        assert (sees.resolution, sees.tools, sees.waiting) == ("record", True, True)
        assert {s.name for s in room.agent.sources} == {"listing", "transcript", "registry"}


class Told:
    """An agent whose one source says what it is given."""

    name = kind = "told"
    every, patience, wake = 1.0, 1.0, None

    def __init__(self, source: str) -> None:
        self.said: list[g.Observation] = []
        self.last: list[g.Observation] = []
        self.sources = [self]
        self.name = source

    async def read(self) -> list[g.Observation]:
        return self.said

    async def look(self, _: str) -> list[g.Observation]:
        return self.last


@pytest.mark.parametrize("over", [g.Unregistered(20), g.Status(20, "waiting", 20, CLOSE, source="listing")])
async def test_who_is_over_is_first_read_to_the_end(over: g.Signal) -> None:
    listing, written = Told("listing"), Told("transcript")
    join = Join({RUN: f"/kbc/{TID}"}.get, "listing", CLOSE)
    clock = RecordedClock(20)
    joined = Joined(cast("Any", listing), cast("Any", written), join, clock)
    listing.said = [g.Observation(TID, g.Registered(1))]
    written.said = [g.Observation(RUN, g.SourceUp(2, "transcript")), g.Observation(RUN, g.Progress(2, "t"))]
    for source in joined.sources:
        await source.read()
    listing.said, written.last = [g.Observation(TID, over)], [g.Observation(RUN, g.TurnEnded(3, "completed"))]
    told = [o.signal for o in await joined.sources[0].read()]
    assert told[0] == g.TurnEnded(3, "completed")
    assert told[-1] == over


class Pieces(Told):
    """What the agents write, of which a look gives one piece."""

    async def look(self, _: str) -> list[g.Observation]:
        return [self.last.pop(0)]

    def unread(self, _: str) -> bool:
        return bool(self.last)


@pytest.mark.parametrize("how", ["listed", "looked"])
async def test_what_is_read_in_pieces_comes_before_what_a_source_reads_in_between(how: str) -> None:
    listing, written = Told("listing"), Pieces("transcript")
    join = Join({RUN: f"/kbc/{TID}"}.get, "listing", CLOSE)
    joined = Joined(cast("Any", listing), cast("Any", written), join, RecordedClock(20))
    listing.said = [g.Observation(TID, g.Registered(1))]
    written.said = [g.Observation(RUN, g.SourceUp(2, "transcript")), g.Observation(RUN, g.Progress(2, "t"))]
    for source in joined.sources:
        await source.read()
    over = g.Observation(TID, g.Unregistered(20))
    listing.said, listing.last = [over], []
    written.said = [g.Observation(RUN, g.Progress(6, "newest"))]
    written.last = [g.Observation(RUN, g.Progress(at, "older")) for at in (3, 4, 5)]
    told: list[float] = []

    async def hears(reading: Awaitable[Sequence[g.Observation]]) -> None:
        told.extend(o.signal.at for o in await reading if isinstance(o.signal, g.Progress))

    first = joined.sources[0].read() if how == "listed" else joined.look(TID)
    await asyncio.gather(hears(first), hears(joined.sources[1].read()))
    assert told[:3] == [3, 4, 5]
