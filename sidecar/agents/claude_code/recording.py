"""Claude Code's transcripts as a recording: whole files, read once, with the records' own times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from sidecar import signals as g
from sidecar.agents.claude_code.registration import Registration
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import RecordedClock
from sidecar.sources.records import Records

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
        self.cwds: dict[str, str] = {}
        """Each session's working directory, once its observations are read."""

    def observations(self) -> list[Observation]:
        """Every file's signals, in file order."""
        found: list[Observation] = []
        ever = RecordedClock(math.inf)  # no stamp lies in the future of a recording
        for path in self.files():
            decoder = Transcript(path.stem, ever, by_entrypoint)
            found += decoder.feed(_lines(path), None)
            if decoder.session is not None and decoder.cwd is not None:
                self.cwds[decoder.session] = decoder.cwd
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


class Change(Struct):
    """A recorded change of a registration: its text, or None once it is removed."""

    t: float
    file: str
    content: str | None = None


def registered(path: Path, start: float) -> tuple[list[tuple[float, list[Observation]]], dict[str, str]]:
    """What a recording of registrations said and when, and each session's working directory."""
    out: list[tuple[float, list[Observation]]] = []
    cwds: dict[str, str] = {}
    there: dict[str, str] = {}
    records = Records(Change)
    for line in _lines(path):
        for change in records.decode(line).records:
            at = start + change.t
            left = there.pop(change.file, None)
            seen = [] if left is None else [g.Observation(left, g.Unregistered(at))]
            new = None if change.content is None else _registration(change.content)
            if new is not None:
                there[change.file] = new.session_id
                cwds |= {} if new.cwd is None else {new.session_id: new.cwd}
                seen.append(g.Observation(new.session_id, g.Registered(min(at, new.started_at / 1000 or at))))
            out.append((at, seen))
    return out, cwds


def _registration(text: str) -> Registration | None:
    """A registration; None where it was half written."""
    try:
        return msgspec.json.decode(text, type=Registration)
    except msgspec.MsgspecError:
        return None


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines, split on the newline byte alone; a last line without one is not whole."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and len(line) <= CAP and line.strip():
                yield line
