"""Streams of busy sessions: the turn that they show, the tools in it, and what their loss means."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.http.events import BLIND, Events
from sidecar.agents.http.happenings import Happenings
from sidecar.agents.http.past import MOST, Past
from sidecar.agents.http.server import Missing
from sidecar.clock import LiveClock, RecordedClock
from sidecar.fold import fold
from sidecar.session import Session
from sidecar.sources.sse import Sent
from tests.agents.http.fakes import WALL, settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from sidecar.agents.http.stream import Events as Settings

pytestmark = pytest.mark.looptime

FOUND = settings("qwen-serve", directory="/w").events
assert FOUND is not None
QWEN: Settings = FOUND


def update(kind: str, /, turn: str | None = "p1", at: float | None = None, **more: Any) -> bytes:
    told = {"sessionId": "s", "update": {"sessionUpdate": kind} | more}
    event = {"id": 1, "type": "session_update", "data": told} | ({} if turn is None else {"promptId": turn})
    return json.dumps(event | stamped(at)).encode()


def ended(kind: str, at: float | None = None, **more: Any) -> bytes:
    return json.dumps({"type": kind, "data": {"sessionId": "s"} | more} | stamped(at)).encode()


def stamped(at: float | None) -> dict[str, Any]:
    """`at` on the loop's clock."""
    return {} if at is None else {"_meta": {"serverTimestamp": int((WALL + at) * 1000)}}


REPLAYED = ended("replay_complete")
PROMPT = "user_message_chunk"
CHUNK = "agent_message_chunk"


TOOL: dict[str, Any] = {"toolCallId": "c1", "kind": "execute", "title": "rm -rf the secret plan"}
WRITTEN: dict[str, Any] = TOOL | {"_meta": {"toolName": "sh", "phase": "preparing"}}
"""The call is still being written."""
BEAT: dict[str, Any] = {"toolCallId": "c1", "_meta": {"toolName": "sh", "shellProgress": {}}}
ASKED = json.dumps(
    {
        "type": "permission_request",
        "promptId": "p1",
        "data": {"toolCall": {"toolCallId": "c1", "kind": "execute", "_meta": {"toolName": "sh"}}},
    }
).encode()


@pytest.mark.parametrize(
    ("data", "signal"),
    [
        (update("agent_message_chunk"), g.Progress(5, "p1")),
        (update("agent_thought_chunk"), g.Progress(5, "p1")),
        (update("tool_call", **TOOL), g.ToolStarted(5, "c1", "execute", turn="p1")),
        (
            update("tool_call", **TOOL | {"kind": "two words"}),
            g.ToolStarted(5, "c1", "tool", turn="p1"),
        ),
        (update("tool_call_update", **TOOL, status="completed"), g.ToolEnded(5, "c1")),
        (update("tool_call_update", **TOOL, status="failed"), g.ToolEnded(5, "c1")),
        (update("tool_call", **WRITTEN, status="pending"), g.Progress(5, "p1")),
        (update("tool_call_update", **WRITTEN, status="failed"), g.Presence(5)),
        (
            update("tool_call_update", **TOOL, status="in_progress"),
            g.ToolStarted(5, "c1", "execute", turn="p1"),
        ),
        (update("tool_call_update", **BEAT, status="in_progress"), g.Presence(5)),
        (ASKED, g.ToolStarted(5, "c1", "sh", turn="p1")),
        (update("tool_call"), g.Presence(5)),
        (update("available_commands_update"), g.Presence(5)),
        (update(CHUNK, turn=None), g.Progress(5)),
        (update(PROMPT), g.TurnStarted(5, "p1", 5)),
        (update(PROMPT, turn=None), g.Presence(5)),
        (ended("turn_complete", stopReason="end_turn"), g.TurnEnded(5, "completed")),
        (ended("turn_complete", stopReason="cancelled"), g.TurnEnded(5, "interrupted")),
        (ended("turn_complete", stopReason=["content"]), g.TurnEnded(5, "completed")),
        (ended("turn_error"), g.TurnEnded(5, "failed")),
        (ended("prompt_cancelled", reason="forward_failed"), g.Presence(5)),
        (ended("something_new"), g.Presence(5)),
        *(
            (nonsense, g.Presence(5))
            for nonsense in (b"", b"{", b"[]", b"null", b"[" * 99_999, b'{"type": []}')
        ),
    ],
)
def test_what_an_event_means(data: bytes, signal: g.Signal) -> None:
    assert Happenings(QWEN, RecordedClock(5)).of(data, 5) == [signal]


class Fake:
    """A server whose streams are queues; None ends one."""

    def __init__(self) -> None:
        self.streams: dict[str, asyncio.Queue[bytes | None]] = {}
        self.tries: list[str] = []
        self.after: list[str | None] = []
        self.refuses: SourceDown | None = None

    async def events(self, path: str, _: float, after: str | None) -> AsyncIterator[Sent]:
        session = path.split("/")[2]
        self.tries.append(session)
        self.after.append(after)
        if self.refuses is not None:
            raise self.refuses
        yield Sent(b"", after)
        told = self.streams.setdefault(session, asyncio.Queue())
        number = int(after or 0)
        while (data := await told.get()) is not None:
            number += b'"id"' in data
            yield Sent(data, str(number))


