"""The adapter on real folders and real processes: files that come, go, wake and are lost."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.agent import Answer, Can, Order, SourceDown
from sidecar.agents.claude_code import processes as processes_module
from sidecar.agents.claude_code import transcripts as transcripts_module
from sidecar.agents.claude_code.adapter import ClaudeCode, Settings, default_root
from sidecar.agents.claude_code.transcript import by_entrypoint
from sidecar.agents.claude_code.transcripts import Transcripts
from sidecar.clock import LiveClock
from sidecar.sources.discover import Scan, Shapes
from sidecar.sources.folder import PIECE
from tests.agents.claude_code.homes import WALL, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Room:
    """A home and the adapter that watches it, on a clock of the test's."""

    def __init__(self, root: Path, *, attended: bool | None = None) -> None:
        self.now = 100.0
        self.home = Home(root)
        clock = LiveClock(lambda: self.now, lambda: WALL + self.now - 100)
        self.agent = ClaudeCode("claude-code", Settings(config_dir=str(root)), clock, attended=attended)

    async def read(self, *names: str) -> list[g.Observation]:
        found: list[g.Observation] = []
        for source in self.agent.sources:
            if source.name in (names or ("registry", "transcript")):
                found += await source.read()
        return found

    async def kinds(self, *names: str) -> list[str]:
        return [type(signal).__name__ for _, signal in await self.read(*names)]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "claude")


async def test_a_folder_that_appears_later_is_found(room: Room) -> None:
    assert await room.read() == []
    room.home.session().prompt(1)
    room.now += 3
    assert "TurnStarted" in await room.kinds()


