"""The preset `qwen-serve` on the real daemon: its words, its stream, its cancel and its delete."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.e2e.process import Json, until
from tests.e2e.qwen import Beside, Qwen
from tests.e2e.test_opencode import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.sandbox import Sandbox

pytestmark = pytest.mark.timeout(120)

SHELL = "tool run_shell_command"


@pytest.fixture
def qwen(sandbox: Sandbox) -> Iterator[Qwen]:
    with closing(Qwen(sandbox)) as made:
        yield made


def shell(command: str) -> str:
    return f"{SHELL} {json.dumps({'command': command, 'description': 'x', 'is_background': False})}"


def goes_on(qwen: Qwen, sidecar: Beside, session: str) -> None:
    """The same session answers the next question, for longer than a look at the listing is apart."""
    turn = qwen.prompt(session, "[[slow 3]]")
    sidecar.expect("turn.end", session=session, turn=turn, outcome="completed")


def stalled(sidecar: Beside, session: str, turn: str, bound: str) -> Json:
    """The turn is ended by us, within a second of its verdict; gives the verdict."""
    verdict = sidecar.expect("turn.stalled", session=session, turn=turn, bound=bound, action="interrupt")
    sidecar.expect("action.intent", session=session, action="interrupt")
    ended = sidecar.expect("turn.end", session=session, turn=turn, outcome="stalled")
    sidecar.expect("action.outcome", session=session, action="interrupt", outcome="effective")
    assert at(ended) - at(verdict) < 1.0
    return verdict


@pytest.mark.parametrize("script", ["[[blackhole]]", "[[headers]]", "[[stall 3]]", "[[begun read_file]]"])
def test_a_hung_turn_is_ended_and_the_session_goes_on(qwen: Qwen, script: str) -> None:
    with Beside(qwen) as sidecar:
        session = qwen.session()
        turn = qwen.prompt(session, script)
        verdict = stalled(sidecar, session, turn, "model")
        assert verdict["evidence"] == "stream"
        assert verdict["reason"].startswith("no progress for 5")
        assert not qwen.status(session)["hasActivePrompt"]
        goes_on(qwen, sidecar, session)


def test_a_long_silent_tool_and_a_stream_that_moves_are_not_touched(qwen: Qwen) -> None:
    with Beside(qwen) as sidecar:
        session = qwen.session()
        turn = qwen.prompt(session, f"[[{shell('cat x; sleep 8 # intentional-sleep: y')};;slow 8]]")
        ended = sidecar.expect("turn.end", session=session, turn=turn, seconds=60)
        assert (ended["outcome"], ended["tool_calls"]) == ("completed", 1)
        assert sidecar.events("turn.stalled") == []
        assert sidecar.sessions()[session]["turn"]["phase_seconds"]["tool"] >= 7


def test_a_tool_that_runs_when_the_sidecar_comes_is_known_to_run(qwen: Qwen) -> None:
    session = qwen.session()
    turn = qwen.prompt(session, "[[text hello]]")
    until(lambda: not qwen.status(session)["hasActivePrompt"], "the first turn's end")
    turn = qwen.prompt(session, f"[[{shell('cat x; sleep 12 # intentional-sleep: y')};;text done]]")
    until(lambda: qwen.sandbox.stats()["open"] == 0 and qwen.sandbox.stats()["requests"] > 1, "the tool runs")
    with Beside(qwen) as sidecar:
        ended = sidecar.expect("turn.end", session=session, turn=turn, seconds=60)
        assert (ended["outcome"], ended["tool_calls"]) == ("completed", 1)
        assert sidecar.events("turn.stalled") == []
        assert sidecar.sessions()[session]["turns"]["completed"] == 1, "the turn of before is history"


def test_a_permission_that_nobody_gives_is_ended(sandbox: Sandbox) -> None:
    with closing(Qwen(sandbox, "default")) as qwen, Beside(qwen, bounds={"waiting": "4s"}) as sidecar:
        session = qwen.session()
        turn = qwen.prompt(session, f"[[{shell('touch x')};;text done]]")
        verdict = stalled(sidecar, session, turn, "waiting")
        assert verdict["reason"].startswith("waiting for permission for 4")
        assert not qwen.status(session)["isWaitingForPermission"]
        goes_on(qwen, sidecar, session)


def test_a_tool_that_was_permitted_is_known_to_run(sandbox: Sandbox) -> None:
    with closing(Qwen(sandbox, "default")) as qwen, Beside(qwen) as sidecar:
        session = qwen.session()
        command = "touch x; sleep 10 # intentional-sleep: y"
        turn = qwen.prompt(session, f"[[{shell(command)};;text done]]")
        sidecar.expect("turn.start", session=session, turn=turn)
        until(lambda: sidecar.sessions()[session]["phase"] == "waiting", "it is seen to wait")
        (asked,) = qwen.status(session)["pendingInteractions"]
        answer = {"outcome": {"outcome": "selected", "optionId": "proceed_once"}}
        qwen.api("POST", f"/permission/{asked['requestId']}", answer)
        ended = sidecar.expect("turn.end", session=session, turn=turn, seconds=60)
        assert (ended["outcome"], ended["tool_calls"]) == ("completed", 1)
        assert sidecar.events("turn.stalled") == []
        assert sidecar.sessions()[session]["turn"]["phase_seconds"]["tool"] >= 8


def test_what_fails_or_is_cancelled_by_others_is_told_as_that(qwen: Qwen) -> None:
    with Beside(qwen) as sidecar:
        session = qwen.session()
        cancelled = qwen.prompt(session, "[[stall 3]]")
        sidecar.expect("turn.start", session=session, turn=cancelled)
        qwen.api("POST", f"/session/{session}/cancel")
        sidecar.expect("turn.end", session=session, turn=cancelled, outcome="interrupted")
        qwen.api("POST", f"/session/{session}/cancel")  # nothing runs: harmless, and no turn's end
        failed = qwen.prompt(session, "[[error 400]]")
        until(lambda: not qwen.status(session)["hasActivePrompt"], "it failed")
        goes_on(qwen, sidecar, session)  # what was too short for a look is told with the next turn
        sidecar.expect("turn.end", session=session, turn=failed, outcome="failed")
        assert {k: v for k, v in sidecar.sessions()[session]["turns"].items() if v} == {
            "failed": 1,
            "interrupted": 1,
            "completed": 1,
        }


def test_what_rests_is_closed_and_stays_in_the_history(qwen: Qwen) -> None:
    with Beside(qwen, bounds={"idle": {"limit": "3s", "action": "reap"}}) as sidecar:
        created, used = qwen.session(), qwen.session()
        qwen.prompt(used, "[[slow 3]]")  # longer than two looks are apart
        sidecar.expect("action.outcome", session=used, action="reap", outcome="effective")
        until(lambda: used not in sidecar.sessions(), "the session is closed")
        assert qwen.ask("GET", f"/session/{used}/status")[0] == 404
        assert used in qwen.listed(), "its history is kept"
        assert created in sidecar.sessions(), "one without a prompt is never reaped"
        assert sidecar.metric('ai_agent_sessions_limit{agent="qwen-serve"}') == 32, "its default"


def test_a_killed_daemon_is_blindness(qwen: Qwen) -> None:
    with Beside(qwen) as sidecar:
        session = qwen.session()
        qwen.prompt(session, "[[stall 3]]")
        sidecar.expect("turn.start", session=session)
        qwen.kill()
        sidecar.expect("source.lost", source="listing")
        until(lambda: sidecar.sessions()[session]["phase"] == "unknown", "nothing is seen")
        assert sidecar.events("action.intent") == []
        qwen.start()
        sidecar.expect("turn.end", session=session, outcome="died", seconds=60)
        assert sidecar.events("action.intent") == []
