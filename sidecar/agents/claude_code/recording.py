"""Claude Code's transcripts as a recording: whole files, read once, with the records' own times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import RecordedClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sidecar.signals import Observation

CAP = 8 << 20
"""Longest line read, in bytes; as in a running sidecar."""


class Recording:
    """The transcripts below some paths, each with its session's subagent files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)

    def observations(self) -> list[Observation]:
        """Every file's signals, in file order."""
        found: list[Observation] = []
        ever = RecordedClock(math.inf)  # no stamp lies in the future of a recording
        for path in self.files():
            found += Transcript(path.stem, ever, by_entrypoint).feed(_lines(path), None)
        return found

    def files(self) -> list[Path]:
        """The transcripts: a file and its subagents' files, or all files below a folder."""
        files: dict[Path, None] = {}
        for path in self._paths:
            if path.is_dir():
                files |= dict.fromkeys(sorted(path.rglob("*.jsonl")))
            else:
                files[path] = None
                files |= dict.fromkeys(sorted((path.parent / path.stem / "subagents").glob("*.jsonl")))
        return list(files)


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines, split on the newline byte alone; a last line without one is not whole."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and len(line) <= CAP and line.strip():
                yield line
