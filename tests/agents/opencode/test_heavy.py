"""A stream that tells too much, too slowly or too often, and a home with a thousand sessions: all bounded."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.opencode import events
from tests.agents.opencode.fake import DIRECTORY, Fake, begun, serving, stamp, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONNECTED = b'data: {"payload":{"type":"server.connected","properties":{}}}\n\n'


@pytest.fixture
async def server() -> AsyncIterator[Fake]:
    async with serving(Fake()) as fake:
        yield fake


async def test_a_piece_of_ten_megabytes_costs_itself_and_nothing_else(server: Fake) -> None:
    async with watching(server) as watched:
        await begun(server, watched)
        delta = {"messageID": "msg_1a", "partID": "prt_1", "field": "text"}
        server.tell("message.part.delta", sessionID="ses_1", delta="x" * (10 << 20), **delta)
        server.tell("message.part.delta", sessionID="ses_1", delta="x" * (1 << 20), **delta)
        oversized = progress = 0
        while not progress:
            records = await watched.until(g.Records)
            assert isinstance(records, g.Records)
            oversized, progress = oversized + records.oversized, records.progress
        assert oversized == 1
        session = watched.seen()
        assert session is not None
        assert session.silence(watched.clock.now()) < 5


async def test_what_nobody_reads_yet_is_kept_decoded_and_without_content(
    server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "READ_AHEAD", 10_000)
    async with watching(server) as watched:
        await begun(server, watched)
        for n in range(200):
            part = {"id": f"prt_{n}", "messageID": "msg_1a", "type": "text", "text": "secret" * 500}
            server.tell("message.part.updated", sessionID="ses_1", part=part)
        async with asyncio.timeout(5):
            while len(watched.events._decoded) < 190:
                assert sum(len(data or b"") for _, data in watched.events._told) < 15_000
                await asyncio.sleep(0)
        assert "secret" not in repr(watched.events._decoded)
        found = await watched.read(watched.events)
        assert sum(isinstance(o.signal, g.Progress) for o in found) >= 190


async def test_a_stream_that_breaks_again_and_again_is_asked_for_ever_more_seldom(server: Fake) -> None:
    connections: list[float] = []

    async def storm(request: web.Request) -> web.StreamResponse:
        connections.append(asyncio.get_running_loop().time())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(CONNECTED)
        return response

    server.answers["/global/event"] = storm
    server.session()
    async with watching(server) as watched:
        while len(connections) < 4:
            try:
                await watched.read(watched.events)
            except SourceDown:
                await asyncio.sleep(0.02)
        pauses = [late - early for early, late in pairwise(connections)]
        assert pauses[0] >= 0.5
        assert pauses[1] >= 1.0
        assert pauses[2] >= 2.0
        listings = [path for path in server.paths() if path.startswith("/experimental")]
        assert len(listings) <= len(connections)


async def test_a_stream_that_drips_and_never_tells_an_event_is_dead(server: Fake) -> None:
    async def drips(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(CONNECTED)
        while True:
            await response.write(b": still here\n")
            await asyncio.sleep(0.02)

    server.answers["/global/event"] = drips
    async with watching(server, stream_timeout=0.4) as watched:
        await watched.read(watched.events)
        async with asyncio.timeout(5):
            while watched.events._up:  # noqa: ASYNC110 - the other end decides it
                await asyncio.sleep(0.02)
        with pytest.raises(SourceDown, match="it did not answer in time"):
            await watched.read(watched.events)


async def test_a_stream_that_is_taken_and_never_answered_is_asked_for_anew(server: Fake) -> None:
    asked: list[web.Request] = []

    async def mute(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        if len(asked) > 1:
            del server.answers["/global/event"]
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    server.answers["/global/event"] = mute
    async with watching(server, timeout=0.2) as watched:
        async with asyncio.timeout(10):
            while not watched.events._up:
                with suppress(SourceDown):
                    await watched.read(watched.events)
                await asyncio.sleep(0.02)
        assert len(asked) == 2


async def test_a_thousand_sessions_are_listed_once_and_asked_about_in_few_folders(server: Fake) -> None:
    for n in range(1000):
        updated = {"created": stamp(90_000), "updated": stamp(n)}
        server.session(f"ses_{n:04}", directory=f"/home/agent/{n % 200}", time=updated)
    server.session("ses_0000", directory=DIRECTORY)
    server.busy("ses_0000")
    server.message("ses_0000", "msg_1u", "user", 60)
    server.message("ses_0000", "msg_1a", "assistant", 59, parentID="msg_1u")
    async with watching(server) as watched:
        await watched.read(watched.events)
        assert "/experimental/session?limit=1000" in server.paths(), "unasked it gives a hundred"
        at_work = watched.seen("ses_0000")
        assert at_work is not None
        assert at_work.turn is not None
        assert len([path for path in server.paths() if path == "/session/status"]) <= 50
        server.asked.clear()
        for _ in range(5):
            assert await watched.read(watched.status) is not None
        assert {asked.directory for asked in server.asked} <= {None, DIRECTORY}
        assert len(server.asked) <= 5 * 4, "health, status and what waits of the one folder at work"
        assert not any(path.startswith("/experimental") for path in server.paths())
