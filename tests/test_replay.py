"""Replay: recorded sessions through the same judge, with the outcome `observed`."""

from __future__ import annotations

from sidecar import signals as g
from sidecar.limits import Rules
from sidecar.replay import Replay
from tests.stories import HOUR, MIN, block, end, prompt, result, status, tool, up

DAY = 1_790_000_000.0


def seen(*signals: g.Signal, session: str = "s1") -> list[g.Observation]:
    """Signals as a recording has them, on the wall's clock."""
    from msgspec.structs import replace  # noqa: PLC0415

    return [g.Observation(session, replace(s, at=s.at + DAY)) for s in signals]


def replayed(observations: list[g.Observation], more: float = 0.0) -> Replay:
    replay = Replay("claude-code", Rules())
    replay.run(observations, lambda last: last + more)
    return replay


def test_it_ends_at_the_last_record() -> None:
    (session,) = replayed(seen(up(0), prompt(0), block(10), tool(20))).shown()
    assert (session["phase"], session["silence_seconds"], session["verdicts"]) == ("tool", 0.0, [])


def test_or_runs_on_and_judges_at_the_deadline_itself() -> None:
    replay = replayed(seen(up(0), prompt(0), block(10)), 2 * HOUR)
    (session,) = replay.shown()
    (verdict,) = session["verdicts"]
    assert (verdict["bound"], verdict["action"], verdict["outcome"]) == ("model", "interrupt", "observed")
    assert verdict["reason"].startswith("no progress for 45m00s")
    assert session["turn"]["outcome"] is None
    assert session["turns"]["stalled"] == 0
    assert session["silence_seconds"] == 2 * HOUR


def test_reports_are_observed_too_and_end_nothing() -> None:
    (session,) = replayed(seen(up(0), prompt(0), status(5, "idle")), HOUR).shown()
    assert [(v["bound"], v["outcome"]) for v in session["verdicts"]] == [("idle_in_turn", "observed")]
    assert session["phase"] == "idle_in_turn"


def test_a_session_known_by_growth_closes_at_the_idle_limit_and_is_still_shown() -> None:
    (session,) = replayed(seen(up(0), prompt(0), end(1)), HOUR).shown()
    assert (session["phase"], session["bound"], session["verdicts"]) == ("idle", None, [])


def test_pending_ends_settle_at_once_dated_at_their_record() -> None:
    (session,) = replayed(seen(up(0), prompt(0), block(5), end(5, settle=60))).shown()
    assert session["turn"]["outcome"] == "completed"
    assert session["turn"]["ended_at"] < "2026-09-21T14:13:26Z"


def test_one_that_the_recording_settles_itself_does_so_in_between() -> None:
    (session,) = replayed(seen(up(0), prompt(0), end(5, settle=1.5), prompt(90, "t2"))).shown()
    assert session["turns"]["completed"] == 1


def test_the_summary_says_what_each_bound_would_have_ended_and_what_came_back() -> None:
    signals = [
        up(0),
        prompt(0),
        block(50 * MIN),
        end(51 * MIN),
        prompt(60 * MIN, "t2"),
        tool(61 * MIN),
        result(62 * MIN),
    ]
    replay = replayed(seen(*signals), HOUR)
    summary = replay.tally.summary(replay.sessions())["summary"]
    assert summary["turns"] == {"completed": 1, "open": 1}
    assert summary["bounds"]["model"] == {
        "would_end": [
            {"session": "s1", "turn": "t1", "action": "interrupt"},
            {"session": "s1", "turn": "t2", "action": "interrupt"},
        ],
        "recovered": [{"session": "s1", "turn": "t1", "action": "interrupt"}],
    }
    assert summary["silence_seconds"]["model"] == {"count": 2, "p50": 3000.0, "p99": 3000.0, "max": 3000.0}
    assert summary["silence_seconds"]["tool"]["max"] == 60.0


def test_an_idle_session_ends_no_turn() -> None:
    replay = replayed(seen(up(0), g.Registered(0), prompt(0), end(1)), HOUR)
    assert replay.tally.summary(replay.sessions())["summary"]["bounds"] == {}
    (session,) = replay.shown()
    assert [v["bound"] for v in session["verdicts"]] == ["idle"]


def test_several_sessions_are_shown_in_the_order_in_which_they_began() -> None:
    observed = seen(up(9), prompt(9), session="b") + seen(up(1), prompt(1), session="a")
    assert [s["session"] for s in replayed(observed).shown()] == ["a", "b"]


def test_a_stuck_subagent_trips_its_parent() -> None:
    parent = seen(up(0), prompt(0), tool(1, "Agent", delegates=True))
    child = seen(up(2), g.Described(2, "s1"), prompt(2, "a1"), session="a")
    shown = {s["session"]: s for s in replayed(parent + child, HOUR).shown()}
    assert [v["bound"] for v in shown["s1"]["verdicts"]] == ["delegated"]
    assert [v["bound"] for v in shown["a"]["verdicts"]] == ["model"]


def test_nothing_recorded_is_nothing_shown() -> None:
    replay = replayed([])
    assert replay.shown() == []
    assert replay.tally.summary([])["summary"]["sessions"] == 0
