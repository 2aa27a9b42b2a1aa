"""Claude Code's records as signals: what is work, what is only a sign of life."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar import signals as g
from sidecar.agents.claude_code.conversation import SETTLE, SETTLE_TUI
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import LiveClock, RecordedClock, iso
from tests.agents.claude_code.homes import WALL, stamp

SESSION = "748d9cee-5ae2-4993-9fd5-0e9e258913ca"
NOW = 100.0


def line(kind: str, ago: float | None = 0.0, **fields: Any) -> bytes:
    record: dict[str, Any] = {"type": kind, "sessionId": SESSION, "entrypoint": "sdk-cli"} | fields
    if ago is not None:
        record["timestamp"] = stamp(WALL - ago)
    return json.dumps(record).encode()


def user(content: Any, ago: float = 0.0, **fields: Any) -> bytes:
    return line(
        "user", ago, **({"promptId": "p1", "promptSource": "sdk"} | fields), message={"content": content}
    )


def assistant(
    *blocks: dict[str, Any], ago: float = 0.0, stop: str | None = "end_turn", **fields: Any
) -> bytes:
    message = {"id": fields.pop("id", "m1"), "model": fields.pop("model", "opus"), "content": list(blocks)}
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
    }
    return line("assistant", ago, message=message | {"stop_reason": stop, "usage": usage}, **fields)


TEXT = {"type": "text", "text": "a secret"}
BASH = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "a secret"}}
AGENT = {"type": "tool_use", "id": "c2", "name": "Agent", "input": {}}
RESULT = [{"type": "tool_result", "tool_use_id": "c1", "content": "a secret"}]


def decode(*lines: bytes, arrival: float | None = NOW, stem: str = SESSION) -> list[g.Signal]:
    clock = LiveClock(lambda: NOW, lambda: WALL)
    return [signal for _, signal in Transcript(stem, clock, by_entrypoint).feed(lines, arrival)]


def works(*lines: bytes) -> list[g.Signal]:
    """The signals without the session's facts and the counts."""
    return [s for s in decode(*lines) if not isinstance(s, g.SourceUp | g.Described | g.Records)]


def kinds(*lines: bytes) -> list[str]:
    return [type(signal).__name__ for signal in works(*lines)]


def counts(*lines: bytes) -> g.Records:
    return next(s for s in decode(*lines) if isinstance(s, g.Records))


def test_a_prompt_opens_a_turn_named_by_its_prompt_id() -> None:
    assert works(user("a secret")) == [g.TurnStarted(NOW, "p1", NOW)]


def test_a_prompt_without_an_id_is_named_by_its_stamp() -> None:
    (started,) = works(user("x", promptId=None))
    assert isinstance(started, g.TurnStarted)
    assert started.turn == stamp(WALL)


@pytest.mark.parametrize(
    ("says", "fields", "content"),
    [
        ("meta", {"isMeta": True}, "x"),
        ("a compact summary", {"isCompactSummary": True}, "x"),
        ("a command", {}, "<command-name>/clear</command-name>"),
        ("a command's output", {}, "<local-command-stdout>x</local-command-stdout>"),
        ("a command's output as a block", {}, [{"type": "text", "text": "<local-command-stdout>x"}]),
        ("a shell escape", {}, "<bash-input>ls</bash-input>"),
    ],
)
def test_a_user_line_that_is_no_prompt_opens_nothing(says: str, fields: dict[str, Any], content: Any) -> None:
    assert works(user(content, **fields)) == [], says


def test_a_line_without_a_source_opens_a_turn_only_in_files_that_never_name_one() -> None:
    old = user("x", promptSource=None)
    assert kinds(old) == ["TurnStarted"]
    assert kinds(user("y"), old) == ["TurnStarted"]


def test_an_interrupt_marker_ends_the_turn() -> None:
    for text in ("[Request interrupted by user]", "[Request interrupted by user for tool use]"):
        content = [{"type": "text", "text": text}]
        assert works(user(content, promptSource=None)) == [g.TurnEnded(NOW, "interrupted")]


def test_a_block_is_progress_and_the_last_one_a_provisional_end() -> None:
    name = iso(WALL)
    assert works(assistant(TEXT)) == [
        g.Progress(NOW, name),
        g.Used(NOW, "opus", 10, 5, 3, 2),
        g.TurnEnded(NOW, "completed", SETTLE),
    ]


def test_the_tui_waits_for_its_hooks_before_the_turn_has_ended() -> None:
    assert works(assistant(TEXT, entrypoint="cli"))[-1] == g.TurnEnded(NOW, "completed", SETTLE_TUI)


@pytest.mark.parametrize("stop", [None, "tool_use", "pause_turn"])
def test_a_message_that_goes_on_ends_nothing(stop: str | None) -> None:
    assert kinds(assistant(TEXT, stop=stop)) == ["Progress", "Used"]


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence", "max_tokens", "refusal"])
def test_a_message_that_stops_ends_the_turn(stop: str) -> None:
    assert kinds(assistant(TEXT, stop=stop))[-1] == "TurnEnded"


