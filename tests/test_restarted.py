"""The real command, killed at any moment and started again: nothing is told twice, no missed end is left out."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.agents.claude_code.recent import FIRST
from tests.agents.claude_code import homes
from tests.agents.claude_code.homes import Home, Script
from tests.e2e.process import until
from tests.e2e.sidecar import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]


class Run:
    """One process of the command, and what it says."""

    def __init__(self, root: Path, watches: str = "claude") -> None:
        self.port = free_port()
        agents = [{"kind": "claude-code", "config_dir": str(root / watches)}]
        told = {"listen": f"127.0.0.1:{self.port}", "state_dir": str(root / "state"), "agents": agents}
        config = root / "config.yaml"
        config.write_text(json.dumps(told))
        command = [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)]
        env = {"PATH": os.environ["PATH"], "HOME": str(root), "PYTHONPATH": str(ROOT)}
        self.errors = (root / "errors").open("a+b")
        self.child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=self.errors)
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ready(self) -> Run:
        until(lambda: self._get("/readyz") is not None, "the sidecar is ready")
        return self

    def metric(self, line: str) -> float:
        rows = (self._get("/metrics") or "").splitlines()
        return next((float(row.rpartition(" ")[2]) for row in rows if row.startswith(line)), 0.0)

    def told(self, event: str) -> list[str]:
        return [line["turn"] for line in list(self.lines) if line["event"] == event]

    def tells(self, turns: list[str]) -> None:
        """Wait until it told the ends of these turns, those that an earlier run told not included."""
        until(lambda: set(turns) <= set(self.told("turn.end")), "the ends are told")

    def end(self, number: signal.Signals) -> int:
        self.child.send_signal(number)
        status = self.child.wait(30)
        self._reader.join(30)
        assert self.child.stdout
        self.child.stdout.close()
        self.errors.close()
        return status

    def _get(self, path: str) -> str | None:
        assert self.child.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                body: str = answer.read().decode()
                return body
        except OSError:
            return None

    def _read(self) -> None:
        assert self.child.stdout
        for line in self.child.stdout:
            if line.endswith(b"\n"):
                self.lines.append(json.loads(line))


class Life:
    """A session that goes on whether or not somebody watches, and all that was ever told of it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.script: Script = Home(root / "claude").session()
        self.told: dict[str, Counter[str]] = {"turn.start": Counter(), "turn.end": Counter()}
        self._monkeypatch = monkeypatch
        self._run: Run | None = None

    def writes(self) -> Script:
        self._monkeypatch.setattr(homes, "WALL", time.time())
        return self.script

    def begins(self) -> str:
        turn = str(uuid.uuid4())
        self.writes().prompt(promptId=turn).calls("Bash", call=turn)
        return turn

    def ends(self, turn: str) -> None:
        """So much is said that the turns before the last two lie beyond where reading would begin at first."""
        self.writes().result(turn).says(text="x" * FIRST).record("system", subtype="turn_duration")

    def watched(self, watches: str = "claude") -> Run:
        assert self._run is None
        self._run = Run(self.root, watches)
        return self._run

    def unwatched(self, number: signal.Signals) -> int:
        run, self._run = self._run, None
        assert run is not None
        status = run.end(number)
        for event, counter in self.told.items():
            counter.update(run.told(event))
        return status

    def close(self) -> None:
        if self._run is not None:
            self._run.end(signal.SIGKILL)


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    life = Life(tmp_path, monkeypatch)
    yield life
    life.close()


