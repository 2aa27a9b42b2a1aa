"""Bytes to lines, in every cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.sources.framing import ANCHOR, Lines, cut

NO_CAP = 1 << 30


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def fed(lines: Lines, *pieces: bytes) -> list[bytes]:
    return [line for piece in pieces for line in cut(lines.feed(piece))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"half", []),
        (b"a\nb\nhalf", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\n  \n\t\r\na\n\n", [b"a"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"\xef\xbb\xbf\na\n", [b"a"]),
        ('"\u2028\u2029\u0085\v\f\x1c"\n'.encode(), ['"\u2028\u2029\u0085\v\f\x1c"'.encode()]),
    ],
    ids=["nothing", "half", "two", "crlf", "blank", "bom", "only-bom", "other-separators"],
)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_lines_end_at_newlines_only(data: bytes, expected: list[bytes], step: int) -> None:
    lines = Lines(NO_CAP)
    assert fed(lines, *(data[at : at + step] for at in range(0, len(data), step))) == expected


def test_a_multibyte_character_is_never_cut() -> None:
    text = '{"t":"äöü 😀 ∂"}'.encode()
    lines = Lines(NO_CAP)
    assert fed(lines, *((text + b"\n")[at : at + 7] for at in range(0, 40, 7))) == [text]


@pytest.mark.parametrize("length", [62, 63, 64, 65, 127, 128, 129])
def test_a_newline_at_the_edge_of_a_piece(length: int) -> None:
    line = b"x" * length
    data = (line + b"\n") * 3
    lines = Lines(NO_CAP)
    assert fed(lines, *(data[at : at + 64] for at in range(0, len(data), 64))) == [line] * 3
    assert (lines.pending, lines.partial) == (0, 0)


def test_an_over_long_line_is_given_up_without_being_kept() -> None:
    lines = Lines(cap=100)
    kept = 0
    for _ in range(1000):
        assert lines.feed(b"x" * 50) == b""
        kept = max(kept, len(lines._held))
    assert kept <= 100
    assert lines.partial == 0
    assert lines.pending == 50_000
    assert cut(lines.feed(b"x\nnext\n")) == [b"next"]
    assert lines.oversized == 1


@pytest.mark.parametrize("length", [99, 100, 101])
@pytest.mark.parametrize("step", [1, 40, 1000])
def test_the_cap_is_the_longest_line_kept(length: int, step: int) -> None:
    data = b"a\n" + b"x" * length + b"\nb\n"
    lines = Lines(cap=100)
    got = fed(lines, *(data[at : at + step] for at in range(0, len(data), step)))
    assert got == ([b"a", b"x" * length, b"b"] if length <= 100 else [b"a", b"b"])
    assert lines.oversized == (length > 100)


def test_rewind_forgets_the_unfinished_line_only() -> None:
    lines = Lines(NO_CAP)
    assert lines.feed(b"one\nhal") == b"one\n"
    assert (lines.partial, lines.echo) == (3, b"hal")
    lines.rewind()
    assert lines.feed(b"half\n") == b"half\n"


ATOMS = st.sampled_from(
    [b"\n", b"\r\n", b"a", b"bc", b" ", b"\xef\xbb\xbf", b"\0", "\u2028".encode(), b"x" * 90]
)


@given(
    data=st.lists(ATOMS, max_size=60).map(b"".join),
    places=st.lists(st.integers(0, 10_000), max_size=8),
    cap=st.sampled_from([1, 50, 100, NO_CAP]),
)
def test_no_cut_changes_the_lines(data: bytes, places: list[int], cap: int) -> None:
    lines = Lines(cap)
    got = fed(lines, *pieces(data, places))
    whole = data.split(b"\n")
    rest = whole.pop()
    if whole and len(whole[0]) <= cap:
        whole[0] = whole[0].removeprefix(b"\xef\xbb\xbf")
    assert got == [line.strip() for line in whole if len(line) <= cap and line.strip()]
    assert lines.oversized == sum(len(line) > cap for line in [*whole, rest])
    assert lines.pending == len(rest)
    assert lines.anchor == data[: len(data) - len(rest)][-ANCHOR:]
    assert lines.echo == rest[-ANCHOR:]
