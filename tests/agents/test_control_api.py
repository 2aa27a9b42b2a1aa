"""A box that speaks the Agent Control API: its turns, its tools, its silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from sidecar import signals as g
from sidecar.agent import Answer, Can, Order, SourceDown
from sidecar.agents import control_api
from sidecar.agents.control_api import RELIST, ControlApi, Settings
from sidecar.clock import LiveClock, iso
from sidecar.control.api import Can as BoxCan
from sidecar.control.api import Hosted
from sidecar.control.events import Event, Lost
from sidecar.control.host import Listing
from sidecar.fold import fold
from sidecar.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.looptime

WALL = 1_800_000_000.0
IDLE = Hosted("s1", status="idle", resolution="delta", created_at=iso(WALL - 60))
BUSY = replace(IDLE, turn="t1", status="busy", last_activity_at=iso(WALL))


class Fake:
    """A box in memory."""

    def __init__(self, settings: Any = None, clock: Any = None) -> None:  # noqa: ARG002 - as the real one
        self.listing = Listing()
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        self.listings = 0
        self.ordered: list[Order] = []

    def has(self, *hosted: Hosted) -> None:
        self.listing = Listing({h.id: h for h in hosted}, {h.id: ["http://box"] for h in hosted})

    async def sessions(self) -> Listing:
        self.listings += 1
        return self.listing

    async def events(self) -> AsyncGenerator[Event, None]:
        while True:
            yield await self.told.get()

    def can(self, _: str) -> Can:
        return Can(interrupt=True, reap=False)

    async def interrupt(self, order: Order) -> Answer:
        self.ordered.append(order)
        return Answer("accepted")

    reap = interrupt

    async def close(self) -> None:
        return


class Room:
    """The adapter in front of a fake box, and a session folded from what it observes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, attended: bool | None = None) -> None:
        self.box = Fake()
        monkeypatch.setattr(control_api, "HostControl", lambda *_: self.box)
        loop = asyncio.get_running_loop()
        clock = LiveClock(loop.time, lambda: loop.time() + WALL)
        self.agent = ControlApi("box", Settings(url="http://127.0.0.1:1"), clock, attended=attended)
        self.session = Session("box", "s1", 0.0)

    async def read(self) -> list[g.Signal]:
        found = [signal for _, signal in await self.agent.sources[0].read()]
        for signal in found:
            fold(self.session, signal)
        return found

    async def tell(self, what: Any, session: str = "s1") -> list[g.Signal]:
        self.box.told.put_nowait(Event(session, what))
        await asyncio.sleep(0.5)
        return await self.read()


@pytest.fixture
async def room(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Room, None]:
    made = Room(monkeypatch)
    yield made
    await made.agent.close()


async def test_a_listed_session_is_one_before_its_first_turn(room: Room) -> None:
    room.box.has(IDLE)
    assert await room.read() == [
        g.Registered(-60),
        g.SourceUp(0, "box", "delta"),
        g.Status(0, "idle", 0, source="box"),
    ]
    assert (room.session.phase, room.session.had_turn) == ("idle", False)


async def test_its_turn_opens_streams_and_ends(room: Room) -> None:
    room.box.has(IDLE)
    await room.read()
    await room.tell(BUSY)
    assert (room.session.phase, room.session.resolution) == ("model", "delta")
    await room.tell("progress")
    assert room.session.progress_at == 1.0
    await room.tell(IDLE)
    assert (room.session.phase, room.session.turns["completed"]) == ("idle", 1)


async def test_a_turn_that_we_ended_is_stalled(room: Room) -> None:
    room.box.has(BUSY)
    await room.read()
    fold(room.session, g.Intended(0, "interrupt", "t1", "model", "silence"))
    await room.tell(IDLE)
    assert room.session.turns["stalled"] == 1


async def test_the_next_turn_ends_the_one_before(room: Room) -> None:
    room.box.has(BUSY)
    await room.read()
    seen = await room.tell(replace(BUSY, turn="t2", last_activity_at=iso(WALL + 0.25)))
    assert [s.at for s in seen if isinstance(s, g.TurnEnded | g.TurnStarted)] == [0.25, 0.25], (
        "not when it is read"
    )
    assert room.session.turn is not None
    assert (room.session.turn.id, room.session.turns["completed"]) == ("t2", 1)


