"""Whose turn it is, when it begins, and what of a stream says that it is over."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar import signals as g
from tests.agents.opencode.stream import Stream, does, event, session_info


def test_a_turn_runs_from_the_prompt_that_is_worked_on_until_the_session_rests() -> None:
    s = Stream().at(10)
    assert s.created() == [
        g.SourceUp(10, "events", "delta"),
        g.Described(10, None, "1.18.33", None),
        g.Registered(10),
        g.Status(10, "idle", 10),
    ]
    assert s.at(11).asked() == []
    assert s.at(12).busy() == [g.TurnStarted(12, "msg_1u", 11), g.Status(12, "busy", 12)]
    assert s.busy() == s.answer() == []
    assert s.at(13).delta("hello") == [g.Progress(13)]
    s.completed(finish="stop")
    assert s.at(14).idle() == [g.TurnEnded(14, "completed"), g.Status(14, "idle", 14)]


@pytest.mark.parametrize(
    "told",
    [
        event("session.updated", sessionID="ses_1", info=session_info()),
        event("session.status", sessionID="ses_1", status={"type": "busy"}),
        event("session.idle", sessionID="ses_1"),
        event("session.deleted", sessionID="ses_1", info=session_info()),
        event("session.diff", sessionID="ses_1", diff=[]),
        event("message.part.delta", sessionID="ses_1", messageID="msg_1a", partID="p", delta="x"),
        event("permission.asked", sessionID="ses_1", id="per_1"),
        event("session.compacted", sessionID="ses_1"),
        event("server.heartbeat"),
        event("plugin.added", id="x"),
        event("catalog.updated"),
    ],
)
def test_hearsay_makes_no_session(told: bytes) -> None:
    assert Stream().tell(told) == []


def test_a_prompt_makes_one() -> None:
    s = Stream()
    assert g.Registered(0) in s.asked()
    assert does(s.busy())


def test_every_stored_event_counts_once_on_the_stream_of_all_directories() -> None:
    s = Stream()
    info = session_info(created=0.0)
    told = event("session.created", directory="/home/agent/a", sessionID="ses_1", info=info)
    twin = told.replace(b'"type": "session.created"', b'"type": "sync", "syncEvent": {}')
    assert s.tell(told)
    assert s.tell(twin) == []


def test_what_comes_after_the_end_opens_nothing() -> None:
    s = Stream().working()
    s.delta("hello")
    s.at(5).idle()
    late = [
        *s.asked(),
        *s.delta(" again"),
        *s.part("text", text="hello again and again"),
        *s.tool("error"),
        *s.completed(error={"name": "MessageAbortedError"}),
        *s.idle(),
        *s.tell(event("session.updated", sessionID="ses_1", info=session_info())),
        *s.permission(),
    ]
    assert late == []
    assert s.seen().turn is None
    assert s.seen().turns["completed"] + s.seen().turns["failed"] == 1


def test_what_comes_late_belongs_to_no_later_turn() -> None:
    s = Stream().working()
    s.tool("running")
    s.permission()
    s.error("MessageAbortedError")
    s.idle()
    s.at(1).asked("msg_2u")
    s.busy()
    assert s.tool("error") == []
    assert s.completed(error={"name": "MessageAbortedError"}) == []
    assert list(s.tracks.get("ses_1").messages) == []
    assert s.seen().phase == "model"


def test_a_message_that_is_only_stored_starts_no_turn() -> None:
    s = Stream()
    s.created()
    assert not does(s.asked("msg_stored"))
    s.at(100)
    assert not does(s.busy())
    assert s.answer("msg_2a", "msg_2u")[0] == g.TurnStarted(100, "msg_2u", 100)


def test_a_queued_prompt_is_the_next_turn() -> None:
    s = Stream().working()
    assert s.at(2).asked("msg_2u") == []
    assert s.turn() == "msg_1u"
    told = s.at(5).answer("msg_2a", "msg_2u")
    assert told == [g.TurnEnded(5, "completed"), g.TurnStarted(5, "msg_2u", 2)]
    s.idle()
    assert s.seen().turns["completed"] + s.seen().turns["failed"] == 2


def test_an_abort_drops_what_was_queued() -> None:
    s = Stream().working()
    s.asked("msg_2u")
    s.error("MessageAbortedError")
    s.idle()
    assert not does(s.busy())


def test_a_prompt_outlives_the_rest_that_comes_before_its_turn() -> None:
    s = Stream()
    s.created()
    s.asked()
    s.idle()
    assert does(s.busy())


@pytest.mark.parametrize("piece", [{"kind": "compaction"}, {"kind": "text", "synthetic": True, "text": "on"}])
def test_what_the_server_asks_itself_belongs_to_the_turn(piece: dict[str, Any]) -> None:
    s = Stream().working()
    s.asked("msg_own")
    kind = piece.pop("kind")
    s.part(kind, "prt_own", "msg_own", **piece)
    assert not does(s.answer("msg_2a", "msg_own"))
    assert s.delta("on", "prt_2", "msg_2a") == [g.Progress(0)]
    assert s.turn() == "msg_1u"


def test_the_prompts_own_parts_are_no_progress() -> None:
    s = Stream().working()
    assert s.part("text", "prt_u", "msg_1u", text="a long question") == []


@pytest.mark.parametrize(
    ("story", "outcome"),
    [
        (["completed:stop"], "completed"),
        (["completed:tool-calls"], "completed"),
        (["error:MessageAbortedError"], "interrupted"),
        (["error:APIError"], "failed"),
        (["failed:ProviderAuthError"], "failed"),
        (["failed:MessageAbortedError"], "interrupted"),
        (["retry", "cut"], "interrupted"),
        (["cut"], "completed"),  # a shell command of the user's: no model, no finish
        ([], "failed"),  # the server gave up, and tells why only after it rests
        (["error:UnknownError", "delta", "completed:stop"], "completed"),
    ],
)
def test_how_a_turn_ended(story: list[str], outcome: g.Outcome) -> None:
    s = Stream().working()
    for step in story:
        verb, _, word = step.partition(":")
        if verb == "completed":
            s.completed(finish=word)
        elif verb == "failed":
            s.completed(error={"name": word, "data": {"message": "secret"}})
        elif verb == "error":
            s.error(word)
        elif verb == "retry":
            s.status("retry", attempt=1, message="secret", next=2000)
        elif verb == "delta":
            s.delta("more")
        else:
            s.completed()
    assert s.idle()[0] == g.TurnEnded(0, outcome)


def test_a_turn_without_an_answer_has_completed() -> None:
    s = Stream()
    s.created()
    s.asked()
    s.busy()
    assert s.idle()[0] == g.TurnEnded(0, "completed")


def test_a_subagent_is_a_session_of_its_own() -> None:
    s = Stream().working()
    s.tool("running", tool="task")
    told = s.created("ses_2", parent="ses_1")
    assert g.Described(0, "ses_1", "1.18.33", None) in told
    assert not any(isinstance(signal, g.Registered) for signal in told)
    s.asked("msg_2u")
    s.busy()
    assert s.seen().phase == "delegated"
    assert s.seen("ses_2").phase == "model"
    assert s.seen("ses_2").parent == "ses_1"


def test_a_deleted_session_at_rest_is_over() -> None:
    s = Stream()
    s.created()
    gone = event("session.deleted", sessionID="ses_1", info=session_info())
    assert s.tell(gone) == [g.Unregistered(0)]
    assert s.tell(gone) == []


def test_a_deleted_session_outlives_its_deletion_by_its_turn() -> None:
    s = Stream().working()
    assert s.tell(event("session.deleted", sessionID="ses_1", info=session_info())) == []
    assert s.seen().phase == "model"
    s.at(9)
    assert s.error("UnknownError") == []
    assert s.status("idle")[-1] == g.Unregistered(9)


def test_an_archived_session_is_over_until_it_is_asked_again() -> None:
    s = Stream()
    s.created()
    archived = event("session.updated", sessionID="ses_1", info=session_info(archived=1.0))
    assert s.tell(archived) == [g.Unregistered(0)]
    assert g.Registered(0) in s.asked()
    assert does(s.busy())
    assert s.idle()[-1] == g.Unregistered(0)


def test_other_directories_are_left_out_where_some_are_named() -> None:
    s = Stream(directories=("/home/agent/a",))
    elsewhere = session_info("ses_2") | {"directory": "/home/agent/b"}
    assert (
        s.tell(event("session.created", directory="/home/agent/b", sessionID="ses_2", info=elsewhere)) == []
    )
    assert s.tell(event("session.created", sessionID="ses_2", info=elsewhere)) == []
    assert s.created() != []


def test_the_configuration_says_who_sits_there() -> None:
    assert g.Described(0, None, "1.18.33", attended=True) in Stream(attended=True).created()


def test_history_is_not_taken_for_new() -> None:
    s = Stream()
    s.tracks.get("ses_1").settled = 5_000
    assert s.at(4).asked() == []
    assert s.at(6).asked("msg_2u") != []
