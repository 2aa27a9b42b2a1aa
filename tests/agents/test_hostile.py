"""Servers that are hung, broken, hostile or something else: blindness that is said, in time and within bounds."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from sidecar.agent import SourceDown
from tests.agents.http.test_server import WRONG as PAGES
from tests.agents.http.test_server import page
from tests.agents.rooms import LISTINGS, Boxed, Listed, OpenCodeRoom, Room, room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LABELS = ("kbc-box", "qwen-serve", "openhands", "control-api", "opencode", "redcode")
DEEP = "[" * 10_000 + "]" * 10_000
BOMB = gzip.compress(bytes(100 << 20), 9)
GROWTH = 40_000
"""Kilobytes: the answers are refused at 1 MB (8 MB from an OpenCode server), 100 MB are sent."""


def body(raw: bytes, **headers: str) -> Any:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=raw, headers={"Content-Type": "application/json"} | headers)

    return answer


async def reset(request: web.Request) -> web.StreamResponse:
    """Half of what was announced, and then nobody."""
    response = web.StreamResponse(headers={"Content-Length": "4096"})
    await response.prepare(request)
    await response.write(b'{"sessions": [')
    assert request.transport is not None
    request.transport.abort()
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    """A stream whose only line never ends."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(100):
        await response.write(b"data: " + b"x" * (1 << 20))
    return response


WRONG: dict[str, Any] = {how: answer for how, (answer, _) in PAGES.items() if how != "not there"} | {
    "a reset in the middle": reset,
    "a gzip bomb": body(BOMB, **{"Content-Encoding": "gzip"}),
    "no UTF-8": body(b'{"sessions": [{"id": "\xff\xfe"}], "items": [{"id": "\xff"}]}'),
    "too deep and whole": body(f'{{"sessions": {DEEP}, "items": {DEEP}, "x": {DEEP}}}'.encode()),
    "lines without end": endless,
    "a redirect to a host that would answer": page("", 307, {"Location": "http://localhost:1/x"}),
}


@pytest.fixture
async def place(label: str, tmp_path: Path) -> AsyncIterator[Room]:
    async with room(label, tmp_path, timeout="500ms") as made:
        await made.be("idle")
        await made.until(lambda s: s is not None and s.phase == "idle", "it rests")
        yield made


def spoil(place: Room, answer: Any) -> None:
    """From now on all of its server answers like this; None: as before."""
    if isinstance(place, Listed):
        place.site.instead = answer
    elif isinstance(place, Boxed):
        place.server.listing = answer
    elif isinstance(place, OpenCodeRoom):
        place.server.answers = {} if answer is None else {"": answer}


