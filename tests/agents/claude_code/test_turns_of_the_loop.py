"""A turn of the loop is bounded in time: what takes long to decode waits for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import signals as g
from sidecar.agents.claude_code.transcript import by_entrypoint
from sidecar.agents.claude_code.transcripts import TURN, Transcripts
from sidecar.clock import LiveClock
from sidecar.sources.folder import PIECE

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "748d9cee-5ae2-4993-9fd5-0e9e258913ca"
LINE = b'{"type":"mode","timestamp":"2026-01-01T00:00:00.000Z","sessionId":"%s"}\n' % SESSION.encode()
LINES = 4 * PIECE // len(LINE) - 1


def turns(root: Path, step: float) -> list[int]:
    """Records told in each turn, with a clock that moves on by `step` whenever it is read."""
    path = root / "projects" / "-work" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(LINE * LINES)
    ticks = [0.0]

    def now() -> float:
        ticks[0] += step
        return ticks[0]

    source = Transcripts(str(root), LiveClock(now, lambda: path.stat().st_mtime), by_entrypoint, events=False)
    source.want(SESSION)
    told: list[int] = []
    while not told or source.every == 0.0:
        found = source.scan()
        told.append(sum(s.presence for _, s in found if isinstance(s, g.Records)))
    source.close()
    return told


def test_slow_turns_end_after_a_piece_and_lose_nothing(tmp_path: Path) -> None:
    slow = turns(tmp_path / "slow", TURN)
    assert len([count for count in slow if count]) >= 4
    assert sum(slow) == LINES
    fast = turns(tmp_path / "fast", 0.0)
    assert fast == [LINES]
