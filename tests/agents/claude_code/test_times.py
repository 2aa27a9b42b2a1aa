"""When a record counts: at its stamp where that can be believed, never before the one above it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agents.claude_code.times import FRESH, Times
from sidecar.clock import RecordedClock, iso, parse

NOW = 1_767_225_700.0
NEAR = st.floats(-10, 10).map(lambda seconds: NOW + seconds)
STAMPS = (
    st.none() | NEAR.map(iso) | NEAR.map(lambda wall: wall * 1000) | st.sampled_from(("soon", "", "2026"))
)


def times(arrival: float | None) -> Times:
    made = Times(RecordedClock(NOW))
    made.read(arrival)
    return made


@given(st.lists(STAMPS), st.none() | st.just(NOW))
def test_time_never_goes_back_and_never_lies_ahead(
    stamps: list[str | float | None], arrival: float | None
) -> None:
    file = times(arrival)
    told = [at for stamp in stamps if (at := file.at(stamp)) is not None]
    assert all(before <= after for before, after in pairwise(told))
    assert all(at <= NOW for at in told)
    assert file.last == (told[-1] if told else None)


@given(NEAR)
def test_what_arrives_soon_after_its_stamp_counts_at_the_stamp(wall: float) -> None:
    stamp = iso(wall)
    written = parse(stamp)
    assert written is not None
    fresh = 0 <= NOW - written <= FRESH
    assert times(NOW).at(stamp) == (written if fresh else NOW)
    assert times(None).at(stamp) == min(written, NOW)


@pytest.mark.parametrize("stamp", [None, "soon", "2026-13-01T00:00:00.000Z"])
def test_a_record_without_a_stamp_counts_with_the_one_above_it(stamp: str | None) -> None:
    file = times(None)
    assert file.at(stamp) is None
    assert file.at("2026-01-01T00:00:00.500Z") == file.at(stamp) == parse("2026-01-01T00:00:00.500Z")


@given(NEAR)
def test_a_turn_is_named_by_its_stamp_however_that_is_written(wall: float) -> None:
    stamp = iso(wall)
    for written in (stamp, stamp.replace("T", " "), stamp.replace("Z", "+00:00")):
        file = times(NOW)
        file.at(written)
        assert file.name(0.0) == stamp


def test_where_no_stamp_can_be_read_a_turn_is_named_by_when_it_came() -> None:
    file = times(NOW)
    file.at("soon")
    assert file.name(NOW) == iso(NOW)
    file.at(1_767_225_600_123)
    assert file.name(NOW) == "2026-01-01T00:00:00.123Z"
