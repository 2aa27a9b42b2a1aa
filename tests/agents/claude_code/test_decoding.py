"""The short way through the decoder comes to the same as the long one, whatever a line looks like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.agents.claude_code import records as r
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import RecordedClock
from sidecar.sources.records import Blocks

if TYPE_CHECKING:
    from sidecar import signals as g

SESSION = "748d9cee-5ae2-4993-9fd5-0e9e258913ca"
NOW = 1_767_225_700.0

LOOKALIKES = (
    '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"x"}]}}',
    '","type":"user","promptSource":"sdk","x":"',
    '\\","type":"assistant","stop_reason":"end_turn',
    "[Request interrupted by user]",
    "<command-name>/clear</command-name>",
    "\u2028\u0085\x0b",
    "\ud83d",
)
TYPES = ("user", "assistant", "system", "api-request-blob", "attachment", "mode", "unheard-of", "")
WORDS = st.sampled_from((*LOOKALIKES, *TYPES, "text", "tool_use", "tool_result", "end_turn", "x", SESSION))
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 9) | WORDS
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(("text", "thinking", "tool_use", "tool_result")) | ANYTHING,
            "id": st.sampled_from(("c1", "c2")) | ANYTHING,
            "tool_use_id": st.sampled_from(("c1", "c2")) | ANYTHING,
            "name": st.sampled_from(("Bash", "Agent")) | ANYTHING,
            "text": WORDS | ANYTHING,
            "input": ANYTHING,
            "content": ANYTHING,
        },
    ),
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(("m1", "m2")) | ANYTHING,
        "model": st.sampled_from(("opus", "<synthetic>")) | ANYTHING,
        "stop_reason": st.sampled_from(("end_turn", "tool_use", None)) | ANYTHING,
        "usage": st.just({"input_tokens": 1, "output_tokens": 2}) | ANYTHING,
        "content": BLOCKS | WORDS | ANYTHING,
    },
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(TYPES),
    "subtype": st.sampled_from(("turn_duration", "api_error", "compact_boundary")) | ANYTHING,
    "timestamp": st.sampled_from(
        ("2026-01-01T00:00:00.123Z", "2026-01-01T00:01:00+00:00", "2026-01-01 00:02:00.000Z", "soon", 1, None)
    ),
    "sessionId": st.sampled_from((SESSION, "other", None)),
    "uuid": st.sampled_from(("u1", "u2", None)),
    "isSidechain": st.booleans() | ANYTHING,
    "agentId": st.sampled_from(("a1", None)),
    "isMeta": st.booleans(),
    "isApiErrorMessage": st.booleans(),
    "promptId": st.sampled_from(("p1", "p2", None)),
    "promptSource": st.sampled_from(("sdk", None)) | ANYTHING,
    "toolUseResult": st.just({"isAsync": True, "status": "async_launched"}) | ANYTHING,
    "message": MESSAGES | ANYTHING,
    "attachment": ANYTHING,
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Write a record with its keys in any order, some of them twice, some escaped."""
    names = draw(st.lists(st.sampled_from(tuple(FIELDS)), max_size=14))
    parts = []
    for name in names:
        key = json.dumps(name)
        if draw(st.integers(0, 9)) == 0:
            key = f'"\\u{ord(name[0]):04x}{name[1:]}"'
        parts.append(f"{key}:{json.dumps(draw(FIELDS[name]), ensure_ascii=draw(st.booleans()))}")
    return ("{" + ",".join(parts) + "}").encode("utf-8", "surrogatepass")


def feed(given_lines: list[bytes], arrival: float | None) -> list[g.Observation]:
    """All lines in one block, as they lie in a file."""
    block = b"".join(line + b"\n" for line in given_lines)
    return Transcript(SESSION, RecordedClock(NOW), by_entrypoint).feed([block], arrival)


def one_by_one(given_lines: list[bytes], arrival: float | None) -> list[g.Observation]:
    return Transcript(SESSION, RecordedClock(NOW), by_entrypoint).feed(given_lines, arrival)


def the_long_way(given_lines: list[bytes], arrival: float | None) -> list[g.Observation]:
    with patch.object(Blocks, "decode", return_value=None):
        return feed(given_lines, arrival)


DAMAGES = (b"", b" ", b"\r", b"\0", b"{", b"}", b'"', b"}{", b"\n", b"3}", b'{"a":', b"\xff", b"\xef\xbb\xbf")


@st.composite
def damaged_lines(draw: st.DrawFn) -> bytes:
    """Write a line with something wrong at an end or in the middle, or two records on it, or half of one."""
    line, other, piece = draw(lines()), draw(lines()), draw(st.sampled_from(DAMAGES))
    at = draw(st.integers(0, len(line)))
    spoilt = (line + piece, piece + line, line[:at] + piece + line[at:], line + other, line[:at] + other)
    return draw(st.sampled_from(spoilt))


