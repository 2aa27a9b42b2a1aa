"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import cli
from sidecar.client import Unanswered
from sidecar.service import Service

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

RECORDINGS = Path(__file__).parent / "recordings" / "claude-code" / "2.1.332"
BLACKHOLE = str(RECORDINGS / "p_sigterm_blackhole")

SESSION: dict[str, Any] = {
    "agent": "claude-code", "session": "s1", "parent": None, "attended": False, "phase": "waiting",
    "since": "2026-11-30T12:00:00.000Z", "silence_seconds": 412.0, "evidence": "status", "status": "waiting",
    "waiting_for": "permission prompt", "open_tools": [{"call": "c1", "tool": "Bash", "since": "x"}],
    "turn": {"id": "t1", "outcome": None},
    "bound": {"name": "waiting", "limit_seconds": 300.0, "remaining_seconds": -112.0, "action": "interrupt"},
    "turns": {}, "verdicts": [{"at": "x", "turn": "t1", "bound": "waiting", "action": "interrupt", "outcome": "observed", "reason": "because"}],
}  # fmt: skip
FREE = SESSION | {
    "session": "s2",
    "phase": "tool",
    "waiting_for": None,
    "bound": None,
    "turn": None,
    "verdicts": [],
}


class Running:
    """Stands for the sidecar that the commands ask."""

    asked: list[tuple[Any, ...]] = []  # noqa: RUF012 - reset by the fixture
    found: list[dict[str, Any]] = []  # noqa: RUF012 - as above
    outcome = "effective"

    def __init__(self, address: str, token_file: str | None = None) -> None:
        self.asked.append(("client", address, token_file))

    def sessions(self) -> list[dict[str, Any]]:
        return self.found

    def full(self, beginning: str) -> str:
        return "s1" if beginning == "s" else beginning

    def explain(self, session: str, agent: str | None) -> dict[str, Any]:
        self.asked.append(("explain", session, agent))
        bound = {
            "name": "waiting",
            "since": "x",
            "limit_seconds": 300,
            "remaining_seconds": 10,
            "action": "interrupt",
            "tripped": False,
        }
        changes = [{"at": "y", "change": "PhaseLeft", "phase": "tool", "text": "tool lasted 3s, then model"}]
        return SESSION | {
            "explain": {
                "sources": {"transcript": True, "host": False},
                "bounds": [bound, bound | {"tripped": True}],
                "changes": changes,
            }
        }

    def act(self, action: str, session: str, agent: str | None, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((action, session, agent, body))
        return {"outcome": self.outcome, "detail": "why"}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> type[Running]:
    Running.asked, Running.found, Running.outcome = [], [SESSION, FREE], "effective"
    monkeypatch.setattr(cli, "Client", Running)
    return Running


@pytest.fixture(autouse=True)
def _no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cli, "DEFAULT_FILE", tmp_path / "absent.yaml")


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_replay_prints_session_objects_and_the_summary_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", "--json", BLACKHOLE]) == 0
    session, summary = lines(capsys.readouterr().out)
    assert (session["phase"], session["verdicts"]) == ("model", [])
    assert summary["summary"]["turns"] == {"open": 1}


def test_a_replay_is_drawn_as_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.html"
    assert cli.main(["replay", "--until", "+1h", "--html", str(drawn), BLACKHOLE]) == 0
    assert "model would have ended 1 turn" in capsys.readouterr().out
    assert "reached a limit" in drawn.read_text()
    assert cli.main(["replay", "--html", str(tmp_path / "no" / "such"), BLACKHOLE]) == 1
    assert "such: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("until", ["+1h", "2026-11-30T18:59:03Z"])
