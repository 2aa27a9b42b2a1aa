"""What is found by asking: at the start, between, and after the stream was away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import signals as g
from sidecar.agent import Can
from sidecar.agents.opencode import poll
from tests.agents.opencode.fake import DIRECTORY, Fake, begun, serving, stamp, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

RUNNING = {"id": "prt_1", "type": "tool", "tool": "bash", "callID": "call_1", "state": {"status": "running"}}


@pytest.fixture
async def server() -> AsyncIterator[Fake]:
    async with serving(Fake()) as fake:
        yield fake


@pytest.fixture(autouse=True)
def _prompts_land_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "LANDING", 0.0)


def of(found: Sequence[g.Observation], kind: type[g.Signal], session: str = "ses_1") -> list[g.Signal]:
    return [o.signal for o in found if o.session == session and isinstance(o.signal, kind)]


def hung(server: Fake, session: str = "ses_1", *parts: Any) -> None:
    """A session whose turn has been under way for a minute."""
    server.session(session)
    server.message(session, "msg_1u", "user", 60)
    server.message(session, "msg_1a", "assistant", 59, *parts, parentID="msg_1u", modelID="m")
    server.busy(session)


async def test_a_listed_session_is_known_and_nothing_more_is_claimed(server: Fake) -> None:
    server.session()
    server.session("ses_old", time={"created": stamp(90_000), "updated": stamp(80_000)})
    server.session("ses_archived", time={"created": stamp(90), "updated": stamp(80), "archived": stamp(70)})
    async with watching(server) as watched:
        found = await watched.read(watched.status)
        assert {o.session for o in found} == {"ses_1", "ses_old"}
        assert of(found, g.Registered) == of(found, g.Status) == []
        session = watched.seen()
        assert session is not None
        assert session.phase == "idle"
        assert session.sources == {"events": True, "status": True}
        assert session.status is None
        assert not session.dormant
        old = watched.seen("ses_old")
        assert old is not None
        assert old.dormant
        assert watched.agent.can("ses_1") == watched.agent.can("nobody") == Can(interrupt=False, reap=False)
        assert await watched.read(watched.status) == []


async def test_a_turn_that_hung_before_anybody_listened_is_judged_by_its_stamps(server: Fake) -> None:
    text = {"id": "prt_0", "type": "text", "text": "part of it", "time": {"start": stamp(50)}}
    hung(server, "ses_1", text)
    async with watching(server) as watched:
        await watched.read(watched.events)
        session = watched.seen()
        assert session is not None
        assert session.turn is not None
        assert session.turn.id == "msg_1u"
        now = watched.clock.now()
        assert session.turn.started_at == pytest.approx(now - 60, abs=1)
        assert session.silence(now) == pytest.approx(50, abs=1)
        assert session.phase == "model"
        assert session.registered_at is not None
        assert watched.agent.can("ses_1") == Can(interrupt=True, reap=True)


async def test_an_open_tool_is_found_open(server: Fake) -> None:
    hung(server, "ses_1", RUNNING)
    async with watching(server) as watched:
        await watched.read(watched.status)
        session = watched.seen()
        assert session is not None
        assert session.phase == "tool"


async def test_a_compaction_is_found_under_way_though_its_summary_has_begun(server: Fake) -> None:
    server.session()
    server.message("ses_1", "msg_1u", "user", 60)
    text = {"id": "prt_1", "type": "text", "text": "a summ", "time": {"start": stamp(40)}}
    told = {"parentID": "msg_1u", "mode": "compaction", "summary": True}
    server.message("ses_1", "msg_1a", "assistant", 59, text, **told)
    server.busy("ses_1")
    async with watching(server) as watched:
        await watched.read(watched.events)
        session = watched.seen()
        assert session is not None
        assert session.phase == "compacting"
        assert session.compacting_since == pytest.approx(watched.clock.now() - 59, abs=1)


async def test_history_alone_opens_nothing(server: Fake) -> None:
    hung(server, "ses_1", RUNNING)
    server.statuses.clear()
    async with watching(server) as watched:
        await watched.read(watched.status)
        session = watched.seen()
        assert session is not None
        assert session.turn is None


@pytest.mark.parametrize("body", [b"[" * 100_000, b'[{"info":{"id":7}}]'])
async def test_a_history_that_cannot_be_read_leaves_the_status(server: Fake, body: bytes) -> None:
    from aiohttp import web  # noqa: PLC0415

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    hung(server)
    server.answers["/session/ses_1/message"] = answer
    async with watching(server) as watched:
        await watched.read(watched.status)
        session = watched.seen()
        assert session is not None
        assert session.turn is None
        assert session.status is not None
        assert session.status.word == "busy"


async def test_looking_asks_only_about_directories_that_have_a_session_of_late(server: Fake) -> None:
    server.session()
    server.session("ses_old", directory="/home/agent/old", time={"created": 0, "updated": stamp(100_000)})
    async with watching(server) as watched:
        await watched.read(watched.status)
        await watched.read(watched.status)
        assert {asked.directory for asked in server.asked} == {None, DIRECTORY}
        named = [asked for asked in server.asked if asked.directory is None]
        assert {asked.path.partition("?")[0] for asked in named} == {
            "/experimental/session",
            "/global/health",
        }
        assert server.paths().count("/session/status") == 1, "nothing is at work: once is enough"


async def test_a_pending_request_of_this_turn_is_a_wait_and_one_of_another_is_none(server: Fake) -> None:
    hung(server, "ses_1", RUNNING)
    stale = {"id": "per_0", "sessionID": "ses_1", "permission": "bash", "tool": {"messageID": "msg_0a"}}
    server.permissions = [stale]
    async with watching(server) as watched:
        assert of(await watched.read(watched.status), g.WaitStarted) == []
        server.questions = [{"id": "que_1", "sessionID": "ses_1", "tool": {"messageID": "msg_1a"}}]
        (wait,) = of(await watched.read(watched.status), g.WaitStarted)
        assert isinstance(wait, g.WaitStarted)
        assert wait.waiting_for == "question"
        assert of(await watched.read(watched.status), g.WaitStarted) == []
        server.questions = []
        assert len(of(await watched.read(watched.status), g.WaitEnded)) == 1


async def test_a_request_without_a_call_is_told_apart_by_its_age(server: Fake) -> None:
    hung(server)
    for message, name in zip(server.messages["ses_1"], ("msg_22d90000000b", "msg_22d90000000c"), strict=True):
        message["info"]["id"] = name
    server.messages["ses_1"][1]["info"]["parentID"] = "msg_22d90000000b"
    old, new = "per_22d90000000a", "per_22d90000000d"
    server.permissions = [{"id": name, "sessionID": "ses_1", "permission": "x"} for name in (old, new)]
    async with watching(server) as watched:
        await watched.read(watched.status)
        assert list(watched.agent._tracks.get("ses_1").waits) == [new]


async def test_the_end_of_a_turn_that_the_stream_lost_is_seen_by_the_second_poll(server: Fake) -> None:
    async with watching(server) as watched:
        await begun(server, watched)
        await watched.read(watched.status)
        server.statuses.clear()
        server.message(
            "ses_1", "msg_1a", "assistant", 0, parentID="msg_1u", finish="stop", time={"completed": 1}
        )
        assert of(await watched.read(watched.status), g.TurnEnded) == []
        (ended,) = of(await watched.read(watched.status), g.TurnEnded)
        assert isinstance(ended, g.TurnEnded)
        assert ended.outcome == "completed"


async def test_a_session_deleted_under_its_turn_stays_until_the_turn_is_over(server: Fake) -> None:
    hung(server)
    ghost = server.sessions.pop("ses_1")
    server.sessions["ses_2"] = ghost | {"id": "ses_2"}
    async with watching(server) as watched:
        found = await watched.read(watched.status)
        assert of(found, g.TurnStarted)
        assert watched.agent.can("ses_1").interrupt
        server.statuses.clear()
        await watched.read(watched.status)
        found = await watched.read(watched.status)
        assert len(of(found, g.Unregistered)) == 1


async def test_a_session_that_is_no_longer_listed_is_over(
    server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(server) as watched:
        await watched.read(watched.events)
        server.tell("session.created", sessionID="ses_1", info=server.session())
        await watched.until(g.Registered)
        monkeypatch.setattr(poll, "RELIST", 0.0)
        assert of(await watched.read(watched.status), g.Unregistered) == []
        server.sessions.clear()
        assert len(of(await watched.read(watched.status), g.Unregistered)) == 1


async def test_a_directory_that_is_refused_blinds_no_other(server: Fake) -> None:
    from aiohttp import web  # noqa: PLC0415

    hung(server)
    server.session("ses_2", directory="/home/agent/gone")

    async def answer(request: web.Request) -> web.Response:
        if "gone" in request.headers.get("x-opencode-directory", ""):
            return web.json_response({"name": "UnknownError"}, status=500)
        return web.json_response(server.statuses[DIRECTORY])

    server.answers["/session/status"] = answer
    async with watching(server) as watched:
        await watched.read(watched.status)
        session = watched.seen()
        assert session is not None
        assert session.turn is not None


async def test_an_older_server_lists_one_directory(server: Fake) -> None:
    from aiohttp import web  # noqa: PLC0415

    async def missing(_: web.Request) -> web.Response:
        return web.json_response({}, status=404)

    async def listed(_: web.Request) -> web.Response:
        return web.json_response([server.session()])

    server.answers = {"/experimental": missing, "/session?limit": listed}
    async with watching(server) as watched:
        assert of(await watched.read(watched.status), g.SourceUp)


async def test_a_session_is_watched_only_in_the_named_directories(server: Fake) -> None:
    server.session()
    server.session("ses_2", directory="/home/agent/b")
    server.busy("ses_2", directory="/home/agent/b")
    async with watching(server, directories=(DIRECTORY,)) as watched:
        assert {o.session for o in await watched.read(watched.status)} == {"ses_1"}
        assert "/home/agent/b" not in {asked.directory for asked in server.asked}


async def test_a_poll_that_the_stream_overtook_changes_nothing(server: Fake) -> None:
    from aiohttp import web  # noqa: PLC0415

    async with watching(server) as watched:
        await begun(server, watched)

        async def answer(_: web.Request) -> web.Response:
            stale = dict(server.statuses[DIRECTORY])
            server.tell("session.idle", sessionID="ses_1")
            await asyncio.sleep(0.05)
            return web.json_response(stale)

        server.answers["/session/status"] = answer
        await watched.read(watched.status)
        session = watched.seen()
        assert session is not None
        assert session.turn is None
        assert session.status is not None
        assert session.status.word == "idle"
