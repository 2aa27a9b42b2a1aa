"""The session object: one JSON shape, times on the wall's clock, never content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from sidecar import signals as g
from sidecar.clock import LiveClock, RecordedClock
from sidecar.fold import fold
from sidecar.limits import Limit
from sidecar.session import OUTCOMES
from sidecar.view import view
from tests.stories import MIN, RULES, block, end, prompt, result, status, story, tool, up, verdicts

if TYPE_CHECKING:
    from sidecar.session import Session

NONE = dict.fromkeys(OUTCOMES, 0)


def shown(session: Session, now: float) -> dict[str, Any]:
    """The object of a session that lives, as `now` shows it."""
    session.dormant = False
    return view(session, RULES, RecordedClock(), now)


def test_a_session_that_hangs_in_a_tool_is_shown_with_all_that_is_known() -> None:
    rules = replace(RULES, tool={"Bash": Limit(30 * MIN)}, jitter=0.1)
    session = story(
        g.Described(0, "p1", "2.1.0", attended=False),
        up(),
        g.Registered(0),
        prompt(1),
        g.Used(2, "opus", 10, 5),
        tool(3.5),
        status(4, "busy"),
        luck=0.5,
    )
    session.dormant = False
    assert view(session, rules, RecordedClock(), 100.1234) == {
        "agent": "claude-code",
        "session": "s1",
        "parent": "p1",
        "attended": False,
        "phase": "tool",
        "since": "1970-01-01T00:00:03.500Z",
        "silence_seconds": 96.623,
        "evidence": "transcript",
        "status": "busy",
        "waiting_for": None,
        "open_tools": [{"call": "c1", "tool": "Bash", "since": "1970-01-01T00:00:03.500Z"}],
        "turn": {
            "id": "t1",
            "started_at": "1970-01-01T00:00:01.000Z",
            "ended_at": None,
            "outcome": None,
            "phase_seconds": {"model": 2.5, "tool": 96.623},
            "tool_calls": 1,
            "tokens": {"input": 10, "output": 5},
        },
        "bound": {
            "name": "tool",
            "limit_seconds": 1890.0,
            "remaining_seconds": 1793.377,
            "action": "interrupt",
        },
        "turns": NONE,
        "verdicts": [],
    }


def test_a_session_of_which_nothing_is_known_has_the_same_keys_with_nothing_in_them() -> None:
    assert shown(story(), 7) == {
        "agent": "claude-code",
        "session": "s1",
        "parent": None,
        "attended": False,
        "phase": "idle",
        "since": "1970-01-01T00:00:00.000Z",
        "silence_seconds": 7.0,
        "evidence": "process",
        "status": None,
        "waiting_for": None,
        "open_tools": [],
        "turn": None,
        "bound": None,
        "turns": NONE,
        "verdicts": [],
    }


def test_a_verdict_is_shown_with_its_reason_and_what_became_of_it() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 2701.5)
    fold(session, g.Acted(2732, "interrupt", "t1", "model", "ineffective", "model"))
    assert shown(session, 2740)["verdicts"] == [
        {
            "at": "1970-01-01T00:45:01.500Z",
            "turn": "t1",
            "bound": "model",
            "action": "interrupt",
            "outcome": "ineffective",
            "reason": "no progress for 45m01s while waiting for the model, limit 45m00s (transcript; no status)",
        }
    ]


def test_times_are_written_on_the_walls_clock_whatever_the_cores_says() -> None:
    session = story(up(), prompt(1))
    session.dormant = False
    clock = LiveClock(monotonic=lambda: 50.0, wall=lambda: 1_796_040_050.25)
    assert view(session, RULES, clock, 2)["since"] == "2026-11-30T12:00:01.250Z"


def test_the_phase_that_goes_on_counts_up_to_now_and_never_backwards() -> None:
    session = story(up(), prompt(1), tool(3), result(10))
    assert shown(session, 12)["turn"]["phase_seconds"] == {"model": 4.0, "tool": 7.0}
    assert shown(session, 9)["turn"]["phase_seconds"] == {"model": 2.0, "tool": 7.0}
    assert session.turn is not None
    assert session.turn.phase_seconds == {"model": 2.0, "tool": 7.0}, "showing it changes nothing"


def test_the_last_turn_is_shown_until_the_next_and_its_phases_stand_still() -> None:
    session = story(up(), prompt(1), block(3), end(5), g.Background(6, 1))
    turn = shown(session, 900)["turn"]
    assert (turn["ended_at"], turn["outcome"]) == ("1970-01-01T00:00:05.000Z", "completed")
    assert turn["phase_seconds"] == {"model": 4.0}
    assert shown(session, 900)["turns"] == {**NONE, "completed": 1}
    fold(session, prompt(901, "t2"))
    assert shown(session, 902)["turn"]["id"] == "t2"


def test_what_a_session_waits_for_is_shown_while_it_waits() -> None:
    asked = story(up(), prompt(0), status(1, "waiting", "permission prompt"))
    assert shown(asked, 2)["waiting_for"] == "permission prompt"
    fold(asked, status(3, "busy"))
    assert shown(asked, 4)["waiting_for"] is None


@pytest.mark.parametrize(
    ("says", "session"),
    [
        ("where a tool runs", story(up(), prompt(0), tool(1))),
        ("where every source is lost", story(up(), prompt(0), g.SourceLost(1, "transcript"))),
        ("where records lie unread", story(up(), prompt(0), g.CatchingUp(1, behind=True))),
    ],
)
def test_no_bound_is_shown(says: str, session: Session) -> None:
    assert shown(session, 10)["bound"] is None, says


def test_the_bound_of_a_dormant_session_is_not_shown() -> None:
    session = story(up(), prompt(0))
    assert view(session, RULES, RecordedClock(), 10)["bound"] is None
    assert shown(session, 10)["bound"]["remaining_seconds"] == 2690.0


def test_an_overdue_bound_has_less_than_nothing_left() -> None:
    session = story(up(), prompt(0))
    verdicts(session, 2700)
    assert shown(session, 2710)["bound"] == {
        "name": "model", "limit_seconds": 2700.0, "remaining_seconds": -10.0, "action": "report",
    }  # fmt: skip


def test_it_is_json() -> None:
    session = story(up(), prompt(0), tool(1), status(2, "waiting", "question"))
    verdicts(session, 900)
    assert json.loads(json.dumps(shown(session, 901))) == shown(session, 901)