class Room:
    """The source in front of a fake, and a session folded from what it observes."""

    def __init__(self, settings: Settings = QWEN) -> None:
        loop = asyncio.get_running_loop()
        self.server = Fake()
        server: Any = self.server
        self.events = Events(server, settings, LiveClock(loop.time, lambda: loop.time() + WALL))
        self.session = Session("a", "s", 0.0)

    async def read(self) -> list[g.Signal]:
        await asyncio.sleep(0.01)
        found = [signal for _, signal in await self.events.read()]
        for signal in found:
            fold(self.session, signal)
        return found

    async def listen(self, *past: bytes) -> list[g.Signal]:
        """The session is busy, and its stream begins with what was."""
        self.events.want({"s"}, {"s"})
        await self.read()
        for data in past:
            self.server.streams["s"].put_nowait(data)
        return await self.tell(REPLAYED)

    async def tell(self, *told: bytes | None) -> list[g.Signal]:
        for data in told:
            self.server.streams["s"].put_nowait(data)
        return await self.read()

    def rests(self) -> None:
        """It is not busy any more, twice over."""
        for _ in range(2):
            self.events.want(set(), {"s"})


@pytest.fixture
async def room() -> AsyncGenerator[Room, None]:
    made = Room()
    yield made
    await made.events.close()


async def test_only_busy_sessions_are_listened_to_and_one_look_longer(room: Room) -> None:
    room.events.want(set(), {"s"})
    assert await room.read() == []
    room.events.want({"s"}, {"s"})
    assert [type(s) for s in await room.read()] == [g.SourceUp]
    room.events.want(set(), {"s"})
    assert await room.read() == []
    assert [t for t in asyncio.all_tasks() if t.get_name() == "events"]
    room.events.want(set(), {"s"})
    assert await room.read() == []
    assert room.server.tries == ["s"]
    assert not [t for t in asyncio.all_tasks() if t.get_name() == "events"]


async def test_a_turn_begins_with_its_prompt_and_ends_with_its_end(room: Room) -> None:
    await room.listen()
    assert not room.session.had_turn
    await room.tell(update(PROMPT))
    assert room.session.turn is not None
    assert (room.session.turn.id, room.session.phase, room.session.resolution) == ("p1", "model", "delta")
    await room.tell(update("tool_call", **TOOL))
    assert str(room.session.phase) == "tool"
    await room.tell(update("tool_call_update", **TOOL, status="completed"))
    assert room.session.phase == "model"
    await room.tell(ended("prompt_cancelled"))
    room.events.want(set(), {"s"})
    await room.tell(ended("turn_complete", stopReason="cancelled"))
    room.events.want(set(), {"s"})
    await room.read()
    assert {k: v for k, v in room.session.turns.items() if v} == {"interrupted": 1}


async def test_a_tool_runs_when_its_call_is_written_and_not_before(room: Room) -> None:
    await room.listen(update(PROMPT), update("tool_call", **WRITTEN, status="pending"))
    assert room.session.phase == "model"
    await room.tell(update("tool_call_update", **TOOL, status="in_progress"))
    assert (str(room.session.phase), list(room.session.tools)) == ("tool", ["c1"])
    moved = room.session.progress_at
    await asyncio.sleep(60)
    await room.tell(update("tool_call_update", **BEAT, status="in_progress"))
    assert room.session.progress_at == moved, "a heartbeat is no work"
    await room.tell(update("tool_call_update", **TOOL, status="completed"))
    assert room.session.turn is not None
    assert (room.session.phase, room.session.turn.tool_calls) == ("model", 1)


async def test_a_tool_that_was_permitted_runs_though_nothing_says_so(room: Room) -> None:
    await room.listen(update(PROMPT), update("tool_call", **WRITTEN, status="pending"), ASKED)
    await room.tell(ended("permission_resolved"))
    assert str(room.session.phase) == "tool"
    await room.tell(update("tool_call_update", **TOOL, status="completed"))
    assert room.session.phase == "model"


def test_of_a_type_that_tells_all_any_that_is_no_end_is_a_start_unless_it_is_said_which() -> None:
    data = update("tool_call_update", **BEAT, status="in_progress")
    (signal,) = Happenings(replace(QWEN, tool_start=None), RecordedClock(5)).of(data, 5)
    assert signal == g.ToolStarted(5, "c1", "sh", turn="p1")


async def test_an_end_that_was_told_and_not_yet_read_says_how(room: Room) -> None:
    await room.listen(update(PROMPT))
    room.server.streams["s"].put_nowait(ended("turn_error"))
    await asyncio.sleep(0.01)
    room.rests()
    await room.read()
    assert {k: v for k, v in room.session.turns.items() if v} == {"failed": 1}


