"""What the host reads in passing: lines, messages, new text. No process, no clock."""

from __future__ import annotations

import ast
import itertools
import json
import sys
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import host
from sidecar.host import Answers, Lines, Novelty, Sieve, clean, kind_of, order_of

STATE = b'{"type":"system","subtype":"session_state_changed","state":"idle"}\n'

# Streams of short and long lines, some of which look like ours, with and without a last line's end.
pieces = st.one_of(
    st.binary(max_size=40),
    st.just(STATE[:-2] + b',"x":"' + b"x" * 70_000),
    st.sampled_from(
        [b"\n", STATE, STATE.replace(b'":"', b'": "'), STATE[:30], b'{"type":"sys', b"x" * 70_000]
    ),
    st.sampled_from(
        [b'{"a":1,"type":"system"}\n', b'{"type":"assistant"', b"\r\n", b"\xe2\x80\xa8", b"{}\n"]
    ),
)
streams = st.lists(pieces, max_size=30).map(b"".join)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(marks)]


def strain(sieve: Sieve, chunks: list[bytes]) -> bytes:
    return b"".join(sieve.feed(chunk) for chunk in chunks) + sieve.rest()


def sieve_of(answers: Answers) -> Sieve:
    return Sieve(answers.may_hold, answers.is_ours, answers.may_become)


@given(streams, st.lists(st.integers(min_value=0), max_size=30))
def test_a_stream_without_lines_of_ours_passes_unchanged_however_it_is_cut(
    stream: bytes, places: list[int]
) -> None:
    assert strain(sieve_of(Answers(hide_states=False)), cut(stream, places)) == stream


@given(streams, st.lists(st.integers(min_value=0), max_size=30))
def test_only_whole_lines_of_ours_are_taken_out_however_the_stream_is_cut(
    stream: bytes, places: list[int]
) -> None:
    answers = Answers(hide_states=True)
    lines = stream.split(b"\n")
    kept = [line for line in lines[:-1] if len(line) > host.LINE_LIMIT or not answers.is_ours(line)]
    expected = b"".join(line + b"\n" for line in kept) + lines[-1]
    assert strain(sieve_of(answers), cut(stream, places)) == expected


@given(streams, st.lists(st.integers(min_value=0), max_size=30))
def test_lines_are_the_same_however_the_stream_is_cut(stream: bytes, places: list[int]) -> None:
    lines = Lines(100)
    heads = [head for chunk in cut(stream, places) for head in lines.feed(chunk)]
    assert heads == [line[:100] for line in stream.split(b"\n")[:-1]]


@given(streams, st.lists(st.integers(min_value=0), max_size=30))
def test_no_more_than_a_line_of_64_kib_is_ever_held_back(stream: bytes, places: list[int]) -> None:
    sieve = sieve_of(Answers(hide_states=True))
    fed = passed = taken = 0
    for chunk in cut(stream, places):
        fed += len(chunk)
        passed += len(sieve.feed(chunk))
        taken = stream[:fed].count(b"session_state_changed") * len(STATE) * 2
        assert fed - passed - taken <= host.LINE_LIMIT


def test_a_line_that_cannot_be_ours_passes_before_it_has_ended() -> None:
    answers = Answers(hide_states=True)
    answers.ask("interrupt")
    for begun in (
        b"plain text",
        b"[",
        b'{"type":"assistant","mess',
        b'{ "type" : "result"',
        b"\xff\xfe",
        b" x",
    ):
        assert sieve_of(answers).feed(begun) == begun


def test_a_line_that_may_be_ours_is_held_until_it_tells() -> None:
    sieve = sieve_of(Answers(hide_states=True))
    assert sieve.feed(b'{"type":"system","sub') == b""
    assert sieve.feed(b'type":"init"') == b'{"type":"system","subtype":"init"'


def test_a_line_that_may_be_ours_but_is_too_long_is_passed_on() -> None:
    sieve = sieve_of(Answers(hide_states=True))
    begun = STATE[:-2] + b',"x":"'
    assert sieve.feed(begun) == b""
    more = b"x" * host.LINE_LIMIT
    assert sieve.feed(more) == begun + more
    assert sieve.feed(b'"}\n') == b'"}\n'
    whole = begun + more + b'"}\n'
    assert sieve.feed(whole) == whole


def test_a_line_of_60_mb_is_read_in_one_pass() -> None:
    copied = 0

    class Counting(bytearray):
        def __iadd__(self, more: Any) -> Self:  # type: ignore[misc] # only this one counts
            nonlocal copied
            copied += len(more)
            return super().__iadd__(more)

    lines, sieve = Lines(), sieve_of(Answers(hide_states=True))
    lines._head = Counting()
    sieve._held = Counting()
    chunk = b"x" * 65_536
    sieve.feed(b'{"type":"')
    for _ in range(60 * 16):
        lines.feed(chunk)
        sieve.feed(chunk)
    assert copied < 3 * host.LINE_LIMIT


