"""The real terminal interface: somebody sits there, so nothing is ended, unless the configuration denies it."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING

from tests.e2e.claude import INPUT_BOX, Claude, type_prompt
from tests.e2e.process import until
from tests.e2e.sidecar import Sidecar
from tests.e2e.test_main_job import control, host_command, markers

if TYPE_CHECKING:
    from tests.e2e.process import Json, Terminal

ESC, CLEAR = "\x1b", "\x15"
ANSWERED = "[[text still here]]"


def status(claude: Claude) -> str | None:
    """What the only agent says of itself."""
    found = [claude.registration(int(path.stem)) for path in claude.config.glob("sessions/*.json")]
    (entry,) = found or [None]
    return None if entry is None else entry.get("status")


def hosted_terminal(claude: Claude) -> Terminal:
    """The agent on a terminal behind a host, at rest after a first answer: its start is not all quiet."""
    command = host_command(claude.sandbox, [claude.binary], "--mode", "pty")
    screen = claude.sandbox.start_terminal(command, claude.env)
    screen.expect(INPUT_BOX)
    type_prompt(screen, "[[text hello]]")
    until(lambda: records(claude, type="system", subtype="turn_duration"), "the first turn ends")
    until(lambda: [s["status"] for s in hosts(claude)] == ["idle"], "the host sees an idle agent")
    return screen


def hosts(claude: Claude) -> list[Json]:
    """What the only host lists."""
    (path,) = claude.sandbox.root.glob("*[0-9].sock")
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        peer.connect(str(path))
        connection = http.client.HTTPConnection("host")
        connection.sock = peer
        connection.request("GET", "/v1/sessions", headers={"Connection": "close"})
        listed: list[Json] = json.loads(connection.getresponse().read())["sessions"]
        return listed


def hang(claude: Claude, screen: Terminal, sidecar: Sidecar) -> str:
    """Ask what is never answered, and wait until agent and sidecar both know of it; returns the turn."""
    type_prompt(screen, "[[blackhole]]")
    until(lambda: claude.sandbox.stats()["open"] == 1, "a request that the model holds")
    until(lambda: status(claude) == "busy", "the agent says that it is busy")
    until(
        lambda: prompts(claude)[-1]["message"]["content"] == "[[blackhole]]", "the prompt in the transcript"
    )
    turn: str = prompts(claude)[-1]["promptId"]
    sidecar.expect("turn.start", turn=turn)
    return turn


def answered(claude: Claude, screen: Terminal, sidecar: Sidecar) -> None:
    """Ask what is answered: the same agent, and its box had nothing left in it."""
    screen.type(ANSWERED)
    screen.expect("here]]")  # between words the screen moves its cursor instead of drawing a space
    screen.type("\r")
    until(
        lambda: prompts(claude)[-1]["message"]["content"] == ANSWERED, "the question, and nothing before it"
    )
    sidecar.expect("turn.end", turn=prompts(claude)[-1]["promptId"], outcome="completed")


def records(claude: Claude, **fields: object) -> list[Json]:
    """The records with these fields; none while one is being written."""
    try:
        return claude.records(**fields)
    except json.JSONDecodeError:
        return []


def prompts(claude: Claude) -> list[Json]:
    """The questions in the transcript; there is one by the time that they are asked for."""
    return until(
        lambda: [user for user in records(claude, type="user") if "promptSource" in user], "a prompt"
    )


def test_an_esc_before_any_output_leaves_no_record_and_the_turn_is_abandoned(claude: Claude) -> None:
    with Sidecar(claude, bounds={"model": "60s", "idle_in_turn": "3s"}) as sidecar:
        screen = claude.terminal()
        turn = hang(claude, screen, sidecar)
        assert sidecar.session()["attended"]
        screen.type(ESC)
        until(lambda: status(claude) == "idle", "the agent says that it is idle")
        until(lambda: sidecar.session()["phase"] == "idle_in_turn", "an open turn and an idle agent")
        verdict = sidecar.expect("turn.stalled", bound="idle_in_turn")
        assert verdict["action"] == "report"
        assert verdict["reason"].startswith("the agent reports idle with a turn open for 3")
        assert sidecar.expect("turn.end", turn=turn)["outcome"] == "abandoned"
        assert markers(claude) == 0
        assert [user["promptId"] for user in prompts(claude)] == [turn], "the file shows an open request"
        assert sidecar.session()["phase"] == "idle"
        screen.type(CLEAR)
        answered(claude, screen, sidecar)
        assert sidecar.events("action.intent") == []


def test_a_turn_that_hangs_before_somebody_is_reported_and_not_ended(claude: Claude) -> None:
    with Sidecar(claude, control(claude), bounds={"model": "4s"}) as sidecar:
        screen = claude.terminal()
        hang(claude, screen, sidecar)
        sidecar.expect("turn.stalled", bound="model", action="report")
        sidecar.expect("action.outcome", action="report", outcome="reported")
        session = sidecar.session()
        assert session["attended"]
        assert session["turn"]["ended_at"] is None
        assert status(claude) == "busy"
        assert sidecar.events("action.intent") == []


def test_where_nobody_sits_there_a_terminal_behind_a_host_is_interrupted_by_esc(claude: Claude) -> None:
    bounds = {"model": "5s", "idle_in_turn": "3s"}
    with Sidecar(claude, control(claude), {"attended": False}, bounds=bounds) as sidecar:
        screen = hosted_terminal(claude)
        turn = hang(claude, screen, sidecar)
        verdict = sidecar.expect("turn.stalled", bound="model", action="interrupt", turn=turn)
        sidecar.expect("action.outcome", action="interrupt", outcome="effective")
        until(lambda: status(claude) == "idle", "the agent says that it is idle")
        assert sidecar.expect("turn.end", turn=turn)["outcome"] == "stalled"
        screen.expect(f"agent-sidecar: interrupt: {verdict['reason']}"[:60])
        assert markers(claude) == 0, "no output had come, so no record tells of it"
        answered(claude, screen, sidecar)
        assert len(sidecar.events("action.intent")) == 1


def test_a_tool_behind_a_terminal_is_interrupted_by_esc_and_the_record_says_so(claude: Claude) -> None:
    bounds = {"tool": {"Bash": "4s"}}
    with Sidecar(claude, control(claude), {"attended": False}, bounds=bounds) as sidecar:
        screen = hosted_terminal(claude)
        screen.type("[[bash python3 -c 'import time;time.sleep(50)']]")
        screen.expect("time.sleep(50)']]")
        screen.type("\r")
        verdict = sidecar.expect("turn.stalled", bound="tool", action="interrupt")
        sidecar.expect("action.outcome", action="interrupt", outcome="effective")
        assert sidecar.expect("turn.end", turn=verdict["turn"])["outcome"] == "stalled"
        assert markers(claude) == 1
        answered(claude, screen, sidecar)
