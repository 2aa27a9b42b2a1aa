"""Unfinished lines of many files at once: bounded together, and every one that is given up is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sidecar.sources.folder import Folder
from sidecar.sources.pace import Pace, Reading
from sidecar.sources.unfinished import LINES, SHORT

if TYPE_CHECKING:
    from pathlib import Path

CAP = 64 << 10


class Many:
    """Files that are written without an end, followed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = Folder(
            str(root), ["*.jsonl"], pace=Pace(dormant=float("inf")), reading=Reading(cap=CAP)
        )
        self.lines: list[bytes] = []
        self.oversized = 0

    def write(self, name: str, data: bytes) -> None:
        with (self.root / f"{name}.jsonl").open("ab") as file:
            file.write(data)

    def look(self) -> None:
        self.folder.notice(None)
        self.folder.scan(0.0)
        for _ in range(4):
            for _, read in self.folder.read():
                self.lines += [line for block in read.blocks for line in block.split()]
                self.oversized += read.oversized

    @property
    def held(self) -> list[int]:
        return sorted(tail.partial_bytes for tail in self.folder.tails.values())


@pytest.fixture
def many(tmp_path: Path) -> Many:
    return Many(tmp_path)


def test_all_together_hold_no_more_than_some_lines_at_the_cap(many: Many) -> None:
    for n in range(3 * LINES):
        many.write(str(n), b"x" * (CAP - n))
    many.look()
    assert sum(many.held) <= LINES * CAP
    assert len([size for size in many.held if size]) >= LINES
    assert many.oversized == 3 * LINES - len([size for size in many.held if size])


def test_the_longest_is_given_up_and_the_others_are_told_when_they_end(many: Many) -> None:
    many.write("long", b"l" * CAP)
    for n in range(LINES):
        many.write(str(n), b"x" * (CAP - 1 - n))
    many.look()
    assert (many.held[0], many.oversized) == (0, 1)
    for name in ("long", *map(str, range(LINES))):
        many.write(name, b"\nnext\n")
    many.look()
    assert many.oversized == 1
    assert many.lines.count(b"next") == LINES + 1
    assert sorted(len(line) for line in many.lines if line != b"next") == [
        CAP - 1 - n for n in reversed(range(LINES))
    ]


def test_short_ones_never_count(many: Many) -> None:
    for n in range(LINES * CAP // SHORT + 20):
        many.write(str(n), b"x" * SHORT)
    many.look()
    assert sum(many.held) > LINES * CAP
    assert many.oversized == 0


def test_what_is_deleted_counts_no_more(many: Many) -> None:
    for n in range(LINES):
        many.write(str(n), b"x" * (CAP - 1))
    many.look()
    for path in many.root.iterdir():
        path.unlink()
    many.look()
    for n in range(LINES):
        many.write(f"new{n}", b"x" * (CAP - 1))
    many.look()
    assert (len(many.held), many.oversized) == (LINES, 0)
