"""Listings and transcripts of the same sessions: who is who, and what counts of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.agents.joined.join import HELD, RUNS, Join

if TYPE_CHECKING:
    from collections.abc import Sequence

TID = "bf08c6ca-8755-40b2-9faf-175de220d7c0"
CWDS = {"run": f"/kbc/{TID}", "next": f"/kbc/{TID}", "compile": "/work", "odd": "/"}
CLOSE = "its close"


class Story:
    """A join that is told things, and what came out of it so far."""

    def __init__(self) -> None:
        self.cwds = dict(CWDS)
        self.join = Join(self.cwds.get, "listing", CLOSE)
        self.out: list[tuple[str, g.Signal]] = []

    def listed(self, *signals: g.Signal, tid: str = TID) -> list[g.Signal]:
        return self._keep(self.join.listed([g.Observation(tid, s) for s in signals], signals[-1].at))

    def written(self, *signals: g.Signal, run: str = "run") -> list[g.Signal]:
        return self._keep(self.join.written([g.Observation(run, s) for s in signals], signals[-1].at))

    def open(self, at: float = 0) -> Story:
        self.listed(g.Registered(at), g.SourceUp(at, "listing"), g.Status(at, "idle", at))
        return self

    def joined(self) -> Story:
        """A listed session with a transcript and a turn open since 10."""
        self.open()
        self.written(g.Registered(1))
        self.written(up(10), g.TurnStarted(10, "t1", 10))
        self.out.clear()
        return self

    def _keep(self, out: Sequence[g.Observation]) -> list[g.Signal]:
        self.out += [(o.session, o.signal) for o in out]
        return [o.signal for o in out]


def up(at: float) -> g.Signal:
    return g.SourceUp(at, "transcript", "record")


def test_without_a_transcript_the_listing_says_all_there_is() -> None:
    story = Story().open()
    said = [g.Progress(20), g.Status(21, "busy", 20), g.Status(21, "idle", 20)]
    assert story.listed(*said) == said
    assert story.written(g.Registered(22), g.ProcessSeen(22, 1, 22), g.SourceUp(22, "registry")) == []
    assert story.listed(g.Progress(30)) == [g.Progress(30)], "a registration alone shows no turns"


def test_a_transcript_goes_out_under_the_name_of_the_listed_session() -> None:
    story = Story().open()
    story.out.clear()
    story.written(up(10), g.TurnStarted(10, "t1", 10))
    assert story.out == [
        (TID, up(10)),
        (TID, g.TurnStarted(10, "t1", 10)),
        (TID, g.Status(10, None, 10, source="listing")),  # idle, the listing said: it does not know
    ]


def test_from_then_on_activity_is_use_and_rest_is_no_news() -> None:
    story = Story().joined()
    told = story.listed(g.Progress(20), g.Status(21, "busy", 20), g.Status(21, "idle", 20))
    assert told == [g.Presence(20, used=True)]


def test_what_was_written_before_it_is_listed_is_told_then() -> None:
    story = Story()
    assert story.written(up(10), g.TurnStarted(10, "t1", 10)) == []
    told = story.listed(g.Registered(5), g.Progress(9), g.Status(12, "idle", 9))
    assert told == [
        up(10),
        g.TurnStarted(10, "t1", 10),
        g.Status(12, None, 12, source="listing"),
        g.Registered(5),
        g.Presence(9, used=True),
    ]


@pytest.mark.parametrize("run", ["compile", "odd", "unknown"])
def test_a_run_that_works_elsewhere_is_no_session_of_the_listing(run: str) -> None:
    story = Story().open()
    story.out.clear()
    story.written(g.Registered(1), up(2), g.TurnStarted(2, "t", 2), g.ToolStarted(3, "c", "Bash"), run=run)
    story.listed(g.Registered(9), tid="other")
    story.written(g.TurnEnded(99, "completed"), g.Unregistered(99), run=run)
    assert story.out == [("other", g.Registered(9))]


def test_the_directory_a_session_was_started_in_counts_wherever_it_goes() -> None:
    story = Story().joined()
    story.cwds["run"] = "/elsewhere"
    assert story.written(g.Progress(20)) == [g.Progress(20)]


def test_the_turn_of_a_dead_process_died_and_the_entry_waits_to_be_closed() -> None:
    story = Story().joined()
    waits = g.Status(30, "waiting", 30, CLOSE)
    assert story.listed(waits) == [g.TurnEnded(30, "died"), waits]
    late = story.written(g.TurnStarted(29, "t2", 29))
    assert late == [g.TurnStarted(29, "t2", 29), g.TurnEnded(29, "died")]


def test_history_of_a_dead_process_leaves_no_turn_open() -> None:
    story = Story()
    story.written(up(10), g.TurnStarted(10, "t1", 10))
    story.listed(g.Registered(5), g.Status(40, "waiting", 40, CLOSE))
    opened, ended = (
        story.out.index((TID, s)) for s in (g.TurnStarted(10, "t1", 10), g.TurnEnded(40, "died"))
    )
    assert opened < ended


def test_an_entry_that_is_alive_again_waits_for_nothing() -> None:
    story = Story().joined()
    story.listed(g.Status(30, "waiting", 30, CLOSE))
    assert story.listed(g.Status(40, "idle", 40)) == [g.Status(40, None, 40, source="listing")]
    assert story.written(g.TurnStarted(50, "t2", 50)) == [g.TurnStarted(50, "t2", 50)]


def test_another_wait_than_for_its_close_is_no_death() -> None:
    story = Story().joined()
    story.listed(g.Status(30, "waiting", 30, "permission"))
    assert not any(isinstance(s, g.TurnEnded) for _, s in story.out)


def test_what_is_not_listed_any_more_is_not_woken_by_what_it_writes() -> None:
    story = Story().joined()
    assert story.join.ends([g.Observation(TID, g.Unregistered(30))]) == [TID]
    assert story.listed(g.Unregistered(30)) == [g.Unregistered(30)]
    assert story.written(g.Progress(40)) == []
    told = story.listed(g.Registered(50))
    assert told == [g.Progress(40), g.Registered(50)], "it is listed again"


def test_a_registration_that_goes_is_no_death() -> None:
    story = Story().joined()
    assert story.written(g.Unregistered(20)) == []
    assert story.written(g.ProcessGone(20)) == []
    assert story.written(g.Progress(21)) == [g.Progress(21)]


@pytest.mark.parametrize("registered_first", [True, False])
def test_of_two_runs_the_newest_counts_and_the_turn_of_the_other_died(*, registered_first: bool) -> None:
    story = Story().joined()
    turn = [up(31), g.TurnStarted(31, "t2", 31)]
    if registered_first:
        assert story.written(g.Registered(30), run="next") == [g.TurnEnded(30, "died")]
        told = story.written(*turn, run="next")
    else:
        assert story.written(*turn, run="next") == [], "the first is still the registered one"
        ended, *told = story.written(g.Registered(30), run="next")
        assert ended == g.TurnEnded(30, "died")
    assert told[:2] == turn
    assert story.join.runs(TID) == ["next"]
    story.written(g.Unregistered(40), run="next")
    assert story.written(g.Progress(41), g.Registered(1)) == [], "what is over never comes back"


def test_a_registration_left_behind_does_not_hide_a_run_that_cannot_register() -> None:
    story = Story().joined()
    story.written(g.Unregistered(20))
    told = story.written(up(31), g.TurnStarted(31, "t2", 31), run="next")
    assert told[:3] == [g.TurnEnded(31, "died"), up(31), g.TurnStarted(31, "t2", 31)]


def test_what_the_run_says_of_its_own_state_counts() -> None:
    story = Story().joined()
    said = g.Status(20, "busy", 20, source="registry")
    assert story.written(said) == [said]


def test_a_subagent_keeps_its_name_and_belongs_to_the_listed_session() -> None:
    story = Story().joined()
    story.written(up(20), g.Described(20, parent="run"), g.TurnStarted(20, "c", 20), run="agent-1")
    assert [s for name, s in story.out if name == TID] == [], "its records open no turn of the parent"
    assert ("agent-1", g.Described(20, parent=TID)) in story.out


def test_what_is_kept_for_later_is_bounded() -> None:
    story = Story()
    story.written(*(g.Progress(n) for n in range(HELD + 10)))
    assert len(story.listed(g.Registered(5))) == HELD + 1
    for n in range(2 * RUNS):
        story.written(g.Progress(n), run=f"r{n}")
    assert len(story.join._runs) <= RUNS
    assert story.written(g.Progress(HELD + 20)) == [g.Progress(HELD + 20)], "the listed ones are kept"
