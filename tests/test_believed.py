"""Whose word is believed: of sources that are lost and come back, and where nothing shows progress."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar import changes as c
from sidecar import signals as g
from sidecar.fold import fold
from sidecar.limits import Limit
from sidecar.policy import bounds
from tests.stories import (
    HOUR,
    MIN,
    RULES,
    block,
    end,
    of,
    prompt,
    result,
    status,
    story,
    told,
    tool,
    up,
    verdicts,
)

REGISTRY = up(0, "registry", None)
REAPS = replace(RULES, idle=Limit(30 * MIN, "reap"))


def says(at: float, word: g.Word | None, source: str = "registry") -> g.Status:
    return status(at, word, source=source)


def lost(at: float, source: str = "registry") -> g.SourceLost:
    return g.SourceLost(at, source)


def test_a_status_whose_source_is_lost_is_not_believed() -> None:
    s = story(up(), REGISTRY, prompt(0), says(2, "waiting"), lost(3), *map(block, range(10, 300, 10)))
    assert s.status is None
    assert verdicts(s, 302) == []
    assert verdicts(s, 290 + 45 * MIN) == [("model", "interrupt")], "the turn is bounded all the same"


def test_idle_that_nobody_can_confirm_abandons_no_turn() -> None:
    s = story(up(), REGISTRY, prompt(0), says(10, "idle"), lost(11))
    assert s.phase == "model"
    assert verdicts(s, 10 * MIN) == []


def test_it_is_believed_again_from_its_own_stamp_when_it_is_read_again() -> None:
    s, changes = told(up(), REGISTRY, prompt(0), says(2, "waiting"), lost(3), up(400, "registry", None))
    assert [(x.at, x.word) for x in of(changes, c.StatusChanged)] == [
        (2, "waiting"),
        (3, None),
        (400, "waiting"),
    ]
    assert verdicts(s, 401) == [("waiting", "interrupt")]


def test_a_lost_source_takes_back_only_its_own_word() -> None:
    s = story(up(), REGISTRY, prompt(0), says(2, "busy", "host"), says(3, "waiting"), lost(4))
    assert s.status is not None
    assert s.status.word == "busy"
    fold(s, says(5, None, "host"))
    assert s.status is None


def test_the_newest_word_of_all_sources_counts() -> None:
    s = story(up(), REGISTRY, prompt(0), says(2, "waiting"), says(3, "busy", "host"), says(4, "waiting"))
    assert s.phase == "waiting"


def test_losing_a_source_twice_says_nothing_new() -> None:
    _, changes = told(up(), REGISTRY, says(2, "busy"), lost(3), lost(4))
    assert [x.at for x in of(changes, c.StatusChanged)] == [2, 3]


def test_where_nothing_ever_showed_progress_silence_is_not_judged() -> None:
    s = story(up(0, "listing", None), prompt(0))
    assert s.phase == "model"
    assert verdicts(s, HOUR) == []


def test_until_something_shows_it() -> None:
    s = story(up(0, "listing", None), prompt(0), up(HOUR, "events", "delta"))
    assert verdicts(s, HOUR + 15 * MIN - 1) == []
    assert verdicts(s, HOUR + 15 * MIN) == [("model", "interrupt")]


def test_a_first_sight_excuses_no_silence() -> None:
    s = story(prompt(0), up(HOUR), block(10))
    assert verdicts(s, HOUR) == [("model", "interrupt")], "what lay there counts at its stamps"
    s = story(up(0), prompt(0), up(HOUR, "listing", None))
    assert verdicts(s, HOUR) == [("model", "interrupt")]


def test_rest_is_not_judged_where_a_new_turn_would_go_unseen() -> None:
    rested = (up(), REGISTRY, up(0, "process", None), g.Registered(0), prompt(0), end(5), says(6, "idle"))
    for source in ("transcript", "registry", "process"):
        s = story(*rested, lost(7, source))
        assert verdicts(s, HOUR, REAPS) == [], source
        fold(s, up(HOUR, source, None))
        assert verdicts(s, HOUR, REAPS) == [("idle", "reap")], "and when it is seen again, from its end"


def test_nor_where_nothing_shows_work_and_nobody_speaks() -> None:
    s = story(up(0, "listing", None), g.Registered(0), prompt(0), end(5))
    assert verdicts(s, HOUR, REAPS) == []
    fold(s, says(6, "idle"))
    assert verdicts(s, HOUR, REAPS) == [("idle", "reap")]


def test_work_in_the_background_ends_by_the_word_of_who_told_of_it() -> None:
    s = story(up(), REGISTRY, g.Registered(0), prompt(0), end(5), says(6, "background"), lost(7))
    assert bounds(s, REAPS) == [], "whether the job still runs is not known"
    for x in (up(4000, "registry", None), says(4000, "idle")):
        fold(s, x)
    assert verdicts(s, 4000 + 30 * MIN - 1, REAPS) == []
    assert verdicts(s, 4000 + 30 * MIN, REAPS) == [("idle", "reap")]


def test_after_a_rest_whose_end_went_unheard_a_wait_is_another_one() -> None:
    s = story(REGISTRY, g.Registered(0), says(0, "waiting"))
    assert verdicts(s, 5 * MIN) == [("waiting", "interrupt")]
    for x in (says(400, "idle"), lost(410), up(490, "registry", None), says(500, "waiting")):
        fold(s, x)
    assert verdicts(s, 800) == [("waiting", "interrupt")]


def test_but_one_wait_is_one_though_its_source_blinked() -> None:
    s = story(REGISTRY, up(), g.Registered(0), says(0, "waiting"))
    assert verdicts(s, 5 * MIN) == [("waiting", "interrupt")]
    for x in (lost(410), up(490, "registry", None)):
        fold(s, x)
    assert verdicts(s, HOUR) == []


def test_work_after_a_background_job_is_another_turn_too() -> None:
    s = story(g.Registered(0), says(0, "waiting"))
    assert verdicts(s, 5 * MIN) == [("waiting", "interrupt")]
    for x in (says(400, "background"), says(500, "waiting")):
        fold(s, x)
    assert verdicts(s, 800) == [("waiting", "interrupt")]


def test_what_follows_the_end_of_a_session_is_another_turn_too() -> None:
    s = story(g.Registered(0), says(0, "waiting"))
    assert verdicts(s, 5 * MIN) == [("waiting", "interrupt")]
    fold(s, g.Unregistered(400))
    s.closed = None
    for x in (g.Registered(500), says(500, "waiting")):
        fold(s, x)
    assert verdicts(s, 800) == [("waiting", "interrupt")]


def test_sources_that_show_no_work_put_off_no_bound_of_a_status() -> None:
    rules = replace(RULES, busy=Limit(HOUR, "report"))
    s = story(
        REGISTRY, up(0, "process", None), says(1, "busy"), lost(600, "process"), up(700, "process", None)
    )
    assert verdicts(s, HOUR + 1, rules) == [("busy", "report")]
    s = story(REGISTRY, says(1, "busy"), lost(600), up(700, "registry", None))
    assert verdicts(s, HOUR + 1, rules) == [], "but when all were lost, nobody knows"
    assert verdicts(s, HOUR + 700, rules) == [("busy", "report")]


def test_a_new_process_does_not_bring_back_the_turn_that_died() -> None:
    s = story(up(), prompt(0), g.ProcessGone(5), g.ProcessSeen(60, 8, 60))
    assert verdicts(s, 60) == [("gone", "report")]


def test_a_word_does_not_outlive_its_session() -> None:
    s = story(up(), REGISTRY, g.Registered(0), says(1, "busy"), g.Unregistered(2))
    s.closed = None
    fold(s, up(3, "registry", None))
    assert s.status is None


@pytest.mark.parametrize("works", [[block(20)], [prompt(20)], [block(19), block(20), block(21), result(22)]])
def test_a_turn_that_worked_on_after_our_interrupt_is_ended_by_itself(works: list[g.Signal]) -> None:
    ineffective = g.Acted(34, "interrupt", "t1", "model", "ineffective", "model")
    intended = g.Intended(4, "interrupt", "t1", "model", "r")
    s = story(up(), prompt(1), intended, *works, ineffective, end(40))
    assert s.last is not None
    assert s.last.outcome == "completed"


def test_within_the_grace_the_end_is_ours_whatever_was_still_under_way() -> None:
    intended = g.Intended(4, "interrupt", "t1", "model", "r")
    rest = [block(5), block(6), block(7), result(8), end(9, "interrupted")]
    s = story(up(), prompt(1), tool(2), intended, *rest)
    assert s.progress_at == 7, "what the interrupt makes of an open tool is not work"
    assert s.last is not None
    assert s.last.outcome == "stalled"
