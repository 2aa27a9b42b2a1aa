"""What went wrong for others with OpenCode, from public reports: each is named after its number in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from sidecar.act import doing
from sidecar.agents.opencode import acts, poll
from sidecar.limits import Limit, Rules
from tests.agents.opencode.beside import beside
from tests.agents.opencode.fake import Fake, serving, stamp
from tests.agents.opencode.stream import Stream, event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest.fixture
async def server() -> AsyncIterator[Fake]:
    async with serving(Fake()) as fake:
        yield fake


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "LANDING", 0.0)
    monkeypatch.setattr(acts, "PAUSE", 0.02)
    monkeypatch.setattr(acts, "PATIENCE", 0.2)
    monkeypatch.setattr(doing, "REAP_PAUSES", (0.05, 0.05))


def prompted(server: Fake, *, queried: bool = False) -> None:
    """A new session whose turn goes to work and says nothing more."""
    server.busy("ses_1")
    server.tell("session.created", sessionID="ses_1", info=server.session())
    user = {"id": "msg_1u", "role": "user", "time": {"created": stamp(0)}}
    server.tell("message.updated", sessionID="ses_1", info=user)
    server.tell("session.status", sessionID="ses_1", status={"type": "busy"})
    told = {"id": "msg_1a", "role": "assistant", "parentID": "msg_1u", "time": {"created": stamp(0)}}
    server.tell("message.updated", sessionID="ses_1", info=told)
    server.message("ses_1", "msg_1u", "user", 0)
    server.message("ses_1", "msg_1a", "assistant", 0, parentID="msg_1u")
    if queried:
        call = {"messageID": "msg_1a", "callID": "call_1"}
        server.questions = [{"id": "que_1", "sessionID": "ses_1", "tool": call}]


def on_abort(server: Fake, does: Callable[[], object]) -> None:
    """What an abort brings about; it is answered with success in any case."""

    async def answer(_: web.Request) -> web.Response:
        does()
        return web.json_response(data=True)

    server.answers["/session/ses_1/abort"] = answer


def rests(server: Fake) -> None:
    server.statuses.clear()
    server.tell("session.status", sessionID="ses_1", status={"type": "idle"})
    server.tell("session.idle", sessionID="ses_1")


async def test_case_3_a_task_whose_subagent_is_not_known_yet_is_waited_for() -> None:
    s = Stream().working()
    s.tool("pending", tool="task")
    s.tool("running", tool="task")  # its metadata names no session
    assert s.seen().phase == "delegated"
    s.fleet.tick(6 * 3600.0)
    assert s.seen().verdicts == []
    assert s.at(6 * 3600.0).tool("completed", tool="task") != []
    assert s.seen().phase == "model"


async def test_case_40_an_abort_that_is_accepted_and_changes_nothing_is_ineffective(server: Fake) -> None:
    async with beside(server) as sidecar:
        prompted(server)
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.outcomes == [("interrupt", "ineffective")]
        assert sidecar.seen().turn is not None, "it still says that it is busy"
        await sidecar.until(lambda: len(server.paths()) > 60)
        assert server.paths("POST") == ["/session/ses_1/abort"], "and it is not asked again"
        assert server.paths("PATCH") == []


async def test_case_40_what_follows_is_the_reap_where_that_is_configured(server: Fake) -> None:
    aborts: list[int] = []

    def second() -> None:
        aborts.append(1)
        if len(aborts) == 2:
            rests(server)

    on_abort(server, second)
    async with beside(server, escalate="reap") as sidecar:
        prompted(server)
        await sidecar.until(lambda: len(sidecar.outcomes) == 2 or server.paths("PATCH"))
        server.sessions["ses_1"]["time"]["archived"] = stamp(0)
        server.tell("session.updated", sessionID="ses_1", info=server.sessions["ses_1"])
        await sidecar.until(lambda: len(sidecar.outcomes) == 2)
        assert sidecar.outcomes == [("interrupt", "ineffective"), ("reap", "effective")]
        assert server.paths("PATCH") == ["/session/ses_1"]
        assert sidecar.ended() == ["stalled"]


async def test_case_40_a_session_that_never_rests_is_neither_archived_nor_deleted(server: Fake) -> None:
    async with beside(server, escalate="reap") as sidecar:
        prompted(server)
        await sidecar.until(lambda: len(sidecar.outcomes) == 2)
        assert sidecar.outcomes == [("interrupt", "ineffective"), ("reap", "failed")]
        assert server.paths("PATCH") == server.paths("DELETE") == []


async def test_case_40_a_session_that_is_busy_after_its_stream_closed_is_still_bounded(server: Fake) -> None:
    on_abort(server, lambda: rests(server))
    rules = Rules(model_delta=Limit(1.5))
    async with beside(server, rules) as sidecar:
        prompted(server)
        await sidecar.until(lambda: sidecar.watch.fleet.get("opencode", "ses_1"))
        server.hang_up()
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.outcomes == [("interrupt", "effective")]
        assert sidecar.ended() == ["stalled"]


async def test_case_40_a_question_is_a_wait_though_every_word_of_the_server_is_busy(server: Fake) -> None:
    on_abort(server, lambda: rests(server))
    async with beside(server, Rules(model_delta=Limit(60.0), waiting=Limit(0.3))) as sidecar:
        prompted(server, queried=True)
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.bounds == ["waiting"]
        assert sidecar.outcomes == [("interrupt", "effective")]


@pytest.mark.parametrize("name", ["MessageAbortedError", "AbortError", "Error", "", None])
async def test_case_42_an_interrupt_is_recognised_whatever_its_error_is_called(
    server: Fake, name: str | None
) -> None:
    def ends() -> None:
        if name is not None:
            server.tell("session.error", sessionID="ses_1", error={"name": name, "data": {}})
        rests(server)

    on_abort(server, ends)
    async with beside(server) as sidecar:
        prompted(server)
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.outcomes == [("interrupt", "effective")]
        assert sidecar.ended() == ["stalled"]
        assert sidecar.seen().phase == "idle"


async def test_case_42_an_end_that_no_event_tells_is_seen_by_the_status_that_vanished(server: Fake) -> None:
    on_abort(server, server.statuses.clear)
    async with beside(server) as sidecar:
        prompted(server)
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.outcomes == [("interrupt", "effective")]
        assert sidecar.ended() == ["stalled"]


async def test_case_44_an_interrupt_of_a_session_at_rest_is_harmless(server: Fake) -> None:
    async with beside(server) as sidecar:
        prompted(server)
        done = {"id": "msg_1a", "role": "assistant", "parentID": "msg_1u", "finish": "stop"}
        done["time"] = {"created": stamp(0), "completed": stamp(0)}  # type: ignore[assignment]
        server.tell("message.updated", sessionID="ses_1", info=done)
        rests(server)
        await sidecar.until(sidecar.ended)
        assert await sidecar.acts.ask(sidecar.seen(), "interrupt", "a person asks") == "superseded"
        assert server.paths("POST") == []
        assert sidecar.ended() == ["completed"]


async def test_case_44_looking_wakes_extends_and_creates_nothing(
    server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "RELIST", 0.0)
    for n in range(40):
        long_ago = {"created": 0, "updated": stamp(100_000 + n)}
        server.session(f"ses_old{n}", directory=f"/home/agent/old{n}", time=long_ago)
    server.session("ses_9", directory="/home/agent/new")
    async with beside(server) as sidecar:
        at_first = len([asked for asked in server.asked if asked.directory is not None])
        await sidecar.until(lambda: server.paths().count("/global/health") > 30)
        assert {asked.method for asked in server.asked} == {"GET"}
        assert {asked.directory for asked in server.asked} == {None, "/home/agent/new"}
        asked = [asked.path for asked in server.asked if asked.directory is not None]
        assert len(asked) == at_first, "a folder where nothing is at work is asked about at the start only"
        assert sidecar.seen("ses_9").progress_at is None


async def test_a_guard_that_is_faster_than_the_act_that_is_under_way_supersedes_it(server: Fake) -> None:
    def guard() -> None:
        tripped = {"guard": "stall", "action": "stop", "detail": "no output for 10m"}
        server.tell("session.next.guard.tripped", sessionID="ses_1", **tripped)
        rests(server)

    on_abort(server, guard)
    async with beside(server) as sidecar:
        prompted(server)
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.outcomes == [("interrupt", "superseded")]
        assert sidecar.ended() == ["interrupted"]


async def test_a_guard_that_has_decided_is_left_to_end_the_turn_itself(server: Fake) -> None:
    tripped = {"guard": "stall", "action": "stop", "detail": "no output for 10m"}
    async with beside(server) as sidecar:
        prompted(server)
        server.tell("session.next.guard.tripped", sessionID="ses_1", **tripped)
        await sidecar.until(lambda: sidecar.outcomes)
        assert sidecar.outcomes == [("interrupt", "superseded")]
        assert server.paths("POST") == []
        rests(server)
        await sidecar.until(sidecar.ended)
        assert sidecar.ended() == ["interrupted"]


def test_what_the_guard_of_another_session_stops_is_no_concern_of_this_one() -> None:
    s = Stream().working()
    s.created("ses_2")
    tripped = event("session.next.guard.tripped", sessionID="ses_2", guard="stall", action="stop", detail="x")
    assert s.tell(tripped) == []
    s.session = "ses_1"
    s.completed(finish="stop")
    assert s.idle()[0].outcome == "completed"  # type: ignore[attr-defined]