def test_a_rounding_error_of_the_clock_is_no_step_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Core and wall time are read one after the other, so their difference wavers."""
    Home(tmp_path).session().prompt(50)
    wavers = count()
    clock = LiveClock(lambda: 100.0, lambda: WALL - next(wavers) * 1e-6)
    source, scans = Transcripts(str(tmp_path), clock, by_entrypoint, events=False), []
    real = Shapes.scan

    def counted(shapes: Shapes, root: str) -> Scan:
        scans.append(root)
        return real(shapes, root)

    monkeypatch.setattr(Shapes, "scan", counted)
    source.scan()
    assert len(scans) == 1


async def test_the_file_a_session_grows_into_is_followed(room: Room) -> None:
    script = room.home.session().prompt(50)
    first = await room.read()
    assert [s.at for _, s in first if isinstance(s, g.TurnStarted)] == [50], (
        "what lay there counts at its stamp"
    )
    script.says(-3, stop="tool_use")
    room.now += 3
    assert [s.at for _, s in await room.read() if isinstance(s, g.Progress)] == [103]


async def test_a_file_of_long_ago_costs_a_stat_until_it_grows_or_its_session_lives(room: Room) -> None:
    asleep, wanted = room.home.session(), room.home.session()
    for script in (asleep, wanted):
        script.prompt(9e5).says(9e5)
        os.utime(script.path, (WALL - 9e5, WALL - 9e5))
    assert await room.read() == []
    room.home.register(wanted)
    room.now += 3
    await room.read("registry")
    assert {o.session for o in await room.read("transcript") if isinstance(o.signal, g.TurnStarted)} == {
        wanted.id
    }
    asleep.prompt(0, promptId="new")
    room.now += 3
    grown = [*await room.read("transcript"), *await room.read("transcript")]
    told = [o.signal for o in grown if isinstance(o.signal, g.TurnStarted)]
    assert [s.turn for s in told][-1:] == ["new"]
    assert len(told) == 2, "with its history, from its beginning"


async def test_a_deleted_file_is_a_lost_source_and_regained_when_it_is_back(room: Room) -> None:
    script = room.home.session().prompt(5)
    await room.read()
    content = script.path.read_bytes()
    script.path.unlink()
    room.now += 3
    assert await room.kinds() == ["SourceLost"]
    room.now += 3
    assert await room.read() == []
    script.raw(content).says(0, stop="tool_use")
    room.now += 3
    assert (await room.kinds())[-1] == "SourceUp"


async def test_a_folder_that_cannot_be_read_is_a_lost_source(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.home.session().prompt(5)
    real = os.scandir

    def denied(path: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        if str(path).endswith("projects"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(SourceDown, match="projects: EACCES"):
        await room.read()


async def test_a_large_file_is_not_judged_before_it_is_read(room: Room) -> None:
    script = room.home.session().prompt(500)
    for _ in range(60):
        script.says(400, stop="tool_use", text="x" * 100_000)
    told = await room.read()
    assert next(s for _, s in told if isinstance(s, g.CatchingUp)).behind
    transcript = next(s for s in room.agent.sources if s.name == "transcript")
    assert transcript.every == 0.0
    seen: list[g.Signal] = []
    while transcript.every == 0.0:
        seen += [signal for _, signal in await transcript.read()]
    assert not [s for s in seen if isinstance(s, g.CatchingUp)][-1].behind
    read = [s for s in [*(signal for _, signal in told), *seen] if isinstance(s, g.Records)]
    assert sum(s.progress for s in read) == 61


async def test_a_look_reads_the_file_to_its_end_and_every_registration(room: Room) -> None:
    script = room.home.session().prompt(5)
    await room.read()
    script.interrupted()
    room.home.register(script, status="idle")
    kinds = [type(signal).__name__ for _, signal in await room.agent.look(script.id)]
    assert "TurnEnded" in kinds
    assert "Status" in kinds


async def test_a_background_session_is_unattended_though_it_says_cli(room: Room) -> None:
    script = room.home.session()
    room.home.register(script, kind="bg", entrypoint="cli")
    await room.read("registry")
    script.prompt(0, entrypoint="cli")
    told = [s.attended for _, s in await room.read("transcript") if isinstance(s, g.Described)]
    assert told == [False]


async def test_the_configuration_says_who_sits_there(tmp_path: Path) -> None:
    room = Room(tmp_path, attended=False)
    room.home.session().prompt(0, entrypoint="cli")
    assert [s.attended for _, s in await room.read() if isinstance(s, g.Described)] == [False]


class Hand:
    """A control that does what it is asked."""

    def can(self, _: str) -> Can:
        return Can(interrupt=True, reap=True)

    async def interrupt(self, order: Order) -> Answer:
        return Answer("accepted", f"interrupt {order.session}")

    async def reap(self, order: Order) -> Answer:
        return Answer("accepted", f"reap {order.session}")

    async def close(self) -> None:
        return


ORDER = Order("interrupt", "s1", "t1", "silence", 0.0)


async def test_without_a_control_it_can_only_be_watched(room: Room) -> None:
    assert room.agent.can("s1") == Can(interrupt=False, reap=False)
    assert (await room.agent.interrupt(ORDER)).result == "unsupported"
    assert (await room.agent.reap(ORDER)).result == "unsupported"
    assert [f.ok for f in await room.agent.probe()] == [False, False, False]


async def test_with_one_everything_but_a_subagent_can_be_ended(room: Room) -> None:
    room.agent.control = Hand()
    script = room.home.session().prompt(5)
    script.subagent("a1").prompt(4, promptSource=None)
    room.home.register(script)
    await room.read()
    assert room.agent.can(script.id) == Can(interrupt=True, reap=True)
    assert room.agent.can("a1") == Can(interrupt=False, reap=False)
    assert (await room.agent.interrupt(ORDER)).detail == "interrupt s1"
    assert (await room.agent.reap(ORDER)).detail == "reap s1"
    assert [f.ok for f in await room.agent.probe()] == [True, True, True]
    await room.agent.close()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_root().endswith("/.claude")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/elsewhere")
    assert default_root() == "/elsewhere"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process named claude that keeps its files in the room's folder."""
    (tmp_path / "bin").mkdir()
    executable = tmp_path / "bin" / "claude"
    executable.write_text(f"#!{sys.executable}\nimport sys; print('up', flush=True); sys.stdin.read()\n")
    executable.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "PATH": os.environ["PATH"]}
    with subprocess.Popen([executable], cwd=work, env=env, stdin=-1, stdout=-1) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running
        running.kill()