def test_it_runs_on_for_as_long_as_it_is_told(until: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", "--json", "--until", until, BLACKHOLE]) == 0
    session, _ = lines(capsys.readouterr().out)
    assert [v["outcome"] for v in session["verdicts"]] == ["observed"]


def test_it_is_printed_for_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", "--until", "+1h", str(RECORDINGS)]) == 0
    out = capsys.readouterr().out
    assert "model would have ended 3 turns, 0 of which went on by themselves (false kills):" in out
    assert cli.main(["replay", str(RECORDINGS / "p_text")]) == 0
    assert "no bound would have ended a turn" in capsys.readouterr().out


def test_what_would_have_ended_without_a_turn_is_told_as_that(capsys: pytest.CaptureFixture[str]) -> None:
    box = RECORDINGS.parents[1] / "kbc-box"
    assert cli.main(["replay", "--agent", "kbc-box", "--until", "+1h", str(box)]) == 0
    out = capsys.readouterr().out
    assert " no turn: never went on\n" in out
    assert "None" not in out


def test_a_replay_of_what_holds_no_session_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("# not a transcript\n")
    assert cli.main(["replay", str(file), str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == f"agent-sidecar: no session of claude-code in {file} {tmp_path}\n"
    assert out.splitlines()[0] == "0 sessions; turns: none"


def test_a_configuration_changes_the_rules_of_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("agents: [{kind: claude-code, bounds: {model: 90m}}]\n")
    assert cli.main(["replay", "--json", "--config", str(file), "--until", "+1h", BLACKHOLE]) == 0
    assert lines(capsys.readouterr().out)[0]["verdicts"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["replay", "/nowhere"], "/nowhere: no such file or folder"),
        (["replay", "--until", "soon", BLACKHOLE], "--until 'soon' is neither a time"),
        (["check", "--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_what_is_wrong_is_said_and_the_exit_code_is_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert says in capsys.readouterr().err


def test_an_agent_that_is_not_built_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as usage:
        cli.main(["replay", "--agent", "goose", BLACKHOLE])
    assert usage.value.code == 2
    assert "claude-code" in capsys.readouterr().err


def test_check_says_what_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    env = os.environ | {"CLAUDE_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "sidecar", "check"]  # it makes an event loop of its own
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "no file: the agents of this machine: good, mode observe" in done.stdout
    assert f"ok  transcripts: {tmp_path}/projects: 0 entries" in done.stdout
    assert "no  control: none is configured: it can only be watched" in done.stdout


@pytest.mark.parametrize(
    ("text", "why"), [(None, "cannot be read: No such file or directory"), ("\n", "is empty or too long")]
)
def test_check_says_what_people_could_not_end_anything_without(
    tmp_path: Path, text: str | None, why: str
) -> None:
    token, file = tmp_path / "token", tmp_path / "c.yaml"
    if text is not None:
        token.write_text(text)
    agent = {"kind": "claude-code", "config_dir": str(tmp_path)}
    file.write_text(json.dumps({"token_file": str(token), "state_dir": str(tmp_path), "agents": [agent]}))

    def checked() -> str:
        command = [sys.executable, "-m", "sidecar", "check", "--config", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert f"token_file: {token}: the token file {why}; nobody could end anything\n" in checked()
    token.write_text("secret\n")
    assert "token_file" not in checked()


def test_check_tells_every_error_with_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("mode: kill\nbounds: {waiting: 0}\n")
    assert cli.main(["check", "--config", str(file)]) == 2
    err = capsys.readouterr().err
    assert "mode: " in err
    assert "bounds.waiting" in err


def test_the_sessions_are_listed_those_nearest_to_their_bound_first(
    running: type[Running], capsys: pytest.CaptureFixture[str]
) -> None:
    running.found = [FREE, SESSION]
    assert cli.main(["sessions"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["AGENT", "SESSION", "PHASE"]
    assert first.split() == [
        "claude-code",
        "s1",
        "waiting",
        "(permission",
        "prompt)",
        "6m52s",
        "waiting",
        "5m00s",
        "1m52s",
        "over",
        "open",
        "waiting:",
        "observed",
    ]
    assert second.split() == ["claude-code", "s2", "tool", "6m52s"]


def test_and_as_objects(running: type[Running], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sessions", "--json"]) == 0
    assert lines(capsys.readouterr().out) == running.found
    running.found = []
    assert cli.main(["sessions"]) == 0
    assert capsys.readouterr().out == "no sessions\n"


def test_watching_goes_on_until_interrupted(
    running: type[Running], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", nap)
    assert cli.main(["sessions", "--watch"]) == 0
    assert capsys.readouterr().out.count("AGENT") == 2
    assert len(running.asked) == 1


def test_explain_names_the_evidence(running: type[Running], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "s", "--agent", "claude-code"]) == 0
    out = capsys.readouterr().out
    assert running.asked[-1] == ("explain", "s1", "claude-code")
    for said in (
        "source host: lost",
        "open tool: Bash",
        "bound waiting: 5m00s from x, then interrupt: 10s left\n",
        "bound waiting: 5m00s from x, tripped\n",
        "verdict x: interrupt observed: because",
        "y tool lasted 3s, then model\n",
    ):
        assert said in out
    assert cli.main(["explain", "--json", "s1"]) == 0
    assert json.loads(capsys.readouterr().out)["session"] == "s1"


def test_a_person_ends_a_turn_or_a_session(
    running: type[Running], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    assert (
        cli.main(
            ["interrupt", "s1", "--reason", "enough", "--token-file", str(token), "--url", "127.0.0.1:1"]
        )
        == 0
    )
    assert capsys.readouterr().out == "interrupt s1: effective (why)\n"
    assert running.asked == [
        ("client", "127.0.0.1:1", str(token)),
        ("interrupt", "s1", None, {"reason": "enough"}),
    ]
    running.outcome = "superseded"
    assert cli.main(["reap", "s1", "--force"]) == 1
    assert running.asked[-1] == ("reap", "s1", None, {"reason": "", "force": True})


def test_without_a_sidecar_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Nobody(Running):
        def sessions(self) -> list[dict[str, Any]]:
            raise Unanswered("no sidecar answers at 127.0.0.1:9475")

    monkeypatch.setattr(cli, "Client", Nobody)
    assert cli.main(["sessions"]) == 1
    assert "no sidecar answers" in capsys.readouterr().err


def test_a_configuration_at_the_usual_place_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: type[Running]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("listen: 127.0.0.1:7\ntoken_file: /t\n")
    monkeypatch.setattr(cli, "DEFAULT_FILE", file)
    assert cli.main(["sessions"]) == 0
    assert running.asked[0] == ("client", "127.0.0.1:7", "/t")


def test_the_host_parses_its_own_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["host", "--listen", "unix:/nowhere/x.sock", "--", "true"]) == 2
    assert "host: " in capfd.readouterr().err


@pytest.mark.parametrize("words", [[], ["fly"], ["replay"]])
def test_wrong_usage_is_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as usage:
        cli.main(words)
    assert usage.value.code == 2


def test_nobody_reading_on_is_no_failure(monkeypatch: pytest.MonkeyPatch, running: type[Running]) -> None:
    class Pipe:
        def write(self, _: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return 99

    monkeypatch.setattr("sys.stdout", Pipe())
    monkeypatch.setattr("os.dup2", lambda *_: None)
    assert cli.main(["sessions", "--json"]) == 0
    assert running.found


def test_what_is_loaded_when_it_has_started_is_no_business_of_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"listen: 127.0.0.1:0\nscrape_listen: off\nstate_dir: {tmp_path}\n")
    monkeypatch.setattr(Service, "run", only_start)
    try:
        assert cli.main(["run", "--config", str(file)]) == 0
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


async def only_start(service: Service, _: asyncio.Event, started: Callable[[], None]) -> None:
    await service.server.start()
    started()
    await service.server.stop()
