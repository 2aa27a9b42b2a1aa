"""Events out of chunks: the same however they are cut, and bounded whatever comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.sources.sse import LONGEST_ID, Cutter, Sent

PIECES = b'data: {"a":1}\n\n: comment\n\nevent: x\r\ndata: one\r\ndata: two\r\n\r\ndata:three\n\nid: 4\n\ndata: half'


@given(st.lists(st.integers(0, len(PIECES)), max_size=20))
def test_events_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    cutter, done = Cutter(1_000), list[Sent]()
    edges = [0, *sorted(cuts), len(PIECES)]
    for start, stop in pairwise(edges):
        done += cutter.feed(PIECES[start:stop])
    assert done == [(b'{"a":1}', None), (b"one\ntwo", None), (b"three", None)]


@pytest.mark.parametrize("chunk", [1_000, 100_000])
def test_an_event_without_an_end_takes_no_memory(chunk: int) -> None:
    cutter = Cutter(50_000)
    assert cutter.feed(b"data: ") == []
    for _ in range(200):
        assert cutter.feed(b"x" * chunk) == []
        assert len(cutter._rest) <= 50_000 + chunk
    assert cutter.feed(b"\ndata: y\n\ndata: next\n\n") == [(b"", None), (b"next", None)]


def test_many_lines_of_one_event_count_together() -> None:
    assert Cutter(1_000).feed(b"data: 0123456789\n" * 200 + b"\ndata: z\n\n") == [(b"", None), (b"z", None)]


@pytest.mark.parametrize("piece", [b"x" * 4096, b"data: " + b"x" * 4096 + b"\n"], ids=["line", "lines"])
def test_one_that_must_be_whole_is_given_up(piece: bytes) -> None:
    cutter = Cutter(50_000, ConnectionError)
    with pytest.raises(ConnectionError, match="too large"):
        _ = [cutter.feed(piece) for _ in range(14)]


def test_the_newest_id_goes_with_an_event() -> None:
    wire = b"data: a\n\nid: 7\n\ndata: b\n\n"
    assert Cutter(99).feed(wire) == [(b"a", None), (b"b", "7")]
    assert Cutter(99, after="5").feed(wire) == [(b"a", "5"), (b"b", "7")]


@pytest.mark.parametrize("odd", ["x" * (LONGEST_ID + 1), "a\rb", "\N{SNOWMAN}"])
def test_an_odd_id_is_not_repeated(odd: str) -> None:
    assert Cutter(999, after="5").feed(f"id: {odd}\ndata: a\n\n".encode()) == [(b"a", "5")]


@given(st.binary(max_size=300))
def test_nothing_on_the_wire_raises(wire: bytes) -> None:
    Cutter(100).feed(wire + b"\n\n")