async def test_a_process_that_never_registers_is_a_session_that_starts(
    room: Room, program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "TOO_YOUNG", -1.0)
    told = [o for o in await room.read("process") if o.session == f"pid-{program.pid}"]
    assert [type(o.signal).__name__ for o in told][:2] == ["SourceUp", "ProcessSeen"]
    assert any(isinstance(o.signal, g.ProcessUsed) and o.signal.rss > 0 for o in told)
    held = room.agent.process(f"pid-{program.pid}")
    assert held is not None
    assert held.pid == program.pid
    program.kill()
    program.wait()
    assert [type(o.signal).__name__ for o in await room.read("process")] == ["ProcessGone"]
    assert room.agent.process(f"pid-{program.pid}") is None


async def test_a_process_just_started_is_given_time_to_register(
    room: Room, program: subprocess.Popen[bytes]
) -> None:
    assert program.poll() is None
    assert await room.read("process") == []


async def test_a_process_that_registers_later_is_that_session(
    room: Room, program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "TOO_YOUNG", -1.0)
    await room.read("process")
    script = room.home.session()
    room.home.register(script, program.pid)
    await room.read("registry")
    told = await room.read("process")
    assert [(o.session, type(o.signal).__name__) for o in told][:1] == [(f"pid-{program.pid}", "Closed")]
    assert {o.session for o in told if isinstance(o.signal, g.ProcessUsed)} == {script.id}
    held = room.agent.process(script.id)
    assert held is not None
    assert held.pid == program.pid


async def test_a_process_without_a_registration_holds_the_newest_session_of_its_folder(
    room: Room, program: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "TOO_YOUNG", -1.0)
    work = str(tmp_path / "work")
    room.home.session().prompt(60, cwd=work)
    newest = room.home.session().prompt(50, cwd=work)
    await room.read()
    told = await room.read("process")
    assert {o.session for o in told} == {newest.id}
    assert room.agent.process(newest.id) is not None
    assert program.pid in {s.pid for _, s in told if isinstance(s, g.ProcessSeen)}
    newest.says(0)
    program.kill()
    program.wait()
    last = [type(signal).__name__ for _, signal in await room.read("process")]
    assert last[-1] == "ProcessGone"
    assert "TurnEnded" in last, "what it wrote last is read before it is gone"


async def test_a_process_is_gone_when_all_it_wrote_is_read_however_many_turns_that_takes(
    room: Room, program: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "TOO_YOUNG", -1.0)
    monkeypatch.setattr(transcripts_module, "TURN", 0.0)
    script = room.home.session().prompt(50, cwd=str(tmp_path / "work"))
    await room.read()
    await room.read("process")
    (source,) = (s for s in room.agent.sources if s.name == "process")
    line = script.path.read_bytes().splitlines(keepends=True)[-1]
    with script.path.open("ab") as file:
        file.write(line * (2 * PIECE // len(line) + 2))
    program.kill()
    program.wait()
    told: list[list[str]] = []
    while not told or source.every == 0.0:
        told.append(await room.kinds("process"))
    assert len(told) == 3
    assert [kinds[-1] for kinds in told].count("ProcessGone") == 1
    assert told[-1][-1] == "ProcessGone"


async def test_processes_of_other_folders_are_none_of_ours(
    tmp_path: Path, program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "TOO_YOUNG", -1.0)
    other = Room(tmp_path / "other")
    assert program.poll() is None
    assert await other.read("process") == []


async def test_check_warns_of_an_agent_that_runs_without_a_transcript(room: Room) -> None:
    script = room.home.session()
    room.home.register(script)
    found = {f.what: f.ok for f in await room.agent.probe()}
    assert found[f"transcript of {script.id}"] is False
    script.prompt(1)
    assert f"transcript of {script.id}" not in {f.what for f in await room.agent.probe()}
