"""What was seen lately is known, what was seen long ago is let go of."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from sidecar.agents.claude_code.remembered import Remembered


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(1, 6))
def test_the_last_values_are_known_and_new_ones_are_new(values: list[int], least: int) -> None:
    memory = Remembered[int](least)
    lately: deque[int] = deque(maxlen=least)
    ever: set[int] = set()
    for value in values:
        told = memory.seen(value)
        assert told or value not in lately
        assert value in ever or not told
        ever.add(value)
        if not told:
            lately.append(value)


def test_memory_is_bounded() -> None:
    memory = Remembered[int](10)
    for value in range(1000):
        assert not memory.seen(value)
    known = list(takewhile(memory.seen, reversed(range(1000))))
    assert 10 <= len(known) <= 21
