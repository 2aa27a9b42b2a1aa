"""Following a name through whatever happens to the file behind it."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sidecar.sources.openfile import OpenFile
from sidecar.sources.tail import Read, Tail

ReadAll = Callable[..., list[Read]]
Change = Callable[[Path], None]

HEAD = b"".join(b'{"n":%d,"head":"the same in every file"}\n' % n for n in range(100))  # over 1000 bytes
OLD = HEAD + b'{"n":100}\n{"n":101}\n'


def in_place(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate()
        file.write(data)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def recreate(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def rename_over(path: Path, data: bytes) -> None:
    other = path.with_suffix(".tmp")
    other.write_bytes(data)
    other.replace(path)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def lines_of(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]


@pytest.fixture
def follower(path: Path) -> Tail:
    path.write_bytes(OLD)
    follower = Tail(str(path))
    read = follower.poll()
    assert (read.lines, read.event) == (lines_of(OLD), "appeared")
    return follower


@pytest.mark.parametrize("data", [b"", b"new\n", HEAD], ids=["to-nothing", "shorter", "same-beginning"])
def test_truncated(follower: Tail, path: Path, data: bytes) -> None:
    in_place(path, data)
    read = follower.poll()
    assert (read.lines, read.event, read.generation) == (lines_of(data), "truncated", 1)
    assert not read.grew


def test_truncated_and_grown_past_the_old_place_between_two_polls(follower: Tail, path: Path) -> None:
    data = HEAD + b'{"other":"%s"}\n' % (b"x" * 400)
    assert len(data) > len(OLD)
    in_place(path, data)
    read = follower.poll()
    assert (read.lines, read.event, read.generation) == (lines_of(data), "rewritten", 1)


def test_copied_and_truncated_keeps_following_the_name(follower: Tail, path: Path) -> None:
    path.with_suffix(".1").write_bytes(path.read_bytes())
    in_place(path, b"")
    append(path, b"next\n")
    assert follower.poll().lines == [b"next"]
    append(path, b"after\n")
    read = follower.poll()
    assert (read.lines, read.event) == ([b"after"], None)


@pytest.mark.parametrize("place", [0, 200, len(OLD) - 8], ids=["head", "early", "end"])
def test_rewritten_in_place_with_the_same_size(follower: Tail, path: Path, place: int) -> None:
    data = OLD[:place] + b"#" + OLD[place + 1 :]
    in_place(path, data)
    read = follower.poll()
    assert (read.lines, read.event, read.generation) == (lines_of(data), "rewritten", 1)


def test_the_last_line_rewritten(follower: Tail, path: Path) -> None:
    data = HEAD + b'{"n":100}\n{"n":101,"repaired":true}\n'
    in_place(path, data)
    read = follower.poll()
    assert (read.lines, read.event) == (lines_of(data), "rewritten")


def test_replaced_by_renaming_over_it(follower: Tail, path: Path) -> None:
    rename_over(path, HEAD)
    read = follower.poll()
    assert (read.lines, read.event, read.generation, read.history) == (lines_of(HEAD), "replaced", 1, True)


def test_replaced_by_an_identical_copy(follower: Tail, path: Path) -> None:
    rename_over(path, OLD)
    assert follower.poll().event == "replaced"


@pytest.mark.parametrize("data", [b"new\n", OLD.replace(b"101", b"999"), OLD.replace(b"101", b"999") * 2])
def test_deleted_and_made_again_unnoticed(follower: Tail, path: Path, data: bytes) -> None:
    recreate(path, data)  # on ext4 it gets the same inode
    read = follower.poll()
    assert (read.lines, read.generation) == (lines_of(data), 1)
    assert read.event in ("truncated", "rewritten", "replaced")


def with_inode(st: os.stat_result, number: int) -> SimpleNamespace:
    """Say of a file that it has this inode; whatever else is told of it stays."""
    told = {name: getattr(st, name) for name in dir(st) if name.startswith("st_")}
    return SimpleNamespace(**told | {"st_ino": number})


@pytest.mark.parametrize(
    "data", [b"new\n", OLD.replace(b"101", b"999"), OLD.replace(b"101", b"999") * 2, OLD[:-1]]
)
def test_made_again_with_the_same_inode_wherever_it_lies(
    path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every file system gives the inode of the deleted file to the next one; any may."""
    real_stat, real_fstat = os.stat, os.fstat
    monkeypatch.setattr(os, "stat", lambda name, **how: with_inode(real_stat(name, **how), 7))
    monkeypatch.setattr(os, "fstat", lambda fd: with_inode(real_fstat(fd), 7))
    path.write_bytes(OLD)
    follower = Tail(str(path))
    follower.poll()
    recreate(path, data)
    read = follower.poll()
    assert (read.lines, read.generation) == (lines_of(data), 1)
    assert read.event in ("truncated", "rewritten")


def test_vanished_then_made_again_with_the_same_bytes(follower: Tail, path: Path) -> None:
    path.unlink()
    assert follower.poll().event == "vanished"
    assert follower.poll().event is None
    path.write_bytes(OLD)
    read = follower.poll()
    assert (read.lines, read.event, read.generation) == (lines_of(OLD), "appeared", 1)


