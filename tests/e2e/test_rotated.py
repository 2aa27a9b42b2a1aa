"""A running sidecar and transcripts whose files are replaced, cut, deleted and made again under its eyes."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.agents.claude_code import homes
from tests.agents.claude_code.homes import Home
from tests.e2e.process import until
from tests.e2e.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.agents.claude_code.homes import Script
    from tests.e2e.claude import Claude

QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(homes, "WALL", time.time())
    return Home(tmp_path / "claude")


@pytest.fixture(params=["auto", "poll"])
def sidecar(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Iterator[Sidecar]:
    """`agent-sidecar run`, hearing of changes from the kernel or only looking."""
    agent = SimpleNamespace(sandbox=SimpleNamespace(root=tmp_path), config=home.root)
    (home.root / "projects" / "-work").mkdir(parents=True)
    with Sidecar(cast("Claude", agent), agent={"watch": request.param}, mode="observe") as running:
        yield running


def ago() -> float:
    """Now, as scripts take it."""
    return homes.WALL - time.time()


class Life:
    """One session that goes on, turn by turn, whatever happens to its file between two of them."""

    def __init__(self, sidecar: Sidecar, script: Script) -> None:
        self.sidecar, self.script, self.turns = sidecar, script, 0

    def turn(self, way: Callable[[Path], None] | None = None) -> None:
        """A whole turn, seen to its end, in the midst of which something happens to the file."""
        self.turns += 1
        name = f"t{self.turns}"
        self.script.prompt(ago(), promptId=name).calls("Bash", name, ago())
        self.sidecar.expect("turn.start", session=self.script.id, turn=name)
        if way is not None:
            way(self.script.path)
        self.script.result(name, ago()).says(ago()).record("system", ago(), subtype="turn_duration")
        self.sidecar.expect("turn.end", session=self.script.id, turn=name, outcome="completed")

    def check(self) -> None:
        """Each turn was told once, and so was each tool and each token."""
        session = self.sidecar.sessions()[self.script.id]
        assert (session["phase"], session["turns"]["completed"]) == ("idle", self.turns)
        started = [event["turn"] for event in self.sidecar.events("turn.start", session=self.script.id)]
        ended = [event["turn"] for event in self.sidecar.events("turn.end", session=self.script.id)]
        assert started == ended == [f"t{n}" for n in range(1, self.turns + 1)]
        assert self.sidecar.metric('ai_agent_tool_calls_total{agent="claude-code",tool="Bash"}') == self.turns
        used = 'ai_agent_tokens_total{agent="claude-code",model="opus",type="output"}'
        assert self.sidecar.metric(used) == 10 * self.turns


@contextmanager
def standing_still(sidecar: Sidecar) -> Iterator[None]:
    """Stop the process for a while; what happens meanwhile waits in the kernel's queue."""
    stat = Path(f"/proc/{sidecar.pid}/stat")
    os.kill(sidecar.pid, signal.SIGSTOP)
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it stands still")
    try:
        yield
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)


def renamed_over(path: Path) -> None:
    other = path.with_suffix(".tmp")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def pruned_in_place(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("r+b") as file:
        file.truncate()
        file.write(b"".join(lines[4:]))


def cut_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def made_again(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def moved(path: Path) -> None:
    other = path.parent.with_name("-elsewhere")
    other.mkdir(exist_ok=True)
    path.rename(other / path.name)
    (other / path.name).rename(path)


WAYS: list[Callable[[Path], None]] = [renamed_over, pruned_in_place, cut_to_nothing, made_again, moved]


def test_no_turn_is_told_twice_and_none_is_missed(sidecar: Sidecar, home: Home) -> None:
    life = Life(sidecar, home.session())
    life.turn()
    for way in WAYS:
        life.turn(way)
        life.check()


def test_events_that_were_dropped_cost_no_turn(sidecar: Sidecar, home: Home) -> None:
    """While the sidecar stands still, more happens than the kernel's queue holds."""
    life = Life(sidecar, home.session())
    life.turn()
    noise = [life.script.path.parent / f"{n}.txt" for n in range(2)]
    for path in noise:
        path.touch()
    with standing_still(sidecar):
        with noise[0].open("wb", buffering=0) as one, noise[1].open("wb", buffering=0) as two:
            for _ in range(QUEUE // 2 + 1):  # two files in turn: equal events in a row count once
                one.write(b".")
                two.write(b".")
        made_again(life.script.path)
    life.turn()
    if '"auto"' in sidecar.config.read_text():
        until(lambda: "events of" in sidecar.errors.read_text(), "the overflow is told")
    life.check()
