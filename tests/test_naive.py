"""The core against a second, naive reading of its rules, over random things that happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar import signals as g
from sidecar.fold import fold
from sidecar.limits import Limit, Rules
from sidecar.policy import bound, judge
from sidecar.session import Session
from tests.naive import RESOLUTION, Naive

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[[float], g.Signal]

RULES = replace(
    Rules(), idle=Limit(1800.0, "reap"), turn=Limit(4 * 3600.0, "report"), busy=Limit(7200.0, "report")
)

PAUSES = st.sampled_from([0.25, 2.0, 45.0, 200.0, 400.0, 1000.0, 1900.0, 3000.0, 9000.0])
"""Seconds between two things that happen: around every limit there are some below and above."""


def _things() -> st.SearchStrategy[Made]:
    turns = st.sampled_from(["t1", "t2", "t3"])
    calls = st.sampled_from(["c1", "c2"])
    sources = st.sampled_from(sorted(RESOLUTION))
    back = st.sampled_from([0.0, 0.125])
    ahead = st.sampled_from([None, 60.0, 1000.0, 8000.0])
    return st.one_of(
        st.builds(lambda t: lambda at: g.TurnStarted(at, t, at), turns),
        st.builds(lambda t: lambda at: g.Progress(at, t), st.one_of(turns, st.none())),
        st.builds(
            lambda call, tool, turn: lambda at: g.ToolStarted(at, call, tool, tool == "Agent", turn),
            calls,
            st.sampled_from(["Bash", "Edit", "Agent"]),
            turns,
        ),
        st.builds(lambda call: lambda at: g.ToolEnded(at, call), calls),
        st.builds(
            lambda how, settle: lambda at: g.TurnEnded(at, how, settle),
            st.sampled_from(["completed", "failed"]),
            st.sampled_from([0.0, 1.0]),
        ),
        st.builds(
            lambda word, source, ago, waits: (
                lambda at: g.Status(at, word, at - ago, waits if word == "waiting" else None, source=source)
            ),
            st.sampled_from([None, "busy", "idle", "waiting", "background"]),
            st.sampled_from(["registry", "host"]),
            back,
            st.sampled_from([None, "a question"]),
        ),
        st.builds(lambda s: lambda at: g.SourceUp(at, s, RESOLUTION[s]), sources),  # type: ignore[arg-type]
        st.builds(lambda s: lambda at: g.SourceLost(at, s), sources),
        st.builds(lambda count: lambda at: g.Background(at, count), st.sampled_from([0, 1])),
        st.builds(
            lambda name, runs, ago: lambda at: g.ChildMoved(at, name, runs, at - ago),
            st.sampled_from(["a", "b"]),
            st.booleans(),
            back,
        ),
        st.builds(lambda name: lambda at: g.ChildStuck(at, name, "silence"), st.sampled_from(["a", "b"])),
        st.builds(lambda due: lambda at: g.Retrying(at, "other", None if due is None else at + due), ahead),
        st.builds(lambda until: lambda at: g.Limited(at, None if until is None else at + until), ahead),
        st.sampled_from(
            [
                lambda at: g.WaitStarted(at, "a permission"),
                g.WaitEnded,
                g.CompactionStarted,
                g.CompactionEnded,
                g.Presence,
                lambda at: g.Presence(at, used=True),
                g.Registered,
                lambda at: g.ProcessSeen(at, 7, at),
                g.ProcessGone,
                lambda at: g.Late(at, 100.0),
            ]
        ),
    )


def _answer(said: g.Judged) -> g.Acted:
    """What observing answers to a verdict."""
    outcome: g.ActOutcome = "reported" if said.action == "report" else "observed"
    return g.Acted(said.at, said.action, said.turn, said.bound, outcome, said.key)


def _step(core: Session, naive: Naive, now: float) -> None:
    """Judge by both, twice: what a verdict does to the session may trip something else at once."""
    for _ in range(2):
        found = []
        for said in judge(core, RULES, now):
            fold(core, said)
            if isinstance(said, g.Judged):
                found.append(said)
        assert [(said.bound, said.action) for said in found] == naive.judge(now)
        for said in found:
            naive.seen += [said, _answer(said)]
            fold(core, _answer(said))


def _compare(core: Session, naive: Naive) -> None:
    assert core.phase == naive.phase()
    shown, expected = bound(core, RULES), naive.shown()
    if shown is None or expected is None:
        assert (shown, expected) == (None, None)
        return
    assert (shown.name, shown.key, shown.since) == expected[:3]
    assert abs(shown.deadline - expected.deadline) < 1e-6


def _first(at: float) -> g.Signal:
    return g.SourceUp(at, "transcript", "record")


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(PAUSES, _things()), min_size=3, max_size=14))
def test_the_core_judges_as_its_rules_say(things: list[tuple[float, Made]]) -> None:
    core, naive, now = Session("claude-code", "s1", 0.0), Naive(RULES), 0.0
    for pause, make in [(0.0, _first), *things]:
        now += pause
        for signal in (g.Ticked(now), make(now)):
            fold(core, signal)
            naive.seen.append(signal)
        if core.closed is not None:
            return
        _compare(core, naive)
        _step(core, naive, now)
        _compare(core, naive)