def test_an_answer_is_ours_only_by_an_id_that_we_made() -> None:
    answers = Answers(hide_states=False)
    question, _ = answers.ask("interrupt")
    name = json.loads(question)["request_id"]
    ours = {"type": "control_response", "response": {"subtype": "success", "request_id": name}}
    theirs = {"type": "control_response", "response": {"subtype": "success", "request_id": "r1"}}
    theirs["x"] = name
    quoting = {"type": "assistant", "message": f"the id is {name}"}
    assert answers.is_ours(json.dumps(ours).encode())
    assert answers.is_ours(json.dumps({"response": ours["response"], "type": "control_response"}).encode())
    assert not answers.is_ours(json.dumps(theirs).encode())
    assert not answers.is_ours(json.dumps(quoting).encode())
    assert len(name) > 32
    assert name != json.loads(answers.ask("interrupt")[0])["request_id"]


def test_a_state_event_is_ours_only_where_we_switched_it_on() -> None:
    assert Answers(hide_states=True).is_ours(STATE)
    assert not Answers(hide_states=False).is_ours(STATE)
    quoting = json.dumps({"type": "assistant", "text": "session_state_changed"}).encode()
    assert not Answers(hide_states=True).is_ours(quoting)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"type":"user","message":1}', b"user"),
        (b' { "type" : "result" }', b"result"),
        (b'{"duration":1,"nested":{"type":"user"},"type":"result"}', b"result"),
        (b'{"nested":{"type":"result"}}', b""),
        (b'{"type":"result"', b"result"),
        (b'{"x":1,"type":"result"', b""),
        (b'{"x":1,"type":["result"]}', b""),
        (b'["type","user"]', b""),
        (b'{"x":' + b"[" * 50_000 + b'"type":"user"', b""),
        (b"\xff\xfe", b""),
        (b"", b""),
    ],
)
def test_the_kind_of_a_message_is_its_own_type_wherever_it_stands(line: bytes, kind: bytes) -> None:
    assert kind_of(line) == kind


def streamed(parent: str | None = None, **event: object) -> bytes:
    message = {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": parent}
    return json.dumps(message, separators=next(SPACINGS)).encode()


SPACINGS = itertools.cycle([(",", ":"), (", ", ": ")])  # the agent writes none, another may


def delta(text: str, parent: str | None = None, key: str = "text") -> bytes:
    kind = {"partial_json": "input_json"}.get(key, key)
    delta = {"type": f"{kind}_delta", key: text}
    return streamed(parent, type="content_block_delta", index=0, delta=delta)


def event(kind: str) -> bytes:
    return streamed(type=kind)


texts = st.lists(st.text(max_size=8), min_size=1, max_size=8)


@given(texts, texts, st.integers(min_value=0, max_value=8))
def test_text_is_new_from_where_the_last_attempt_ended_however_it_is_cut_and_spelled(
    before: list[str], after: list[str], kept: int
) -> None:
    novelty = Novelty()
    novelty.grows(event("message_start"))
    said = 0
    for text in before[:kept]:
        assert novelty.grows(delta(text)) == bool(text)
        said += len(json.dumps(text)) - 2
    novelty.grows(event("message_start"))
    again = 0
    for text in after:
        again += len(json.dumps(text)) - 2
        assert novelty.grows(delta(text)) == (again > said)
        said = max(said, again)


def test_only_text_that_has_not_been_there_is_new() -> None:
    novelty = Novelty()
    assert not novelty.grows(event("message_start"))
    assert [novelty.grows(delta(text)) for text in ("one ", "two ", "")] == [True, True, False]
    novelty.grows(event("message_start"))  # the message is streamed again
    assert [novelty.grows(delta(text)) for text in ("one ", "two", " ", "!")] == [False, False, False, True]


def test_the_next_message_is_new_however_short() -> None:
    novelty = Novelty()
    novelty.grows(delta("a long message"))
    novelty.grows(event("message_stop"))
    novelty.grows(event("message_start"))
    assert novelty.grows(delta("a"))


def test_thinking_and_tool_input_are_text_too_and_signatures_are_not() -> None:
    novelty = Novelty()
    assert novelty.grows(delta("hm", key="thinking"))
    assert novelty.grows(delta('{"a', key="partial_json"))
    assert not novelty.grows(delta("c2ln", key="signature"))
    turned = {"type": "content_block_delta", "delta": {"text": "x", "type": "text_delta"}}
    assert novelty.grows(json.dumps({"event": turned, "type": "stream_event"}).encode())


def test_a_subagents_text_is_counted_by_itself() -> None:
    novelty = Novelty()
    novelty.grows(delta("a long text of the parent's"))
    novelty.grows(event("message_start"))
    assert novelty.grows(delta("short", parent="toolu_1"))
    assert not novelty.grows(delta("short"))


def test_a_reason_is_one_bounded_line_without_control_characters() -> None:
    assert clean("a\nb\x1b[31m\u2028\u202e\ud800c\x00", 500).split() == ["a", "b", "[31m", "c"]
    assert len(clean("x" * 10_000, 500)) == 500


@given(st.text())
def test_a_reason_never_breaks_the_line_it_is_written_in(text: str) -> None:
    said = clean(text, 500)
    assert said.isprintable()
    assert len(said.splitlines()) <= 1


def test_an_order_without_a_reason_gets_one() -> None:
    assert order_of(b"").reason
    assert order_of(b'{"turn":null,"reason":"\\n"}').reason


def test_the_file_is_valid_for_python_3_9_and_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(host.__file__).read_text(), feature_version=(3, 9))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    sources = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names} | {
        node.module or "." for node in sources
    }
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
