"""The event stream: what is there, then what changes; clients are few and slow ones are dropped."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.server import streams
from tests.test_server import World, serving, shown

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from tests.test_server import Client


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.0)


async def open_stream(client: Client) -> ClientResponse:
    answer = await client.get("/api/events")
    assert answer.status == 200
    return answer


async def event(answer: ClientResponse) -> tuple[str, Any]:
    """Read the next event, or comment, of a stream."""
    async with asyncio.timeout(10):
        lines: list[str] = []
        while (line := (await answer.content.readline()).decode().rstrip("\n")) or not lines:
            lines.append(line)
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
    return fields.get("event", lines[0]), json.loads(fields.get("data", "null"))


async def test_a_client_gets_what_is_there_and_then_what_changes() -> None:
    world = World(shown("a"), shown("b"))
    async with serving(world) as client:
        answer = await open_stream(client)
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        assert [await event(answer) for _ in range(3)] == [
            ("session", shown("a")),
            ("session", shown("b")),
            ("listed", {}),
        ]
        world.all["claude-code", "a"] = shown("a", phase="tool")
        world.tell[0]("claude-code", "a")
        assert await event(answer) == ("session", shown("a", phase="tool"))
        del world.all["claude-code", "b"]
        world.tell[0]("claude-code", "b")
        assert await event(answer) == ("closed", {"agent": "claude-code", "session": "b"})


async def test_a_change_during_the_first_list_is_not_lost() -> None:
    world = World(shown("a"))
    listed = world.sessions

    def sessions() -> Any:
        found = listed()
        world.all["claude-code", "a"] = shown("a", phase="tool")
        world.tell[0]("claude-code", "a")
        return found

    world.sessions = sessions  # type: ignore[method-assign]
    async with serving(world) as client:
        answer = await open_stream(client)
        assert [await event(answer) for _ in range(3)] == [
            ("session", shown("a")),
            ("listed", {}),
            ("session", shown("a", phase="tool")),
        ]


async def test_many_changes_of_one_session_are_told_as_the_newest() -> None:
    world = World(shown("a", n=0))
    async with serving(world) as client:
        answer = await open_stream(client)
        await event(answer)
        await event(answer)
        for n in range(1, 10_000):
            world.all["claude-code", "a"] = shown("a", n=n)
            world.tell[0]("claude-code", "a")
        name, told = await event(answer)
        assert (name, told["n"]) == ("session", 9_999)


async def test_a_session_that_streams_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.2)
    world = World(shown("a"), shown("b"))
    async with serving(world) as client:
        answer = await open_stream(client)
        while (await event(answer))[0] != "listed":
            pass
        world.tell[0]("claude-code", "a")
        await event(answer)
        began = asyncio.get_running_loop().time()
        world.tell[0]("claude-code", "b")
        await event(answer)
        assert asyncio.get_running_loop().time() - began > 0.15


async def test_text_of_an_agent_cannot_make_an_event_of_its_own() -> None:
    world = World(shown("a", waiting_for="x\n\nevent: closed\ndata: {}\n\n\u2028"))
    async with serving(world) as client:
        answer = await open_stream(client)
        assert await event(answer) == ("session", world.all["claude-code", "a"])
        assert (await event(answer))[0] == "listed"


async def test_there_is_a_most_of_clients_and_a_place_is_free_again_when_one_leaves() -> None:
    world = World()
    async with serving(world) as client:
        answers = [await open_stream(client) for _ in range(streams.MOST_CLIENTS)]
        refused = await client.get("/api/events")
        assert refused.status == 503
        assert refused.headers["Retry-After"] == "10"
        assert await refused.json() == {"error": "there are 16 clients already"}
        assert len(world.tell) == streams.MOST_CLIENTS
        answers[3].close()
        async with asyncio.timeout(10):
            while (await client.get("/api/events")).status == 503:
                pass
        for answer in answers:
            answer.close()


async def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WRITE_DEADLINE", 0.05)
    world = World(shown("a", filler="x" * 8_000_000))
    async with serving(world) as client:
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        assert len(world.tell) == 1
        await asyncio.wait_for(world.left.wait(), 10)  # without another byte having been read
        writer.close()


async def test_a_client_that_falls_too_far_behind_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_PENDING", 3)
    world = World(*(shown(str(n)) for n in range(5)))
    async with serving(world) as client:
        answer = await open_stream(client)
        while (await event(answer))[0] != "listed":
            pass
        for n in range(5):
            world.tell[0]("claude-code", str(n))
        async with asyncio.timeout(10):
            rest = await answer.content.read()
        assert rest.count(b"event: ") <= 5
        assert world.tell == []


async def test_a_quiet_stream_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ALIVE_EVERY", 0.01)
    async with serving(World()) as client:
        answer = await open_stream(client)
        assert (await event(answer))[0] == "listed"
        assert (await event(answer))[0] == ": alive"


async def test_a_server_that_stops_ends_its_streams() -> None:
    world = World()
    async with serving(world) as client:
        answer = await open_stream(client)
        await event(answer)
        async with asyncio.timeout(5):
            await client.server.close()
        assert world.tell == []
        assert await answer.content.read() == b""
