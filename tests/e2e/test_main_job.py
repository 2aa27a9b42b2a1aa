"""The main job on the real Claude Code: a black-holed turn is found, ended with its reason, and survived."""

from __future__ import annotations

import signal
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.e2e.claude import STREAM, Claude, prompt
from tests.e2e.process import Json, Piped, until
from tests.e2e.sidecar import ROOT, Sidecar

if TYPE_CHECKING:
    from tests.e2e.sandbox import Sandbox


def host_command(sandbox: Sandbox, command: list[str], *options: str) -> list[str]:
    host = [sys.executable, str(ROOT / "sidecar" / "host.py")]
    return [*host, "--listen", f"unix:{sandbox.root}/{{pid}}.sock", *options, "--", *command]


def hosted(claude: Claude, *arguments: str) -> Piped:
    """A conversation in stream-json, with a host in front."""
    command = host_command(claude.sandbox, [claude.binary, *STREAM, *arguments])
    return claude.sandbox.start(command, claude.env)


def control(claude: Claude) -> Json:
    return {"kind": "host", "url": f"unix:{claude.sandbox.root}/*.sock"}


def at(line: Json) -> float:
    return datetime.fromisoformat(line["at"]).timestamp()


def reasons(sandbox: Sandbox) -> list[str]:
    """What the hosts wrote to stderr before they acted."""
    lines = (sandbox.root / "stderr").read_text().splitlines()
    return [line for line in lines if line.startswith("agent-sidecar: ")]


def markers(claude: Claude) -> int:
    """How many interrupts reached the agent."""
    users = [r for r in claude.records(type="user") if isinstance(r["message"]["content"], list)]
    texts = [b.get("text", "") for r in users for b in r["message"]["content"]]
    return sum(text.startswith("[Request interrupted by user") for text in texts)


def test_a_black_hole_is_ended_and_the_same_process_answers_the_next_question(claude: Claude) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[blackhole]]"))
        verdict = sidecar.expect("turn.stalled", bound="model", action="interrupt")
        ended = sidecar.expect("turn.end", outcome="stalled")
        outcome = sidecar.expect("action.outcome", outcome="effective")
        intent = sidecar.expect("action.intent", action="interrupt")
        started = sidecar.expect("turn.start")
        assert 5.0 <= at(verdict) - at(started) <= 6.0
        assert at(verdict) <= at(intent) <= at(outcome)
        assert verdict["turn"] == ended["turn"] == intent["turn"]
        assert reasons(claude.sandbox) == [f"agent-sidecar: interrupt: {verdict['reason']}"]
        journal = (sidecar.root / "state").rglob("*")
        written = "".join(path.read_text() for path in journal if path.is_file())
        assert verdict["reason"] in written
        conversation.send(prompt("[[text still here]]"))
        answer = conversation.expect(type="result", subtype="success")
        assert answer["result"] == "still here"
        sidecar.expect("turn.end", outcome="completed")
        session = sidecar.session()
        assert session["turns"] | {"stalled": 1, "completed": 1} == session["turns"]
        assert [v["outcome"] for v in session["verdicts"]] == ["effective"]
        assert sidecar.metric('ai_agent_turns_total{agent="claude-code",outcome="stalled"}') == 1
        conversation.close_stdin()
        assert conversation.wait() == 0, "its last turn ended by itself"


@pytest.mark.parametrize("moment", ["before the verdict", "after the call"])
def test_one_interrupt_reaches_the_agent_though_the_sidecar_is_killed(claude: Claude, moment: str) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[blackhole]]"))
        sidecar.expect("turn.warned")
        if moment == "after the call":
            until(lambda: reasons(claude.sandbox), "the reason at the host", 30)
        sidecar.stop(signal.SIGKILL)
        sidecar.lines.clear()
        sidecar.start()
        until(lambda: markers(claude) == 1, "the interrupt in the transcript")
        until(lambda: sidecar.session()["phase"] == "idle", "the turn's end in the sidecar")
        conversation.send(prompt("[[text still here]]"))
        conversation.expect(type="result", subtype="success")
        sidecar.expect("turn.end", outcome="completed")
    assert markers(claude) == 1
    assert len(reasons(claude.sandbox)) == 1


def test_a_long_tool_is_not_touched(claude: Claude) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[bash python3 -c 'import time;time.sleep(30)';;text done]]"))
        answer = conversation.expect(type="result", seconds=60)
        assert answer["result"] == "done"
        ended = sidecar.expect("turn.end", outcome="completed")
        assert ended["tool_calls"] == 1
        assert sidecar.events("turn.stalled") == []
        assert sidecar.session()["turn"]["phase_seconds"]["tool"] >= 29


def test_a_slow_stream_is_not_touched_where_every_piece_is_seen(claude: Claude) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[slow 20]]"))
        until(lambda: sidecar.session()["evidence"] == "stream", "the host's pieces")
        conversation.expect(type="result", subtype="success", seconds=60)
        sidecar.expect("turn.end", outcome="completed")
        assert sidecar.events("turn.stalled") == []


def test_a_stream_that_stops_in_the_middle_is_ended(claude: Claude) -> None:
    with Sidecar(claude, control(claude), bounds={"model": {"record": "60s", "delta": "5s"}}) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[stall 3]]"))
        verdict = sidecar.expect("turn.stalled", bound="model")
        assert verdict["evidence"] == "stream"
        sidecar.expect("turn.end", outcome="stalled")
        conversation.send(prompt("[[text still here]]"))
        conversation.expect(type="result", subtype="success")


