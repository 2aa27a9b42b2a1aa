"""Which phase a session is in: the first that holds, strongest evidence first."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict

from sidecar import signals as g
from sidecar.phases import evidence, waiting_for
from sidecar.session import KEPT_VERDICTS, OUTCOMES, PHASES, Child, Report, Session, Tool, Turn, Verdict
from tests.stories import block, delta, end, prompt, result, status, story, told, tool, up

HOLDS: list[tuple[str, list[g.Signal], str]] = [
    ("nothing known is idle", [], "idle"),
    ("a prompt opens a turn that waits for the model", [up(), prompt(1)], "model"),
    ("a block without a prompt opens a turn too", [up(), block(1)], "model"),
    ("a tool call without a prompt opens a turn too", [up(), tool(1)], "tool"),
    ("a delta alone opens none", [up(), delta(1)], "idle"),
    ("an open tool is a tool", [up(), prompt(1), tool(2)], "tool"),
    ("a finished tool is the model's turn again", [up(), prompt(1), tool(2), result(3)], "model"),
    (
        "one of two tools is still open",
        [up(), prompt(1), tool(2), tool(2, call="c2"), result(3)],
        "tool",
    ),
    ("a tool that delegates is delegated", [up(), prompt(1), tool(2, "Agent", delegates=True)], "delegated"),
    ("a retry is retrying", [up(), prompt(1), g.Retrying(2, "overloaded")], "retrying"),
    ("progress ends a retry", [up(), prompt(1), g.Retrying(2, "overloaded"), block(3)], "model"),
    ("a retry far ahead is a limit", [up(), prompt(1), g.Retrying(2, "other", 2 + 901)], "limited"),
    ("a retry 15 min ahead is not", [up(), prompt(1), g.Retrying(2, "other", 2 + 900)], "retrying"),
    ("a limit outlasts its turn", [up(), prompt(1), g.Limited(2), end(2, "failed")], "limited"),
    ("a new prompt ends a limit", [up(), prompt(1), g.Limited(2), end(2, "failed"), prompt(3, "t2")], "model"),
    ("compaction is compacting", [up(), prompt(1), g.CompactionStarted(2)], "compacting"),
    ("its end is not", [up(), prompt(1), g.CompactionStarted(2), g.CompactionEnded(3)], "model"),
    ("a permission seen in the record waits", [up(), prompt(1), g.WaitStarted(2, "permission")], "waiting"),
    ("its answer ends it", [up(), prompt(1), g.WaitStarted(2, "p"), g.WaitEnded(3)], "model"),
    ("a reported wait waits, tool or not", [up(), prompt(1), tool(2), status(3, "waiting", "permission prompt")], "waiting"),
    ("a wait is over with its turn", [up(), prompt(1), g.WaitStarted(2, "p"), end(3)], "idle"),
    ("so is a compaction", [up(), prompt(1), g.CompactionStarted(2), end(3)], "idle"),
    ("a limit is stronger than a wait", [up(), prompt(1), status(2, "waiting"), g.Limited(3)], "limited"),
    ("a wait is stronger than compaction", [up(), prompt(1), g.CompactionStarted(2), g.WaitStarted(3, "p")], "waiting"),
    ("idle reported in a turn is idle_in_turn", [up(), prompt(1), status(2, "idle")], "idle_in_turn"),
    ("with a tool open too", [up(), prompt(1), tool(2), status(3, "idle")], "idle_in_turn"),
    ("a background job in a turn is idle_in_turn", [up(), prompt(1), status(2, "background")], "idle_in_turn"),
    ("idle from before the turn says nothing", [up(), status(0, "idle"), prompt(1)], "model"),
    ("a busy sample ends idle_in_turn", [up(), prompt(1), status(2, "idle"), status(3, "busy")], "model"),
    ("a turn about to settle is not idle_in_turn", [up(), prompt(1), end(2, settle=1.5), status(3, "idle")], "model"),
    ("busy with an open turn is the model's", [up(), prompt(1), status(2, "busy")], "model"),
    ("busy without a turn is the model's", [up(), status(2, "busy")], "model"),
    ("busy after a turn is the model's", [up(), prompt(1), end(2), status(3, "busy")], "model"),
    ("a finished turn is idle", [up(), prompt(1), block(2), end(2)], "idle"),
    ("a provisional end is not yet one", [up(), prompt(1), block(2), end(2, settle=1.5)], "model"),
    ("a settled end is", [up(), prompt(1), block(2), end(2, settle=1.5), g.Ticked(3.5)], "idle"),
    ("it is not settled before", [up(), prompt(1), block(2), end(2, settle=1.5), g.Ticked(3.4)], "model"),
    ("new work cancels a provisional end", [up(), prompt(1), end(2, settle=1.5), block(3), g.Ticked(9)], "model"),
    ("a late delta does not", [up(), prompt(1), end(2, settle=1.5), delta(2.2), g.Ticked(9)], "idle"),
    ("a background task after the turn is delegated", [up(), prompt(1), end(2), g.Background(2, 1)], "delegated"),
    ("its end is idle", [up(), prompt(1), end(2), g.Background(2, 1), g.Background(9, 0)], "idle"),
    ("a background status after the turn is delegated", [up(), prompt(1), end(2), status(3, "background")], "delegated"),
    ("a running subagent after the turn is delegated", [up(), prompt(1), end(2), g.ChildMoved(3, "a", True, 3)], "delegated"),
    ("a finished one is idle", [up(), prompt(1), end(2), g.ChildMoved(3, "a", True, 3), g.ChildMoved(4, "a", False, 4)], "idle"),
    ("a running subagent that no tool waits for leaves the turn alone", [up(), prompt(1), g.ChildMoved(3, "a", True, 3)], "model"),
    ("a registration alone is starting", [up(source="registry", resolution=None), g.Registered(0)], "starting"),
    ("a process alone is starting", [g.ProcessSeen(1, 7, 0)], "starting"),
    ("one that said what it was at is not starting when that is lost", [up(), up(source="registry", resolution=None), g.Registered(0), status(1, "busy", source="registry"), g.SourceLost(2, "registry")], "unknown"),
    ("it is when it took that back", [up(), up(source="registry", resolution=None), g.Registered(0), status(1, "busy", source="registry"), status(2, None, source="registry")], "starting"),
    ("a registration that says idle waits for its prompt", [g.Registered(0), status(1, "idle")], "idle"),
    ("a registration whose turn is over is idle", [up(), g.Registered(0), prompt(1), end(2)], "idle"),
    ("a process that ended in a turn is gone", [up(), prompt(1), g.ProcessGone(2)], "gone"),
    ("a registration removed in a turn is gone", [up(), g.Registered(0), prompt(1), g.Unregistered(2)], "gone"),
    ("gone is stronger than a wait", [up(), prompt(1), status(2, "waiting"), g.ProcessGone(3)], "gone"),
    ("work after that was not gone", [up(), prompt(1), g.ProcessGone(2), block(3)], "model"),
    ("a process that ended with an end pending is over", [up(), prompt(1), end(2, settle=1.5), g.ProcessGone(2.1)], "idle"),
    ("all sources lost is unknown", [up(), prompt(1), g.SourceLost(2, "transcript")], "unknown"),
    ("unknown is stronger than gone", [up(), prompt(1), g.ProcessGone(2), g.SourceLost(3, "transcript")], "unknown"),
    ("one of two sources lost is not", [up(), up(0, "registry", None), prompt(1), g.SourceLost(2, "registry")], "model"),
    ("a regained source is known again", [up(), prompt(1), g.SourceLost(2, "transcript"), up(3)], "model"),
    ("presence moves nothing", [up(), g.Presence(1)], "idle"),
    ("an inherited wait is a wait", [up(), prompt(1), g.Status(2, "waiting", 2, "permission prompt", inherited=True)], "waiting"),
    ("an inherited word does not replace an own one", [up(), prompt(1), status(2, "busy"), g.Status(3, "waiting", 3, None, inherited=True)], "model"),
    ("no word any more leaves the transcript's", [up(), prompt(1), status(2, "waiting"), status(3, None)], "model"),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals", "phase"), HOLDS, ids=[case[0] for case in HOLDS])
def test_phase(says: str, signals: list[g.Signal], phase: str) -> None:
    assert story(*signals).phase == phase, says


EVIDENCE: list[tuple[str, list[g.Signal], str]] = [
    ("a transcript", [up(), prompt(1)], "transcript"),
    ("a stream beside it", [up(), up(0, "host", "delta"), prompt(1)], "stream"),
    ("a lost stream beside it", [up(), up(0, "host", "delta"), prompt(1), g.SourceLost(2, "host")], "transcript"),
    ("a status alone", [g.Registered(0), status(1, "busy")], "status"),
    ("a wait that only the status tells", [up(), prompt(1), status(2, "waiting")], "status"),
    ("a wait that the record tells", [up(), prompt(1), g.WaitStarted(2, "p")], "transcript"),
    ("a process alone", [g.ProcessSeen(1, 7, 0)], "process"),
]  # fmt: skip


@pytest.mark.parametrize(("says", "signals", "word"), EVIDENCE, ids=[case[0] for case in EVIDENCE])
def test_evidence(says: str, signals: list[g.Signal], word: str) -> None:
    assert evidence(story(*signals)) == word, says


def test_silence_counts_from_the_last_progress_and_before_any_from_first_sight() -> None:
    session = Session("claude-code", "s1", 10.0)
    assert session.silence(25) == 15
    assert story(up(), prompt(3), block(7)).silence(10) == 3
    assert story(up(), prompt(3)).silence(1) == 0


def test_a_turn_was_had_from_its_beginning() -> None:
    assert not story(up(), g.Registered(0)).had_turn
    assert story(up(), prompt(1)).had_turn
    assert story(up(), prompt(1), end(2)).had_turn


def test_only_a_status_that_waits_says_for_what() -> None:
    assert waiting_for(story(status(1, "waiting", "question"))) == "question"
    assert waiting_for(story(status(1, "busy", "question"))) is None
    assert (
        waiting_for(story(status(1, "waiting", "question"), g.WaitStarted(2, "permission"))) == "permission"
    )


def test_a_lost_transcript_is_blindness_though_the_host_still_streams() -> None:
    session = story(up(), up(0, "host", "delta"), prompt(1), g.SourceLost(2, "transcript"))
    assert session.blind
    assert session.resolution == "delta"
    assert not story(up(), prompt(1)).blind


def test_what_a_closed_session_is_told_changes_nothing() -> None:
    session, _ = told(up(), g.Registered(0), g.Unregistered(1))
    assert session.closed == "unregistered"
    _, changes = told(up(), g.Registered(0), g.Unregistered(1), prompt(2))
    assert [type(change).__name__ for change in changes][-1] == "SessionClosed"


def test_phases_come_in_their_order_of_precedence_and_outcomes_are_a_closed_set() -> None:
    assert PHASES == (
        "unknown",
        "gone",
        "limited",
        "waiting",
        "compacting",
        "idle_in_turn",
        "delegated",
        "tool",
        "retrying",
        "model",
        "starting",
        "idle",
    )
    assert OUTCOMES == ("completed", "interrupted", "stalled", "failed", "abandoned", "died")
    assert KEPT_VERDICTS == 50


def test_of_a_session_first_seen_nothing_is_known() -> None:
    assert asdict(Session("codex", "s9", 7.0)) == {
        "agent": "codex",
        "id": "s9",
        "first_seen": 7.0,
        "parent": None,
        "attended": False,
        "version": None,
        "model": None,
        "luck": 0.0,
        "progress_at": None,
        "sources": {},
        "resolutions": {},
        "registered_at": None,
        "process": None,
        "rss": None,
        "cpu": None,
        "status": None,
        "heard": {},
        "rested": False,
        "turn": None,
        "last": None,
        "ended_ids": [],
        "end": None,
        "tools": {},
        "wait": None,
        "compacting_since": None,
        "retry": None,
        "limit": None,
        "background": 0,
        "children": {},
        "gone_at": None,
        "idle_since": None,
        "floor": float("-inf"),
        "behind": False,
        "late": [],
        "phase": "idle",
        "phase_since": 0.0,
        "phase_turn": None,
        "phase_waits": None,
        "judged": set(),
        "warned": set(),
        "interrupted": False,
        "verdicts": [],
        "turns": dict.fromkeys(OUTCOMES, 0),
        "closed": None,
        "closed_at": None,
        "dormant": True,
    }


def test_nor_of_its_parts_what_is_not_said() -> None:
    assert asdict(Turn("t1", 1.0)) == {
        "id": "t1",
        "started_at": 1.0,
        "ended_at": None,
        "outcome": None,
        "phase_seconds": {},
        "tool_calls": 0,
        "tokens": {},
        "model": None,
        "ending": "",
    }
    verdict = Verdict(1.0, "t1", "model", "model", "interrupt", "transcript", "silence")
    assert (verdict.outcome, verdict.recovered, verdict.progress_at) == (None, False, None)
    assert Tool("Bash", 1.0).delegates is False
    assert (Report("busy", 1.0).waiting_for, Report("busy", 1.0).inherited) == (None, False)
    child = Child(running=True, progress=1.0)
    assert (child.stuck, child.stuck_at) == (None, 0.0)


def test_all_streams_lost_is_blindness_though_a_status_still_answers() -> None:
    lone = [up(0, "events", "delta"), up(0, "status", None), prompt(1), g.SourceLost(2, "events")]
    assert story(*lone).blind
    assert not story(up(), up(0, "host", "delta"), prompt(1), g.SourceLost(2, "host")).blind
    assert story(g.Registered(0), up(0, "listing", None)).blind, "where nothing ever showed any"
