"""The one writer: what each signal changes and tells, and what no order of signals may break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import changes as c
from sidecar import signals as g
from sidecar.fold import fold
from sidecar.phases import phase
from sidecar.policy import judge
from sidecar.session import KEPT_VERDICTS, OUTCOMES, Process, Session, Turn, Verdict
from tests.stories import (
    RULES,
    block,
    delta,
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

if TYPE_CHECKING:
    from collections.abc import Callable


def outcome(*signals: g.Signal) -> tuple[str | None, float | None]:
    session = story(*signals)
    assert session.last is not None
    return session.last.outcome, session.last.ended_at


def sent(at: float, turn: str | None = "t1") -> g.Intended:
    return g.Intended(at, "interrupt", turn, "model", "silence")


def acted(
    at: float, what: g.ActOutcome, bound: g.BoundName = "model", action: g.Action = "interrupt"
) -> g.Acted:
    return g.Acted(at, action, "t1", bound, what, bound)


def turn_of(session: Session) -> Turn:
    """The open turn, or the last."""
    turn = session.turn or session.last
    assert turn is not None
    return turn


JUDGED = g.Judged(2700, "model", "model", "interrupt", "transcript", "silence", "t1")
VERDICT = Verdict(2700, "t1", "model", "model", "interrupt", "transcript", "silence", progress_at=1)
OPUS = g.Used(1.5, "opus", 10, 5)

# Each line: what is told, after which signals the last of which tells it, and the change in full.
TOLD: list[tuple[str, list[g.Signal], Callable[[Session], c.Change]]] = [
    ("a turn that begins", [up(), prompt(1)], lambda _: c.TurnOpened(1, Turn("t1", 1))),
    ("a turn that a block begins, at its stamp", [up(), block(1)], lambda _: c.TurnOpened(1, Turn("stamp-1", 1))),
    ("a turn that ends", [up(), prompt(1), end(5)], lambda s: c.TurnClosed(5, turn_of(s))),
    ("a phase, with the model and the turn it belonged to", [up(), prompt(1), OPUS, tool(2)], lambda s: c.PhaseLeft(2, "model", 1, "tool", s.turn, "opus", None)),
    ("a phase between turns has the last model", [up(), prompt(1), OPUS, end(2), prompt(9, "t2")], lambda _: c.PhaseLeft(9, "idle", 2, "model", None, "opus", None)),
    ("the last phase of a turn is its own", [up(), prompt(1), end(2)], lambda s: c.PhaseLeft(2, "model", 1, "idle", s.last, None, None)),
    ("the phase in which a session closes", [up(), prompt(1), end(2), g.Closed(9, "silent")], lambda _: c.PhaseLeft(9, "idle", 2, "closed", None, None, None)),
    ("a gap", [up(), prompt(1), block(3)], lambda s: c.GapClosed(3, "model", 2, 1, s.turn)),
    ("a gap of a second", [up(), prompt(1), block(2)], lambda s: c.GapClosed(2, "model", 1, 1, s.turn)),
    ("a tool that has its result", [up(), prompt(1), tool(2), result(5)], lambda s: c.ToolClosed(5, "c1", "Bash", 2, s.turn, unfinished=False)),
    ("a tool without one", [up(), prompt(1), tool(2), end(5)], lambda s: c.ToolClosed(5, "c1", "Bash", 2, s.last, unfinished=True)),
    ("tokens", [up(), prompt(1), OPUS], lambda s: c.TokensUsed(1.5, "opus", {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}, s.turn)),
    ("tokens of no turn", [up(), OPUS], lambda _: c.TokensUsed(1.5, "opus", {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}, None)),
    ("a retry", [up(), prompt(1), g.Retrying(2, "overloaded")], lambda _: c.RetrySeen(2, "overloaded")),
    ("a read", [g.Records(2, 1, 2, 3, 4, 5)], lambda _: c.RecordsRead(2, {"progress": 1, "presence": 2, "unknown": 3, "malformed": 4, "oversized": 5})),
    ("a lost source", [up(), g.SourceLost(2, "transcript")], lambda _: c.SourceChanged(2, "transcript", up=False)),
    ("a regained source", [up(), g.SourceLost(2, "transcript"), up(3)], lambda _: c.SourceChanged(3, "transcript", up=True)),
    ("another status", [status(2, "waiting", "question")], lambda _: c.StatusChanged(2, "waiting", "question")),
    ("a warning", [up(), prompt(1), g.Warned(2, "model", "model", "half")], lambda s: c.WarningGiven(2, "model", "half", s.turn)),
    ("a verdict", [up(), prompt(1), JUDGED], lambda s: c.VerdictGiven(2700, VERDICT, s.turn)),
    ("an act about to begin", [up(), prompt(1), sent(4)], lambda s: c.ActIntended(4, "interrupt", "silence", "model", s.turn)),
    ("what became of it", [up(), prompt(1), JUDGED, acted(2701, "ineffective")], lambda s: c.ActEnded(2701, "interrupt", "ineffective", "model", s.turn)),
    ("what became of an act on a turn that is over", [up(), prompt(1), end(2), acted(3, "effective")], lambda s: c.ActEnded(3, "interrupt", "effective", "model", s.last)),
    ("a session that is over", [up(), g.Registered(0), g.Unregistered(9)], lambda _: c.SessionClosed(9, "unregistered")),
    ("a session whose process ended", [up(), g.ProcessGone(9)], lambda _: c.SessionClosed(9, "process ended")),
    ("a session that we ended", [up(), prompt(1), sent(4), g.ProcessGone(9)], lambda _: c.SessionClosed(9, "process ended")),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals", "change"), TOLD, ids=[case[0] for case in TOLD])
def test_it_is_told_in_full(
    says: str, signals: list[g.Signal], change: Callable[[Session], c.Change]
) -> None:
    *before, last = signals
    session = story(*before)
    changes = fold(session, last)
    expected = change(session)
    assert expected in changes, says
    assert len(of(changes, type(expected))) == 1, says


def test_a_turn_ends_as_it_says() -> None:
    assert outcome(up(), prompt(1), end(5)) == ("completed", 5)
    assert outcome(up(), prompt(1), end(5, "interrupted")) == ("interrupted", 5)


def test_a_provisional_end_is_dated_at_the_record_that_caused_it() -> None:
    assert outcome(up(), prompt(1), end(5, settle=1.5), g.Ticked(9)) == ("completed", 5)


def test_an_end_is_provisional_however_soon_it_settles() -> None:
    session = story(up(), prompt(1), end(5, settle=0.25))
    assert session.turn is not None
    assert outcome(up(), prompt(1), end(5, settle=0.25), g.Ticked(5.25)) == ("completed", 5)


def test_a_hard_end_after_a_provisional_failure_leaves_it_failed() -> None:
    assert outcome(up(), prompt(1), end(5, "failed", 60), end(6)) == ("failed", 6)
    assert outcome(up(), prompt(1), end(5, "completed", 60), end(6, "interrupted")) == ("interrupted", 6)


def test_a_turn_still_open_when_the_next_starts_is_abandoned_at_its_last_progress() -> None:
    assert outcome(up(), prompt(1), block(3), prompt(9, "t2")) == ("abandoned", 3)


def test_a_pending_end_wins_over_the_next_start() -> None:
    assert outcome(up(), prompt(1), end(3, settle=60), prompt(9, "t2")) == ("completed", 3)


def test_a_turn_told_twice_is_one_turn_and_an_ended_one_stays_ended() -> None:
    assert story(up(), prompt(1), prompt(2)).turns["abandoned"] == 0
    session = story(up(), prompt(1), end(2), prompt(3))
    assert session.turn is None
    session = story(up(), prompt(1), end(2, settle=60), prompt(3))
    assert (turn_of(session).started_at, sum(session.turns.values())) == (1, 0)
    assert story(up(), prompt(1), end(2), g.Progress(3, "t1")).turn is None


def test_an_end_without_a_turn_says_nothing() -> None:
    assert story(up(), end(1)).last is None


def test_a_turn_that_we_ended_is_stalled_whatever_it_says() -> None:
    for how in (end(5, "interrupted"), end(5), end(5, "failed")):
        assert outcome(up(), prompt(1), sent(4), how) == ("stalled", 5)
    assert outcome(up(), prompt(1), block(2), sent(4), prompt(9, "t2")) == ("stalled", 2)
    assert outcome(up(), g.Registered(0), prompt(1), sent(4), g.Unregistered(6)) == ("stalled", 6)
    assert outcome(up(), prompt(1), sent(4), acted(5, "effective"), end(6)) == ("stalled", 5)


def test_a_refused_interrupt_leaves_the_turn_its_own_end() -> None:
    refusals: tuple[g.ActOutcome, ...] = ("failed", "superseded", "unsupported", "held")
    for refused in refusals:
        assert outcome(up(), prompt(1), sent(4), acted(5, refused), end(6)) == ("completed", 6)


def test_so_is_one_that_a_reap_ended_dated_as_it_says() -> None:
    reap = g.Intended(4, "reap", "t1", "model", "silence")
    effective = acted(5, "effective", "model", "reap")
    assert outcome(up(), prompt(1), reap, effective, end(6)) == ("stalled", 6)


def test_an_act_that_had_not_begun_leaves_the_mark_of_another() -> None:
    refused = g.Acted(5, "interrupt", "t1", "model", "superseded", "model", intended=False)
    assert outcome(up(), prompt(1), sent(4), refused, end(6)) == ("stalled", 6)


def test_an_interrupt_without_effect_still_ends_the_turn_if_it_comes_late() -> None:
    assert outcome(up(), prompt(1), sent(4), acted(34, "ineffective"), end(40, "interrupted")) == (
        "stalled",
        40,
    )


def test_nor_does_it_matter_how_soon_that_was_known() -> None:
    assert outcome(up(), prompt(4), sent(4), acted(4, "ineffective"), end(40)) == ("stalled", 40)


def test_what_is_reported_beside_it_does_not_take_it_back() -> None:
    reported = acted(5, "reported", "turn", "report")
    assert outcome(up(), prompt(1), sent(4), reported, end(6)) == ("stalled", 6)


def test_but_not_a_turn_that_went_on_to_work() -> None:
    signals = (up(), prompt(1), sent(4), acted(34, "ineffective"), block(35), end(40))
    assert outcome(*signals) == ("completed", 40)


def test_an_act_on_another_turn_marks_nothing() -> None:
    assert outcome(up(), prompt(1), sent(4, "t0"), end(5)) == ("completed", 5)
    late = g.Acted(5, "interrupt", "t0", "model", "failed", "model")
    assert outcome(up(), prompt(1), sent(4), late, end(6)) == ("stalled", 6), "nor takes it back"


def test_the_echo_of_our_own_act_is_not_progress() -> None:
    assert story(up(), prompt(1), tool(2), sent(4), result(5)).progress_at == 2
    assert story(up(), prompt(1), tool(2), result(5)).progress_at == 5
    assert story(up(), prompt(1), tool(2), g.ToolEnded(5, "c1", echo=True)).progress_at == 2


def test_a_reported_death_ends_the_turn_and_stays_gone() -> None:
    session, changes = told(
        up(), prompt(1), block(2), g.ProcessGone(7), acted(8, "reported", "gone", "report")
    )
    assert session.last is not None
    assert (session.last.outcome, session.last.ended_at, session.phase) == ("died", 7, "gone")
    assert [x.turn.outcome for x in of(changes, c.TurnClosed)] == ["died"]


def test_a_death_known_from_before_is_dated_when_it_was_reported() -> None:
    assert outcome(up(), prompt(1), block(2), acted(8, "reported", "gone", "report")) == ("died", 8)


def test_a_reported_idle_turn_is_abandoned_at_its_last_progress() -> None:
    signals = (up(), prompt(1), block(3), status(5, "idle"), acted(95, "reported", "idle_in_turn", "report"))
    assert outcome(*signals) == ("abandoned", 3)
    assert story(*signals).phase == "idle"


def test_an_observed_verdict_ends_nothing() -> None:
    session = story(up(), prompt(1), g.ProcessGone(7), acted(8, "observed", "gone", "report"))
    assert session.turn is not None
    left = (status(5, "idle"), acted(95, "observed", "idle_in_turn", "report"))
    assert story(up(), prompt(1), *left).phase == "idle_in_turn"


def test_a_session_whose_process_ends_between_turns_closes() -> None:
    for gone in (g.ProcessGone(7), g.Unregistered(7)):
        session, changes = told(up(), g.Registered(0), prompt(1), end(2), gone)
        assert session.closed is not None
        assert len(of(changes, c.SessionClosed)) == 1


def test_a_pending_end_is_taken_when_the_process_ends() -> None:
    session, changes = told(up(), g.Registered(0), prompt(1), end(3, settle=1.5), g.Unregistered(3.2))
    assert session.last is not None
    assert (session.last.outcome, session.closed) == ("completed", "unregistered")
    assert [type(x) for x in changes[-2:]] == [c.PhaseLeft, c.SessionClosed]


def test_a_death_is_told_once_whoever_tells_it() -> None:
    session = story(up(), g.Registered(0), prompt(1), g.ProcessGone(7), g.Unregistered(8))
    assert session.gone_at == 7
    session = story(
        up(), prompt(1), g.ProcessGone(7), acted(7, "reported", "gone", "report"), g.Unregistered(9)
    )
    assert session.closed is None


def test_a_new_registration_after_a_death_is_a_new_life() -> None:
    dead = [up(), g.Registered(0), prompt(1), g.Unregistered(7), acted(7, "reported", "gone", "report")]
    assert story(*dead).phase == "gone"
    assert story(*dead, g.Registered(20)).phase == "idle"
    assert story(up(), g.Registered(0), prompt(1), g.Unregistered(7), g.Registered(8)).phase == "gone"


def test_closing_takes_a_pending_end() -> None:
    session = story(up(), prompt(1), end(3, settle=60), g.Closed(9, "silent"))
    assert session.turns["completed"] == 1
    assert (session.closed, session.closed_at) == ("silent", 9)


def test_what_held_and_ran_in_a_closed_session_is_forgotten() -> None:
    session = story(
        *(up(), g.Registered(0), g.ProcessSeen(0, 7, 0), g.ProcessUsed(0, 1, 1), status(1, "waiting")),
        *(g.Background(2, 1), g.WaitStarted(2, "question"), g.Closed(9, "silent")),
    )
    assert (session.registered_at, session.process, session.rss, session.cpu) == (None, None, None, None)
    assert (session.status, session.wait, session.background) == (None, None, 0)


def test_the_silence_clock_takes_the_newest_progress_of_any_source() -> None:
    assert story(up(), prompt(5), block(3)).progress_at == 5


def test_a_gap_is_told_when_it_ends_with_the_phase_it_was_in() -> None:
    _, changes = told(up(), prompt(1), tool(1.5), result(9))
    assert [(x.phase, x.seconds) for x in of(changes, c.GapClosed)] == [("tool", 7.5)]


def test_the_time_between_turns_is_no_gap() -> None:
    _, changes = told(up(), prompt(1), end(1.5), prompt(900, "t2"))
    assert of(changes, c.GapClosed) == []


def test_phases_are_told_without_a_hole_and_add_up_to_the_turn() -> None:
    session, changes = told(up(), prompt(1), tool(3), result(10), block(12), end(12))
    left = [(x.phase, x.since, x.at, x.into) for x in of(changes, c.PhaseLeft)]
    assert left == [
        ("idle", 0, 1, "model"),
        ("model", 1, 3, "tool"),
        ("tool", 3, 10, "model"),
        ("model", 10, 12, "idle"),
    ]
    assert session.last is not None
    assert session.last.phase_seconds == {"model": 4.0, "tool": 7.0}


def test_the_time_after_a_provisional_end_is_not_the_turns() -> None:
    session = story(up(), prompt(1), block(3), end(3, settle=60), g.Ticked(70))
    assert session.last is not None
    assert session.last.phase_seconds == {"model": 2.0}
    assert (session.phase, session.phase_since) == ("idle", 3)


def test_a_wait_from_before_the_turn_is_its_own_only_from_its_start() -> None:
    session = story(status(1, "waiting"), prompt(5), status(9, "busy"), end(12))
    assert session.last is not None
    assert session.last.phase_seconds == {"waiting": 4.0, "model": 3.0}


def test_what_the_phase_waited_for_is_told() -> None:
    _, changes = told(up(), prompt(1), status(2, "waiting", "permission prompt"), status(5, "busy"))
    waits = [x.waiting_for for x in of(changes, c.PhaseLeft) if x.phase == "waiting"]
    assert waits == ["permission prompt"]
    _, changes = told(up(), prompt(1), g.WaitStarted(2, "question"), g.WaitEnded(5))
    assert [x.waiting_for for x in of(changes, c.PhaseLeft) if x.phase == "waiting"] == ["question"]


def test_an_open_tool_of_an_ended_turn_is_told_as_unfinished() -> None:
    session, changes = told(up(), prompt(1), tool(2), end(4, "interrupted"))
    assert [(x.call, x.unfinished, x.at) for x in of(changes, c.ToolClosed)] == [("c1", True, 4)]
    assert session.tools == {}


def test_a_tool_told_twice_is_one_call_and_an_unknown_result_closes_none() -> None:
    session, changes = told(up(), prompt(1), tool(2), tool(2.5), result(3), result(3.5, "c9"))
    assert session.turn is not None
    assert session.turn.tool_calls == 1
    assert len(of(changes, c.ToolClosed)) == 1
    more = story(up(), prompt(1), tool(2), tool(2.5, call="c2"), tool(3, call="c3"))
    assert more.turn is not None
    assert more.turn.tool_calls == 3


def test_tokens_count_for_the_turn_and_the_model_is_the_newest() -> None:
    used = g.Used(2, "opus", 10, 5, 3, 0)
    session, changes = told(up(), prompt(1), used, g.Used(3, "haiku", 1, 1))
    assert session.turn is not None
    assert session.turn.tokens == {"input": 11, "output": 6, "cache_read": 3}
    assert (session.turn.model, session.model) == ("haiku", "haiku")
    assert of(changes, c.TokensUsed)[0].types == {"input": 10, "output": 5, "cache_read": 3, "cache_write": 0}
    assert story(up(), used).model == "opus"
    following = story(up(), used, prompt(3)).turn
    assert following is not None
    assert following.model == "opus"


def test_records_retries_and_sources_are_told() -> None:
    _, changes = told(
        up(), g.Records(1, 1, 2, 3, 4, 5), g.Retrying(2, "overloaded"), g.SourceLost(3, "transcript"), up(4)
    )
    assert of(changes, c.RecordsRead)[0].kinds == {
        "progress": 1, "presence": 2, "unknown": 3, "malformed": 4, "oversized": 5,
    }  # fmt: skip
    assert of(changes, c.RetrySeen)[0].cause == "overloaded"
    assert [(x.source, x.up) for x in of(changes, c.SourceChanged)] == [
        ("transcript", False),
        ("transcript", True),
    ]


def test_a_source_that_was_never_up_cannot_be_lost_and_a_loss_is_told_once() -> None:
    session, changes = told(
        up(), g.SourceLost(1, "host"), g.SourceLost(2, "transcript"), g.SourceLost(3, "transcript")
    )
    assert len(of(changes, c.SourceChanged)) == 1
    assert "host" not in session.sources


def test_a_status_is_told_when_it_changes() -> None:
    _, changes = told(
        status(1, "busy"),
        status(2, "busy"),
        status(3, "waiting", "a"),
        status(4, "waiting", "b"),
        status(5, None),
    )
    told_words = [(x.word, x.waiting_for) for x in of(changes, c.StatusChanged)]
    assert told_words == [("busy", None), ("waiting", "a"), ("waiting", "b"), (None, None)]
    _, changes = told(status(1, None))
    assert of(changes, c.StatusChanged) == []
    assert story(status(1, "busy"), status(2, None)).status is None


def test_idle_time_counts_from_the_idle_stamp_between_turns_and_never_backwards() -> None:
    assert story(status(5, "idle")).idle_since == 5
    assert story(up(), prompt(1), end(9), status(5, "idle")).idle_since == 9
    assert story(up(), prompt(1), status(5, "idle")).idle_since is None
    assert story(up(), prompt(1), end(5), g.Background(9, 0)).idle_since == 5, "nothing ran"
    assert story(up(), prompt(1), end(5), status(9, "busy")).idle_since == 5, "busy is not idle"
    assert story(up(), prompt(1), end(5), g.Background(6, 2), g.Background(9, 1)).idle_since == 5
    running = (g.ChildMoved(at, "a", running=True, progress=at) for at in (6, 9))
    assert story(up(), prompt(1), end(5), *running).idle_since == 5


def test_a_session_that_is_used_does_not_lie_idle_though_nothing_worked() -> None:
    used = g.Presence(9, used=True)
    rested = story(up(), prompt(1), block(2), end(5), used)
    assert (rested.idle_since, rested.progress_at) == (9, 2)
    assert story(up(), prompt(1), end(5), g.Presence(9)).idle_since == 5
    assert story(up(), prompt(1), end(15), used).idle_since == 15, "never backwards"
    assert story(used).idle_since == 9
    judged = g.Judged(8, "idle", "idle", "report", "status", "idle", None)
    assert "idle" in story(status(5, "idle"), judged, g.Presence(4, used=True)).judged
    assert "idle" in story(status(5, "idle"), judged, g.Presence(5, used=True)).judged
    assert "idle" not in story(status(5, "idle"), judged, used).judged
    warned = story(status(5, "idle"), g.Warned(8, "idle", "idle", "idle"), used)
    assert warned.warned == set()


def test_a_death_that_is_told_yields_to_what_was_written_of_the_end() -> None:
    assert outcome(up(), prompt(1), block(2), end(3, "died")) == ("died", 3)
    assert outcome(up(), prompt(1), end(5, "completed", 1.5), end(6, "died")) == ("completed", 5)
    assert story(up(), prompt(1), end(5), end(6, "died")).turns["died"] == 0


def test_a_turn_that_was_left_behind_leaves_the_session_its_idle_time() -> None:
    left = acted(2490, "reported", "idle_in_turn", "report")
    assert story(up(), prompt(0), tool(10), status(2400, "idle"), left).idle_since == 2400
    assert story(status(0, "idle"), up(), prompt(1), end(9)).idle_since == 9, "nor less than from its end"
    assert story(up(), prompt(1), status(20, "busy"), end(9)).idle_since == 9


def test_facts_replace_what_is_known_and_none_leaves_it() -> None:
    session = story(g.Described(0, "p", "1", attended=True), g.Described(1))
    assert (session.parent, session.version, session.attended) == ("p", "1", True)
    session = story(g.Described(0, "p", "1", attended=True), g.Described(1, None, "2", attended=False))
    assert (session.version, session.attended) == ("2", False)


def test_a_process_is_measured_until_it_ends() -> None:
    session = story(g.ProcessSeen(1, 7, 0.5), g.ProcessUsed(1, 1024, 2.5))
    assert session.process == Process(7, 0.5)
    assert (session.rss, session.cpu) == (1024, 2.5)
    assert story(g.ProcessSeen(0, 7, 0), g.ProcessUsed(1, 1024, 2.5), g.ProcessGone(2)).rss is None


def test_the_first_of_several_starts_counts() -> None:
    session = story(up(), prompt(0), g.WaitStarted(1, "a"), g.WaitStarted(2, "b"))
    assert session.wait is not None
    assert (session.wait.since, session.wait.waiting_for) == (1, "a")
    assert story(up(), prompt(0), g.CompactionStarted(1), g.CompactionStarted(2)).compacting_since == 1
    assert story(g.Registered(1), g.Registered(2)).registered_at == 1
    assert story(up(), prompt(0), g.WaitEnded(5)).floor < 0


def test_a_subagents_work_is_its_parents_only_while_the_parent_waits_or_rests() -> None:
    moved = g.ChildMoved(9, "a", running=True, progress=9)
    assert story(up(), prompt(1), tool(2, "Agent", delegates=True), moved).progress_at == 9
    assert story(up(), prompt(1), end(2), moved).progress_at == 9
    assert story(up(), prompt(1), moved).progress_at == 1
    older = g.ChildMoved(9, "a", running=True, progress=1)
    assert story(up(), prompt(1), tool(2, "Agent", delegates=True), older).progress_at == 2
    assert story(moved).progress_at == 9


def test_a_subagent_that_ends_without_progress_moves_nothing_of_its_parent() -> None:
    moved = [g.ChildMoved(at, "a", running=at < 11, progress=9) for at in (9, 11)]
    session = story(up(), prompt(1), end(2), moved[0], g.Limited(10), moved[1])
    assert (session.phase, session.progress_at) == ("limited", 9)


def test_a_subagent_that_goes_on_is_not_stuck() -> None:
    moved = g.ChildMoved(3, "a", running=True, progress=3)
    stuck = story(up(), moved, g.ChildStuck(5, "a", "silence"))
    assert stuck.children["a"].stuck == "silence"
    on = story(up(), moved, g.ChildStuck(5, "a", "silence"), g.ChildMoved(6, "a", running=True, progress=6))
    assert on.children["a"].stuck is None
    assert story(g.ChildStuck(5, "b", "silence")).children["b"].running


def test_a_verdict_is_listed_and_gets_its_outcome() -> None:
    session = story(up(), prompt(1))
    assert verdicts(session, 2701) == [("model", "interrupt")]
    fold(session, acted(2702, "observed"))
    assert [(v.bound, v.outcome) for v in session.verdicts] == [("model", "observed")]
    _, changes = told(up(), prompt(1), acted(2, "effective"))
    assert [(x.outcome, x.turn.id) for x in of(changes, c.ActEnded)] == [("effective", "t1")]


def test_an_outcome_goes_to_the_newest_verdict_that_it_is_about() -> None:
    session = story(up(), prompt(0), status(1, "waiting"))
    verdicts(session, 301)
    fold(session, status(302, "busy"))
    verdicts(session, 3002)
    fold(session, acted(3003, "failed", "waiting"))
    assert [(v.bound, v.outcome) for v in session.verdicts] == [("waiting", "failed"), ("model", None)]
    fold(session, g.Judged(3004, "waiting", "waiting", "report", "status", "again", "t1"))
    fold(session, acted(3005, "reported", "waiting", "report"))
    assert [v.outcome for v in session.verdicts] == ["failed", None, "reported"]


def test_only_the_newest_verdicts_are_kept() -> None:
    session = story(up(), prompt(0))
    for number in range(KEPT_VERDICTS + 5):
        fold(session, g.Judged(number, "model", str(number), "report", "transcript", "r", "t1"))
    assert [v.key for v in session.verdicts] == [str(n) for n in range(5, KEPT_VERDICTS + 5)]


def test_a_warning_is_told_once() -> None:
    warned = g.Warned(1, "model", "model", "r")
    _, changes = told(up(), prompt(0), warned, warned)
    assert len(of(changes, c.WarningGiven)) == 1
    _, changes = told(up(), prompt(0), warned, prompt(2, "t2"), warned)
    assert len(of(changes, c.WarningGiven)) == 2, "and again in the next turn"


def test_a_turn_that_goes_on_after_an_observed_verdict_recovered_once() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 2700)
    assert of(fold(session, delta(2700.5)), c.Recovered) == [], "not before it was observed"
    fold(session, acted(2701, "observed"))
    assert of(fold(session, delta(2702)), c.Recovered) == [
        c.Recovered(2702, session.verdicts[0], session.turn)
    ]
    assert of(fold(session, delta(2703)), c.Recovered) == []


def test_the_next_turn_is_not_the_recovery_of_the_last() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 2700)
    fold(session, acted(2701, "observed"))
    assert of(fold(session, prompt(2702, "t2")), c.Recovered) == []


def test_the_reason_is_told_when_it_is_intended() -> None:
    _, changes = told(up(), prompt(1), sent(4))
    assert [(x.action, x.reason, x.bound) for x in of(changes, c.ActIntended)] == [
        ("interrupt", "silence", "model")
    ]


def test_the_start_of_a_turn_may_be_stamped_before_it_is_seen() -> None:
    session = story(up(), g.TurnStarted(5, "t1", 4))
    assert session.turn is not None
    assert (session.turn.started_at, session.progress_at) == (4, 5)
    session = story(up(), g.TurnStarted(5, "t1", 6))
    assert session.turn is not None
    assert session.turn.started_at == 5


def test_few_ended_turns_are_remembered() -> None:
    session = story(up())
    for number in range(100):
        fold(session, prompt(number, f"t{number}"))
        fold(session, end(number + 0.5))
    assert session.ended_ids == [f"t{n}" for n in range(68, 100)]


AT = st.floats(0, 10_000, allow_nan=False)
CALL = st.sampled_from(["c1", "c2"])
TURN = st.sampled_from(["t1", "t2", "t3"])
WORD: st.SearchStrategy[g.Word | None] = st.sampled_from(["busy", "idle", "waiting", "background", None])
SOURCE = st.sampled_from(["transcript", "host", "registry"])
SOME = st.one_of(
    st.builds(g.Described, AT, st.none(), st.none(), st.sampled_from([True, False, None])),
    st.builds(g.SourceUp, AT, SOURCE, st.sampled_from(["record", "delta", None])),
    st.builds(g.SourceLost, AT, SOURCE),
    st.builds(g.Registered, AT),
    st.builds(g.ProcessSeen, AT, st.just(7), AT),
    st.builds(g.ProcessUsed, AT, st.just(1), AT),
    st.builds(g.Status, AT, WORD, AT, st.none(), st.booleans()),
    st.builds(g.TurnStarted, AT, TURN, AT),
    st.builds(g.TurnEnded, AT, st.sampled_from(OUTCOMES), st.sampled_from([0.0, 1.5])),
    st.builds(g.Progress, AT, st.one_of(st.none(), TURN)),
    st.builds(g.ToolStarted, AT, CALL, st.sampled_from(["Bash", "Edit"]), st.booleans(), st.one_of(st.none(), TURN)),
    st.builds(g.ToolEnded, AT, CALL, st.booleans()),
    st.builds(g.Background, AT, st.integers(0, 2)),
    st.builds(g.WaitStarted, AT, st.just("p")),
    st.builds(g.WaitEnded, AT),
    st.builds(g.CompactionStarted, AT),
    st.builds(g.CompactionEnded, AT),
    st.builds(g.Retrying, AT, st.just("other"), st.one_of(st.none(), AT)),
    st.builds(g.Limited, AT, st.one_of(st.none(), AT)),
    st.builds(g.Presence, AT),
    st.builds(g.Used, AT, st.just("m"), st.integers(0, 9)),
    st.builds(g.Records, AT, st.integers(0, 9)),
    st.builds(g.ChildMoved, AT, st.just("a"), st.booleans(), AT),
    st.builds(g.ChildStuck, AT, st.just("a"), st.just("r")),
    st.builds(g.CatchingUp, AT, st.booleans()),
    st.builds(g.Late, AT, st.floats(0, 100)),
    st.builds(g.Ticked, AT),
    st.builds(g.Intended, AT, st.sampled_from(["interrupt", "reap"]), TURN, st.just("model"), st.just("r")),
    st.builds(g.Acted, AT, st.just("interrupt"), TURN, st.just("model"), st.sampled_from(["effective", "failed", "ineffective", "observed", "reported"]), st.just("model")),
)  # fmt: skip
ENDS = st.one_of(
    st.builds(g.Unregistered, AT), st.builds(g.ProcessGone, AT), st.builds(g.Closed, AT, st.just("silent"))
)
WORKS = (g.TurnStarted, g.Progress, g.ToolStarted, g.ToolEnded, g.ChildMoved)


@given(st.lists(st.one_of(SOME, SOME, SOME, ENDS), max_size=60))
def test_no_order_of_signals_raises_and_the_phase_is_always_the_one_that_holds(
    signals: list[g.Signal],
) -> None:
    session = Session("claude-code", "s1", 0.0)
    ended = 0
    for signal in signals:
        changes = fold(session, signal)
        ended += len(of(changes, c.TurnClosed))
        assert session.phase == phase(session) or session.closed
        for change in of(changes, c.PhaseLeft):
            assert change.at >= change.since
        judge(session, RULES, signal.at)
    assert ended == sum(session.turns.values())
    if session.last is not None:
        assert session.last.ended_at is not None
        assert all(seconds >= 0 for seconds in session.last.phase_seconds.values())


@given(st.lists(SOME, max_size=60), st.booleans())
def test_one_interrupt_a_turn_whatever_happens(signals: list[g.Signal], attended: bool) -> None:
    session = Session("claude-code", "s1", 0.0, attended=attended)
    interrupts: dict[str, int] = {}
    now = 0.0
    for signal in signals:
        now += 500
        if isinstance(signal, g.TurnStarted):
            signal = g.TurnStarted(now, f"{signal.turn}-{now}", now)  # noqa: PLW2901 - ids are unique
        fold(session, signal)
        for said in judge(session, RULES, now):
            fold(session, said)
            if isinstance(said, g.Judged) and said.action == "interrupt" and session.turn is not None:
                interrupts[session.turn.id] = interrupts.get(session.turn.id, 0) + 1
    assert all(count == 1 for count in interrupts.values())
    assert not (attended and interrupts) or any(isinstance(s, g.Described) for s in signals)


@given(st.lists(SOME, max_size=60))
def test_silence_never_shrinks_without_progress(signals: list[g.Signal]) -> None:
    session = story(up(), prompt(0))
    for signal in signals:
        before = session.progress_at
        fold(session, signal)
        if not isinstance(signal, WORKS):
            assert session.progress_at == before
        else:
            assert session.progress_at is not None
            assert before is None or session.progress_at >= before


def test_a_turn_that_moved_while_it_was_looked_at_may_trip_again() -> None:
    session = story(up(), prompt(0))
    assert verdicts(session, 2700) == [("model", "interrupt")]
    for signal in (block(2701), acted(2702, "superseded")):
        fold(session, signal)
    assert verdicts(session, 2701 + 2699) == []
    assert verdicts(session, 2701 + 2700) == [("model", "interrupt")]


def test_and_is_warned_of_again() -> None:
    session = story(up(), prompt(0))
    for signal in (g.Warned(1200, "model", "model", "half"), JUDGED, block(2701), acted(2702, "superseded")):
        fold(session, signal)
    assert of(fold(session, g.Warned(3901, "model", "model", "half")), c.WarningGiven) != []


def test_one_that_ended_meanwhile_is_over() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 2700)
    for signal in (block(2701), end(2701.5), acted(2702, "superseded")):
        fold(session, signal)
    assert (session.turns["completed"], session.interrupted) == (1, False)


def test_a_report_that_is_superseded_gives_no_interrupt_back() -> None:
    session = story(up(), prompt(0), status(1, "waiting"))
    assert verdicts(session, 301) == [("waiting", "interrupt")]
    fold(session, status(302, "busy"))
    assert verdicts(session, 3002) == [("model", "report")]
    for signal in (block(3003), acted(3004, "superseded", "model", "report")):
        fold(session, signal)
    assert verdicts(session, 3003 + 2700) == [("model", "report")]


def test_one_whose_interrupt_failed_is_not_judged_twice_though_it_moved() -> None:
    session = story(up(), prompt(0))
    assert verdicts(session, 2700) == [("model", "interrupt")]
    for signal in (block(2701), acted(2702, "failed")):
        fold(session, signal)
    assert verdicts(session, 9000) == []


def test_one_that_did_not_move_is_not_judged_twice() -> None:
    session = story(up(), prompt(0))
    assert verdicts(session, 2700) == [("model", "interrupt")]
    fold(session, acted(2702, "superseded"))
    assert verdicts(session, 9000) == []


def test_one_whose_interrupt_was_sent_is_not_interrupted_again() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 2700)
    for signal in (sent(2701), block(2701.5), acted(2702, "superseded")):
        fold(session, signal)
    assert verdicts(session, 9000) == [("model", "report")]


def test_an_interrupt_known_to_be_without_effect_before_the_turn_went_on_marks_nothing() -> None:
    assert outcome(up(), prompt(1), sent(4), block(50), acted(34, "ineffective"), end(60)) == (
        "completed",
        60,
    )


def test_a_registration_dies_with_its_process() -> None:
    session = story(up(), g.Registered(0), g.ProcessSeen(0, 7, 0), prompt(1), g.ProcessGone(5))
    assert session.registered_at is None
    fold(session, acted(5, "reported", "gone", "report"))
    assert story(up(), g.Registered(0), prompt(1), g.ProcessGone(5), g.Registered(9)).registered_at == 9


def test_a_session_that_lapses_with_a_turn_open_leaves_it_abandoned() -> None:
    assert outcome(up(), prompt(1), block(3), g.Closed(90_000, "silent")) == ("abandoned", 3)


def test_so_many_latenesses_are_remembered() -> None:
    assert [at for at, _ in story(*(g.Late(at, 1.0) for at in range(300))).late] == [*range(44, 300)]


def test_an_end_by_the_agents_own_guard_is_not_ours_though_we_were_about_to_end_it() -> None:
    intended = g.Intended(4, "interrupt", "t1", "model", "r")
    for rest in (
        (g.TurnEnded(5, "interrupted", guarded=True),),
        (g.TurnEnded(5, "interrupted", 1.0, guarded=True), delta(5.5), g.Ticked(7)),
    ):
        s = story(up(), prompt(0), intended, *rest)
        assert s.last is not None
        assert s.last.outcome == "interrupted"