def test_a_pending_permission_is_ended_and_named(claude: Claude) -> None:
    claude.allow()
    with Sidecar(claude, control(claude), bounds={"waiting": "5s"}) as sidecar:
        conversation = hosted(claude, "--permission-prompt-tool", "stdio")
        conversation.send(prompt("[[bash touch x;;text done]]"))
        until(lambda: sidecar.session()["phase"] == "waiting", "the wait")
        assert sidecar.session()["waiting_for"] == "permission prompt"
        verdict = sidecar.expect("turn.stalled", bound="waiting", action="interrupt")
        assert verdict["reason"].startswith("waiting for permission prompt for 5")
        sidecar.expect("turn.end", outcome="stalled")
        conversation.send(prompt("[[text still here]]"))
        conversation.expect(type="result", subtype="success")


def test_an_attended_permission_is_only_reported(claude: Claude) -> None:
    claude.allow()
    with Sidecar(claude, control(claude), {"attended": True}, bounds={"waiting": "5s"}) as sidecar:
        conversation = hosted(claude, "--permission-prompt-tool", "stdio")
        conversation.send(prompt("[[bash touch x;;text done]]"))
        sidecar.expect("turn.stalled", bound="waiting", action="report")
        sidecar.expect("action.outcome", action="report", outcome="reported")
        assert sidecar.session()["phase"] == "waiting"
        assert reasons(claude.sandbox) == []


def test_a_killed_agent_is_gone_and_nothing_is_signalled(claude: Claude) -> None:
    with Sidecar(claude, {"kind": "signal"}) as sidecar:
        conversation = claude.stream()
        conversation.send(prompt("[[blackhole]]"))
        sidecar.expect("turn.start")
        conversation.signal(signal.SIGKILL)
        sidecar.expect("turn.end", outcome="died")
        assert sidecar.session()["phase"] == "gone"
        assert sidecar.events("action.intent") == []
        assert sidecar.metric('ai_agent_turns_total{agent="claude-code",outcome="died"}') == 1


def test_an_idle_session_is_reaped_by_closing_its_input(claude: Claude) -> None:
    bounds = {"idle": {"limit": "3s", "action": "reap"}}
    with Sidecar(claude, control(claude), bounds=bounds) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[text hello]]"))
        conversation.expect(type="result", subtype="success")
        sidecar.expect("ttl.reap")
        sidecar.expect("action.outcome", action="reap", outcome="effective")
        assert conversation.wait() == 0
        until(lambda: sidecar.sessions() == {}, "the session is closed")


def test_without_a_host_an_idle_session_is_reaped_by_a_signal(claude: Claude) -> None:
    bounds = {"idle": {"limit": "3s", "action": "reap"}}
    with Sidecar(claude, {"kind": "signal"}, bounds=bounds) as sidecar:
        conversation = claude.stream()
        conversation.send(prompt("[[text hello]]"))
        conversation.expect(type="result", subtype="success")
        sidecar.expect("action.outcome", action="reap", outcome="effective")
        assert conversation.wait() == 143


def test_a_one_shot_that_finished_is_completed_and_never_died(claude: Claude) -> None:
    with Sidecar(claude) as sidecar:
        # Long enough to be seen in the registry: what came and went between two looks lapses later.
        status, _ = claude.run("-p", "[[slow 4]]")
        assert status == 0
        sidecar.expect("turn.end", outcome="completed")
        sidecar.expect("session.close")
        assert [line["outcome"] for line in sidecar.events("turn.end")] == ["completed"]
        assert sidecar.events("turn.stalled") == []


def test_retries_are_retrying_and_no_progress(claude: Claude) -> None:
    with Sidecar(claude, control(claude), bounds={"retrying": "8s", "model": "30s"}) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[error 500]]"))
        until(lambda: sidecar.session()["phase"] == "retrying", "the retries")
        verdict = sidecar.expect("turn.stalled", bound="retrying", action="interrupt")
        assert verdict["reason"].startswith("no progress for 8")
        sidecar.expect("turn.end", outcome="stalled")
        assert sidecar.metric('ai_agent_retries_total{agent="claude-code",cause="server_error"}') >= 2


def test_a_warm_session_that_waits_for_its_first_prompt_is_left_alone(claude: Claude) -> None:
    bounds = {"idle": {"limit": "2s", "action": "reap"}, "starting": "30s"}
    with Sidecar(claude, control(claude), bounds=bounds) as sidecar:
        conversation = hosted(claude)
        until(lambda: sidecar.session()["status"] == "idle", "the warm session")
        until(lambda: sidecar.session()["silence_seconds"] > 4, "twice the idle limit")
        assert sidecar.session()["bound"]["action"] == "report"
        conversation.send(prompt("[[text hello]]"))
        conversation.expect(type="result", subtype="success")
        assert {line["action"] for line in sidecar.events("turn.stalled")} == {"report"}
        assert sidecar.events("action.intent") == []


def test_two_sessions_at_once_and_only_the_one_that_stalls_is_ended(claude: Claude) -> None:
    with Sidecar(claude, control(claude)) as sidecar:
        stalls, works = hosted(claude), hosted(claude)
        works.send(prompt("[[bash python3 -c 'import time;time.sleep(14)';;text done]]"))
        stalls.send(prompt("[[blackhole]]"))
        verdict = sidecar.expect("turn.stalled")
        sidecar.expect("turn.end", outcome="stalled", session=verdict["session"])
        assert works.expect(type="result", seconds=60)["result"] == "done"
        sidecar.expect("turn.end", outcome="completed")
        sessions = sidecar.sessions()
        assert len(sessions) == 2
        (other,) = [s for s in sessions if s != verdict["session"]]
        assert sessions[other]["verdicts"] == []
        assert {line["session"] for line in sidecar.events("turn.stalled")} == {verdict["session"]}
        assert {line["session"] for line in sidecar.events("action.intent")} == {verdict["session"]}
        named = works.messages(type="result")[0]["session_id"]
        assert other == named