def test_its_directory_vanished(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "s.jsonl"
    path.write_bytes(OLD)
    follower = Tail(str(path))
    follower.poll()
    path.unlink()
    folder.rmdir()
    folder.touch()  # now a file: ENOTDIR
    assert follower.poll().event == "vanished"


def test_an_unfinished_line_cut_off_is_forgotten_without_a_new_generation(path: Path) -> None:
    path.write_bytes(OLD + b'{"half')
    follower = Tail(str(path))
    follower.poll()
    os.truncate(path, len(OLD))
    append(path, b'{"other":1}\n')
    read = follower.poll()
    assert (read.lines, read.event, read.generation) == ([b'{"other":1}'], None, 0)
    assert not read.history


@pytest.mark.parametrize("cap", [1 << 20, 100])
def test_an_unfinished_line_rewritten_is_read_as_it_is_now(path: Path, cap: int) -> None:
    path.write_bytes(OLD + b"x" * 200)
    follower = Tail(str(path), cap=cap)
    follower.poll()
    in_place(path, OLD + b"y\n" * 150)
    read = follower.poll()
    assert (read.lines, read.event, read.generation) == ([b"y"] * 150, None, 0)


def test_an_empty_file_replaced_by_another_has_lost_nothing(path: Path) -> None:
    path.write_bytes(b"half")
    follower = Tail(str(path))
    follower.poll()
    recreate(path, b"new\n")
    assert follower.poll().lines == [b"new"]


def test_a_link_given_another_target(tmp_path: Path, path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"one\n")
    two.write_bytes(b"two\n")
    path.symlink_to(one)
    follower = Tail(str(path))
    assert follower.poll().lines == [b"one"]
    append(one, b"more\n")
    assert follower.poll().lines == [b"more"]
    path.unlink()
    path.symlink_to(two)
    read = follower.poll()
    assert (read.lines, read.event) == ([b"two"], "replaced")


def test_adopted_under_another_name_it_goes_on(follower: Tail, path: Path) -> None:
    append(path, b'{"half":')
    follower.poll()
    moved = path.with_name("archived.jsonl")
    path.rename(moved)
    assert follower.poll().event == "vanished"
    assert follower.adopt(str(moved))
    append(moved, b"1}\n")
    read = follower.poll()
    assert (read.lines, read.event, read.generation, read.history) == ([b'{"half":1}'], None, 0, False)
    assert follower.path == str(moved)
    before = open_files()
    assert follower.adopt(str(moved))
    assert open_files() == before


def test_another_file_is_not_adopted(follower: Tail, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    assert not follower.adopt(str(other))
    other.write_bytes(OLD)
    assert not follower.adopt(str(other))
    assert follower.path == str(path)
    in_place(path, b"x" * len(OLD))
    assert not follower.adopt(str(path))
    assert not Tail(str(path)).adopt(str(path))


@pytest.mark.parametrize("change", [Path.unlink, lambda path: rename_over(path, b"new\n")])
def test_a_backlog_outlives_its_name(path: Path, read_all: ReadAll, change: Change) -> None:
    path.write_bytes(OLD)
    follower = Tail(str(path))
    first = follower.poll(1000)
    assert first.behind
    assert follower.holding
    change(path)
    reads = [first, *read_all(follower, 1000)]
    old = [line for read in reads if read.generation == 0 for line in read.lines]
    new = [line for read in reads if read.generation == 1 for line in read.lines]
    assert (old, new) == (lines_of(OLD), [b"new"] if path.exists() else [])
    assert reads[-1].event == ("replaced" if path.exists() else "vanished")
    assert not follower.holding


def test_a_backlog_cut_short_is_read_anew(path: Path, read_all: ReadAll) -> None:
    path.write_bytes(OLD)
    follower = Tail(str(path))
    follower.poll(1000)
    in_place(path, b"new\n")
    reads = read_all(follower)
    assert ([line for read in reads for line in read.lines], reads[0].event) == ([b"new"], "truncated")


def test_an_idle_file_is_not_kept_open(follower: Tail, path: Path) -> None:
    assert not follower.holding
    append(path, b"half")
    follower.poll()
    assert not follower.holding


def test_closed_it_gives_the_file_back_and_can_go_on(path: Path, read_all: ReadAll) -> None:
    path.write_bytes(OLD)
    follower = Tail(str(path))
    lines = follower.poll(1000).lines
    follower.close()
    assert not follower.holding
    assert lines + [line for read in read_all(follower) for line in read.lines] == lines_of(OLD)


def test_only_so_many_files_are_kept_open(tmp_path: Path) -> None:
    before = open_files()
    tails = []
    for n in range(80):
        path = tmp_path / f"{n}.jsonl"
        path.write_bytes(OLD)
        tails.append(Tail(str(path)))
        assert tails[-1].poll(10).behind
    assert open_files() - before == 64
    assert not tails[0].holding
    assert tails[-1].holding
    assert sum(len(tail.poll().lines) for tail in tails) == 80 * len(lines_of(OLD))
    for tail in tails:
        tail.close()
    assert open_files() == before


def test_the_file_kept_open_longest_unused_gives_way(path: Path) -> None:
    path.touch()
    files = [OpenFile() for _ in range(64)]
    for file in [*files, files[0]]:
        file.open(str(path))
        file.keep()
    one_more = OpenFile()
    one_more.open(str(path))
    one_more.keep()
    assert (files[0].fd is None, files[1].fd is None, one_more.fd is None) == (False, True, False)