@given(st.lists(lines() | damaged_lines(), max_size=6), st.sampled_from((None, NOW)))
@example([b'{"type":"user"}{"type":"user"}', b'{"type":\n"assistant"}'], NOW)
@example([b'{"type":"user"}{"type":"user"}', b'{"type":"user","message":\n{}}'], NOW)
@example([b'{"type":"user","message":{"content":[]}\n}{"type":"user"}'], NOW)
def test_a_block_says_what_its_lines_say(given_lines: list[bytes], arrival: float | None) -> None:
    assert feed(given_lines, arrival) == the_long_way(given_lines, arrival)


@given(st.lists(lines(), max_size=6), st.sampled_from((None, NOW)))
def test_blocks_may_be_cut_anywhere_between_lines(given_lines: list[bytes], arrival: float | None) -> None:
    assert feed(given_lines, arrival) == one_by_one(given_lines, arrival)


def test_lines_of_the_usual_shape_are_not_looked_at_one_by_one() -> None:
    text = json.dumps({"type": "user", "message": {"content": "what?"}, "toolUseResult": "Error: no"})
    results = json.dumps({"type": "user", "message": {"content": []}, "toolUseResult": [{"type": "text"}, 1]})
    block = f'{text}\n{results}\n{{"type":"mode"}}\n'.encode()
    found = Blocks(r.Line).decode(block)
    assert found is not None
    assert [line.type for line in found] == ["user", "user", "mode"]


@given(st.lists(lines(), max_size=6), st.sampled_from((None, NOW)))
@example([b'{"type":"mode","type":"assistant","timestamp":1,"message":{"content":[]}}'], NOW)
@example([b'{"type":"mode","\\u0074ype":"assistant","timestamp":1,"message":{"content":[]}}'], NOW)
def test_the_short_way_says_what_the_long_one_says(given_lines: list[bytes], arrival: float | None) -> None:
    assert feed(given_lines, arrival) == the_long_way(given_lines, arrival)


PROMPT = {"type": "user", "promptId": "p1", "promptSource": "sdk", "timestamp": "2026-01-01T00:00:00.000Z"}


def ends(line: str) -> list[str]:
    prompt = json.dumps(PROMPT | {"message": {"content": [{"type": "text", "text": "x"}]}})
    return [type(s).__name__ for _, s in feed([prompt.encode(), line.encode()], NOW)]


@pytest.mark.parametrize("text", LOOKALIKES[:4])
def test_what_stands_in_a_text_is_no_record(text: str) -> None:
    block = {"type": "tool_result", "tool_use_id": "c9", "content": text}
    told = ends(json.dumps({"type": "user", "message": {"content": [block]}}))
    assert told == ["SourceUp", "Described", "TurnStarted", "ToolEnded", "Records"]


def test_the_last_of_two_equal_keys_counts() -> None:
    line = '{"type":"mode","message":{"content":[]},"type":"assistant"}'
    assert "Progress" in ends(line)
    assert "Progress" not in ends(line.replace('"assistant"}', '"assistant","type":"mode"}'))


def test_an_escaped_key_is_that_key() -> None:
    assert "Progress" in ends('{"\\u0074ype":"assistant","message":{"content":[]}}')
    assert "Progress" not in ends('{"type":"assistant","\\u0074ype":"mode","message":{"content":[]}}')


SPELT = (
    "<command-name>/clear",
    "\\u003ccommand-name>/clear",
    "<command-\\ud83d",
    "<command-\xff",
    "what\xff",
    "what?",
    "what\\u0020\\ud83d?",
)


@pytest.mark.parametrize("text", SPELT)
@pytest.mark.parametrize(
    "content", ['"%s"', '[{"type":"thinking"},{"type":"text","text":"%s"},{"type":"text"}]']
)
def test_a_prompt_is_told_from_a_command_however_it_is_spelt(text: str, content: str) -> None:
    line = (json.dumps(PROMPT)[:-1] + ',"message":{"content":' + content % text + "}}").encode("latin-1")
    told = feed([line], NOW)
    assert told == the_long_way([line], NOW)
    assert any(type(signal).__name__ == "TurnStarted" for _, signal in told) == ("what" in text)


BROKEN = ("null", "7", "[7]", '[{"type":"tool_result","tool_use_id":"c9"},7]', '{"type":"text","text":"x"}')


@pytest.mark.parametrize("content", BROKEN)
def test_a_message_around_nothing_known_is_a_prompt_without_a_text(content: str) -> None:
    line = (json.dumps(PROMPT)[:-1] + ',"message":{"content":' + content + "}}").encode()
    told = [type(signal).__name__ for _, signal in feed([line], NOW)]
    assert told == ["SourceUp", "Described", "TurnStarted", "Records"]