def test_the_usage_of_a_message_counts_once_though_every_line_repeats_it() -> None:
    assert kinds(assistant(TEXT, stop="tool_use"), assistant(BASH, stop="tool_use")).count("Used") == 1


def test_a_tool_runs_from_its_call_to_its_result() -> None:
    call, result = assistant(BASH, stop="tool_use"), user(RESULT, promptSource=None)
    signals = works(call, result)
    assert signals[2] == g.ToolStarted(NOW, "c1", "Bash", False, iso(WALL))
    assert signals[3] == g.ToolEnded(NOW, "c1")


def test_a_tool_that_the_model_invented_has_no_name() -> None:
    invented = BASH | {"name": "Bash rm -rf /secret"}
    assert works(assistant(invented, stop="tool_use"))[2] == g.ToolStarted(
        NOW, "c1", "unknown", False, iso(WALL)
    )


def test_an_open_tool_keeps_the_turn_open_whatever_the_message_says() -> None:
    assert "TurnEnded" not in kinds(assistant(BASH, stop="tool_use"), assistant(TEXT, id="m2"))


def test_the_agent_tool_delegates() -> None:
    signals = works(assistant(AGENT, stop="tool_use"))
    assert signals[-1] == g.ToolStarted(NOW, "c2", "Agent", True, iso(WALL))


def test_an_agent_sent_to_the_background_runs_until_its_notification() -> None:
    launched = user(RESULT, promptSource=None, toolUseResult={"isAsync": True, "status": "async_launched"})
    done = user("<task-notification>", promptId="p2", promptSource="system", turnOrigin="task_notification")
    signals = works(assistant(AGENT, stop="tool_use"), launched, done)
    assert [s.count for s in signals if isinstance(s, g.Background)] == [1, 0]


def test_the_turns_end_tells_how_many_agents_run_on() -> None:
    told = line("system", subtype="turn_duration", pendingBackgroundAgentCount=2)
    assert works(told) == [g.TurnEnded(NOW, "completed"), g.Background(NOW, 2)]
    assert works(line("system", subtype="turn_duration"))[1] == g.Background(NOW, 0)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ({"status": 529}, "overloaded"),
        ({"status": 429}, "rate_limit"),
        ({"status": 503}, "server_error"),
        ({"status": 418}, "other"),
        ({"connection": {"code": "ConnectionIdle"}}, "connection"),
        ({"connection": None}, "other"),
        ("text", "other"),
    ],
)
def test_a_failed_attempt_is_a_retry_with_its_cause_and_its_time(error: Any, cause: str) -> None:
    told = line("system", subtype="api_error", error=error, retryInMs=1500)
    assert works(told) == [g.Retrying(NOW, cause, NOW + 1.5)]


def test_a_retry_without_a_time_has_none() -> None:
    assert works(line("system", subtype="api_error", error={})) == [g.Retrying(NOW, "other", None)]


def synthetic(text: str = "API Error", **fields: Any) -> bytes:
    block = {"type": "text", "text": text}
    return assistant(
        block, model="<synthetic>", stop="stop_sequence", **({"isApiErrorMessage": True} | fields)
    )


def test_the_harnesss_own_error_ends_the_turn_as_failed() -> None:
    assert works(synthetic()) == [g.TurnEnded(NOW, "failed", SETTLE)]


@pytest.mark.parametrize(
    ("says", "record", "until"),
    [
        ("the epoch in the old text", synthetic(f"Claude AI usage limit reached|{int(WALL) + 60}"), NOW + 60),
        ("the new text alone", synthetic("You've hit your 5-hour limit · resets 8pm"), None),
        ("the word of the API", synthetic(apiError="usage_limit_reached"), None),
        ("the quota's number", synthetic(quotaLimits={"resetsAt": WALL + 90}), NOW + 90),
    ],
)
def test_a_usage_limit_is_one_however_it_is_told(says: str, record: bytes, until: float | None) -> None:
    assert works(record) == [g.Limited(NOW, until), g.TurnEnded(NOW, "failed", SETTLE)], says


def test_what_the_harness_says_in_the_models_place_is_not_work() -> None:
    assert works(synthetic("No response requested.", isApiErrorMessage=False)) == []


def test_the_torn_block_of_an_interrupt_is_not_work() -> None:
    assert works(assistant(TEXT, stop=None, isAbortedMidStream=True)) == []


def test_a_result_written_for_a_killed_tool_is_not_work() -> None:
    echoed = user(RESULT, promptSource=None, toolDenialKind="interrupted")
    assert works(echoed) == [g.ToolEnded(NOW, "c1", echo=True)]


def test_the_end_of_a_compaction_is_told() -> None:
    assert works(line("system", subtype="compact_boundary")) == [g.CompactionEnded(NOW)]


def test_bookkeeping_is_presence_and_what_nobody_knows_is_counted() -> None:
    book = [line(kind, None) for kind in ("ai-title", "mode", "api-request", "cost-state", "queue-operation")]
    odd = [line("brand-new"), line("system", subtype="brand-new"), line("assistant", message=7)]
    told = counts(user("x"), *book, line("system", subtype="stop_hook_summary"), *odd)
    assert (told.progress, told.presence, told.unknown) == (1, 6, 3)
    assert kinds(user("x"), *book, *odd) == ["TurnStarted"]


