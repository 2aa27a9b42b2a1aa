"""Places of an earlier run: each is taken up once, and kept until it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sidecar.sources.cursor import Mark
from sidecar.sources.marks import Marks
from sidecar.sources.tail import Tail

if TYPE_CHECKING:
    from pathlib import Path


def mark(inode: int) -> Mark:
    return Mark(1, inode, 10, "", "", 0)


def test_each_is_taken_up_once() -> None:
    marks = Marks()
    before = marks.resumed
    marks.resume([mark(1), mark(2)])
    assert (before, marks.resumed) == (False, True)
    assert marks.take((1, 1)) == mark(1)
    assert marks.take((1, 1)) is None
    assert marks.take((9, 2)) is None


def test_those_not_taken_up_are_kept_while_their_files_are_there_or_nothing_is() -> None:
    marks = Marks()
    marks.resume([mark(1), mark(2)])
    assert marks.now([], []) == [mark(1), mark(2)]
    assert marks.now([(1, 2), (1, 3)], []) == [mark(2)]


def test_the_files_touched_last_come_last(tmp_path: Path) -> None:
    tails = []
    for name, touched in (("new", 2000), ("old", 1000)):
        path = tmp_path / name
        path.write_bytes(b"line\n")
        os.utime(path, (touched, touched))
        tails.append(Tail(str(path)))
        tails[-1].poll()
    unread = Tail(str(tmp_path / "absent"))
    found = Marks().now([(1, 1)], [*tails, unread])
    assert [x.ino for x in found] == [(tmp_path / name).stat().st_ino for name in ("old", "new")]
