"""Lines to records, damaged ones included."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.sources.records import DAMAGE, Decoded, Records, mending


class Record(msgspec.Struct):
    type: str
    n: int | None = None


RECORDS = Records(Record)


def decode(line: bytes) -> tuple[list[str], int, int]:
    decoded = RECORDS.decode(line)
    return [record.type for record in decoded.records], decoded.malformed, decoded.repaired


GOOD = b'{"type":"a","n":1}'


@pytest.mark.parametrize(
    ("line", "types"),
    [
        (GOOD, ["a"]),
        (b' {"type": "a", "unknown": [{"type": "x"}]} \r', ["a"]),
        (b'{"type":"a","skipped":"\xff\xfe"}', ["a"]),
        (b'{"type":"\\ud83d\\ude00 \\\\ud83d"}', ["😀 \\ud83d"]),
        ('{"type":"\u2028\u0085"}'.encode(), ["\u2028\u0085"]),
    ],
    ids=["plain", "spaced", "not-utf8-in-a-skipped-field", "surrogates-in-a-pair", "line-separators"],
)
def test_sound_lines_take_no_repair(line: bytes, types: list[str]) -> None:
    assert decode(line) == (types, 0, 0)


@pytest.mark.parametrize(
    ("line", "types"),
    [
        (b"\xef\xbb\xbf" + GOOD, ["a"]),
        (b"\0" * 9000 + GOOD, ["a"]),
        (GOOD + b"\0" * 143_000, ["a"]),
        (b'{"type":"a\xffb"}', ["a\ufffdb"]),
        (b'{"type":"\xed\xa0\xbd"}', ["\ufffd\ufffd\ufffd"]),
        (b'{"type":"\\ud83d"}', ["\ufffd"]),
        (b'{"type":"\\uDE00x\\uD83D"}', ["\ufffdx\ufffd"]),
        (b'{"type":"\\ud83d\\ud83d\\ude00\\ude00"}', ["\ufffd😀\ufffd"]),
        (b'{"type":"\\\\\\ud83d \\\\ud83d"}', ["\\\ufffd \\ud83d"]),
        (b'{"type":"a","skipped":"\\ud83d"}', ["a"]),
        (b'{"type":"\\ud83d\\u0041"}', ["\ufffdA"]),
    ],
    ids=[
        "bom",
        "nuls-before",
        "nuls-after",
        "not-utf8",
        "surrogate-as-utf8",
        "high-alone",
        "capital-halves",
        "pair-between-halves",
        "behind-a-backslash",
        "half-in-a-skipped-field",
        "half-before-another-escape",
    ],
)
def test_damaged_text_is_mended(line: bytes, types: list[str]) -> None:
    assert decode(line) == (types, 0, 1)


@pytest.mark.parametrize(
    ("line", "types", "malformed"),
    [
        (b'{"type":"a"}{"type":"b"}', ["a", "b"], 0),
        (b'{"type":"a"} {"type":"b"}\0{"type":"c"}', ["a", "b", "c"], 0),
        (b'{"type":"a"}{"type":"b', ["a"], 1),
        (b'{"type":"a"}rubbish', ["a"], 1),
        (b'{"type":"a"}}', ["a"], 1),
        (b'{"cut{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":"cut{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":"cut{"type":"a"}{"type":"b"}', ["a", "b"], 1),
        (b'{"type":"x","text":"cu\xf0\x9f{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":"cut\\{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":"cut\\u00{"type":"a"}', ["a"], 1),
        (b'{"type":"x","n":tr{"type":"a"}', ["a"], 1),
        (b'{"type":"x","n":12{"type":"a"}', ["a"], 1),
        (b'{"type":"x",{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":[1,{"b":"cut{"type":"a"}', ["a"], 1),
        (b'{"a":"cut{"b":"cut{"type":"a"}', ["a"], 1),
        (b'{"type":1}{"type":"a"}', ["a"], 1),
        (b'{"a":"cut' * 15 + b'{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":"{\\"type\\":\\"y\\"} cut{"type":"a"}', ["a"], 1),
        (b'{"type":"x","text":"\\ud83d cut{"type":"\\ud83d"}', ["\ufffd"], 1),
    ],
)
def test_whole_records_are_saved_from_a_broken_line(line: bytes, types: list[str], malformed: int) -> None:
    assert decode(line) == (types, malformed, len(types))


@pytest.mark.parametrize(
    "line",
    [
        b"rubbish",
        b"[]",
        b"null",
        b"17",
        b'"text"',
        b'["{\\"type\\":\\"x\\"}"]',
        b"{}",
        b'{"type":17}',
        b'{"type":"x","n":"1"}',
        b'{"type":"x","n":' + b"9" * 5000 + b"}",
        b'{"type":"x"',
        b'{"type":"x\ty"}',
        b'{"type":"x","text":"{\\"type\\":\\"y\\"}',
        b'{"type":"x","text":"he said {"type":"y"}"}',
        b'{"n":12oops,"message":{"type":"y"}',
        b'{"n":1,"message":{"type":"y"}',
        b'{"n":1,"message": {"type":"y"}',
        b'{"n":' + b"[" * 100_000,
        b'{"n":' + b'{"n":' * 100_000,
        b'{"text":"cut{"n":' + b"[" * 100_000,
        b"\xff\xfe\x00\x01",
        b"{" * 50,
    ],
)
def test_a_broken_line_costs_one_record(line: bytes) -> None:
    assert decode(line) == ([], 1, 0)


def test_numbers_too_long_for_python_do_not_hide_the_next_record() -> None:
    assert decode(b'{"k":' + b"9" * 5000 + b'}{"type":"a"}') == (["a"], 1, 1)


@pytest.mark.parametrize("line", [b"", b" ", b"\0" * 143_000, b"\0\r"])
def test_padding_alone_is_no_loss(line: bytes) -> None:
    assert RECORDS.decode(line) == Decoded([])


def test_a_broken_message_leaves_the_envelope_usable() -> None:
    class Envelope(msgspec.Struct):
        type: str
        message: msgspec.Raw = msgspec.Raw(b"null")

    class Message(msgspec.Struct):
        role: str

    line = b'{"type":"a","message":{' + b",".join(b'"%d":""' % n for n in range(3000)) + b"}}"
    (envelope,) = Records(Envelope).decode(line).records
    assert envelope.type == "a"
    assert Records(Message).decode(bytes(envelope.message)).malformed == 1


def test_a_long_line_of_pairs_and_halves_takes_linear_time() -> None:
    line = b'{"type":"' + b"\\ud83d\\ude00\\\\" * 100_000 + b'\\ud83d"}'
    assert decode(line) == (["😀\\" * 100_000 + "\ufffd"], 0, 1)


def test_a_line_of_nothing_but_beginnings_is_given_up() -> None:
    assert decode(b'{"a":"cut' + b'{"{"' * 100_000) == ([], 1, 0)


KEYS = st.sampled_from(["type", "text", "n", "{", '"', "ke\\y"])
TEXTS = st.text(max_size=30) | st.sampled_from(['{"type":"x"}', '{\\"type\\":1}', '":{"', "}{", "\\", "😀"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


class Anything(msgspec.Struct):
    id: str
    value: Any = None


def record(name: str, value: object, *, ascii_only: bool) -> bytes:
    return json.dumps({"id": name, "value": value}, separators=(",", ":"), ensure_ascii=ascii_only).encode()


@given(first=VALUES, second=VALUES, cut=st.integers(1, 400), ascii_only=st.booleans())
@example(first=1, second=1, cut=9, ascii_only=True)
def test_a_record_cut_short_never_takes_the_next_one_along(
    first: object, second: object, cut: int, *, ascii_only: bool
) -> None:
    broken = record("broken", first, ascii_only=ascii_only)
    broken = broken[: 1 + cut % (len(broken) - 1)]
    whole = record("whole", second, ascii_only=ascii_only)
    if broken.endswith((b":", b"[", b",")):
        return  # the next record stands where a value may
    decoded = Records(Anything).decode(broken + whole)
    assert [found.id for found in decoded.records] == ["whole"]
    assert decoded.malformed == 1


@given(values=st.lists(VALUES, min_size=1, max_size=4), ascii_only=st.booleans())
def test_records_without_a_newline_between_them(values: list[object], *, ascii_only: bool) -> None:
    line = b"".join(record(str(n), value, ascii_only=ascii_only) for n, value in enumerate(values))
    decoded = Records(Anything).decode(line)
    assert [found.id for found in decoded.records] == [str(n) for n in range(len(values))]
    assert decoded.malformed == 0


@given(st.binary(max_size=200) | st.text('{}[]":,\\u d8f1a', max_size=80).map(str.encode))
def test_no_line_raises(line: bytes) -> None:
    decoded = RECORDS.decode(line)
    assert all(found.type.encode() is not None for found in decoded.records)


def test_half_a_character_makes_no_answer_unreadable() -> None:
    shape = msgspec.json.Decoder(list[Record]).decode
    assert mending(shape, b'[{"type":"a","title":"cut \\ud83d"},{"type":"b\\ude00"}]') == [
        Record("a"),
        Record("b\ufffd"),
    ]


@pytest.mark.parametrize(
    "answer", [b"<html>", b'[{"type":"\xff"}]', b'[{"type":"a"}]\0', b'[{"type":"\\ud83d"']
)
def test_nothing_else_of_an_answer_is_guessed_at(answer: bytes) -> None:
    with pytest.raises(DAMAGE):
        mending(msgspec.json.Decoder(list[Record]).decode, answer)
