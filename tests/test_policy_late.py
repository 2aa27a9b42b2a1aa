"""Evidence that comes late, twice or from the wrong place: what it must not end, and not excuse."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar import fleet as fleets
from sidecar import signals as g
from sidecar.fold import fold
from sidecar.limits import Limit
from sidecar.policy import judge
from tests.stories import (
    HOUR,
    MIN,
    RULES,
    block,
    end,
    prompt,
    result,
    status,
    story,
    told,
    tool,
    up,
    verdicts,
)
from tests.test_fleet import World, child

AGENT = tool(2, "Agent", delegates=True)
REAPS = replace(RULES, idle=Limit(30 * MIN, "reap"))


def work(*ats: int) -> list[g.Signal]:
    return [x for at in ats for x in (tool(at, call=str(at)), result(at + 1, str(at)))]


def test_a_family_that_lapses_in_one_tick_does_not_end_the_ticker() -> None:
    w = World()
    w.see(3, up(1), prompt(1), end(3))
    w.see(3, up(1), child(1), prompt(1, "a1"), end(3), session="a")
    w.fleet.tick(3 + 31 * MIN)


def test_more_sessions_in_one_read_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "KEPT_ASLEEP", 20)
    w = World()
    w.fleet.observe(
        "claude-code",
        [g.Observation(f"s{i}", x) for i in range(40) for x in (up(0), prompt(0), end(1))],
        10 * HOUR,
    )
    w.fleet.tick(10 * HOUR)


def test_a_subagent_stuck_in_the_last_turn_does_not_trip_the_next_one() -> None:
    s = story(up(), prompt(0), AGENT, g.ChildMoved(3, "a", True, 3), g.ChildStuck(3000, "a", "silence"))
    assert verdicts(s, 3000) == [("delegated", "interrupt")]
    for x in (
        end(3002, "interrupted"),
        prompt(4000, "t2"),
        tool(4001, "Agent", "c2", delegates=True),
        g.ChildMoved(4002, "b", True, 4002),
    ):
        fold(s, x)
    assert verdicts(s, 4003) == []


@pytest.mark.parametrize("started", [g.WaitStarted(10, "p"), g.CompactionStarted(10)])
def test_what_only_the_lost_transcript_could_end_is_not_judged(started: g.Signal) -> None:
    lost = g.SourceLost(20, "transcript")
    assert verdicts(story(up(), up(0, "registry", None), prompt(0), started, lost), HOUR) == []


def test_where_the_only_source_of_progress_is_lost_silence_is_not_judged() -> None:
    s = story(up(0, "events", "delta"), up(0, "listing", None), prompt(0), g.SourceLost(10, "events"))
    assert verdicts(s, HOUR) == []


def test_a_compaction_without_an_end_is_over_when_the_turn_works_on() -> None:
    assert verdicts(story(up(), prompt(0), g.CompactionStarted(10), *work(*range(100, 1800, 50))), 1811) == []


@pytest.mark.parametrize("started", [g.WaitStarted(0, "p"), g.CompactionStarted(0)])
def test_what_began_before_the_turn_does_not_trip_it(started: g.Signal) -> None:
    assert verdicts(story(up(), started, prompt(HOUR, "t2")), HOUR + 1) == []


def test_a_parent_that_says_nothing_any_more_has_its_word_taken_from_its_subagents() -> None:
    w = World()
    w.see(2, up(0), prompt(0), AGENT, status(2, "waiting"))
    w.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    w.see(100, status(100, None))
    w.see(290, block(290), session="a")
    w.fleet.tick(302)
    w.fleet.tick(302)
    assert w.law.decided == []


def test_lateness_extends_a_wait_too_though_progress_came_since() -> None:
    s = story(up(), prompt(0), status(10, "waiting"), g.Late(660, 600), block(661))
    assert verdicts(s, 661) == []


def test_and_the_turns_own_ceiling() -> None:
    s = story(up(), prompt(0), g.Late(660, 600), block(661))
    assert verdicts(s, 1800, replace(RULES, turn=Limit(1800.0))) == []


def test_two_calls_of_one_tool_are_one_verdict() -> None:
    s = story(up(), prompt(0), tool(1, "Edit"), tool(2, "Edit", "c2"))
    assert verdicts(s, 2 + 15 * MIN) == [("tool", "report")]


def test_every_retry_announced_for_far_ahead_is_a_limit_not_only_the_first() -> None:
    s = story(up(), prompt(0), *(g.Retrying(at, "other", at + HOUR) for at in (10, 3610)))
    for now in range(3611, 7210 + 299, 60):
        assert all(b == "limited" for b, _ in verdicts(s, now)), now


def test_a_source_without_progress_that_comes_and_goes_excuses_no_silence() -> None:
    s = story(up(), up(0, "registry", None), prompt(0))
    found = []
    for at in range(600, 10 * 3600, 600):
        for x in (g.SourceLost(at, "registry"), up(at + 1, "registry", None)):
            fold(s, x)
        found += verdicts(s, at + 599)
    assert found == [("model", "interrupt")]


def test_nor_does_a_stream_beside_a_transcript_that_was_always_there() -> None:
    s = story(up(), up(0, "host", "delta"), prompt(0))
    found = []
    for at in range(600, 10 * 3600, 600):
        for x in (g.SourceLost(at, "host"), up(at + 1, "host", "delta")):
            fold(s, x)
        found += verdicts(s, at + 599)
    assert found == [("model", "interrupt")]


def test_a_wait_that_was_answered_just_in_time_does_not_spend_the_turns_interrupt() -> None:
    s = story(up(), prompt(0), tool(0.5), status(1, "waiting"))
    assert verdicts(s, 301) == [("waiting", "interrupt")]
    for x in (
        status(301.2, "busy"),
        g.Acted(301.3, "interrupt", "t1", "waiting", "superseded", "waiting", intended=False),
        result(400),
    ):
        fold(s, x)
    assert verdicts(s, 400 + 45 * MIN) == [("model", "interrupt")]


@pytest.mark.parametrize(("outcome", "intended"), [("superseded", True), ("failed", False), ("failed", True)])
def test_but_one_that_was_sent_or_could_not_be_does(outcome: g.ActOutcome, intended: bool) -> None:
    s = story(up(), prompt(0), tool(0.5), status(1, "waiting"))
    assert verdicts(s, 301) == [("waiting", "interrupt")]
    acted = g.Acted(301.3, "interrupt", "t1", "waiting", outcome, "waiting", intended=intended)
    for x in (status(301.2, "busy"), acted, result(400)):
        fold(s, x)
    assert verdicts(s, 400 + 45 * MIN) == [("model", "report")]


def test_what_was_written_before_a_compaction_or_an_end_does_not_end_them() -> None:
    s = story(up(), prompt(0), g.CompactionStarted(10), block(9), block(10))
    assert s.phase == "compacting"
    s = story(up(), prompt(0), g.ProcessGone(10), block(9), block(10))
    assert s.phase == "gone"


def test_a_second_limit_in_the_same_turn_ends_too() -> None:
    s = story(up(), prompt(0), g.Limited(10, 100))
    assert verdicts(s, 400) == [("limited", "report")]
    fold(s, g.Limited(500, 600))
    found = verdicts(s, 900) + verdicts(s, 900 + 45 * MIN)
    assert s.phase == "model"
    assert ("model", "interrupt") in found


def test_a_subagents_last_record_does_not_bring_its_dead_parent_back() -> None:
    w = World()
    w.see(2, up(0), g.Registered(0), prompt(0), AGENT, status(2, "busy"))
    w.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    w.see(5, g.ProcessGone(5))
    w.see(5.2, block(4.9), session="a")
    assert w.get().phase == "gone"


def test_without_a_visible_turn_a_second_wait_after_rest_is_judged_again() -> None:
    s = story(g.Registered(0), status(0, "waiting"))
    assert verdicts(s, 300) == [("waiting", "interrupt")]
    for x in (status(400, "idle"), status(500, "waiting")):
        fold(s, x)
    assert verdicts(s, 800) == [("waiting", "interrupt")]


def test_a_usage_limit_told_every_hour_without_a_reset_lasts_no_longer_than_six() -> None:
    s = story(up(), prompt(0))
    found = []
    for hour in range(100):
        fold(s, g.Limited(hour * HOUR))
        found += verdicts(s, hour * HOUR + HOUR - 1)
    assert found


def test_a_turn_abandoned_after_a_long_tool_leaves_the_session_its_idle_time() -> None:
    s = story(up(), g.Registered(0), prompt(0), tool(10), status(2400, "idle"))
    assert verdicts(s, 2490, REAPS) == [("idle_in_turn", "report")]
    fold(s, g.Acted(2490, "report", "t1", "idle_in_turn", "reported", "idle_in_turn"))
    assert verdicts(s, 2491, REAPS) == []


def test_a_session_held_by_a_new_process_is_not_gone() -> None:
    s = story(
        up(),
        prompt(0),
        g.ProcessGone(5),
        g.Acted(5, "report", "t1", "gone", "reported", "gone"),
        g.ProcessSeen(60, 8, 60),
    )
    assert s.phase != "gone"


def test_nothing_is_told_of_a_session_after_it_closed() -> None:
    _, told_ = told(up(), g.Registered(0), status(1, "waiting"), g.Unregistered(5))
    assert type(told_[-1]).__name__ == "SessionClosed"


def test_idle_that_is_said_again_at_every_poll_does_not_put_the_idle_time_off_for_ever() -> None:
    s = story(up(), g.Registered(0), prompt(0), end(5), *(status(at, "idle") for at in range(10, 9000, 10)))
    assert verdicts(s, 9000, REAPS) == [("idle", "reap")]


def test_a_usage_limit_is_not_warned_of_with_jitter_either() -> None:
    s = story(up(), prompt(0), g.Limited(0, HOUR), luck=1.0)
    assert judge(s, replace(RULES, jitter=0.1), HOUR + 6 * MIN) == []
