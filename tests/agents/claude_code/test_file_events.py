"""What happens to a transcript's file, and what the session that lives in it makes of that."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sidecar import changes as c
from sidecar import signals as g
from sidecar.agents.claude_code.adapter import ClaudeCode, Settings
from sidecar.agents.claude_code.transcripts import Transcripts
from sidecar.clock import LiveClock
from sidecar.limits import Rules
from sidecar.sources.folder import ROUND
from sidecar.watch import Settings as Watching
from sidecar.watch import Watch
from tests.agents.claude_code.homes import WALL, Home, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from sidecar.session import Session

HOUR = 3600.0


class Place:
    """A home and the sessions that are made of its transcripts, on two clocks of the test's."""

    def __init__(self, root: Path) -> None:
        self.now, self.stepped = 100.0, 0.0
        self.home = Home(root)
        clock = LiveClock(lambda: self.now, lambda: WALL + self.now - 100 + self.stepped)
        self.agent = ClaudeCode("a", Settings(config_dir=str(root), watch="poll"), clock)
        self.source = next(source for source in self.agent.sources if isinstance(source, Transcripts))
        self.watch = Watch([self.agent], Watching({"a": Rules()}, lambda: 0.0), clock)
        self.watch.fleet.listeners.append(self._changed)
        self.changes: list[c.Change] = []

    def _changed(self, _: Session, change: c.Change) -> None:
        self.changes.append(change)

    async def look(self, after: float = 3.0) -> list[g.Signal]:
        """Read what there is by then, and fold it."""
        self.now += after
        found = list(await self.source.read())
        while self.source.every == 0.0:
            found += await self.source.read()
        self.watch.fleet.observe("a", found, self.now)
        self.watch.fleet.tick(self.now)
        return [signal for _, signal in found]

    def session(self, script: Script) -> Session:
        found = self.watch.fleet.get("a", script.id)
        assert found is not None
        return found

    def opened(self) -> list[str]:
        """The turns that were told to begin, told twice if they were."""
        return [change.turn.id for change in self.changes if isinstance(change, c.TurnOpened)]

    def worked(self) -> tuple[int, int]:
        """The tool calls that were told to end, and the output tokens, of which each message here takes five."""
        calls = sum(isinstance(change, c.ToolClosed) for change in self.changes)
        used = (change.types["output"] for change in self.changes if isinstance(change, c.TokensUsed))
        return calls, sum(used)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path / "claude")
    yield place
    await place.agent.close()


async def started(place: Place) -> Script:
    """A session with one turn done and one open, seen from its first line on."""
    await place.look()
    script = place.home.session()
    for turn in ("t1", "t2"):
        script.prompt(-place.now + 100, promptId=turn)
        await place.look()
        script.calls("Bash", turn, ago=-place.now + 100).result(turn, ago=-place.now + 100)
        await place.look()
        script.says(-place.now + 100, "end_turn" if turn == "t1" else "tool_use")
        await place.look()
    assert (place.opened(), place.worked()) == (["t1", "t2"], (2, 20))
    return script


def renamed_over(path: Path, content: bytes) -> None:
    other = path.with_suffix(".tmp")
    other.write_bytes(content)
    other.replace(path)


