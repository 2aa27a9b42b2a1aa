"""Going on after a restart."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.sources.cursor import Mark
from sidecar.sources.tail import Read, Tail

OLD = b"".join(b'{"n":%d}\n' % n for n in range(100))


def restarted(follower: Tail, **options: Any) -> Tail:
    """Carry the mark over as a file would."""
    mark = follower.mark()
    follower.close()
    return Tail.resume(follower.path, msgspec.json.decode(msgspec.json.encode(mark), type=Mark), **options)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def follower(path: Path) -> Tail:
    path.write_bytes(OLD)
    follower = Tail(str(path))
    follower.poll()
    return follower


def test_no_mark_before_the_file_was_read(path: Path) -> None:
    assert Tail(str(path)).mark() is None


def test_a_mark_holds_nothing_of_what_the_file_says(follower: Tail) -> None:
    told = msgspec.json.encode(follower.mark())
    assert b'"n' not in told
    assert follower.path.rpartition("/")[2].encode() not in told


def test_goes_on_where_it_was(follower: Tail, path: Path) -> None:
    append(path, b"while away\n")
    again = restarted(follower)
    read = again.poll()
    assert (read.lines, read.event, read.generation) == ([b"while away"], None, 0)
    assert read.history  # it was there when this process first looked
    assert not read.grew
    append(path, b"live\n")
    read = again.poll()
    assert (read.lines, read.history) == ([b"live"], False)


def test_half_a_line_is_completed_once(follower: Tail, path: Path) -> None:
    append(path, b'{"half":')
    follower.poll()
    again = restarted(follower)
    assert again.poll().lines == []
    append(path, b"1}\n")
    read = again.poll()
    assert (read.lines, read.history) == ([b'{"half":1}'], False)


def test_in_the_middle_of_an_over_long_line(follower: Tail, path: Path) -> None:
    append(path, b"x" * 500)
    again = restarted(follower, cap=100)
    assert again.poll().oversized == 1
    append(path, b"x\nnext\n")
    assert again.poll().lines == [b"next"]


def test_in_the_middle_of_a_backlog(path: Path, read_all: Callable[..., list[Read]]) -> None:
    path.write_bytes(OLD)
    follower = Tail(str(path))
    before = follower.poll(100).lines
    after = [line for read in read_all(restarted(follower), 100) for line in read.lines]
    assert b"\n".join([*before, *after, b""]) == OLD


def test_marked_again_before_the_first_look(follower: Tail) -> None:
    mark = follower.mark()
    assert mark is not None
    assert Tail.resume(follower.path, mark).mark() == mark


def test_marked_and_resumed_over_and_over(follower: Tail, path: Path) -> None:
    for n in range(5):
        append(path, b"%d\nhalf" % n)
        follower = restarted(follower)
        expected = b"%d" % n if n == 0 else b"half%d" % n
        assert follower.poll().lines == [expected]


def test_bom_is_not_taken_off_in_the_middle(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfa\n")
    follower = Tail(str(path))
    assert follower.poll().lines == [b"a"]
    append(path, b"\xef\xbb\xbfb\n")
    assert restarted(follower).poll().lines == [b"\xef\xbb\xbfb"]


@pytest.mark.parametrize(
    ("change", "event"),
    [
        (lambda path: os.truncate(path, 30), "truncated"),
        (lambda path: path.write_bytes(OLD.replace(b"99", b"98")), "rewritten"),
        (lambda path: path.write_bytes(b"#" + OLD[1:] + b"more\n"), "rewritten"),
        (lambda path: path.rename(path.with_name("x")) and path.write_bytes(OLD), "replaced"),
    ],
    ids=["truncated", "rewritten-at-the-end", "rewritten-at-the-head", "replaced"],
)
def test_another_file_by_now_is_read_from_its_beginning(
    follower: Tail, path: Path, change: Callable[[Path], object], event: str
) -> None:
    mark = follower.mark()
    assert mark is not None
    change(path)
    read = Tail.resume(str(path), mark).poll()
    assert (read.lines, read.event) == (path.read_bytes().split(b"\n")[:-1], event)
    assert (read.generation, read.history) == (1, True)


def test_gone_while_away_then_made_again(follower: Tail, path: Path) -> None:
    path.unlink()
    again = restarted(follower)
    assert again.poll().event == "vanished"
    path.write_bytes(b"new\n")
    read = again.poll()
    assert (read.lines, read.event, read.generation) == ([b"new"], "appeared", 1)


def test_resumed_under_another_name(follower: Tail, path: Path) -> None:
    mark = follower.mark()
    assert mark is not None
    moved = path.with_name("archived.jsonl")
    path.rename(moved)
    append(moved, b"more\n")
    assert Tail.resume(str(moved), mark).poll().lines == [b"more"]


def test_goes_back_from_the_mark_to_what_came_before_it(follower: Tail, path: Path) -> None:
    mark = follower.mark()
    assert mark is not None
    append(path, b"while away\n")
    again = Tail.resume(str(path), mark).back(lambda _, at: at - len(b'{"n":99}\n'))
    read = again.poll()
    assert (read.lines, read.event, read.history) == ([b'{"n":99}', b"while away"], None, True)
    append(path, b"live\n")
    assert again.poll().lines == [b"live"]
    path.write_bytes(OLD.replace(b"99", b"98"))
    assert again.poll().event == "truncated"
