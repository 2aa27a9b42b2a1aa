"""Streams of busy sessions: the turn that they show, the tools in it, and what their loss means."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.http.events import BLIND, Events
from sidecar.agents.http.happenings import Happenings
from sidecar.agents.http.server import Missing
from sidecar.clock import LiveClock, RecordedClock
from sidecar.fold import fold
from sidecar.session import Session
from tests.agents.http.fakes import WALL, settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

pytestmark = pytest.mark.looptime

QWEN = settings("qwen-serve", directory="/w").events
assert QWEN is not None


def update(kind: str, /, **more: Any) -> bytes:
    told = {"sessionId": "s", "update": {"sessionUpdate": kind} | more}
    return json.dumps({"id": 1, "type": "session_update", "data": told}).encode()


def ended(kind: str) -> bytes:
    return json.dumps({"type": kind, "data": {"sessionId": "s"}}).encode()


TOOL = {"toolCallId": "c1", "kind": "execute", "title": "rm -rf the secret plan"}


@pytest.mark.parametrize(
    ("data", "signal"),
    [
        (update("agent_message_chunk"), g.Progress(5, "1970-01-01T00:00:05.000Z")),
        (update("agent_thought_chunk"), g.Progress(5, "1970-01-01T00:00:05.000Z")),
        (update("tool_call", **TOOL), g.ToolStarted(5, "c1", "execute", turn="1970-01-01T00:00:05.000Z")),
        (
            update("tool_call", **TOOL | {"kind": "two words"}),
            g.ToolStarted(5, "c1", "tool", turn="1970-01-01T00:00:05.000Z"),
        ),
        (update("tool_call_update", **TOOL, status="completed"), g.ToolEnded(5, "c1")),
        (update("tool_call_update", **TOOL, status="failed"), g.ToolEnded(5, "c1")),
        (update("tool_call_update", **TOOL, status="in_progress"), g.Presence(5)),
        (update("tool_call"), g.Presence(5)),
        (update("available_commands_update"), g.Presence(5)),
        (update("user_message_chunk"), g.Presence(5)),
        (ended("turn_complete"), g.TurnEnded(5, "completed")),
        (ended("prompt_cancelled"), g.TurnEnded(5, "interrupted")),
        (ended("something_new"), g.Presence(5)),
        *(
            (nonsense, g.Presence(5))
            for nonsense in (b"", b"{", b"[]", b"null", b"[" * 99_999, b'{"type": []}')
        ),
    ],
)
def test_what_an_event_means(data: bytes, signal: g.Signal) -> None:
    assert QWEN is not None
    assert Happenings(QWEN, RecordedClock(5)).of(data, 5) == [signal]


class Fake:
    """A server whose streams are queues; None ends one."""

    def __init__(self) -> None:
        self.streams: dict[str, asyncio.Queue[bytes | None]] = {}
        self.tries: list[str] = []
        self.refuses: SourceDown | None = None

    async def events(self, path: str, _: float) -> AsyncIterator[bytes]:
        session = path.split("/")[2]
        self.tries.append(session)
        if self.refuses is not None:
            raise self.refuses
        yield b""
        told = self.streams.setdefault(session, asyncio.Queue())
        while (data := await told.get()) is not None:
            yield data


class Room:
    """The source in front of a fake, and a session folded from what it observes."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert QWEN is not None
        self.server = Fake()
        server: Any = self.server
        self.events = Events(server, QWEN, LiveClock(loop.time, lambda: loop.time() + WALL))
        self.session = Session("a", "s", 0.0)

    async def read(self) -> list[g.Signal]:
        await asyncio.sleep(0.01)
        found = [signal for _, signal in await self.events.read()]
        for signal in found:
            fold(self.session, signal)
        return found

    async def tell(self, data: bytes | None) -> list[g.Signal]:
        self.server.streams["s"].put_nowait(data)
        return await self.read()


@pytest.fixture
async def room() -> AsyncGenerator[Room, None]:
    made = Room()
    yield made
    await made.events.close()


async def test_only_busy_sessions_are_listened_to(room: Room) -> None:
    room.events.want(set(), {"s"})
    assert await room.read() == []
    room.events.want({"s"}, {"s"})
    assert [type(s) for s in await room.read()] == [g.SourceUp]
    room.events.want(set(), {"s"})
    assert await room.read() == []
    assert room.server.tries == ["s"]
    assert not [t for t in asyncio.all_tasks() if t.get_name() == "events"]


async def test_a_turn_begins_with_the_first_work_and_ends_with_its_end(room: Room) -> None:
    room.events.want({"s"}, {"s"})
    await room.read()
    assert room.session.turn is None
    await room.tell(update("agent_message_chunk"))
    assert (room.session.phase, room.session.resolution) == ("model", "delta")
    await room.tell(update("tool_call", **TOOL))
    assert str(room.session.phase) == "tool"
    await room.tell(update("tool_call_update", **TOOL, status="completed"))
    assert room.session.phase == "model"
    await room.tell(ended("prompt_cancelled"))
    await room.tell(ended("turn_complete"))
    room.events.want(set(), {"s"})
    await room.read()
    assert {k: v for k, v in room.session.turns.items() if v} == {"interrupted": 1}


async def test_where_the_end_is_not_told_the_status_tells_it(room: Room) -> None:
    room.events.want({"s"}, {"s"})
    await room.read()
    await room.tell(update("agent_message_chunk"))
    room.events.want(set(), {"s"})
    assert room.events.wake is not None
    assert room.events.wake.is_set()
    assert [type(s) for s in await room.read()] == [g.TurnEnded]
    assert room.session.turns["completed"] == 1


async def test_a_lost_stream_is_found_again_and_its_silence_is_not_the_agents(room: Room) -> None:
    room.events.want({"s"}, {"s"})
    await room.read()
    await room.tell(update("agent_message_chunk"))
    await room.tell(None)
    assert room.session.sources == {"events": False}
    await asyncio.sleep(2)
    assert [type(s) for s in await room.read()] == [g.SourceUp]
    assert room.session.turn is not None
    assert room.session.floor == pytest.approx(1.0, abs=0.2)


async def test_one_that_stays_lost_gives_up_its_turn(room: Room) -> None:
    room.events.want({"s"}, {"s"})
    await room.read()
    await room.tell(update("agent_message_chunk"))
    room.server.refuses = SourceDown("HTTP 500")
    await room.tell(None)
    await asyncio.sleep(BLIND + 1)
    await room.read()
    assert (room.session.turn, room.session.turns["abandoned"]) == (None, 1)
    await asyncio.sleep(3600)
    assert len(room.server.tries) < 140


async def test_one_that_has_no_stream_is_not_asked_again(room: Room) -> None:
    room.server.refuses = Missing("HTTP 404")
    room.events.want({"s"}, {"s"})
    await asyncio.sleep(600)
    assert room.server.tries == ["s"]


async def test_there_are_never_more_streams_than_can_be_afforded(room: Room) -> None:
    busy = {f"s{n}" for n in range(1_000)}
    room.events.want(busy, busy)
    await room.read()
    room.events.want(busy, busy)
    await room.read()
    assert len(room.server.tries) == 64


async def test_a_flood_waits_at_the_server(room: Room) -> None:
    room.events.want({"s"}, {"s"})
    await room.read()
    for _ in range(5_000):
        room.server.streams["s"].put_nowait(update("agent_message_chunk"))
    await asyncio.sleep(1)
    assert room.events._told.qsize() == 1_000
    assert len(await room.read()) == 1_000
