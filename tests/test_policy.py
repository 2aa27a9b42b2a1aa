"""The bounds, as sentences: what trips, when, and what follows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar import changes as c
from sidecar import signals as g
from sidecar.fold import fold
from sidecar.life import lapsed
from sidecar.limits import Limit, Rules
from sidecar.policy import bound, bounds, interval, judge, tool_limit
from sidecar.wording import duration
from tests.stories import (
    HOUR,
    MIN,
    RULES,
    block,
    delta,
    end,
    of,
    prompt,
    result,
    status,
    story,
    tool,
    up,
    verdicts,
)

AGENT = tool(2, "Agent", delegates=True)
HOST = up(0, "host", "delta")
DIED = g.Acted(2, "report", "t1", "gone", "reported", "gone")
IDLE_REAPS = replace(RULES, idle=Limit(30 * MIN, "reap"))

Case = tuple[str, list[g.Signal], float, list[tuple[str, str]]]

# Each line: what holds, what happened, the second before which nothing trips, and what trips then.
TRIPS: list[Case] = [
    ("a silent model at record resolution has 45 min", [up(), prompt(0)], 45 * MIN, [("model", "interrupt")]),
    ("at delta resolution 15 min", [up(), HOST, prompt(0)], 15 * MIN, [("model", "interrupt")]),
    ("after the stream is lost 45 again", [up(), HOST, prompt(0), g.SourceLost(9, "host")], 45 * MIN, [("model", "interrupt")]),
    ("busy does not prove progress", [up(), prompt(0), status(1, "busy")], 45 * MIN, [("model", "interrupt")]),
    ("nor does a status that changes", [up(), prompt(0), status(1, "busy"), status(2, "idle"), status(3, "busy")], 45 * MIN, [("model", "interrupt")]),
    ("the last block counts", [up(), prompt(0), block(60)], 46 * MIN, [("model", "interrupt")]),
    ("so does a finished tool", [up(), prompt(0), tool(1), result(60)], 46 * MIN, [("model", "interrupt")]),
    ("a delta counts for silence", [up(), HOST, prompt(0), delta(60)], 16 * MIN, [("model", "interrupt")]),
    ("the end of a wait starts the model afresh", [up(), prompt(0), status(1, "waiting"), status(120, "busy")], 47 * MIN, [("model", "interrupt")]),
    ("the end of a recorded wait too", [up(), prompt(0), g.WaitStarted(1, "p"), g.WaitEnded(120)], 47 * MIN, [("model", "interrupt")]),
    ("the end of a compaction too", [up(), prompt(0), g.CompactionStarted(1), g.CompactionEnded(120)], 47 * MIN, [("model", "interrupt")]),
    ("the end of blindness too", [up(), prompt(0), g.SourceLost(1, "transcript"), up(120)], 47 * MIN, [("model", "interrupt")]),
    ("our own lateness extends it", [up(), prompt(0), g.Late(60, 600)], 55 * MIN, [("model", "interrupt")]),
    ("not what was noticed with the progress", [up(), prompt(0), block(60), g.Late(60, 600)], 46 * MIN, [("model", "interrupt")]),
    ("nor lateness from before the progress", [up(), prompt(0), g.Late(30, 600), block(60)], 46 * MIN, [("model", "interrupt")]),
    ("a permission has 5 min", [up(), prompt(0), tool(1), status(10, "waiting", "permission prompt")], 10 + 5 * MIN, [("waiting", "interrupt")]),
    ("one in the record has too", [up(), prompt(0), g.WaitStarted(10, "question")], 10 + 5 * MIN, [("waiting", "interrupt")]),
    ("and counts from there, whatever the status says later", [up(), prompt(0), g.WaitStarted(10, "question"), status(60, "waiting")], 10 + 5 * MIN, [("waiting", "interrupt")]),
    ("what came late before it began does not extend it", [up(), prompt(0), g.Late(5, 600), status(10, "waiting")], 10 + 5 * MIN, [("waiting", "interrupt")]),
    ("a wait without a visible turn can be ended", [g.Registered(0), status(10, "waiting")], 10 + 5 * MIN, [("waiting", "interrupt")]),
    ("an inherited one waits for nothing without a turn", [up(), g.Registered(0), g.Status(12, "waiting", 12, inherited=True)], 30 * MIN, [("idle", "report")]),
    ("compaction has 30 min", [up(), prompt(0), g.CompactionStarted(10)], 10 + 30 * MIN, [("compacting", "interrupt")]),
    ("a compaction without a turn is nobody's to end", [up(), g.CompactionStarted(10)], 10 + 30 * MIN, [("compacting", "report")]),
    ("nor one whose parent is busy", [up(), g.Status(5, "busy", 5, inherited=True), g.CompactionStarted(10)], 10 + 30 * MIN, [("compacting", "report")]),
    ("a subagent that hangs as soon as the turn begins trips it", [up(), g.TurnStarted(0, "t1", 0), tool(0, "Agent", delegates=True), g.ChildStuck(0, "a", "silence")], 0, [("delegated", "interrupt")]),
    ("nor where the agent says that it is idle", [up(), status(5, "idle"), g.CompactionStarted(10)], 10 + 30 * MIN, [("compacting", "report")]),
    ("idle in a turn has 90 s from the idle stamp", [up(), prompt(0), status(10, "idle")], 100, [("idle_in_turn", "report")]),
    ("or from later progress", [up(), prompt(0), status(10, "idle"), block(20)], 110, [("idle_in_turn", "report")]),
    ("an Edit has 15 min, then it is reported", [up(), prompt(0), tool(10, "Edit")], 10 + 15 * MIN, [("tool", "report")]),
    ("retries have the model's time from the newest", [up(), HOST, prompt(0), g.Retrying(60, "overloaded")], 16 * MIN, [("retrying", "interrupt")]),
    ("whenever the turn began", [up(), HOST, prompt(100), g.Retrying(160, "overloaded")], 160 + 15 * MIN, [("retrying", "interrupt")]),
    ("or from the announced attempt", [up(), HOST, prompt(0), g.Retrying(60, "overloaded", 120)], 17 * MIN, [("retrying", "interrupt")]),
    ("all retries together have 35 min", [up(), prompt(0), g.Retrying(60, "overloaded", 90)], 35 * MIN, [("retrying", "interrupt")]),
    ("an attempt announced for before is due at once", [up(), HOST, prompt(0), g.Retrying(60, "overloaded", 5)], 16 * MIN, [("retrying", "interrupt")]),
    ("what excused the model excuses its retries", [up(), HOST, prompt(0), status(1, "waiting"), g.Retrying(60, "overloaded"), status(120, "busy")], 17 * MIN, [("retrying", "interrupt")]),
    ("a limit ends 5 min after its reset", [up(), prompt(0), g.Limited(10, HOUR), end(10, "failed")], HOUR + 5 * MIN, [("limited", "report")]),
    ("one without a reset after 6 h", [up(), prompt(0), g.Limited(10), end(10, "failed")], 10 + 6 * HOUR, [("limited", "report")]),
    ("whatever retry is announced for before that", [up(), prompt(0), g.Limited(10, HOUR), g.Retrying(20, "other", 20 + 1000)], HOUR + 5 * MIN, [("limited", "report")]),
    ("a retry announced for later than 15 min is one", [up(), prompt(0), g.Retrying(10, "other", 10 + HOUR)], 10 + HOUR + 5 * MIN, [("limited", "report")]),
    ("one whose reset has passed after 5 min", [up(), prompt(0), g.Limited(10, 1), end(10, "failed")], 10 + 5 * MIN, [("limited", "report")]),
    ("a registration without a prompt has 10 min", [up(0, "registry", None), g.Registered(5)], 5 + 10 * MIN, [("starting", "report")]),
    ("a process without a registration has too", [g.ProcessSeen(20, 7, 5)], 5 + 10 * MIN, [("starting", "report")]),
    ("once it has one it counts from there", [g.ProcessSeen(20, 7, 5), g.Registered(20)], 20 + 10 * MIN, [("starting", "report")]),
    ("an idle session has 30 min", [up(), prompt(0), end(10)], 10 + 30 * MIN, [("idle", "report")]),
    ("counted from the end of its background work", [up(), prompt(0), end(10), g.Background(10, 1), g.Background(70, 0)], 70 + 30 * MIN, [("idle", "report")]),
    ("and of its subagents", [up(), prompt(0), end(10), g.ChildMoved(11, "a", True, 11), g.ChildMoved(72, "a", False, 70)], 70 + 30 * MIN, [("idle", "report")]),
    ("and of a reported background job", [up(), prompt(0), end(10), status(11, "background"), status(70, "idle")], 70 + 30 * MIN, [("idle", "report")]),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals", "at", "what"), TRIPS, ids=[case[0] for case in TRIPS])
def test_it_trips(says: str, signals: list[g.Signal], at: float, what: list[tuple[str, str]]) -> None:
    session = story(*signals)
    assert verdicts(session, at - 0.001) == [], says
    assert verdicts(session, at) == what, says
    assert what[0] not in verdicts(session, at + HOUR), "a verdict is given once"


NEVER: list[tuple[str, list[g.Signal]]] = [
    ("a running tool has no bound", [up(), prompt(0), tool(1)]),
    ("however many run", [up(), prompt(0), tool(1), tool(2, call="c2")]),
    ("nor has an MCP tool without a pattern", [up(), prompt(0), tool(1, "mcp__x__y")]),
    ("nor a turn that waits for its subagents", [up(), prompt(0), AGENT]),
    ("nor a background job", [up(), prompt(0), end(1), status(2, "background")]),
    ("nor busy without a turn", [g.Registered(0), status(1, "busy")]),
    ("nothing is known where every source is lost", [up(), prompt(0), g.SourceLost(1, "transcript")]),
    ("nor judged while the transcript is lost", [up(), HOST, prompt(0), g.SourceLost(1, "transcript")]),
    ("a tool neither", [up(), HOST, prompt(0), tool(1, "Edit"), g.SourceLost(2, "transcript")]),
    ("nor retries", [up(), HOST, prompt(0), g.Retrying(1, "other"), g.SourceLost(2, "transcript")]),
    ("nor while records lie there unread", [up(), prompt(0), g.CatchingUp(1, behind=True)]),
    ("a turn whose end settles is not the model's", [up(), prompt(0), end(1, settle=9e9)]),
    ("a death that was reported is not reported again", [up(), prompt(0), g.ProcessGone(1), DIED]),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals"), NEVER, ids=[case[0] for case in NEVER])
def test_it_never_trips(says: str, signals: list[g.Signal]) -> None:
    assert verdicts(story(*signals), 40 * HOUR) == [], says


def test_a_process_that_ended_in_a_turn_is_reported_at_once() -> None:
    session = story(up(), prompt(0), g.ProcessGone(5))
    shown = bound(session, RULES)
    assert shown is not None
    assert (shown.name, shown.limit, shown.deadline) == ("gone", 0, 5)
    assert judge(session, RULES, 4.5) == [], "nothing warns of a death"
    assert verdicts(session, 5) == [("gone", "report")]


def test_an_attended_session_is_reported_and_never_ended() -> None:
    for signals in (
        [up(), prompt(0)],
        [up(), prompt(0), status(1, "waiting")],
        [up(), prompt(0), g.CompactionStarted(1)],
        [up(), prompt(0), g.Retrying(1, "overloaded")],
    ):
        assert [action for _, action in verdicts(story(*signals, attended=True), 45 * MIN)] == ["report"]
    idle = story(up(), prompt(0), end(1), attended=True)
    assert verdicts(idle, HOUR, IDLE_REAPS) == [("idle", "report")]


def test_one_interrupt_a_turn_and_later_bounds_report() -> None:
    session = story(up(), prompt(0), status(1, "waiting"))
    assert verdicts(session, 1 + 5 * MIN) == [("waiting", "interrupt")]
    fold(session, status(400, "busy"))
    assert verdicts(session, 400 + 45 * MIN) == [("model", "report")]
    fold(session, prompt(4000, "t2"))
    assert verdicts(session, 4000 + 45 * MIN) == [("model", "interrupt")]


def test_nor_does_its_agent_get_another_by_resting_in_between() -> None:
    session = story(up(), prompt(0), status(1, "waiting"))
    verdicts(session, 1 + 5 * MIN)
    for signal in (status(302, "idle"), status(303, "busy")):
        fold(session, signal)
    assert verdicts(session, 303 + 45 * MIN) == [("model", "report")]


def test_an_interrupted_turn_does_not_keep_its_session_from_being_reaped() -> None:
    session = story(up(), prompt(0), status(1, "waiting"))
    verdicts(session, 1 + 5 * MIN)
    for signal in (end(400, "interrupted"), status(400, "idle")):
        fold(session, signal)
    assert verdicts(session, 400 + 30 * MIN, IDLE_REAPS) == [("idle", "reap")]


def test_two_bounds_at_once_interrupt_once() -> None:
    rules = replace(RULES, turn=Limit(10 * MIN))
    session = story(up(), prompt(0))
    assert verdicts(session, HOUR, rules) == [("turn", "interrupt"), ("model", "report")]


def test_a_stuck_subagent_that_is_told_of_again_without_progress_is_still_stuck() -> None:
    again = [g.ChildMoved(at, "a", running=True, progress=3) for at in (3, 3001)]
    session = story(up(), prompt(0), AGENT, again[0], g.ChildStuck(3000, "a", "silence"), again[1])
    assert verdicts(session, 3002) == [("delegated", "interrupt")]


def test_busy_without_a_turn_counts_from_its_own_stamp_and_from_the_end_of_blindness() -> None:
    rules = replace(RULES, busy=Limit(HOUR))
    session = story(g.Registered(0), status(600, "busy"))
    assert verdicts(session, 599 + HOUR, rules) == []
    assert verdicts(session, 600 + HOUR, rules) == [("busy", "interrupt")]
    assert session.verdicts[0].reason == "busy without a turn for 1h00m, limit 1h00m (status; status busy)"
    lost = story(up(), g.Registered(0), status(600, "busy"), g.SourceLost(700, "transcript"), up(900))
    assert verdicts(lost, 899 + HOUR, rules) == []
    assert verdicts(lost, 900 + HOUR, rules) == [("busy", "interrupt")]


def test_a_busy_period_without_a_turn_stands_for_one() -> None:
    rules = replace(RULES, busy=Limit(HOUR))
    session = story(g.Registered(0), status(0, "busy"))
    assert verdicts(session, HOUR - 1, rules) == []
    assert verdicts(session, HOUR, rules) == [("busy", "interrupt")]
    fold(session, status(HOUR + 1, "waiting"))
    fold(session, status(HOUR + 2, "busy"))
    assert verdicts(session, 3 * HOUR, rules) == [], "still the same period"
    fold(session, status(4 * HOUR, "idle"))
    fold(session, status(5 * HOUR, "busy"))
    (warned,) = judge(session, rules, 5.5 * HOUR)
    assert of(fold(session, warned), c.WarningGiven) != [], "warned of anew"
    assert verdicts(session, 6 * HOUR, rules) == [("busy", "interrupt")]


@pytest.mark.parametrize(
    ("says", "signals"),
    [
        ("nor where idle is said again", [status(2000, "idle")]),
        ("nor after a background job", [status(2000, "background"), status(3000, "idle")]),
    ],
)
def test_an_idle_session_is_not_reported_twice(says: str, signals: list[g.Signal]) -> None:
    session = story(up(), g.Registered(0), prompt(0), end(1), status(1, "idle"))
    assert verdicts(session, 1 + 30 * MIN) == [("idle", "report")]
    for signal in signals:
        fold(session, signal)
    assert verdicts(session, 9 * HOUR) == [], says


def test_an_opt_in_ceiling_counts_from_the_turns_start_whatever_it_does() -> None:
    rules = replace(RULES, turn=Limit(HOUR))
    session = story(up(), prompt(0), tool(HOUR - 1))
    assert verdicts(session, HOUR, rules) == [("turn", "interrupt")]
    assert session.verdicts[0].reason == (
        "the turn's own ceiling for 1h00m, limit 1h00m (transcript; no status)"
    )
    assert verdicts(story(up(), prompt(0), g.ProcessGone(1)), 2 * HOUR, rules) == [("gone", "report")]


def test_a_stuck_subagent_trips_the_turn_that_waits_for_it() -> None:
    moved = g.ChildMoved(3, "a", running=True, progress=3)
    session = story(up(), prompt(0), AGENT, moved, g.ChildStuck(3000, "a", "no progress for 45m00s"))
    assert verdicts(session, 2999) == []
    assert verdicts(session, 3000) == [("delegated", "interrupt")]
    assert session.verdicts[0].reason == "a subagent cannot be ended alone: no progress for 45m00s"


def test_two_stuck_subagents_trip_it_once() -> None:
    moved = [g.ChildMoved(3, name, running=True, progress=3) for name in "ab"]
    stuck = [g.ChildStuck(3000, name, "silence") for name in "ab"]
    assert verdicts(story(up(), prompt(0), AGENT, *moved, *stuck), 3000) == [("delegated", "interrupt")]


@pytest.mark.parametrize(
    ("says", "last"),
    [
        ("one that went on does not", g.ChildMoved(3001, "a", running=True, progress=3001)),
        ("one that ended does not", g.ChildMoved(3001, "a", running=False, progress=3)),
        ("nor one that ended long after", g.ChildMoved(3001, "a", running=False, progress=3001)),
        ("nor does one that nobody waits for", result(3001)),
    ],
)
def test_a_subagent_that_is_stuck_no_more(says: str, last: g.Signal) -> None:
    moved = g.ChildMoved(3, "a", running=True, progress=3)
    session = story(up(), prompt(0), AGENT, moved, g.ChildStuck(3000, "a", "silence"), last)
    assert verdicts(session, 3002) == [], says


def test_tool_patterns_an_exact_name_before_a_pattern_and_a_long_one_before_a_short() -> None:
    rules = replace(
        RULES, tool={"mcp__*": Limit(30.0), "mcp__git__*": Limit(20.0), "mcp__git__push": Limit(10.0)}
    )
    assert tool_limit("mcp__git__push", rules) == ("mcp__git__push", Limit(10.0))
    assert tool_limit("mcp__git__pull", rules) == ("mcp__git__*", Limit(20.0))
    assert tool_limit("mcp__web", rules) == ("mcp__*", Limit(30.0))
    assert tool_limit("Bash", rules) is None
    rules = replace(
        RULES,
        tool={"mcp__git__*": Limit(20.0), "mcp__git__pus[hl]": Limit(10.0), "mcp__git__pull": Limit(5.0)},
    )
    assert tool_limit("mcp__git__pull", rules) == ("mcp__git__pull", Limit(5.0))
    assert tool_limit("mcp__git__push", rules) == ("mcp__git__pus[hl]", Limit(10.0))
    rules = replace(RULES, tool={"Bash": Limit(10.0), "[B]ash": Limit(20.0)})
    assert tool_limit("Bash", rules) == ("Bash", Limit(10.0)), "however long the pattern"


def test_an_mcp_tool_trips_where_a_pattern_bounds_it_beside_one_that_has_no_bound() -> None:
    rules = replace(RULES, tool={"mcp__*": Limit(30 * MIN), "Edit": Limit(15 * MIN, "report")})
    calls = [tool(1), tool(2, "mcp__x", "c2"), tool(3, "Edit", "c3")]
    session = story(up(), prompt(0), *calls)
    assert verdicts(session, 3 + 15 * MIN, rules) == [("tool", "report")]
    assert session.verdicts[-1].reason.startswith(
        "no progress for 15m00s while in the tool Edit; perhaps waiting"
    )
    assert session.verdicts[-1].key == "tool:Edit"
    assert verdicts(session, 3 + 30 * MIN, rules) == [("tool", "interrupt")]
    assert session.verdicts[-1].key == "tool:mcp__*"
    assert session.verdicts[-1].reason == (
        "no progress for 30m00s while in the tool mcp__x, limit 30m00s (transcript; no status)"
    )


def test_an_off_bound_does_not_run() -> None:
    rules = replace(RULES, model_record=Limit(None))
    assert verdicts(story(up(), prompt(0)), 99 * HOUR, rules) == []
    rules = replace(RULES, model_record=Limit(None), retrying=Limit(None))
    assert verdicts(story(up(), prompt(0), g.Retrying(1, "other")), 99 * HOUR, rules) == []
    rules = replace(RULES, limited=Limit(None))
    for limited in (g.Limited(1), g.Limited(1, HOUR)):
        assert verdicts(story(up(), prompt(0), limited), 99 * HOUR, rules) == []


def test_retries_with_the_ceiling_off_have_the_models_time() -> None:
    rules = replace(RULES, retrying=Limit(None))
    session = story(up(), prompt(0), g.Retrying(60, "other"))
    assert verdicts(session, 60 + 45 * MIN, rules) == [("retrying", "interrupt")]


def test_retries_are_reported_where_that_is_configured() -> None:
    rules = replace(RULES, retrying=Limit(HOUR, "report"))
    session = story(up(), prompt(0), g.Retrying(60, "other"))
    assert verdicts(session, 60 + 45 * MIN, rules) == [("retrying", "report")]


def test_an_idle_session_is_reaped_where_configured_and_before_its_first_turn_only_if_asked() -> None:
    assert verdicts(story(up(), prompt(0), end(1)), 31 * MIN, IDLE_REAPS) == [("idle", "reap")]
    fresh = [up(), g.Registered(0), status(0, "idle")]
    assert verdicts(story(*fresh), 30 * MIN, IDLE_REAPS) == [("idle", "report")], "it is told"
    assert verdicts(story(*fresh), 30 * MIN, replace(IDLE_REAPS, unprompted=True)) == [("idle", "reap")]
    silent = story(up(), g.Registered(60), delta(120))
    assert verdicts(silent, 30 * MIN - 1, replace(IDLE_REAPS, unprompted=True)) == [], "from first sight"
    assert verdicts(silent, 30 * MIN, replace(IDLE_REAPS, unprompted=True)) == [("idle", "reap")]


def test_whoever_does_not_see_all_of_a_session_does_not_call_it_idle() -> None:
    seen = (up(), up(0, "listing", None), prompt(1), end(5))
    assert verdicts(story(*seen), 31 * MIN, IDLE_REAPS) == [("idle", "reap")]
    lost = story(*seen, g.SourceLost(9, "listing"))
    assert (lost.phase, verdicts(lost, 31 * MIN, IDLE_REAPS)) == ("idle", [])


def test_a_limit_that_lasted_is_over_and_the_idle_time_goes_on() -> None:
    session = story(up(), prompt(0), g.Limited(10, 100), end(10, "failed"))
    assert verdicts(session, 100 + 5 * MIN) == [("limited", "report")]
    assert session.phase == "idle"


def test_a_limit_that_lasted_with_a_turn_open_starts_the_model_afresh() -> None:
    session = story(up(), prompt(0), g.Limited(10, 100))
    assert verdicts(session, 100 + 5 * MIN) == [("limited", "report")]
    assert verdicts(session, 400 + 45 * MIN - 0.001) == []
    assert verdicts(session, 400 + 45 * MIN) == [("model", "interrupt")]


def test_a_warning_comes_once_at_its_time_and_is_no_verdict() -> None:
    session = story(up(), prompt(0))
    assert judge(session, RULES, 20 * MIN - 0.001) == []
    warned = judge(session, RULES, 20 * MIN)
    reason = "no progress for 20m00s while waiting for the model, limit 45m00s (transcript; no status)"
    assert warned == [g.Warned(20 * MIN, "model", "model", reason)]
    fold(session, warned[0])
    assert judge(session, RULES, 21 * MIN) == []
    assert session.verdicts == []


def test_a_warning_is_half_the_limit_unless_set_and_none_where_it_equals_the_limit() -> None:
    session = story(up(), prompt(0), status(0, "waiting"))
    assert judge(session, RULES, 2.5 * MIN - 0.001) == []
    assert len(judge(session, RULES, 2.5 * MIN)) == 1
    rules = replace(RULES, waiting=Limit(100.0, warn=100.0))
    assert judge(session, rules, 99) == []
    limited = story(up(), prompt(0), g.Limited(0, HOUR))
    assert judge(limited, RULES, HOUR + 4 * MIN) == [], "a usage limit is nobody's fault"


def test_our_own_lateness_puts_a_warning_off_too() -> None:
    session = story(up(), prompt(0), g.Late(60, 600), g.Late(90, 60))
    assert judge(session, RULES, 31 * MIN - 0.001) == []
    assert len(judge(session, RULES, 31 * MIN)) == 1


def test_a_verdict_names_its_evidence_and_the_turn_that_is_open_or_was_last() -> None:
    said = judge(story(up(), HOST, prompt(0)), RULES, 15 * MIN)
    assert [(s.evidence, s.turn) for s in said if isinstance(s, g.Judged)] == [("stream", "t1")]
    said = judge(story(up(), prompt(0), end(1)), RULES, 31 * MIN)
    assert [(s.evidence, s.turn) for s in said if isinstance(s, g.Judged)] == [("transcript", "t1")]
    said = judge(story(g.Registered(0)), RULES, 10 * MIN)
    assert [(s.evidence, s.turn) for s in said if isinstance(s, g.Judged)] == [("process", None)]


def test_jitter_is_the_sessions_share_on_top_of_every_limit() -> None:
    rules = replace(RULES, jitter=0.1)
    session = story(up(), prompt(0), luck=0.5)
    assert verdicts(session, 45 * MIN * 1.05 - 0.001, rules) == []
    assert verdicts(session, 45 * MIN * 1.05, rules) == [("model", "interrupt")]


REASONS: list[tuple[str, list[g.Signal], float, str]] = [
    ("the model", [up(), prompt(0)], 2701, "no progress for 45m01s while waiting for the model, limit 45m00s (transcript; no status)"),
    ("the model though busy", [up(), HOST, prompt(0), status(1, "busy")], 900, "no progress for 15m00s while waiting for the model, limit 15m00s (stream; status busy)"),
    ("a permission", [up(), prompt(0), status(0, "waiting", "permission prompt")], 300, "waiting for permission prompt for 5m00s, limit 5m00s (status; status waiting)"),
    ("a question in the record", [up(), prompt(0), status(0, "busy"), g.WaitStarted(60, "question")], 360, "waiting for question for 5m00s, limit 5m00s (transcript; status busy)"),
    ("an unnamed wait", [up(), prompt(0), status(0, "waiting")], 300, "waiting for an answer for 5m00s, limit 5m00s (status; status waiting)"),
    ("retries", [up(), prompt(0), g.Retrying(1, "other")], 2100, "no progress for 35m00s while retrying the provider, limit 35m00s (transcript; no status)"),
    ("idle in a turn", [up(), prompt(0), status(0, "idle")], 90, "the agent reports idle with a turn open for 1m30s, limit 1m30s (transcript; status idle)"),
    ("a compaction", [up(), prompt(0), g.CompactionStarted(0)], 1800, "compacting for 30m00s, limit 30m00s (transcript; no status)"),
    ("idle", [up(), prompt(0), end(0)], 1800, "idle for 30m00s, limit 30m00s (transcript; no status)"),
    ("no registration", [g.ProcessSeen(0, 7, 0)], 600, "never registered for 10m00s, limit 10m00s (process; no status)"),
    ("no prompt", [g.Registered(0)], 600, "its prompt never landed for 10m00s, limit 10m00s (process; no status)"),
    ("gone", [up(), prompt(0), g.ProcessGone(9)], 9, "the process ended with a turn open (transcript; no status)"),
    ("a limit", [up(), prompt(0), g.Limited(60)], 60 + 6 * HOUR, "the usage limit has lasted 6h00m, limit 6h00m (transcript; no status)"),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals", "now", "reason"), REASONS, ids=[case[0] for case in REASONS])
def test_the_reason_names_the_evidence_and_the_numbers(
    says: str, signals: list[g.Signal], now: float, reason: str
) -> None:
    said = [s for s in judge(story(*signals), RULES, now) if isinstance(s, g.Judged)]
    assert [s.reason for s in said] == [reason], says


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0s"), (5, "5s"), (5.5, "5.5s"), (9.96, "10.0s"), (10.4, "10s"), (59, "59s"), (60, "1m00s"), (412, "6m52s"), (3599, "59m59s"), (3600, "1h00m"), (7140, "1h59m"), (7199, "1h59m"), (7265, "2h01m"), (-3, "0s")],
)  # fmt: skip
def test_durations_are_written_as_people_do(seconds: float, written: str) -> None:
    assert duration(seconds) == written


def test_the_bound_shown_is_the_nearest_that_has_not_tripped() -> None:
    rules = replace(RULES, turn=Limit(10 * MIN))
    session = story(up(), prompt(0))
    shown = bound(session, rules)
    assert shown is not None
    assert (shown.name, shown.remaining(0)) == ("turn", 10 * MIN)
    verdicts(session, 10 * MIN, rules)
    shown = bound(session, rules)
    assert shown is not None
    assert shown.name == "model"
    verdicts(session, HOUR, rules)
    shown = bound(session, rules)
    assert shown is not None
    assert (shown.name, shown.action) == ("turn", "report")
    assert bound(story(up(), prompt(0), tool(1)), RULES) is None


def test_a_closed_session_has_no_bounds() -> None:
    assert bounds(story(up(), g.Registered(0), prompt(0), end(1)), RULES) != []
    assert bounds(story(up(), g.Registered(0), prompt(0), end(1), g.Unregistered(2)), RULES) == []


LAPSES: list[tuple[str, list[g.Signal], float | None]] = [
    ("known by growth and idle: at the idle limit", [up(), prompt(0), end(10)], 10 + 30 * MIN),
    ("with a turn open: after a day", [up(), prompt(10)], 10 + 24 * HOUR),
    ("and says something: at the idle limit after that", [up(), prompt(0), end(10), delta(100)], 100 + 30 * MIN),
    ("gone with a turn open: after a day", [up(), prompt(0), end(1), prompt(5, "t2"), g.ProcessGone(10)], 5 + 24 * HOUR),
    ("gone and reported: at the idle limit after it went", [up(), prompt(0), g.ProcessGone(100), DIED], 100 + 30 * MIN),
    ("gone before its end was told: after it went too", [up(), prompt(0), g.ProcessGone(100), end(50)], 100 + 30 * MIN),
    ("with a background job: after a day", [up(), prompt(0), end(10), g.Background(10, 1)], 10 + 24 * HOUR),
    ("limited: after a day", [up(), prompt(0), g.Limited(10), end(10, "failed")], 10 + 24 * HOUR),
    ("registered: never", [up(), g.Registered(0), prompt(0), end(10)], None),
    ("held by a process: never", [up(), g.ProcessSeen(0, 7, 0), prompt(0), end(10)], None),
    ("while a subagent runs: never", [up(), prompt(0), end(10), g.ChildMoved(11, "a", True, 11)], None),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals", "at"), LAPSES, ids=[case[0] for case in LAPSES])
def test_a_session_lapses(says: str, signals: list[g.Signal], at: float | None) -> None:
    session = story(*signals)
    if at is None:
        assert lapsed(session, RULES, 99 * HOUR) is False, says
        return
    assert lapsed(session, RULES, at - 0.001) is False, says
    assert lapsed(session, RULES, at) is True, says


def test_a_session_that_ended_lapses_until_it_goes_on() -> None:
    session = story(up(), g.Registered(0), prompt(0), block(11), end(11), g.Unregistered(11))
    assert lapsed(session, RULES, 12)
    assert lapsed(story(up(), g.Registered(0), g.Unregistered(1)), RULES, 2), "one that never worked too"
    session.closed = None
    fold(session, prompt(20, "t2"))
    assert not lapsed(session, RULES, 21)


def test_with_the_idle_bound_off_a_session_known_by_growth_is_kept_a_day() -> None:
    rules = replace(RULES, idle=Limit(None))
    session = story(up(), prompt(0), end(10))
    assert not lapsed(session, rules, 9 + 24 * HOUR)
    assert lapsed(session, rules, 10 + 24 * HOUR)


@pytest.mark.parametrize(
    ("says", "signals", "now", "seconds"),
    [
        ("a quarter of what is left to the warning", [up(), prompt(0)], 20 * MIN - 20, 5.0),
        ("to the deadline, once warned", [up(), prompt(0)], 45 * MIN - 8, 2.0),
        ("15 s at most", [up(), prompt(0)], 0, 15.0),
        ("100 ms at least", [up(), prompt(0)], 45 * MIN - 0.01, 0.1),
        ("no bound, no hurry", [up(), prompt(0), tool(1)], 2, 15.0),
        ("an end that settles", [up(), prompt(0), end(0, settle=4)], 0, 1.0),
        ("one that is due", [up(), prompt(0), end(0, settle=4)], 9, 0.1),
    ],
)
def test_how_soon_to_look_again(says: str, signals: list[g.Signal], now: float, seconds: float) -> None:
    session = story(*signals)
    verdicts(session, now)
    assert interval(session, RULES, now) == pytest.approx(seconds), says


def test_of_several_bounds_the_nearest_is_waited_for() -> None:
    rules = replace(RULES, turn=Limit(10 * MIN))
    session = story(up(), prompt(0))
    verdicts(session, 5 * MIN, rules)
    assert interval(session, rules, 10 * MIN - 8) == 2.0


def test_who_is_in_no_hurry_looks_no_sooner_than_it_has_to() -> None:
    session = story(up(), prompt(0))
    assert interval(session, RULES, 0, 300.0) == 300.0, "a quarter of the 20 min to the warning"
    assert interval(session, RULES, 0, 900.0) == 300.0
    assert interval(story(up(), prompt(0), tool(1)), RULES, 2, 900.0) == 900.0


def test_what_has_tripped_is_not_waited_for() -> None:
    session = story(up(), prompt(0))
    verdicts(session, HOUR)
    assert interval(session, RULES, HOUR) == 15.0


def test_a_warning_that_was_given_is_not_waited_for_again() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 20 * MIN)
    fold(session, block(21 * MIN))
    assert interval(session, RULES, 41 * MIN - 8) == 15.0
    assert interval(session, RULES, 66 * MIN - 8) == 2.0


def test_the_default_numbers() -> None:
    rules = Rules()
    assert (rules.model_record.limit, rules.model_record.warn) == (2700, 1200)
    assert (rules.model_delta.limit, rules.model_delta.warn) == (900, 360)
    assert (rules.waiting.limit, rules.compacting.limit, rules.starting.limit) == (300, 1800, 600)
    assert (rules.idle_in_turn.limit, rules.idle.limit, rules.retrying.limit) == (90, 1800, 2100)
    assert rules.limited.limit == 6 * HOUR
    assert {name: limit.limit for name, limit in rules.tool.items()} == dict.fromkeys(
        ("Edit", "Write", "NotebookEdit", "AskUserQuestion", "ExitPlanMode"), 900.0
    )
    assert (rules.turn.limit, rules.busy.limit, rules.jitter, rules.unprompted) == (None, None, 0.0, False)