COMPLETED = 'ai_agent_turns_total{agent="claude-code",outcome="completed"}'
CALLS = 'ai_agent_tool_calls_total{agent="claude-code",tool="Bash"}'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_what_ended_while_nobody_watched_is_told_once(life: Life, number: signal.Signals) -> None:
    before = life.begins()
    life.ends(before)
    run = life.watched().ready()
    first = life.begins()
    until(lambda: run.told("turn.start") == [first], "the first turn begins")
    life.ends(first)
    until(lambda: run.told("turn.end") == [first], "the first turn ends")
    second = life.begins()
    until(lambda: second in run.told("turn.start"), "the second turn begins")
    life.unwatched(number)
    life.ends(second)
    third = life.begins()
    life.ends(third)
    fourth = life.begins()
    run = life.watched().ready()
    until(lambda: run.told("turn.end") == [second, third], "the missed ends are told")
    assert run.told("turn.start") == [third, fourth], "the second was told by the first run"
    assert run.metric(COMPLETED) == 2
    life.unwatched(number)
    run = life.watched().ready()
    assert run.metric(COMPLETED) == 0
    life.ends(fourth)
    until(lambda: run.told("turn.end") == [fourth], "the fourth turn ends")
    life.unwatched(signal.SIGTERM)
    assert life.told["turn.end"] == dict.fromkeys((first, second, third, fourth), 1)
    assert life.told["turn.start"] == dict.fromkeys((first, second, third, fourth), 1)


def test_of_what_nobody_watched_tools_and_tokens_are_told_too(life: Life) -> None:
    life.ends(life.begins())
    life.watched().ready()
    life.unwatched(signal.SIGTERM)
    missed = list[str]()
    for _ in range(5):
        missed.append(life.begins())
        life.writes().result(missed[-1]).says().record("system", subtype="turn_duration")
    run = life.watched().ready()
    run.tells(missed)
    ends = [line["tool_calls"] for line in run.lines if line["event"] == "turn.end"]
    assert ends == [1] * len(missed)
    assert run.metric(CALLS) == len(missed)


def test_another_folder_has_a_past_of_its_own(life: Life) -> None:
    life.watched().ready()
    life.unwatched(signal.SIGTERM)
    life.script = Home(life.root / "other").session()
    before = life.begins()
    life.ends(before)
    run = life.watched("other").ready()
    turn = life.begins()
    life.ends(turn)
    run.tells([turn])
    assert run.told("turn.start") == run.told("turn.end") == [turn]


def test_what_goes_on_after_its_provisional_end_is_the_same_turn_to_every_run(life: Life) -> None:
    run = life.watched().ready()
    first = str(uuid.uuid4())
    life.writes().prompt(promptId=first).says()
    run.tells([first])  # no record ends it: it is over when nothing follows
    life.writes().calls("Bash", call="hooked")
    until(lambda: len(run.told("turn.start")) == 2, "a hook lets it go on, as a turn of its own")
    second = run.told("turn.start")[1]
    life.unwatched(signal.SIGKILL)
    run = life.watched().ready()
    life.writes().result("hooked").says().record("system", subtype="turn_duration")
    run.tells([second])
    life.unwatched(signal.SIGTERM)
    assert life.told == {event: {first: 1, second: 1} for event in ("turn.start", "turn.end")}


def test_killed_at_any_moment_no_turn_is_told_twice_and_none_left_out(life: Life) -> None:
    """What a kill between noting and telling may cost is one turn each time; it has not been seen to."""
    chance = random.Random(6)  # noqa: S311 - the same lives each time
    turns, kills = list[str](), 5
    run = life.watched().ready()
    snapshot = life.root / "state/snapshot.jsonl"
    until(lambda: b"places" in snapshot.read_bytes(), "the first snapshot")
    for _ in range(kills):
        for _ in range(chance.randint(2, 10)):
            turns.append(life.begins())
            life.ends(turns[-1])
            run.tells(turns[-2:-1])
        life.unwatched(signal.SIGKILL)  # while the last one is read
        turns.append(life.begins())
        life.ends(turns[-1])
        run = life.watched().ready()
        run.tells(turns[-1:])
    until(lambda: turns[-1] in run.told("turn.end"), "the last turn ends")
    life.unwatched(signal.SIGTERM)
    for event, counter in life.told.items():
        assert max(counter.values()) == 1, event
        assert len(set(turns) - set(counter)) <= kills, event
