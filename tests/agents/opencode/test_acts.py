"""Ending turns and putting sessions away: what is asked of the server, and when it is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from sidecar import signals as g
from sidecar.agent import Can, Order
from sidecar.agents.opencode import acts
from tests.agents.opencode.fake import DIRECTORY, Fake, serving, stamp, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sidecar.agent import Answer
    from tests.agents.opencode.fake import Watched

GUARD = {"guard": "stall", "action": "stop", "detail": "no output for 10m"}


@pytest.fixture
async def server() -> AsyncIterator[Fake]:
    async with serving(Fake()) as fake:
        yield fake


@pytest.fixture
async def watched(server: Fake) -> AsyncIterator[Watched]:
    """A turn with two subagents, of which one is at work."""
    server.session()
    server.session("ses_2", parentID="ses_1")
    server.session("ses_3", parentID="ses_1")
    server.session("ses_9")
    for session in ("ses_1", "ses_2", "ses_9"):
        server.message(session, f"msg_{session}u", "user", 60)
        server.message(session, f"msg_{session}a", "assistant", 59, parentID=f"msg_{session}u")
    server.busy("ses_1", "ses_2", "ses_9")
    async with watching(server) as made:
        await made.read(made.events)
        server.asked.clear()
        yield made


async def interrupt(watched: Watched, session: str = "ses_1", turn: str | None = None) -> Answer:
    turn = turn or f"msg_{session}u"
    return await watched.agent.interrupt(Order("interrupt", session, turn, "no progress", None))


async def reap(watched: Watched, session: str = "ses_1", *, force: bool = False) -> Answer:
    return await watched.agent.reap(Order("reap", session, None, "idle", None, force))


async def test_an_interrupt_ends_the_turn_and_the_subagents_that_go_on(
    server: Fake, watched: Watched
) -> None:
    assert (await interrupt(watched)).result == "accepted"
    assert server.paths("POST") == ["/session/ses_1/abort", "/session/ses_2/abort"]
    assert {asked.directory for asked in server.asked} == {DIRECTORY}


async def test_a_subagent_is_ended_alone(server: Fake, watched: Watched) -> None:
    assert watched.agent.can("ses_2") == Can(interrupt=True, reap=True)
    assert (await interrupt(watched, "ses_2")).result == "accepted"
    assert server.paths("POST") == ["/session/ses_2/abort"]


async def test_subagents_of_subagents_are_found_and_a_circle_ends(server: Fake, watched: Watched) -> None:
    server.sessions["ses_3"]["parentID"] = "ses_2"
    server.sessions["ses_1"]["parentID"] = "ses_3"
    server.busy("ses_3")
    await interrupt(watched)
    assert server.paths("POST") == ["/session/ses_1/abort", "/session/ses_3/abort"]


async def test_ids_are_data(server: Fake, watched: Watched) -> None:
    t = watched.agent._tracks.get("../x?y#z/..")
    t.turn = "msg_u"
    order = Order("interrupt", t.id, "msg_u", "x", None)
    await watched.agent.interrupt(order)
    assert server.paths("POST") == ["/session/%2E%2E%2Fx%3Fy%23z%2F%2E%2E/abort"]


async def test_another_turn_is_not_ended(server: Fake, watched: Watched) -> None:
    assert (await interrupt(watched, turn="msg_0u")).result == "superseded"
    assert server.paths("POST") == []


async def test_what_its_own_guard_ends_is_left_to_it(server: Fake, watched: Watched) -> None:
    server.tell("session.next.guard.tripped", sessionID="ses_1", **GUARD)
    while not watched.agent._tracks.get("ses_1").guarded:
        await watched.look()
    assert (await interrupt(watched)).result == "superseded"
    assert server.paths("POST") == []


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_a_refused_abort_has_failed(server: Fake, watched: Watched, status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    server.answers["/session/ses_1/abort"] = answer
    told = await interrupt(watched)
    assert (told.result, told.detail) == ("failed", f"HTTP {status}")


async def test_a_server_that_is_gone_has_done_nothing(server: Fake, watched: Watched) -> None:
    await server.close()
    assert (await interrupt(watched)).result == "failed"
    assert (await reap(watched)).result == "failed"


async def test_a_session_at_rest_is_archived_without_an_abort(server: Fake, watched: Watched) -> None:
    server.statuses.clear()
    server.permissions = [
        {"id": "per_1", "sessionID": "ses_1", "permission": "bash"},
        {"id": "per_9", "sessionID": "ses_9", "permission": "bash"},
    ]
    server.questions = [{"id": "que_2", "sessionID": "ses_2"}]
    assert (await reap(watched)).result == "accepted"
    assert server.paths("POST") == ["/permission/per_1/reply", "/question/que_2/reject"]
    assert server.paths("PATCH") == ["/session/ses_1"]
    assert server.bodies[0] == ("/permission/per_1/reply", {"reply": "reject"})
    assert server.bodies[-1][1]["time"]["archived"] == pytest.approx(stamp(0), abs=5000)
    assert server.paths("DELETE") == []


async def test_a_session_at_work_is_not_put_away_unless_forced(server: Fake, watched: Watched) -> None:
    assert (await reap(watched)).result == "superseded"
    assert {asked.method for asked in server.asked} == {"GET"}


async def test_a_forced_reap_waits_until_the_session_rests(
    server: Fake, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "PAUSE", 0.01)
    polls = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal polls
        polls += 1
        return web.json_response({"ses_1": {"type": "busy"}} if polls < 6 else {})

    server.answers["/session/status"] = answer
    assert (await reap(watched, force=True)).result == "accepted"
    assert polls >= 6
    methods = [asked.method for asked in server.asked if asked.method != "GET"]
    assert methods[0] == "POST"
    assert methods[-1] == "PATCH"


async def test_one_that_does_not_come_to_rest_is_not_put_away(
    server: Fake, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "PAUSE", 0.01)
    monkeypatch.setattr(acts, "PATIENCE", 0.1)
    told = await reap(watched, force=True)
    assert (told.result, told.detail) == ("failed", "it does not come to rest")
    assert server.paths("PATCH") == []


async def test_it_is_deleted_only_where_the_configuration_says_so(server: Fake) -> None:
    server.session()
    async with watching(server, delete=True) as watched:
        await watched.read(watched.status)
        assert (await reap(watched)).result == "accepted"
        assert server.paths("DELETE") == ["/session/ses_1"]
        assert server.paths("PATCH") == []


async def test_a_look_reads_the_stream_and_asks_the_server(server: Fake, watched: Watched) -> None:
    server.tell("session.idle", sessionID="ses_1")
    found: list[Any] = []
    while not any(isinstance(o.signal, g.TurnEnded) for o in found):
        found += await watched.look()
    assert {asked.path for asked in server.asked} >= {"/session/ses_1", "/session/status", "/permission"}


@pytest.mark.parametrize("gone", ["deleted", "archived"])
async def test_a_look_sees_that_a_session_is_gone(server: Fake, watched: Watched, gone: str) -> None:
    server.tell("session.idle", sessionID="ses_9")
    server.statuses.clear()
    if gone == "deleted":
        del server.sessions["ses_9"]
    else:
        server.sessions["ses_9"]["time"]["archived"] = stamp(0)
    found: list[Any] = []
    while not any(isinstance(o.signal, g.Unregistered) for o in found):
        found += await watched.look("ses_9")


async def test_check_says_what_can_be_reached(server: Fake, watched: Watched) -> None:
    found = {finding.what: finding for finding in await watched.agent.probe()}
    assert all(finding.ok for finding in found.values())
    assert found["server"].detail == f"{server.url}: version 1.18.33"
    await server.close()
    assert not any(finding.ok for finding in await watched.agent.probe())
