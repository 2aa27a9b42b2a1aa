"""Idle time: from when it counts, what puts it off, and how long a session is kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar import signals as g
from sidecar.fold import fold
from sidecar.life import lapsed
from sidecar.limits import Limit, Rules
from sidecar.policy import judge
from tests.stories import HOUR, MIN, RULES, block, delta, end, prompt, status, story, up, verdicts

REAPS = replace(RULES, idle=Limit(30 * MIN, "reap"))
RESTED = (up(), g.Registered(0), prompt(0), end(5))
PUT_OFF = g.Acted(1806, "reap", "t1", "idle", "superseded", "idle", intended=False)


@pytest.mark.parametrize("word", ["background", "busy", "waiting"])
def test_when_the_agent_stops_telling_of_its_work_the_idle_time_begins(word: g.Word) -> None:
    s = story(*RESTED, status(11, word), status(4000, None))
    assert verdicts(s, 4000 + 30 * MIN - 1, REAPS) == []
    assert verdicts(s, 4000 + 30 * MIN, REAPS) == [("idle", "reap")]


def test_when_it_stops_telling_that_it_is_idle_nothing_begins() -> None:
    s = story(*RESTED, status(11, "idle"), status(4000, None))
    assert verdicts(s, 11 + 30 * MIN, REAPS) == [("idle", "reap")]


def test_of_a_turn_that_was_left_the_rest_counts_from_the_idle_stamp_though_heard_later() -> None:
    idle = g.Status(900, "idle", 100)
    s = story(up(), g.Registered(0), prompt(0), status(1, "busy"), idle)
    fold(s, g.Acted(990, "report", "t1", "idle_in_turn", "reported", "idle_in_turn"))
    assert s.idle_since == 100


def test_a_word_that_ends_within_a_turn_is_no_rest() -> None:
    s = story(up(), g.Registered(0), prompt(0), status(11, "busy"), status(4000, None), end(4100))
    assert s.idle_since == 4100


def test_an_idle_reap_that_a_background_job_put_off_is_due_again_after_it() -> None:
    s = story(*RESTED, status(5, "idle"))
    assert verdicts(s, 1805, REAPS) == [("idle", "reap")]
    for x in (status(1806, "background"), PUT_OFF, status(4000, "idle")):
        fold(s, x)
    assert verdicts(s, 4000 + 30 * MIN - 1, REAPS) == []
    assert verdicts(s, 4000 + 30 * MIN, REAPS) == [("idle", "reap")]


def test_one_that_the_agent_itself_put_off_is_asked_for_again_an_idle_time_later() -> None:
    s = story(*RESTED)
    assert verdicts(s, 1805, REAPS) == [("idle", "reap")]
    fold(s, replace(PUT_OFF, intended=True))
    assert verdicts(s, 1806 + 30 * MIN - 1, REAPS) == [], "it said that something runs"
    assert verdicts(s, 1806 + 30 * MIN, REAPS) == [("idle", "reap")]


def test_what_was_carried_out_is_not_due_again() -> None:
    s = story(*RESTED)
    assert verdicts(s, 1805, REAPS) == [("idle", "reap")]
    fold(s, replace(PUT_OFF, outcome="ineffective"))
    assert verdicts(s, 9 * HOUR, REAPS) == []


@pytest.mark.parametrize("growth", [(), (delta(20),)])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_a_session_known_only_by_growth_is_dropped_before_its_idle_time_is_judged(
    growth: tuple[g.Signal, ...], jitter: float
) -> None:
    rules = replace(REAPS, jitter=jitter)
    s = story(up(), prompt(0), end(10), *growth, luck=1.0)
    dropped = next(now for now in range(1800, 3600) if lapsed(s, rules, now))
    assert dropped == (1820 if growth else 1810)
    assert not any(isinstance(said, g.Judged) for said in judge(s, rules, dropped - 1))


def test_a_held_one_is_judged_from_its_turns_end_and_not_dropped() -> None:
    s = story(up(), g.ProcessSeen(0, 7, 0), prompt(0), end(10), delta(20))
    assert verdicts(s, 1810, REAPS) == [("idle", "reap")]
    assert not lapsed(s, REAPS, 99 * HOUR)


def test_an_unused_session_is_reported_idle_though_never_reaped() -> None:
    s = story(up(), g.Registered(0), status(0, "idle"))
    assert verdicts(s, 30 * MIN, REAPS) == [("idle", "report")]


def test_a_weekly_limit_keeps_its_session_until_it_is_over() -> None:
    reset = 72 * HOUR
    for last in ((end(5, "failed"),), ()):
        s = story(up(), prompt(0), g.Limited(5, reset), *last)
        assert not lapsed(s, RULES, reset + 5 * MIN)
        assert verdicts(s, reset + 5 * MIN) == [("limited", "report")]
        assert not lapsed(s, RULES, reset + 6 * MIN), "whoever waited for it has his time"
    assert verdicts(s, reset + 51 * MIN) == [("model", "interrupt")]


def test_a_limit_told_again_without_its_reset_keeps_the_one_it_had() -> None:
    s = story(up(), prompt(0), g.Limited(5, 72 * HOUR), g.Limited(10))
    assert verdicts(s, 10 + 6 * HOUR) == []
    assert verdicts(s, 72 * HOUR + 5 * MIN) == [("limited", "report")]


def test_but_one_whose_reset_is_past_is_a_new_one() -> None:
    s = story(up(), prompt(0), g.Limited(5, 100), g.Limited(200))
    assert verdicts(s, 100 + 5 * MIN) == []
    assert verdicts(s, 200 + 6 * HOUR) == [("limited", "report")]


@pytest.mark.parametrize(
    ("told", "until"),
    [
        ([g.Limited(5, 100), g.Limited(100)], None),
        ([g.Limited(5, 100), g.Limited(50, 1000)], 1000),
        ([g.Limited(5, 1000), g.Limited(50, 100)], 100),
        ([g.Limited(5), g.Retrying(50, "other", 1050)], 1050),
        ([g.Limited(5, 9000), g.Retrying(50, "other", 1050)], 9000),
    ],
)
def test_the_newest_told_reset_holds_and_a_retry_shortens_none(
    told: list[g.Signal], until: float | None
) -> None:
    s = story(up(), prompt(0), *told)
    assert s.limit is not None
    assert s.limit.until == until


def test_though_nobody_judges_it_a_limit_is_not_kept_for_ever() -> None:
    rules = replace(RULES, limited=Limit(None))
    s = story(up(), prompt(0), g.Limited(5, 72 * HOUR), end(5, "failed"))
    assert not lapsed(s, rules, 96 * HOUR - 1)
    assert lapsed(s, rules, 96 * HOUR)


def test_rest_begins_anew_when_a_limit_is_over() -> None:
    s = story(*RESTED, g.Limited(6, 10 * HOUR))
    over = 10 * HOUR + 5 * MIN
    assert verdicts(s, over, REAPS) == [("limited", "report")]
    assert verdicts(s, over + 30 * MIN - 1, REAPS) == [], "it could not work before"
    assert verdicts(s, over + 30 * MIN, REAPS) == [("idle", "reap")]


def test_an_open_turn_is_kept_a_day_from_what_excused_its_silence() -> None:
    s = story(up(), prompt(0), g.WaitStarted(1, "p"), g.WaitEnded(20 * HOUR))
    assert not lapsed(s, Rules(), 44 * HOUR - 1)
    assert lapsed(s, Rules(), 44 * HOUR)


def test_a_turn_that_ends_late_puts_no_later_rest_back() -> None:
    s = story(
        up(), g.Registered(0), g.ChildMoved(0, "a", running=False, progress=4000), prompt(0), block(4), end(4)
    )
    assert s.idle_since == 4000
