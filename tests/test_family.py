"""Subagents and their parents: whose word, whose rest, whose stall."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar import signals as g
from sidecar.limits import Limit
from tests.stories import HOUR, MIN, RULES, block, end, prompt, status, tool, up
from tests.test_fleet import World, child

AGENT = tool(2, "Agent", delegates=True)
REAPS = replace(RULES, idle=Limit(30 * MIN, "reap"))


def background_work(w: World) -> None:
    """A parent whose turn is over and whose subagent works on."""
    w.see(2, up(0), g.Registered(0), prompt(0), end(2))
    w.see(4, up(3), child(3), prompt(3, "a1"), session="a")


def run(w: World, until: float) -> None:
    for now in range(60, int(until), 60):
        w.fleet.tick(now)


def test_a_subagent_that_hung_in_the_background_lets_its_parent_rest() -> None:
    w = World(REAPS)
    background_work(w)
    run(w, 45 * MIN)
    assert w.get().phase == "delegated"
    run(w, 80 * MIN)
    assert ("s1", "idle", "reap") in w.law.decided
    assert w.law.decided.index(("a", "model", "interrupt")) < w.law.decided.index(("s1", "idle", "reap"))


def test_its_rest_begins_when_that_was_found() -> None:
    w = World(REAPS)
    background_work(w)
    w.fleet.tick(50 * MIN)
    assert w.get().phase == "idle"
    w.fleet.tick(80 * MIN - 1)
    assert ("s1", "idle", "reap") not in w.law.decided
    w.fleet.tick(80 * MIN)
    assert ("s1", "idle", "reap") in w.law.decided


def test_one_that_works_on_after_all_is_work_again() -> None:
    w = World(REAPS)
    background_work(w)
    w.fleet.tick(50 * MIN)
    w.see(51 * MIN, block(51 * MIN), session="a")
    assert w.get().phase == "delegated"


def test_what_hung_before_a_turn_neither_trips_it_nor_counts_as_work_after_it() -> None:
    w = World(REAPS)
    background_work(w)
    w.fleet.tick(50 * MIN)
    w.see(3002, prompt(3001, "t2"), replace(AGENT, at=3002, call="c2"))
    w.fleet.tick(3003)
    assert ("s1", "delegated", "interrupt") not in w.law.decided
    w.see(3010, end(3010))
    assert w.get().phase == "idle"


def test_a_parent_first_seen_after_its_subagents_end_rests_from_there() -> None:
    w = World(REAPS)
    w.see(4000, up(3), child(3), prompt(3, "a1"), block(4000), end(4000), session="a")
    w.see(4001, up(0), g.Registered(0), prompt(0), end(4))
    w.fleet.tick(4001)
    assert w.law.decided == []
    assert w.get().idle_since == 4000


def test_a_parents_background_is_its_subagent_at_work() -> None:
    w = World()
    background_work(w)
    w.see(5, tool(5), session="a")
    w.see(6, status(6, "background"))
    assert w.get("a").phase == "tool"
    w.fleet.tick(4 * HOUR)
    assert w.law.decided == []


def test_a_parents_idle_says_that_the_subagents_turn_was_left() -> None:
    w = World()
    background_work(w)
    w.see(6, status(6, "idle"))
    assert w.get("a").phase == "idle_in_turn"


@pytest.mark.parametrize("word", ["busy", "waiting", "background"])
def test_a_subagent_that_is_done_is_at_rest_whatever_its_parent_does(word: g.Word) -> None:
    w = World()
    background_work(w)
    w.see(6, end(6), session="a")
    w.see(7, status(7, word))
    assert w.get("a").phase == "idle"
    w.fleet.tick(40 * MIN)
    assert "a" not in w.shown(), "and is forgotten as such"


def test_a_word_of_its_own_comes_before_its_parents() -> None:
    w = World()
    background_work(w)
    w.see(6, status(6, "waiting"), session="a")
    w.see(7, status(7, "busy"))
    assert w.get("a").phase == "waiting"
    w.see(8, status(8, None), session="a")
    own = w.get("a").status
    assert own is not None
    assert (own.word, own.inherited) == ("busy", True)


def test_a_parents_word_that_is_not_believed_is_not_inherited() -> None:
    w = World()
    w.see(2, up(0), up(0, "registry", None), prompt(0), AGENT, status(2, "waiting", source="registry"))
    w.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    assert w.get("a").phase == "waiting"
    w.see(5, g.SourceLost(5, "registry"))
    assert w.get("a").phase == "model"


def test_a_subagent_is_attended_where_its_parent_is() -> None:
    w = World()
    w.see(2, up(0), g.Described(0, attended=True), prompt(0), AGENT)
    w.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    assert w.get("a").attended
    w.see(5, g.Described(5, attended=False))
    assert not w.get("a").attended


def test_whichever_is_seen_first() -> None:
    w = World()
    w.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    w.see(5, up(0), g.Described(0, attended=True), prompt(0), AGENT)
    assert w.get("a").attended


def test_but_its_own_file_may_say_otherwise() -> None:
    w = World()
    w.see(2, up(0), g.Described(0, attended=True), prompt(0), AGENT)
    w.see(4, up(3), g.Described(3, "s1", attended=False), prompt(3, "a1"), session="a")
    assert not w.get("a").attended