def test_malformed_and_oversized_lines_are_counted_and_stop_nothing() -> None:
    clock = LiveClock(lambda: NOW, lambda: WALL)
    found = Transcript(SESSION, clock, by_entrypoint).feed([b"{broken", user("x"), b"[]"], NOW, 2)
    told = next(s for _, s in found if isinstance(s, g.Records))
    assert (told.malformed, told.oversized, told.progress) == (2, 2, 1)


def test_an_arrival_soon_after_its_stamp_counts_at_the_stamp_and_any_other_when_it_came() -> None:
    assert works(user("x", ago=1.5))[0].at == NOW - 1.5
    assert works(user("x", ago=3600))[0].at == NOW, "a skewed clock invents no silence"
    assert works(user("x", ago=-3600))[0].at == NOW, "nor forgets one"


def test_what_lay_there_before_counts_at_its_stamp_and_never_in_the_future() -> None:
    old, odd = user("x", ago=50), user("y", ago=-50, promptId="p2")
    signals = [s for s in decode(old, odd, arrival=None) if isinstance(s, g.TurnStarted)]
    assert [s.at for s in signals] == [NOW - 50, NOW]


def test_the_clock_of_a_file_never_goes_back_and_the_unstamped_take_the_stamp_before() -> None:
    lines = [user("x", ago=50), assistant(TEXT, ago=60), line("user", None, message={"content": RESULT})]
    signals = [s for s in decode(*lines, arrival=None) if isinstance(s, g.Progress | g.ToolEnded)]
    assert [s.at for s in signals] == [NOW - 50, NOW - 50]


def test_a_stamp_in_milliseconds_is_one() -> None:
    assert (
        works(
            line(
                "user",
                None,
                timestamp=int((WALL - 1) * 1000),
                promptSource="sdk",
                promptId="p",
                message={"content": "x"},
            )
        )[0].at
        == NOW - 1
    )


def test_a_record_told_twice_counts_once() -> None:
    twice = assistant(TEXT, uuid="u1")
    assert kinds(twice, twice) == ["Progress", "Used", "TurnEnded"]


def test_what_belongs_to_another_session_is_only_presence() -> None:
    assert works(user("x", sessionId="11111111-2222-3333-4444-555555555555")) == []


def test_the_session_comes_from_the_records_where_the_name_is_none() -> None:
    transcript = Transcript("renamed", RecordedClock(WALL), by_entrypoint)
    assert {session for session, _ in transcript.feed([user("x")], None)} == {SESSION}


def sub(kind: str, **fields: Any) -> bytes:
    return line(kind, isSidechain=True, agentId="a1", **fields)


def test_a_subagents_file_is_a_session_of_its_own_that_its_first_prompt_opens() -> None:
    transcript = Transcript("agent-a1", RecordedClock(WALL), by_entrypoint)
    found = transcript.feed([sub("user", promptId="p1", message={"content": "x"})], None)
    assert {session for session, _ in found} == {"a1"}
    described = next(s for _, s in found if isinstance(s, g.Described))
    assert described.parent == SESSION
    assert [s.turn for _, s in found if isinstance(s, g.TurnStarted)] == ["p1"]
    assert transcript.subagent


def test_a_second_prompt_of_a_subagent_is_another_turn_though_it_names_the_same() -> None:
    first, second = (
        sub("user", promptId="p1", message={"content": "x"}),
        sub("user", promptId="p1", message={"content": "y"}),
    )
    started = [s for s in decode(first, second, stem="agent-a1") if isinstance(s, g.TurnStarted)]
    assert len({s.turn for s in started}) == 2


def test_a_subagents_records_in_its_parents_file_are_the_parents_progress_and_open_nothing() -> None:
    inline = line("assistant", isSidechain=True, message={"content": [BASH]})
    assert works(inline) == [g.Progress(NOW)]


def test_the_newest_entrypoint_says_who_sits_there() -> None:
    told = [s for s in decode(user("x", entrypoint="cli"), user("y")) if isinstance(s, g.Described)]
    assert [s.attended for s in told] == [True, False]
    assert by_entrypoint("s", None) is None


def test_no_content_is_in_any_signal() -> None:
    lines = [user("a secret"), assistant(TEXT, BASH, stop="tool_use"), user(RESULT), synthetic("a secret")]
    assert "secret" not in repr(decode(*lines))


def test_a_line_that_took_a_repair_is_kept_and_counted_once() -> None:
    torn = b'{"type":"assist' + user("x")
    bad = user("x", promptId="p-bad").replace(b"p-bad", b"p-\xff")
    for line_, turns in ((torn, 1), (bad, 1), (b"\xff\xfe\x00", 0)):
        told = decode(user("first"), line_)
        assert sum(isinstance(s, g.TurnStarted) for s in told) == 1 + turns
        assert next(s for s in told if isinstance(s, g.Records)).malformed == 1