async def test_where_the_end_is_not_told_the_status_tells_it(room: Room) -> None:
    await room.listen(update(PROMPT))
    room.rests()
    assert room.events.wake is not None
    assert room.events.wake.is_set()
    assert [type(s) for s in await room.read()] == [g.TurnEnded]
    assert room.session.turns["completed"] == 1


async def test_what_ran_before_somebody_listened_is_told_and_counts_from_then(room: Room) -> None:
    await asyncio.sleep(600)
    await room.listen(
        update(PROMPT, turn="p1", at=100),
        update(CHUNK, turn="p1", at=101),
        ended("turn_complete", at=102),
        update(PROMPT, turn="p2", at=200),
        *(update(CHUNK, turn="p2", at=210 + n) for n in range(50)),
        update("tool_call", **TOOL, turn="p2", at=300),
    )
    assert room.session.turn is not None
    assert room.session.progress_at is not None
    assert (room.session.turn.id, round(room.session.turn.started_at)) == ("p2", 200)
    assert [(t.tool, round(t.since)) for t in room.session.tools.values()] == [("execute", 300)]
    assert (round(room.session.progress_at), sum(room.session.turns.values())) == (300, 0)
    await room.tell(update(CHUNK, turn="p2", at=601))
    assert room.session.progress_at > 599, "what comes live counts at its arrival"
    assert room.server.after == ["0"]


async def test_a_hung_turn_is_seen_though_nobody_listened_when_it_began(room: Room) -> None:
    await asyncio.sleep(600)
    await room.listen(update(PROMPT, at=100))
    assert room.session.progress_at is not None
    assert (room.session.phase, round(room.session.progress_at)) == ("model", 100)


async def test_a_past_that_breaks_off_is_taken_as_far_as_it_was_told(room: Room) -> None:
    room.events.want({"s"}, {"s"})
    await room.read()
    await room.tell(update(PROMPT), update(CHUNK), None)
    assert (room.session.turn is None, room.session.sources) == (False, {"events": False})
    await asyncio.sleep(2)
    await room.read()
    assert room.server.after == ["0", "2"]


async def test_a_lost_stream_goes_on_where_it_was_and_its_silence_is_not_the_agents(room: Room) -> None:
    await room.listen(update(PROMPT), update(CHUNK))
    await room.tell(None)
    assert room.session.sources == {"events": False}
    room.server.streams["s"].put_nowait(ended("turn_complete", stopReason="cancelled", at=0.5))
    await asyncio.sleep(2)
    assert [type(s) for s in await room.read()] == [g.SourceUp, g.TurnEnded]
    assert room.server.after == ["0", "2"]
    assert room.session.turns["interrupted"] == 1
    assert room.session.last is not None
    assert room.session.last.ended_at == pytest.approx(0.5)


async def test_one_that_stays_lost_gives_up_its_turn(room: Room) -> None:
    await room.listen(update(PROMPT))
    room.server.refuses = SourceDown("HTTP 500")
    await room.tell(None)
    await asyncio.sleep(BLIND + 1)
    await room.read()
    assert (room.session.turn, room.session.turns["abandoned"]) == (None, 1)
    await asyncio.sleep(3600)
    assert len(room.server.tries) < 140


async def test_one_that_has_no_stream_is_not_asked_again_and_what_it_does_is_not_seen(room: Room) -> None:
    await room.listen(update(PROMPT))
    room.server.refuses = Missing("HTTP 404")
    await room.tell(None)
    await asyncio.sleep(600)
    await room.read()
    assert room.server.tries == ["s", "s"]
    assert room.session.sources == {"events": False}


async def test_a_server_that_keeps_nothing_is_not_asked_for_it() -> None:
    told: list[str | None] = [None, None]
    for number, replayed in enumerate(("replay_complete", None)):
        made = Room(replace(QWEN, replayed=replayed))
        made.events.want({"s"}, {"s"})
        await made.read()
        (told[number],) = made.server.after
        await made.tell(update(CHUNK))
        assert (made.session.turn is None) == (replayed is not None)
        await made.events.close()
    assert told == ["0", None]


def test_of_the_past_little_is_kept() -> None:
    past = Past()
    for n in range(30_000):
        past.add([g.Progress(n, "p"), g.Presence(n)])
    assert past.signals == [g.Progress(0, "p"), g.Progress(29_999, "p")]
    for n in range(30_000):
        past.add([g.ToolStarted(n, str(n), "t")])
    assert len(past.signals) == MOST
    past.add([g.TurnEnded(1, "completed")])
    assert past.signals == []


async def test_there_are_never_more_streams_than_can_be_afforded(room: Room) -> None:
    busy = {f"s{n}" for n in range(1_000)}
    room.events.want(busy, busy)
    await room.read()
    room.events.want(busy, busy)
    await room.read()
    assert len(room.server.tries) == 64


async def test_a_flood_waits_at_the_server(room: Room) -> None:
    await room.listen()
    for _ in range(5_000):
        room.server.streams["s"].put_nowait(update("agent_message_chunk"))
    await asyncio.sleep(1)
    assert room.events._told.qsize() == 1_000
    assert len(await room.read()) == 1_000