async def test_open_tools_are_bounded_as_tools(room: Room) -> None:
    room.box.has(replace(BUSY, tools={"c1": "Bash"}))
    await room.read()
    assert str(room.session.phase) == "tool"
    await room.tell(replace(BUSY, tools={"c2": "Read"}))
    assert [t.tool for t in room.session.tools.values()] == ["Read"]
    await room.tell(replace(BUSY, turn="t2"))
    assert room.session.phase == "model"


async def test_what_is_no_name_of_a_tool_is_not_carried_along(room: Room) -> None:
    room.box.has(replace(BUSY, tools={"c1": "Bash rm -rf /secret", "c2": "mcp__a__b"}))
    await room.read()
    assert {call: x.tool for call, x in room.session.tools.items()} == {"c1": "unknown", "c2": "mcp__a__b"}


async def test_between_events_the_newest_activity_is_progress_and_only_where_it_moved(room: Room) -> None:
    room.box.has(BUSY)
    await room.read()
    await asyncio.sleep(RELIST)
    assert await room.read() == []
    room.box.has(replace(BUSY, last_activity_at=iso(WALL + 7)))
    await asyncio.sleep(RELIST)
    assert await room.read() == [g.Progress(pytest.approx(7))]  # type: ignore[arg-type]


async def test_a_wait_names_what_it_waits_for_and_unknown_words_are_busy(room: Room) -> None:
    room.box.has(replace(BUSY, status="waiting", waiting_for="permission prompt"))
    await room.read()
    assert (room.session.phase, room.session.phase_waits) == ("waiting", "permission prompt")
    await room.tell(replace(BUSY, status="brand-new"))
    assert room.session.status is not None
    assert room.session.status.word == "busy"


async def test_what_is_not_listed_any_more_has_ended(room: Room) -> None:
    room.box.has(IDLE)
    await room.read()
    room.box.has()
    await asyncio.sleep(RELIST)
    await room.read()
    assert room.session.closed == "unregistered"


async def test_after_a_lost_stream_it_is_listed_at_once_since_nothing_is_replayed(room: Room) -> None:
    room.box.has(IDLE)
    await room.read()
    await room.tell(Lost("gone"))
    before = room.box.listings
    await room.read()
    assert room.box.listings == before + 1


async def test_what_a_listing_overtook_is_not_heard_after_it(room: Room) -> None:
    room.box.has(IDLE)
    await room.read()
    room.box.told.put_nowait(Event("s1", replace(IDLE, turn="t0", status="busy")))
    await asyncio.sleep(0.1)
    room.box.has(BUSY)
    for _, signal in await room.agent.look("s1"):
        fold(room.session, signal)
    assert room.session.turn is not None
    assert room.session.turn.id == "t1"
    await room.tell(replace(IDLE, last_activity_at=iso(WALL - 9)))
    assert (room.session.turn is None, room.session.phase) == (False, "model"), "it came later and is older"
    await room.tell(replace(IDLE, last_activity_at=iso(WALL)))
    assert room.session.turn is None


async def test_a_box_that_cannot_be_asked_is_a_lost_source(room: Room) -> None:
    room.box.listing = Listing(errors={"http://box": "timeout"})
    with pytest.raises(SourceDown, match="http://box: timeout"):
        await room.agent.sources[0].read()
    assert [f.ok for f in await room.agent.probe()] == [False]
    room.box.has(IDLE)
    assert [f.detail for f in await room.agent.probe()] == ["1 sessions"]


async def test_progress_of_an_unknown_session_creates_none(room: Room) -> None:
    room.box.has(IDLE)
    await room.read()
    room.box.told.put_nowait(Event("s9", "progress"))
    await asyncio.sleep(0.1)
    assert await room.agent.sources[0].read() == []


async def test_who_sits_there_is_the_boxs_or_the_configurations_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for configured, told, expected in ((None, True, [True]), (False, True, [False]), (None, None, [])):
        room = Room(monkeypatch, attended=configured)
        room.box.has(replace(IDLE, attended=told))
        assert [s.attended for s in await room.read() if isinstance(s, g.Described)] == expected
        await room.agent.close()


async def test_orders_go_to_the_box_and_a_look_asks_it(room: Room) -> None:
    room.box.has(replace(BUSY, can=BoxCan(reap=False)), replace(IDLE, id="s2"))
    assert {o.session for o in await room.agent.look("s1")} == {"s1", "s2"}, "and nothing is lost"
    assert room.agent.can("s1") == Can(interrupt=True, reap=False)
    order = Order("interrupt", "s1", "t1", "silence", 0.0)
    assert (await room.agent.interrupt(order)).result == "accepted"
    assert (await room.agent.reap(order)).result == "accepted"
    assert room.box.ordered == [order, order]