def copied_and_truncated(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate()
        file.write(content)


def made_again(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


WAYS = [renamed_over, copied_and_truncated, made_again]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_rewritten_transcript_tells_no_turn_and_no_work_twice(
    place: Place, way: Callable[[Path, bytes], None]
) -> None:
    script = await started(place)
    before = place.session(script).progress_at
    place.changes.clear()
    lines = script.path.read_bytes().splitlines(keepends=True)
    way(script.path, b"".join(lines[1:]))  # as pruners do, the oldest line left out
    await place.look()
    assert (place.opened(), place.worked()) == ([], (0, 0))
    session = place.session(script)
    assert session.turn is not None
    assert (session.turn.id, session.progress_at) == ("t2", before), "and rewriting is no work"
    script.says(-place.now + 100 - 3, "end_turn")
    await place.look()
    assert (place.opened(), place.worked()) == ([], (0, 5)), "what is appended then is told"
    assert session.progress_at == place.now


async def test_a_rewriting_that_is_seen_half_done_tells_nothing_twice(place: Place) -> None:
    script = await started(place)
    content = script.path.read_bytes()
    place.changes.clear()
    half = len(content) // 2
    for part in (b"", content[:half], content):
        copied_and_truncated(script.path, part)
        await place.look()
    assert (place.opened(), place.worked()) == ([], (0, 0))
    script.prompt(-place.now + 100 - 3, promptId="t3")
    await place.look()
    assert place.opened() == ["t3"]


async def test_a_history_copied_into_a_new_session_is_no_activity(place: Place) -> None:
    old = place.home.session()
    for n in range(20):
        old.prompt(9 * HOUR - n, promptId=f"t{n}").says(9 * HOUR - n)
    await place.look()
    fork = place.home.session()
    fork.raw(old.path.read_bytes().replace(old.id.encode(), fork.id.encode()))
    place.changes.clear()
    await place.look()
    assert (place.opened(), place.worked()) == ([], (0, 0))
    session = place.session(fork)
    assert session.dormant, "nobody works there: nobody did for nine hours"
    assert session.progress_at == pytest.approx(100 - 9 * HOUR + 19)
    fork.prompt(-place.now + 100 - 3, promptId="new")
    await place.look()
    assert place.opened() == ["new"]
    assert place.session(fork).progress_at == place.now


async def test_a_copy_beside_a_live_session_tells_nothing_of_it_twice(place: Place) -> None:
    script = await started(place)
    place.changes.clear()
    copy = script.path.parent.with_name("-backup") / script.path.name
    copy.parent.mkdir()
    shutil.copy2(script.path, copy)
    await place.look()
    assert (place.opened(), place.worked()) == ([], (0, 0))


async def test_a_session_that_goes_on_in_a_copy_is_neither_lost_nor_told_anew(place: Place) -> None:
    script = await started(place)
    place.changes.clear()
    old = script.path
    script.path = old.parent.with_name("-elsewhere") / old.name
    script.path.parent.mkdir()
    shutil.copy2(old, script.path)
    await place.look()
    old.unlink()
    assert [s for s in await place.look() if isinstance(s, g.SourceLost)] == []
    script.says(-place.now + 100 - 3, "end_turn")
    await place.look()
    assert place.session(script).progress_at == place.now
    assert (place.opened(), place.worked()) == ([], (0, 5))
    script.path.unlink()
    assert [type(s) for s in await place.look()] == [g.SourceLost], "with the last of its files it is"


async def test_touching_a_transcript_is_no_sign_of_work(place: Place) -> None:
    script = await started(place)
    before = place.session(script).progress_at
    for when in (WALL + 10_000, 1.0, WALL):
        os.utime(script.path, (when, when))
        assert await place.look() == []
    assert place.session(script).progress_at == before


@pytest.mark.parametrize("skew", [-3 * HOUR, -60, 60, 3 * HOUR])
async def test_silence_counts_from_arrival_whatever_the_agents_clock_says(place: Place, skew: float) -> None:
    script = await started(place)
    for _ in range(3):
        script.says(-place.now + 100 - 3 - skew, "tool_use")
        await place.look()
        assert place.session(script).progress_at == place.now
    place.now += 50
    assert place.session(script).silence(place.now) == 50


@pytest.mark.parametrize("step", [-HOUR, HOUR])
async def test_a_stepped_wall_clock_moves_no_silence_and_loses_no_line(place: Place, step: float) -> None:
    script = await started(place)
    before = place.session(script).progress_at
    assert before is not None
    place.stepped = step
    assert await place.look() == []
    assert place.session(script).silence(place.now) == place.now - before
    script.says(-place.now + 100 - 3, "tool_use")
    await place.look()
    assert place.session(script).progress_at == place.now, "by an agent that has not heard of the step"
    script.says(-place.now + 100 - 3 - step + 1, "tool_use")
    await place.look()
    assert place.session(script).progress_at == place.now - 1, "and by one that has"


def positions(place: Place) -> dict[str, int]:
    return {path: tail.position for path, tail in place.source._folder.tails.items()}


def behind(place: Place) -> Script:
    """A session whose file takes many reads to its end."""
    script = place.home.session().prompt(50, promptId="t1")
    for _ in range(12):
        script.says(40, "tool_use", text="x" * 1_000_000)
    return script.says(30, "tool_use")


async def test_what_nobody_takes_waits_in_the_file(place: Place) -> None:
    script = behind(place)
    size, read, told, held = script.path.stat().st_size, 0, 0, []
    place.source.want(script.id)
    while read < size:
        assert sum(positions(place).values()) == read, "nothing is read ahead of who asks for it"
        found = await place.source.read()
        told += sum(s.progress for _, s in found if isinstance(s, g.Records))
        now = sum(positions(place).values())
        held.append(now - read)
        read = now
    assert max(held) <= ROUND
    assert len(held) > size // ROUND
    assert told == 14


async def test_ended_within_a_backlog_it_reads_on_no_further(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = behind(place)
    place.source.want(script.id)
    begun, read_on = asyncio.Event(), place.source.read

    async def reading() -> Sequence[g.Observation]:
        begun.set()
        return await read_on()

    monkeypatch.setattr(place.source, "read", reading)
    task = asyncio.create_task(place.watch.run())
    await begun.wait()
    seen = sum(positions(place).values())
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    read = sum(positions(place).values())
    assert read - seen <= ROUND
    assert read < script.path.stat().st_size
    await asyncio.sleep(0)
    assert sum(positions(place).values()) == read
