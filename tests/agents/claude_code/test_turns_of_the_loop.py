"""A turn of the loop is bounded in time: what takes long to decode waits for the next one."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from sidecar import signals as g
from sidecar.agents.claude_code.transcript import by_entrypoint
from sidecar.agents.claude_code.transcripts import TURN, Transcripts
from sidecar.clock import LiveClock
from sidecar.sources.folder import PIECE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SESSION = "748d9cee-5ae2-4993-9fd5-0e9e258913ca"
LINE = b'{"type":"mode","timestamp":"2026-01-01T00:00:00.000Z","sessionId":"%s"}\n' % SESSION.encode()
LINES = 4 * PIECE // len(LINE) - 1


def written(root: Path, lines: int = LINES, folder: str = "-work") -> Path:
    path = root / "projects" / folder / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(LINE * lines)
    return path


def source_of(root: Path, step: float) -> Transcripts:
    """A source whose clock moves on by `step` whenever it is read."""
    ticks, wall = count(), root.stat().st_mtime
    clock = LiveClock(lambda: step * next(ticks), lambda: wall)
    source = Transcripts(str(root), clock, by_entrypoint, events=False)
    source.want(SESSION)
    return source


def counted(found: Iterable[g.Observation]) -> int:
    return sum(s.presence for _, s in found if isinstance(s, g.Records))


def turns(root: Path, step: float) -> list[int]:
    """Records told in each turn."""
    written(root)
    source = source_of(root, step)
    told: list[int] = []
    while not told or source.every == 0.0:
        told.append(counted(source.scan()))
    source.close()
    return told


def test_slow_turns_end_after_a_piece_and_lose_nothing(tmp_path: Path) -> None:
    slow = turns(tmp_path / "slow", TURN)
    assert len([count for count in slow if count]) >= 4
    assert sum(slow) == LINES
    fast = turns(tmp_path / "fast", 0.0)
    assert fast == [LINES]


def read_out(source: Transcripts) -> list[int]:
    """Records told by each piece of a reading to the end."""
    told = [counted(source.ends(SESSION))]
    while source.unread(SESSION):
        told.append(counted(source.ends(SESSION)))
    return told


def test_a_file_is_read_to_its_end_in_turns_that_are_as_short(tmp_path: Path) -> None:
    written(tmp_path, 1)
    source = source_of(tmp_path, TURN)
    assert counted(source.scan()) == 1
    written(tmp_path)
    told = read_out(source)
    assert (len(told), sum(told)) == (4, LINES)
    assert max(told) <= PIECE // len(LINE) + 1
    source.close()


def test_every_file_of_a_session_is_read_to_its_end(tmp_path: Path) -> None:
    for folder in ("-one", "-two"):
        written(tmp_path, 1, folder)
    source = source_of(tmp_path, TURN)
    while source.every == 0.0 or not source._decoders:
        source.scan()
    for folder in ("-one", "-two"):
        written(tmp_path, folder=folder)
    assert sum(read_out(source)) == 2 * LINES
    source.close()


def test_what_such_a_turn_leaves_is_read_in_turn_though_nobody_asks_again(tmp_path: Path) -> None:
    written(tmp_path, 1)
    source = source_of(tmp_path, TURN)
    source.scan()
    written(tmp_path)
    told = counted(source.ends(SESSION))
    assert source.unread(SESSION)
    assert source.every == 0.0
    while source.every == 0.0:
        told += counted(source.scan())
    assert told == LINES
    source.close()


def test_a_file_that_moves_while_it_is_behind_is_told_to_have_caught_up(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    source = source_of(tmp_path, TURN)
    source.scan()
    written(tmp_path, LINES // 4 + 1000)
    behind = [s.behind for _, s in source.ends(SESSION) if isinstance(s, g.CatchingUp)]
    assert behind == [True]
    there = path.parent.with_name("-there")
    path.parent.rename(there)
    source._folder.notice(None)
    caught = [s.behind for _, s in [*source.scan(), *source.scan()] if isinstance(s, g.CatchingUp)]
    assert caught == [False]
    source.close()
