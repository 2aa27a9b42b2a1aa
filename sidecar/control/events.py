"""What hosts tell as it happens: their event streams, merged, followed and found again.

Sockets appear and vanish with their sessions, so the pattern is looked at again and again. What is
lost is told too, for every session that was heard of: blindness is not silence.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import aiohttp
import msgspec
from msgspec import Struct

from sidecar.control import api
from sidecar.control.api import Hosted, Settings, Unreachable
from sidecar.sources.sse import Cutter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

RESCAN: Final = 2.0
"""Seconds between two looks for new sockets."""

SILENCE: Final = 60.0
"""A stream without a byte for this long is dead: hosts send a heartbeat every 15 s."""

LONGEST_PAUSE: Final = 30.0
"""Between two tries to connect to a socket that is there and does not answer."""

MAX_EVENT: Final = 256 << 10
WAITING: Final = 1000
"""Events read ahead of whoever takes them; then the hosts wait."""


class Lost(Struct, frozen=True):
    """The stream that told of the session has ended."""

    why: str


class Event(NamedTuple):
    """Something that a host told: the session as it is now, progress in it, or no more of it."""

    session: str
    what: Hosted | Literal["progress"] | Lost


class _Moved(Struct):
    id: str
    progress: Literal[True]


async def follow(settings: Settings) -> AsyncGenerator[Event, None]:
    """The events of all endpoints, until the iterator is closed."""
    told: asyncio.Queue[Event] = asyncio.Queue(WAITING)
    streams: dict[str, asyncio.Task[None]] = {}
    now = asyncio.get_running_loop().time
    due = now()
    try:
        while True:
            if now() >= due:
                _look(settings, told, streams)
                due = now() + RESCAN
            try:
                async with asyncio.timeout_at(due):
                    event = await told.get()
            except TimeoutError:
                continue
            yield event
    finally:
        for stream in streams.values():
            stream.cancel()
        await asyncio.gather(*streams.values(), return_exceptions=True)


def _look(settings: Settings, told: asyncio.Queue[Event], streams: dict[str, asyncio.Task[None]]) -> None:
    """Follow what is new; forget those whose follower has given up."""
    for endpoint in [endpoint for endpoint, stream in streams.items() if stream.done()]:
        streams.pop(endpoint).result()
    for endpoint in api.endpoints(settings):
        if endpoint not in streams:
            stream = _follow(settings, endpoint, told)
            streams[endpoint] = asyncio.create_task(stream, name=f"events of {endpoint}")


async def _follow(settings: Settings, endpoint: str, told: asyncio.Queue[Event]) -> None:
    """One endpoint's events, connected again and again for as long as it is there."""
    failures = 0
    while endpoint in api.endpoints(settings):
        heard: set[str] = set()
        try:
            async with aclosing(_stream(settings, endpoint)) as stream:
                async for event in stream:
                    failures = 0
                    heard.add(event.session)
                    await told.put(event)
            why = "its stream ended"
        except Unreachable as unreachable:
            why = str(unreachable)
        for session in heard:
            await told.put(Event(session, Lost(why)))
        failures += 1
        await asyncio.sleep(min(LONGEST_PAUSE, 0.5 * 2 ** min(failures, 10)))


async def _stream(settings: Settings, endpoint: str) -> AsyncGenerator[Event, None]:
    async for data in streamed(settings, endpoint):
        event = event_of(data)
        if event is not None:
            yield event


async def streamed(settings: Settings, endpoint: str) -> AsyncGenerator[bytes, None]:
    """One endpoint's events as they come, undecoded. Raises Unreachable."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=settings.timeout, sock_read=SILENCE)
    url = api.target(endpoint, "events")
    async with api.request(settings, endpoint, "GET", url, timeout=timeout) as answer:
        if answer.status != api.OK:
            raise Unreachable(f"HTTP {answer.status}")
        cutter = Cutter(MAX_EVENT, Unreachable)
        async for chunk in answer.content.iter_any():
            for sent in cutter.feed(chunk):
                yield sent.data


def event_of(data: bytes) -> Event | None:
    """An event as it was told; None where it makes no sense, as a newer host's may not."""
    try:
        moved = msgspec.json.decode(data, type=_Moved)
    except (ValueError, RecursionError):
        hosted = api.decoded(data)
        return None if hosted is None else Event(hosted.id, hosted)
    return Event(moved.id, "progress")