def handler(answer: Any) -> Any:
    """A table's answer as what makes it."""
    if callable(answer):
        return answer

    async def plain(_: web.Request) -> web.Response:
        return web.Response(status=answer) if isinstance(answer, int) else web.json_response(answer)

    return plain


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("label", LABELS)
async def test_it_is_lost_in_time_and_bounds_and_found_again(
    label: str,  # noqa: ARG001 - of the fixture
    how: str,
    place: Room,
) -> None:
    spoil(place, handler(WRONG[how]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    polls = [source for source in place.agent.sources if source.name in ("listing", "box", "status")]
    lost: list[str] = []
    for source in polls:
        async with asyncio.timeout(source.patience):
            try:
                # A box is listed every few seconds only; a look asks it at once.
                box = isinstance(place, Boxed)
                found = list(await (place.agent.look(place.id) if box else source.read()))
                assert {o.session for o in found} <= {place.id}, "no session comes of it"
            except SourceDown as down:
                lost.append(str(down))
    assert len(lost) == len(polls)
    assert not any(told in why for why in lost for told in ("Log in", "localhost"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH
    known = place.fleet.get("a", place.id)
    assert known is not None
    assert (known.dormant, known.verdicts, known.turn) == (False, [], None)
    spoil(place, None)
    again = await place.until(lambda s: s is not None, "it is found again")
    assert again is known


IDS: dict[str, tuple[list[Any], set[str]]] = {
    "twice": (["s/1", "s/1"], {"s/1"}),
    "a number": ([7, "s/1"], {"7", "s/1"}),
    "nothing, true, a list": ([None, True, ["x"], "", "s/1"], {"s/1"}),
    "very long": (["x" * 300, "x" * 100_000, "s/1"], {"s/1"}),
    "control characters": (["a\nb", "s/1"], {"a\nb", "s/1"}),
    "half a character": (["a\ud83d", "a\ude00", "s/1"], {"s/1"}),
}


@pytest.mark.parametrize("how", IDS)
@pytest.mark.parametrize("label", ["kbc-box", "qwen-serve", "openhands", "control-api"])
async def test_odd_ids_are_read_or_left_out_and_end_nobody(label: str, how: str, place: Room) -> None:
    ids, expected = IDS[how]
    assert isinstance(place, Listed | Boxed)
    if isinstance(place, Boxed):
        (shown,) = place.server.sessions
        place.server.sessions = [shown | {"id": name} for name in ids]
    else:
        path = LISTINGS[label]("idle")[0]
        answer = place.site.answers[path]
        name, field = next(
            (k, f)
            for k, f in (("sessions", "tid"), ("sessions", "sessionId"), ("items", "id"))
            if k in answer and f in answer[k][0]
        )
        place.site.answers[path] = answer | {name: [answer[name][0] | {field: each} for each in ids]}
    await place.read()
    assert place.fleet.get("a", "s/1") is not None
    assert {s.id for s in place.fleet.live()} <= expected
    assert place.id in {s.id for s in place.fleet.live()}
    assert all(s.verdicts == [] for s in place.fleet.live())


def titled(place: Room, title: str) -> None:
    """From now on its session is listed with this title."""
    if isinstance(place, Boxed):
        place.server.sessions = [each | {"title": title} for each in place.server.sessions]
    elif isinstance(place, OpenCodeRoom):
        place.server.session(place.id, title=title)
    elif isinstance(place, Listed):
        for answer in (each for each in place.site.answers.values() if isinstance(each, dict)):
            for entry in [*answer.get("sessions", ()), *answer.get("items", ())]:
                entry["title"] = title


@pytest.mark.parametrize("label", LABELS)
async def test_a_title_cut_in_the_middle_of_a_character_blinds_nobody(
    label: str,  # noqa: ARG001 - of the fixture
    place: Room,
) -> None:
    titled(place, "a title cut short \ud83d")
    for source in place.agent.sources:
        await source.read()
    await place.agent.look(place.id)
    assert (await place.read()) is not None


@pytest.mark.parametrize("label", LABELS)
async def test_polling_neither_wakes_nor_extends_nor_creates(
    label: str,  # noqa: ARG001 - of the fixture
    place: Room,
) -> None:
    session = await place.until(lambda s: s is not None, "it rests")
    assert session is not None
    rests, writes = session.idle_since, place.orders()
    for _ in range(20):
        await place.read()
    assert (session.idle_since, session.progress_at, session.turn) == (rests, None, None)
    assert (place.orders(), len(place.fleet.known("a"))) == (writes, 1)


async def test_a_stream_without_an_end_of_line_is_lost_and_small(tmp_path: Path) -> None:
    async with room("qwen-serve", tmp_path) as place:
        assert isinstance(place, Listed)
        place.site.answers["GET /session/s%2F1/events"] = endless
        await place.be("idle")
        await place.until(lambda s: s is not None and s.phase == "idle", "it rests")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await place.be("busy")
        lost = await place.until(lambda s: s is not None and s.sources.get("events") is False, "lost")
        assert lost is not None
        assert (lost.turn, lost.verdicts) == (None, [])
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH
        assert json.dumps(place.site.asked).count("events") <= 3, "it is not asked again at once"
