"""Events out of chunks: the same however they are cut, and bounded whatever comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.sources.sse import Cutter

PIECES = b'data: {"a":1}\n\n: comment\n\nevent: x\r\ndata: one\r\ndata: two\r\n\r\ndata:three\n\nid: 4\n\ndata: half'


@given(st.lists(st.integers(0, len(PIECES)), max_size=20))
def test_events_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    cutter, done = Cutter(1_000), list[bytes | None]()
    edges = [0, *sorted(cuts), len(PIECES)]
    for start, stop in pairwise(edges):
        done += cutter.feed(PIECES[start:stop])
    assert done == [b'{"a":1}', b"one\ntwo", b"three"]


@pytest.mark.parametrize("chunk", [1_000, 100_000])
def test_an_event_without_an_end_takes_no_memory(chunk: int) -> None:
    cutter = Cutter(50_000)
    assert cutter.feed(b"data: ") == []
    for _ in range(200):
        assert cutter.feed(b"x" * chunk) == []
        assert len(cutter._rest) <= 50_000 + chunk
    assert cutter.feed(b"\ndata: y\n\ndata: next\n\n") == [None, b"next"]


def test_many_lines_of_one_event_count_together() -> None:
    assert Cutter(1_000).feed(b"data: 0123456789\n" * 200 + b"\ndata: z\n\n") == [None, b"z"]
