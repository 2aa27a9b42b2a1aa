"""What of a stream is work: new text, new calls, finished tools, and nothing that is told twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import signals as g
from sidecar.agents.opencode.decode import Decoder
from sidecar.agents.opencode.tracks import Tracks
from sidecar.clock import RecordedClock
from tests.agents.opencode.stream import Stream, does, event
from tests.expected import ROOT

Json = dict[str, Any]


def again(s: Stream, attempt: int = 1) -> list[g.Signal]:
    """The request fails and is asked once more."""
    told = s.status("retry", attempt=attempt, message="SSE read timed out", next=1000.0 * attempt)
    return told + s.busy()


def test_text_is_progress_as_far_as_it_is_new() -> None:
    s = Stream().working()
    assert s.part("text", text="") == []
    assert does(s.delta("one"))
    assert does(s.part("text", text="one two"))
    assert s.part("text", text="one two") == []
    assert s.delta("") == []
    assert does(s.part("reasoning", "prt_2", text="well"))


def test_text_that_is_written_again_is_progress_only_beyond_its_length() -> None:
    s = Stream().working()
    s.delta("partial text")
    for attempt in range(1, 4):
        part = f"prt_again{attempt}"
        assert not does(again(s, attempt))
        assert s.part("step-start", f"prt_step{attempt}") == []
        assert s.part("text", part, text="") == []
        assert s.delta("partial ", part) == s.delta("text", part) == []
        assert s.part("text", part, text="partial text") == []
    assert does(s.delta("!", part))


def test_text_of_the_next_message_owes_nothing_to_the_last() -> None:
    s = Stream().working()
    s.delta("partial text")
    again(s)
    s.answer("msg_2a")
    assert does(s.delta("x", "prt_2", "msg_2a"))


def test_an_attempt_is_told_once_and_moves_no_clock() -> None:
    s = Stream().working()
    s.at(1).delta("x")
    s.at(300)
    assert s.status("retry", attempt=1, message="Provider response headers timed out", next=302_000) == [
        g.Retrying(300, "timeout", 302)
    ]
    assert s.status("retry", attempt=1, message="Provider response headers timed out", next=302_000) == []
    assert s.at(302).busy() == []
    assert s.seen().phase == "retrying"
    assert s.seen().silence(302) == 301


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("SSE read timed out", "timeout"),
        ("Too Many Requests", "rate_limit"),
        ("Provider is overloaded", "overloaded"),
        ("stub 503", "server_error"),
        ("ECONNRESET", "connection"),
        ("who knows", "other"),
    ],
)
def test_the_cause_of_a_retry_is_a_word_of_ours(text: str, cause: str) -> None:
    s = Stream().working()
    (told,) = s.status("retry", attempt=1, message=text, next=1000)
    assert isinstance(told, g.Retrying)
    assert told.cause == cause


def test_a_call_that_is_being_written_is_the_model_at_work_and_no_tool() -> None:
    s = Stream().working()
    assert s.tool("pending") == [g.Progress(0)]
    assert s.tool("pending") == []
    assert s.seen().phase == "model"
    again(s)
    assert s.tool("pending", "call_2") == []


def test_a_tool_runs_and_its_output_is_progress_where_there_is_some() -> None:
    s = Stream().working()
    s.tool("pending")
    assert s.tool("running") == [g.ToolStarted(0, "call_1", "bash")]
    assert s.tool("running", metadata={"output": ""}) == [g.Progress(0)]
    assert s.tool("running", metadata={"output": ""}) == []
    assert s.tool("running", metadata={"output": "line"}) == [g.Progress(0)]
    assert s.tool("completed") == [g.ToolEnded(0, "call_1")]
    assert s.tool("completed") == []
    assert s.seen().tools == {}


def test_a_tool_that_the_model_invented_has_no_name() -> None:
    s = Stream().working()
    assert s.tool("running", tool="bash: rm -rf /secret") == [g.ToolStarted(0, "call_1", "unknown")]


def test_a_tool_that_fails_before_it_runs_was_called_all_the_same() -> None:
    s = Stream().working()
    assert s.tool("error") == [g.ToolStarted(0, "call_1", "bash"), g.ToolEnded(0, "call_1")]


def test_a_task_delegates_before_its_session_is_known() -> None:
    s = Stream().working()
    assert s.tool("running", tool="task") == [g.ToolStarted(0, "call_1", "task", delegates=True)]
    assert s.seen().phase == "delegated"


def test_tokens_count_once() -> None:
    s = Stream().working()
    tokens = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 3, "write": 4}}
    assert s.part("step-finish", tokens=tokens) == [g.Progress(0), g.Used(0, "m", 10, 7, 3, 4)]
    assert s.part("step-finish", tokens=tokens) == []


def test_a_wait_begins_and_ends_with_the_answer() -> None:
    s = Stream().working()
    assert s.permission() == [g.WaitStarted(0, "permission: bash")]
    assert s.permission() == s.permission("per_2", permission="a name with spaces") == []
    assert s.seen().phase == "waiting"
    replied = event("permission.replied", sessionID="ses_1", requestID="per_1", reply="once")
    assert s.at(7).tell(replied) == [g.WaitEnded(7), g.WaitStarted(7, "permission")]
    assert s.tell(replied) == []
    rejected = event("permission.replied", sessionID="ses_1", requestID="per_2", reply="reject")
    assert s.tell(rejected) == [g.WaitEnded(7)]


def test_a_question_waits_too() -> None:
    s = Stream().working()
    asked = event("question.asked", sessionID="ses_1", id="que_1", questions=[])
    assert s.tell(asked) == [g.WaitStarted(0, "question")]
    assert s.tell(event("question.rejected", sessionID="ses_1", requestID="que_1")) == [g.WaitEnded(0)]


def test_a_compaction_is_one_until_it_is_over() -> None:
    s = Stream().working()
    assert s.answer("msg_2a", mode="compaction", summary=True) == [g.CompactionStarted(0)]
    assert s.seen().phase == "compacting"
    told = s.completed("msg_2a", mode="compaction", summary=True, finish="stop")
    assert told == [g.CompactionEnded(0), g.Progress(0)]
    assert s.tell(event("session.compacted", sessionID="ses_1")) == []


def test_a_compaction_that_writes_is_one_all_the_same_and_has_its_own_bound() -> None:
    s = Stream().working()
    s.answer("msg_2a", mode="compaction", summary=True)
    assert s.at(60).delta("a summary", "prt_2", "msg_2a") == []
    assert s.seen().phase == "compacting"
    s.fleet.tick(20 * 60.0)
    assert s.seen().verdicts == [], "twenty minutes would be too long for the model"
    s.fleet.tick(31 * 60.0)
    assert [verdict.bound for verdict in s.seen().verdicts] == ["compacting"]


def test_work_of_another_message_is_the_end_of_a_compaction_that_only_the_status_tells() -> None:
    s = Stream().working()
    s.status("busy", phase="compacting")
    assert s.at(5).delta("text") == [g.Progress(5)]
    assert s.seen().phase == "model"
    assert s.at(9).status("busy", phase="compacting") == [g.CompactionStarted(9)]
    assert s.at(10).status("busy", phase="thinking") == [g.CompactionEnded(10)]


def test_a_compaction_that_was_aborted_is_no_work() -> None:
    s = Stream().working()
    s.answer("msg_2a", mode="compaction", summary=True)
    aborted: Json = {"error": {"name": "MessageAbortedError"}, "mode": "compaction", "summary": True}
    assert s.completed("msg_2a", **aborted) == [g.CompactionEnded(0)]


GUARD = {"sessionID": "ses_1", "guard": "stall", "action": "stop", "detail": "no output for 10m"}
SHAPES = [
    {"type": "session.next.guard.tripped", "properties": GUARD | {"timestamp": "2026-11-30T19:10:07.519Z"}},
    {"type": "session.guard.tripped", "data": GUARD | {"at": 1796061161381}},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_turn_that_its_own_guard_ends_was_interrupted(shape: Json) -> None:
    s = Stream().working()
    assert s.tell(json.dumps(shape).encode()) == []
    assert s.tracks.get("ses_1").guarded
    assert s.idle()[0] == g.TurnEnded(0, "interrupted", guarded=True)
    s.asked("msg_2u")
    s.busy()
    assert not s.tracks.get("ses_1").guarded


@pytest.mark.parametrize(
    ("words", "guarded"),
    [("stopped: no output for 10m", True), ("Aborted", False), ("he said stopped: so", False), (7, False)],
)
def test_the_words_of_an_end_say_whether_its_own_guard_made_it(words: Any, guarded: bool) -> None:
    """Its event is told once and never again: after a break only the message is left."""
    s = Stream().working()
    s.completed(error={"name": "MessageAbortedError", "data": {"message": words}})
    assert s.idle()[0] == g.TurnEnded(0, "interrupted", guarded=guarded)


def test_words_that_somebody_else_wrote_are_no_guards() -> None:
    s = Stream().working()
    failed = {"name": "APIError", "data": {"message": "stopped: no output for 10m"}}
    s.completed(error=failed)
    s.error("APIError")
    assert s.idle()[0] == g.TurnEnded(0, "failed")


def test_a_turn_ended_by_its_guard_has_one_rest_and_no_error_and_the_next_one_is_free() -> None:
    s = Stream().working()
    s.at(300).tell(json.dumps(SHAPES[0] | {"properties": GUARD | {"action": "warn"}}).encode())
    s.at(600).tell(json.dumps(SHAPES[0]).encode())
    s.completed(error={"name": "MessageAbortedError", "data": {"message": "stopped: no output for 10m"}})
    told = s.status("idle") + s.tell(event("session.idle", sessionID="ses_1"))
    assert [type(signal) for signal in told] == [g.TurnEnded, g.Status]
    assert s.seen().turns["interrupted"] == 1
    s.at(700).asked("msg_2u")
    s.busy()
    s.answer("msg_2a", "msg_2u")
    s.completed("msg_2a", "msg_2u", finish="stop")
    assert s.idle()[0] == g.TurnEnded(700, "completed")


@pytest.mark.parametrize(
    ("change", "configured", "attended"),
    [
        ({"detail": "no output for 5m"}, None, True),
        ({"detail": "no output for 5m, ending it at 12:10"}, None, None),
        ({"detail": "no output for 5m"}, False, None),
        ({"guard": "loop", "detail": "the same call 3 times"}, None, None),
    ],
)
def test_a_warning_of_the_guard_hints_at_who_sits_there(
    change: Json, configured: bool | None, attended: bool | None
) -> None:
    s = Stream(attended=configured).working()
    told = s.tell(event("session.next.guard.tripped", **(GUARD | {"action": "warn"} | change)))
    assert told == ([] if attended is None else [g.Described(0, attended=attended)])
    assert not s.tracks.get("ses_1").guarded


def test_a_richer_status_is_used() -> None:
    s = Stream().working()
    assert s.status("busy", phase="thinking", since=0) == []
    assert s.status("busy", phase="compacting", since=0) == [g.CompactionStarted(0)]
    assert s.status("busy", phase="tool", tool="mcp_x", since="now") == [
        g.CompactionEnded(0),
        g.ToolStarted(0, "status-mcp_x", "mcp_x"),
    ]
    assert s.status("busy", phase="tool", tool="mcp_x") == []
    assert s.tool("running", tool="mcp_x") == [
        g.ToolEnded(0, "status-mcp_x", echo=True),
        g.ToolStarted(0, "call_1", "mcp_x"),
    ]
    assert s.status("busy", phase="tool", tool="other") == []
    s.tool("completed", tool="mcp_x")
    assert s.status("busy", phase="tool", tool="other") == [g.ToolStarted(0, "status-other", "other")]
    assert s.status("busy", phase="writing") == [g.ToolEnded(0, "status-other", echo=True)]


def test_the_richer_status_outlasts_a_tool_that_the_stream_lost() -> None:
    """A silent tool that only the status knows is no model that hangs, however long."""
    s = Stream().working()
    s.status("busy", phase="tool", tool="bash", step=2, since=1)
    s.fleet.tick(6 * 3600.0)
    assert s.seen().phase == "tool"
    assert s.seen().verdicts == []


def test_the_richer_status_moves_no_clock() -> None:
    s = Stream().working()
    s.at(10).delta("x")
    for n, phase in enumerate(("preparing", "thinking", "writing", "thinking"), 2):
        assert s.at(10.0 * n).status("busy", phase=phase, step=n, since=10_000 * n) == []
    assert s.seen().silence(50) == 40


def test_a_status_that_nobody_knows_means_that_it_is_at_work() -> None:
    s = Stream()
    s.created()
    s.asked()
    assert does(s.status("image_processing"))


def test_events_are_counted_by_what_they_are() -> None:
    s = Stream().working()
    s.delta("x")
    s.tell(event("server.heartbeat"))
    s.tell(event("something.new", sessionID="ses_1"))
    s.tell(b"{half")
    s.tell(event("session.status", sessionID=7))
    s.decoder.oversized()
    (told,) = s.decoder.counted("ses_1", 1)
    assert told.signal == g.Records(1, progress=2, presence=4, unknown=1, malformed=2, oversized=1)
    assert s.decoder.counted("ses_1", 2) == []


def test_many_sessions_are_forgotten_but_none_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.agents.opencode.tracks.MOST", 20)
    s = Stream().working()
    for n in range(100):
        s.created(f"ses_{n + 2}")
    assert len(s.tracks.all) <= 20
    assert "ses_1" in s.tracks.all


LINES = [
    json.loads(line)["data"]
    for case in ("perm", "task_normal", "plain_global", "e500")
    for line in (ROOT / "opencode" / "1.18.33" / case / "events.jsonl").read_text().splitlines()
]
JUNK = st.sampled_from([None, 7, -1.5, "x", True, [], {}, [1], {"id": 3}, "ses_1"])


def damaged(value: Any, draw: st.DataObject) -> Any:
    """The value with some of its parts replaced or gone."""
    if draw.draw(st.integers(0, 9)) == 0:
        return draw.draw(JUNK)
    if isinstance(value, dict):
        return {key: damaged(part, draw) for key, part in value.items() if draw.draw(st.integers(0, 9))}
    return value


@given(st.lists(st.integers(0, len(LINES) - 1), min_size=1, max_size=20), st.data())
def test_no_order_and_no_damage_stops_the_decoder(order: list[int], draw: st.DataObject) -> None:
    tracks = Tracks(RecordedClock(1e12))
    decoder = Decoder(tracks)
    for n in order:
        decoder.feed(json.dumps(damaged(LINES[n], draw)).encode(), 1.0)


def test_a_piece_that_ends_in_half_a_character_is_progress_too() -> None:
    s = Stream().working()
    s.part("text", text="")
    assert does(s.delta("cut \ud83d"))
