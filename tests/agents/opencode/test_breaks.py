"""What became of a turn while the stream was away: nothing is replayed, so it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.opencode import poll
from tests.agents.opencode.fake import DIRECTORY, Fake, begun, serving, stamp, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Fake]:
    async with serving(Fake()) as fake:
        yield fake


@pytest.fixture(autouse=True)
def _prompts_land_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "LANDING", 0.0)


@pytest.mark.parametrize(
    ("now", "last", "outcome"),
    [
        ({}, {"finish": "stop", "time": {"completed": 1}}, "completed"),
        ({}, {"error": {"name": "MessageAbortedError"}, "time": {"completed": 1}}, "interrupted"),
        ({}, {"error": {"name": "APIError"}, "time": {"completed": 1}}, "failed"),
        ({}, {"time": {"completed": 1}}, "interrupted"),
        ({}, {}, "died"),
    ],
)
async def test_a_turn_that_ended_while_the_stream_was_away(
    server: Fake, now: dict[str, Any], last: dict[str, Any], outcome: str
) -> None:
    async with watching(server) as watched:
        await begun(server, watched)
        assert watched.agent._tracks.get("ses_1").turn == "msg_1u"
        server.hang_up()
        assert isinstance(await watched.until(g.CatchingUp), g.CatchingUp)
        session = watched.seen()
        assert session is not None
        assert session.behind, "nothing is judged until it is known what was missed"
        server.statuses[DIRECTORY] = now
        server.messages.clear()
        server.message("ses_1", "msg_1a", "assistant", 1, parentID="msg_1u", **last)
        ended = await reconnected(watched, g.TurnEnded)
        assert isinstance(ended, g.TurnEnded)
        assert ended.outcome == outcome
        assert not session.behind


async def test_a_guard_that_ended_the_turn_while_the_stream_was_away_is_known_by_its_words(
    server: Fake,
) -> None:
    async with watching(server) as watched:
        await begun(server, watched)
        server.hang_up()
        server.statuses.clear()
        stopped = {"name": "MessageAbortedError", "data": {"message": "stopped: no output for 10m"}}
        message = {"parentID": "msg_1u", "error": stopped, "time": {"completed": 1}}
        server.message("ses_1", "msg_1a", "assistant", 1, **message)
        ended = await reconnected(watched, g.TurnEnded)
        assert isinstance(ended, g.TurnEnded)
        assert (ended.outcome, ended.guarded) == ("interrupted", True)


async def reconnected(watched: Any, kind: type[g.Signal]) -> g.Signal:
    """Read on through the break, as the watch does."""
    while True:
        try:
            found: g.Signal = await watched.until(kind)
        except SourceDown:
            await watched.events.wake.wait()
            watched.events.wake.clear()
        else:
            return found


async def test_a_turn_that_went_on_while_the_stream_was_away(server: Fake) -> None:
    async with watching(server) as watched:
        await begun(server, watched)
        running = {"status": "running"}
        part = {
            "id": "prt_t",
            "messageID": "msg_1a",
            "type": "tool",
            "tool": "bash",
            "callID": "c",
            "state": running,
        }
        server.tell("message.part.updated", sessionID="ses_1", part=part)
        await watched.until(g.ToolStarted)
        server.hang_up()
        server.message("ses_1", "msg_1u", "user", 1)
        text = {"id": "prt_9", "type": "text", "text": "new text", "time": {"start": stamp(0)}}
        server.message("ses_1", "msg_1b", "assistant", 0, text, parentID="msg_1u")
        ended = await reconnected(watched, g.ToolEnded)
        assert isinstance(ended, g.ToolEnded)
        assert ended.echo
        session = watched.seen()
        assert session is not None
        assert session.phase == "model"
        assert session.turn is not None


async def test_another_turn_runs_when_the_stream_is_back(server: Fake) -> None:
    async with watching(server) as watched:
        await begun(server, watched)
        server.hang_up()
        server.message(
            "ses_1", "msg_1a", "assistant", 2, parentID="msg_1u", finish="stop", time={"completed": 1}
        )
        server.message("ses_1", "msg_2u", "user", 1)
        server.message("ses_1", "msg_2a", "assistant", 1, parentID="msg_2u")
        await reconnected(watched, g.TurnStarted)
        session = watched.seen()
        assert session is not None
        assert session.turn is not None
        assert session.turn.id == "msg_2u"
        assert session.turns["completed"] == 1
