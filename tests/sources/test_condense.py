"""Turns long over, told in short, leave the session where the whole story leaves it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar import changes as c
from sidecar import signals as g
from sidecar.fold import fold
from sidecar.session import Session
from sidecar.sources.condense import condense

LATER = 1e9
SETTLING = 1.5


def signal(kind: str, at: float, number: int) -> g.Signal:
    """Make a signal of a kind; the number chooses among its values."""
    call, name = "abc"[number % 3], f"stamp-{at}-{number}"
    made: dict[str, g.Signal] = {
        "prompt": g.TurnStarted(at, f"p{number}", at),
        "block": g.Progress(at, name),
        "piece": g.Progress(at),
        "call": g.ToolStarted(at, call, "Bash", number == 4, name),
        "result": g.ToolEnded(at, call, number == 5),
        "end": g.TurnEnded(at, "completed"),
        "last block": g.TurnEnded(at, "completed" if number % 2 else "failed", SETTLING),
        "tokens": g.Used(at, "opus", 3),
        "background": g.Background(at, number % 3),
        "retry": g.Retrying(at, "overloaded", at + 3),
        "limit": g.Limited(at, None),
        "compaction": g.CompactionEnded(at),
    }
    return made[kind]


KINDS = ("prompt", "block", "piece", "call", "result", "end", "last block", "tokens", "background", "retry",
         "limit", "compaction")  # fmt: skip
STEPS = st.tuples(st.sampled_from(KINDS), st.sampled_from((0.0, 0.5, 3.0, 1000.0)), st.integers(0, 5))


def story(steps: list[tuple[str, float, int]]) -> list[g.Signal]:
    """Tell of some steps in order of time, between a first prompt and two last ones."""
    at = 0.0
    told: list[g.Signal] = [g.TurnStarted(at, "first", at)]
    for kind, later, number in steps:
        at += later
        told.append(signal(kind, at, number))
    return [*told, g.TurnStarted(at + 1, "last but one", at + 1), g.TurnStarted(at + 2, "last", at + 2)]


def folded(told: list[g.Signal]) -> dict[str, Any]:
    session = Session("claude-code", "s", 0.0)
    for signal in told:
        fold(session, signal)
    return msgspec.structs.asdict(session)


@settings(max_examples=1000)
@given(st.lists(STEPS, max_size=12))
@example([("call", 0, 2), ("block", 1, 0), ("result", 1000, 5)])  # somebody else wrote the result
@example([("call", 1, 1), ("end", 1, 0), ("result", 1, 1), ("block", 1, 0), ("block", 3, 1), ("end", 1, 0)])
@example([("call", 1, 1), ("prompt", 0, 1), ("result", 1, 2), ("block", 1, 0)])
def test_the_session_stands_where_it_stood(steps: list[tuple[str, float, int]]) -> None:
    told = story(steps)
    whole, short = folded(told), folded(condense(told, LATER))
    assert short["turns"] == whole["turns"]
    for state in (whole, short):
        del state["model"]  # whichever was named last, in whatever turn
        state["turn"].model = state["last"].model = None
    assert short == whole


def closed(told: list[g.Signal]) -> list[tuple[str, float, float | None, str | None]]:
    """Each turn as it ended."""
    session = Session("claude-code", "s", 0.0)
    ended = [x.turn for signal in told for x in fold(session, signal) if isinstance(x, c.TurnClosed)]
    return [(turn.id, turn.started_at, turn.ended_at, turn.outcome) for turn in ended]


@settings(max_examples=1000)
@given(st.lists(STEPS, max_size=12))
@example([("call", 0, 2), ("block", 1, 0), ("result", 1000, 5)])  # somebody else wrote the result
def test_each_turn_ends_when_and_as_it_did(steps: list[tuple[str, float, int]]) -> None:
    told = story(steps)
    assert closed(condense(told, LATER)) == closed(told)


def turn(number: int) -> list[g.Signal]:
    at = number * 100.0
    return [
        g.TurnStarted(at, f"p{number}", at),
        *(
            said
            for step in range(5)
            for said in (
                g.Progress(at + step, "x"),
                g.Used(at + step, "opus", 3),
                g.ToolStarted(at + step, f"c{number}.{step}", "Bash", delegates=False, turn="x"),
                g.ToolEnded(at + step + 0.5, f"c{number}.{step}"),
            )
        ),
        g.TurnEnded(at + 10, "completed", 1.5),
    ]


def test_the_last_two_turns_are_told_whole_and_the_others_in_four_words() -> None:
    told = [said for number in range(10) for said in turn(number)]
    short = condense(told, LATER)
    assert short[-44:] == told[-44:]
    assert len(short) == 44 + 8 * 4
    assert short[:4] == [told[0], told[1], g.ToolEnded(4.5, "c0.4"), told[21]]


def test_what_happened_since_we_began_is_told_whole() -> None:
    told = [said for number in range(10) for said in turn(number)]
    assert condense(told, 0.0) == told
    assert condense(told, 350.0)[-7 * 22 :] == told[-7 * 22 :]


def test_a_tool_that_stayed_open_stays_open() -> None:
    told = [g.TurnStarted(0, "p", 0), g.ToolStarted(1, "a", "Bash")] + [g.TurnStarted(2, "p", 2)] * 3
    assert folded(condense(told, LATER))["tools"] == folded(told)["tools"]
    assert folded(told)["tools"]
