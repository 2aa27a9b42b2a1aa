"""Following all files of an agent."""

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sidecar.sources.cursor import Mark
from sidecar.sources.folder import PIECE, ROUND, Changes, Folder
from sidecar.sources.pace import Pace, Reading

Unprivileged = Callable[[], AbstractContextManager[None]]

NOW = 2_000_000_000.0
OLD = NOW - 100_000
SHAPES = ["*/*.jsonl", "*/*/subagents/*.jsonl"]
MIB = 1 << 20


class Home:
    """A folder under test, with a clock of its own."""

    def __init__(
        self,
        root: Path,
        marks: list[Mark] | None = None,
        pace: Pace | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.root = root
        self.now = NOW
        self.folder = Folder(str(root), SHAPES, pace=pace, reading=reading)
        if marks is not None:
            self.folder.resume(marks)

    def put(self, name: str, data: bytes, when: float | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        os.utime(path, (when or self.now, when or self.now))
        return path

    def name(self, path: str) -> str:
        return os.path.relpath(path, self.root)

    def scan(self, after: float = 2.0) -> Changes:
        self.now += after
        changes = self.folder.scan(self.now)
        assert changes is not None
        return changes

    def read(self, budget: int = ROUND) -> list[tuple[str, list[bytes], bool]]:
        return [(self.name(path), read.lines, read.history) for path, read in self.folder.read(budget)]

    def new(self, after: float = 2.0) -> list[str]:
        return [self.name(found.path) for found in self.scan(after).new]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_file_is_found_read_and_followed(home: Home) -> None:
    home.put("p/1.jsonl", b"a\n")
    assert home.new() == ["p/1.jsonl"]
    assert home.read() == [("p/1.jsonl", [b"a"], True)]
    home.put("p/1.jsonl", b"b\n")
    assert home.read() == []
    home.scan()
    assert home.read() == [("p/1.jsonl", [b"b"], False)]
    assert home.read() == []
    assert not home.folder.pending


def test_a_root_that_appears_later(tmp_path: Path) -> None:
    home = Home(tmp_path / "later")
    assert home.scan() == Changes()
    home.put("p/1.jsonl", b"a\n")
    assert home.new() == ["p/1.jsonl"]
    assert home.read() == [("p/1.jsonl", [b"a"], True)]


def test_scans_come_at_their_pace_whatever_the_clock_does(home: Home) -> None:
    home.scan()
    assert home.folder.scan(home.now + 1.9) is None
    assert home.folder.scan(home.now + 2.0) is not None
    assert home.folder.scan(home.now - 3600) is not None
    assert home.folder.scan(home.now - 3599) is None
    assert home.folder.scan(home.now + 3600) is not None


def test_a_file_that_grew_is_polled_at_every_read_until_it_cools_down(home: Home) -> None:
    home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    home.put("p/1.jsonl", b"b\n")
    home.scan()
    home.read()
    home.put("p/1.jsonl", b"c\n")
    assert home.read() == [("p/1.jsonl", [b"c"], False)]
    assert home.folder.scan(home.now + 1) is None
    home.scan(61)
    home.read()
    home.put("p/1.jsonl", b"d\n")
    assert home.read() == []
    home.scan()
    assert home.read() == [("p/1.jsonl", [b"d"], False)]


def test_an_old_file_costs_a_stat(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.put("p/1.jsonl", b"a\n", OLD)

    def refuse(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(os, "open", refuse)
    assert home.new() == ["p/1.jsonl"]
    assert home.read() == []
    assert (home.folder.dormant, home.folder.tails) == (1, {})


def test_a_dormant_file_wakes_when_it_grows(home: Home) -> None:
    home.put("p/1.jsonl", b"old\n" * 3, OLD)
    home.scan()
    home.put("p/1.jsonl", b"new\n")
    assert home.scan().new == []
    assert home.read() == [("p/1.jsonl", [b"old"] * 3, True), ("p/1.jsonl", [b"new"], False)]
    assert not home.folder.pending
    assert home.folder.dormant == 0


def test_a_dormant_file_that_shrank_is_all_history(home: Home) -> None:
    path = home.put("p/1.jsonl", b"old\n" * 3, OLD)
    home.scan()
    path.write_bytes(b"cut\n")
    home.scan()
    assert home.read() == [("p/1.jsonl", [b"cut"], True)]


def test_touching_wakes_nothing(home: Home) -> None:
    home.put("p/1.jsonl", b"old\n", OLD)
    home.scan()
    home.put("p/1.jsonl", b"", NOW)
    home.scan()
    assert home.folder.dormant == 1


def test_the_caller_wakes_a_file(home: Home) -> None:
    path = home.put("p/1.jsonl", b"old\n", OLD)
    home.scan()
    assert home.folder.wake(str(path))
    assert not home.folder.wake(str(path))
    assert not home.folder.wake(str(path) + "x")
    assert home.read() == [("p/1.jsonl", [b"old"], True)]


def test_a_name_given_to_another_old_file_is_read(home: Home) -> None:
    path = home.put("p/1.jsonl", b"old\n", OLD)
    home.scan()
    other = home.put("x", b"one\ntwo\n", OLD)
    other.rename(path)
    home.scan()
    assert home.read() == [("p/1.jsonl", [b"one", b"two"], True)]


def test_vanished_is_told_once(home: Home) -> None:
    paths = [home.put("p/1.jsonl", b"a\n"), home.put("p/2.jsonl", b"b\n", OLD)]
    home.scan()
    home.read()
    for path in paths:
        path.unlink()
    assert sorted(home.scan().vanished) == sorted(map(str, paths))
    assert home.scan() == Changes()
    assert (home.folder.tails, home.folder.dormant) == ({}, 0)


def test_a_hot_file_that_vanished_calls_for_a_scan(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    home.put("p/1.jsonl", b"b\n")
    home.scan()
    home.read()
    path.unlink()
    assert home.read() == []
    assert home.scan(after=0).vanished == [str(path)]
    assert home.read() == []


def test_the_rest_of_a_deleted_file_is_read_before_it_is_gone(home: Home) -> None:
    line = b"x" * 1023 + b"\n"
    path = home.put("p/1.jsonl", line * 3000)
    home.scan()
    lines = sum(len(lines) for _, lines, _ in home.read(MIB))
    path.unlink()
    assert home.scan().vanished == []
    while home.folder.pending:
        lines += sum(len(lines) for _, lines, _ in home.read(MIB))
    assert lines == 3000
    assert home.scan().vanished == [str(path)]


def test_closed_it_keeps_no_file_open(home: Home) -> None:
    home.put("p/1.jsonl", b"a\n" * 1000)
    home.scan()
    home.read(10)
    (tail,) = home.folder.tails.values()
    assert tail.holding
    home.folder.close()
    assert not tail.holding


def test_a_moved_file_is_read_on(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\nhal")
    home.scan()
    home.read()
    moved = path.with_name("2.jsonl")
    path.rename(moved)
    home.put("p/2.jsonl", b"f\nb\n")
    changes = home.scan()
    assert (changes.moved, changes.new, changes.vanished) == ([(str(path), str(moved))], [], [])
    assert home.read() == [("p/2.jsonl", [b"half", b"b"], False)]


def test_a_hot_file_with_a_backlog_moves_with_its_place(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    home.put("p/1.jsonl", (b"x" * 1023 + b"\n") * 3000)
    home.scan()
    lines = sum(len(lines) for _, lines, _ in home.read(MIB))
    path.rename(path.with_name("2.jsonl"))
    home.scan()
    while home.folder.pending:
        lines += sum(len(lines) for _, lines, _ in home.read(MIB))
    assert lines == 3000
    home.put("p/2.jsonl", b"hot\n")
    assert home.read() == [("p/2.jsonl", [b"hot"], False)]


def test_a_dormant_file_moves_asleep(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n", OLD)
    home.scan()
    path.rename(path.with_name("2.jsonl"))
    changes = home.scan()
    assert (len(changes.moved), changes.new, home.folder.dormant) == (1, [], 1)


def test_the_inode_of_a_deleted_dormant_file_given_to_a_new_one(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n", OLD)
    home.scan()
    path.unlink()
    home.put("p/2.jsonl", b"another\n")
    changes = home.scan()
    assert [home.name(found.path) for found in changes.new] == ["p/2.jsonl"]
    assert changes.vanished == [str(path)]
    assert home.read() == [("p/2.jsonl", [b"another"], True)]


def test_the_inode_of_a_deleted_read_file_given_to_a_new_one(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    path.unlink()
    home.put("p/2.jsonl", b"another\n")
    changes = home.scan()
    assert (changes.moved, changes.vanished) == ([], [str(path)])
    assert home.read() == [("p/2.jsonl", [b"another"], True)]


def test_an_unreadable_directory_takes_nothing_away(open_folder: Path, unprivileged: Unprivileged) -> None:
    home = Home(open_folder)
    path = home.put("p/1.jsonl", b"a\n")
    path.chmod(0o644)
    home.scan()
    home.read()
    path.parent.chmod(0o000)
    with unprivileged():
        changes = home.scan()
        assert (changes.vanished, changes.unreadable) == ([], {str(path.parent): "EACCES"})
    path.parent.chmod(0o755)
    home.put("p/1.jsonl", b"b\n")
    assert home.scan().new == []
    assert home.read() == [("p/1.jsonl", [b"b"], False)]


def test_a_file_denied_is_tried_again_with_each_scan(open_folder: Path, unprivileged: Unprivileged) -> None:
    home = Home(open_folder)
    path = home.put("p/1.jsonl", b"a\n")
    path.chmod(0o000)
    with unprivileged():
        home.scan()
        assert [read.event for _, read in home.folder.read()] == ["denied"]
        assert list(home.folder.read()) == []
        home.scan()
        assert [read.event for _, read in home.folder.read()] == ["denied"]
    path.chmod(0o644)
    home.scan()
    assert home.read() == [("p/1.jsonl", [b"a"], True)]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE])
def test_a_file_in_trouble_holds_up_no_other(home: Home, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    bad = home.put("p/bad.jsonl", b"late\n")
    home.put("p/good.jsonl", b"a\n")
    real, tried = os.open, []

    def refuse(path: str, *rest: int) -> int:
        if path == str(bad):
            tried.append(path)
            raise OSError(code, os.strerror(code))
        return real(path, *rest)

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", refuse)
        home.scan()
        assert [lines for _, lines, _ in home.read() if lines] == [[b"a"]]
        assert home.folder.tails[str(bad)].failure == errno.errorcode[code]
        home.folder.notice([str(home.put("p/good.jsonl", b"b\n"))])
        assert [lines for _, lines, _ in home.read() if lines] == [[b"b"]]
        assert len(tried) == 1, "it is not tried at every read"
        home.scan()
        home.read()
        assert len(tried) == 2, "but with each scan"
    home.scan()
    assert home.read() == [("p/bad.jsonl", [b"late"], True)]


def test_live_files_come_before_a_backlog(home: Home) -> None:
    home.put("p/big.jsonl", (b"x" * 1023 + b"\n") * (16 << 10))
    for n in range(5):
        home.put(f"p/{n}.jsonl", b"a\n", home.now - 1)
    home.scan()
    while (
        len(home.folder.tails)
        and sum(tail.size - tail.position for tail in home.folder.tails.values()) > 12 * MIB
    ):
        home.read(MIB)
    for n in range(5):
        home.put(f"p/{n}.jsonl", b"b\n")
    home.scan()
    reads = home.read()
    assert [lines for name, lines, _ in reads[:5]] == [[b"b"]] * 5
    assert reads[5][0] == "p/big.jsonl"


def test_backlogs_take_turns_the_newest_first(home: Home) -> None:
    for n in range(3):
        home.put(f"p/{n}.jsonl", (b"x" * 1023 + b"\n") * 2048, home.now - 10 + n)
    home.scan()
    order = [name for _ in range(6) for name, _, _ in home.read(MIB)]
    assert order == [
        name for name in ["p/2.jsonl", "p/1.jsonl", "p/0.jsonl"] * 2 for _ in range(MIB // PIECE)
    ]
    assert not home.folder.pending


def test_a_read_brings_no_more_than_its_budget(home: Home) -> None:
    for n in range(9):
        home.put(f"p/{n}.jsonl", (b"x" * 1023 + b"\n") * 1024)
    home.scan()
    assert len({name for name, _, _ in home.read()}) == ROUND // MIB
    assert sum(tail.position for tail in home.folder.tails.values()) == ROUND


def test_who_has_had_enough_leaves_the_rest_for_the_next_time(home: Home) -> None:
    line = b"x" * 1023
    for n in range(3):
        home.put(f"p/{n}.jsonl", (line + b"\n") * 1024)
    home.scan()
    got: dict[str, int] = {}
    turns = 0
    while home.folder.pending:
        turns += 1
        path, read = next(home.folder.read())
        assert len(read.lines) * (len(line) + 1) == PIECE
        got[path] = got.get(path, 0) + len(read.lines)
    assert turns == 3 * MIB // PIECE
    assert list(got.values()) == [1024] * 3


def test_long_backlogs_get_the_whole_budget_to_their_end(home: Home) -> None:
    for n in range(4):
        home.put(f"p/{n}.jsonl", (b"x" * 1023 + b"\n") * 4096)
    home.scan()
    assert [sum(len(lines) for _, lines, _ in home.read()) for _ in range(9)] == [2048] * 8 + [0]


def test_a_file_that_appears_later_does_not_wait_behind_backlogs(home: Home) -> None:
    home.put("p/big.jsonl", (b"x" * 1023 + b"\n") * 4096)
    home.scan()
    home.read(MIB)
    home.put("p/new.jsonl", b"a\n")
    home.scan()
    assert home.read(MIB)[0] == ("p/new.jsonl", [b"a"], True)


def test_events_hasten_what_they_name(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n")
    dormant = home.put("p/2.jsonl", b"a\n", OLD)
    home.scan()
    home.read()
    home.put("p/1.jsonl", b"b\n")
    home.folder.notice([str(path), str(path) + ".tmp", str(home.root / "p/x.meta.json")])
    assert home.folder.scan(home.now) is None
    assert home.read() == [("p/1.jsonl", [b"b"], False)]
    home.put("p/2.jsonl", b"b\n")
    home.folder.notice([str(dormant)])
    home.scan(after=0)
    assert home.read() == [("p/2.jsonl", [b"a"], True), ("p/2.jsonl", [b"b"], False)]
    home.put("p/3.jsonl", b"c\n")
    home.folder.notice([str(home.root / "p/3.jsonl")])
    assert home.new(after=0) == ["p/3.jsonl"]


def test_an_event_of_a_new_directory_calls_for_a_scan(home: Home) -> None:
    home.scan()
    path = home.put("q/1.jsonl", b"a\n")
    home.folder.notice([str(path.parent)])
    assert home.new(after=0) == ["q/1.jsonl"]


def test_lost_events_call_for_a_scan(home: Home) -> None:
    home.scan()
    home.put("p/1.jsonl", b"a\n")
    assert home.folder.scan(home.now) is None
    home.folder.notice(None)
    assert home.new(after=0) == ["p/1.jsonl"]


def test_after_a_restart_it_goes_on_at_its_marks(home: Home) -> None:
    home.put("p/1.jsonl", b"a\nhal")
    home.put("p/2.jsonl", b"z\n", home.now - 50_000)
    home.scan()
    home.read()
    marks = home.folder.marks()
    assert len(marks) == 2
    home.folder.close()
    again = Home(home.root, marks, Pace(dormant=10_000))
    again.put("p/1.jsonl", b"f\nb\n")
    again.scan()
    assert again.read() == [("p/1.jsonl", [b"half", b"b"], True)]
    assert [mark.offset for mark in again.folder.marks()] == [2, 9]
    again.put("p/2.jsonl", b"y\n")
    again.scan()
    assert again.read() == [("p/2.jsonl", [b"y"], False)]


def test_marks_are_kept_while_their_files_are_not_there_yet(home: Home) -> None:
    home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    marks = home.folder.marks()
    assert Home(home.root / "absent", marks).folder.marks() == marks


def test_after_a_restart_what_no_run_has_seen_is_read_whole(tmp_path: Path) -> None:
    home = Home(tmp_path, reading=Reading(start=lambda _, size: size))
    home.put("p/1.jsonl", b"a\n")
    home.scan()
    assert home.read() == [("p/1.jsonl", [], False)]
    again = Home(home.root, home.folder.marks(), reading=Reading(start=lambda _, size: size))
    home.put("p/2.jsonl", b"b\n")
    home.put("p/1.jsonl", b"c\n")
    again.scan()
    assert sorted(again.read()) == [("p/1.jsonl", [b"c"], True), ("p/2.jsonl", [b"b"], True)]
    again.put("p/3.jsonl", b"d\n")
    again.scan()
    assert again.read() == [("p/3.jsonl", [], False)]


def test_a_mark_holds_for_a_file_moved_meanwhile(home: Home) -> None:
    path = home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    marks = home.folder.marks()
    path.rename(path.with_name("2.jsonl"))
    home.put("p/2.jsonl", b"b\n")
    again = Home(home.root, marks)
    again.scan()
    assert again.read() == [("p/2.jsonl", [b"b"], True)]


def test_directories_of_old_sessions_are_not_worth_an_event(home: Home) -> None:
    home.put("p/1.jsonl", b"a\n", OLD)
    home.put("p/1/subagents/a.jsonl", b"a\n", OLD)
    home.put("q/2.jsonl", b"a\n")
    home.put("q/2/subagents/a.jsonl", b"a\n")
    home.scan()
    assert {home.name(path) for path in home.folder.directories} == {
        ".", "p", "q", "q/2", "q/2/subagents",
    }  # fmt: skip


def test_thousands_of_old_files_and_three_live_ones(home: Home) -> None:
    for n in range(1000):
        home.put(f"p{n % 20}/{n}.jsonl", b"a\n", OLD)
    for n in range(3):
        home.put(f"p/{n}.jsonl", b"a\n")
    assert len(home.new()) == 1003
    assert sorted(home.read()) == [(f"p/{n}.jsonl", [b"a"], True) for n in range(3)]
    assert home.folder.dormant == 1000


def test_files_that_exchange_names_are_read_on(home: Home) -> None:
    one, two = home.put("p/1.jsonl", b"a\nha"), home.put("p/2.jsonl", b"b\n")
    home.scan()
    home.read()
    one.rename(home.root / "aside")
    two.rename(one)
    (home.root / "aside").rename(two)
    home.put("p/2.jsonl", b"lf\n")
    home.put("p/1.jsonl", b"c\n")
    changes = home.scan()
    assert sorted(changes.moved) == [(str(one), str(two)), (str(two), str(one))]
    assert (changes.new, changes.vanished) == ([], [])
    assert sorted(home.read()) == [("p/1.jsonl", [b"c"], False), ("p/2.jsonl", [b"half"], False)]


def test_numbered_files_are_read_on_whatever_was_at_the_end_of_the_row(home: Home) -> None:
    paths = [home.put(f"p/{n}.jsonl", b"%d\n" % n) for n in range(3)]
    home.scan()
    home.read()
    for n in (1, 0):
        paths[n].rename(paths[n + 1])
    home.put("p/0.jsonl", b"new\n")
    assert [home.name(found.path) for found in home.scan().new] == ["p/0.jsonl"]
    for n in (1, 2):
        home.put(f"p/{n}.jsonl", b"more of %d\n" % (n - 1))
    home.scan()
    assert sorted(home.read()) == [
        ("p/0.jsonl", [b"new"], True),
        ("p/1.jsonl", [b"more of 0"], False),
        ("p/2.jsonl", [b"more of 1"], False),
    ]


def test_a_dormant_file_with_the_name_of_a_read_one_sleeps_on(home: Home) -> None:
    read, asleep = home.put("p/1.jsonl", b"a\n"), home.put("p/2.jsonl", b"b\n", OLD)
    home.scan()
    home.read()
    asleep.rename(read)
    home.scan()
    assert (home.folder.dormant, home.folder.tails) == (1, {})
    assert (home.read(), home.folder.pending, home.folder.hot) == ([], False, False)


def test_the_rest_of_a_file_comes_before_the_one_that_took_its_name(home: Home) -> None:
    line = b"x" * 1023 + b"\n"
    behind = home.put("p/1.jsonl", line * 3000)
    moved, third = home.put("p/2.jsonl", b"a\n"), home.put("p/3.jsonl", b"b\n")
    home.scan()
    seen = [found for _, lines, _ in home.read(MIB) for found in lines]
    while not {b"a", b"b"} <= set(seen):
        seen += [found for _, lines, _ in home.read(300) for found in lines]
    assert home.folder.tails[str(behind)].holding
    moved.rename(behind)
    third.rename(moved)
    changes = home.scan()
    assert (changes.moved, changes.new, changes.vanished) == ([], [], []), "all of them wait"
    for _ in range(20):
        seen += [found for _, lines, _ in home.read(MIB) for found in lines]
        home.folder.scan(home.now)
    assert sorted(seen) == sorted([line[:-1]] * 3000 + [b"a", b"b"])
    home.put("p/1.jsonl", b"more of a\n")
    home.put("p/2.jsonl", b"more of b\n")
    home.scan()
    assert sorted(home.read()) == [("p/1.jsonl", [b"more of a"], False), ("p/2.jsonl", [b"more of b"], False)]


def test_what_took_a_name_between_two_scans_is_read_after_the_next(home: Home) -> None:
    hot, other = home.put("p/1.jsonl", b"a\n"), home.put("p/2.jsonl", b"b\n")
    home.scan()
    home.read()
    for name in ("p/1.jsonl", "p/2.jsonl"):
        home.put(name, b"grown\n")
    home.scan()
    assert len(home.read()) == 2
    other.rename(hot)
    assert home.read() == []
    assert home.folder.asked
    assert home.scan(after=0).moved == [(str(other), str(hot))]
    assert home.read() == []
    home.put("p/1.jsonl", b"on\n")
    assert home.read() == [("p/1.jsonl", [b"on"], False)]


def test_a_name_missed_for_a_moment_is_read_on(home: Home) -> None:
    hot = home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    home.put("p/1.jsonl", b"b\n")
    home.scan()
    assert home.read() == [("p/1.jsonl", [b"b"], False)]
    hot.rename(home.root / "aside")
    assert home.read() == []
    assert home.folder.asked
    (home.root / "aside").rename(hot)
    home.scan(after=0)
    home.put("p/1.jsonl", b"c\n")
    assert home.read() == [("p/1.jsonl", [b"c"], False)]


def test_in_a_folder_that_cannot_be_listed_a_replaced_file_is_read_as_it_is(
    open_folder: Path, unprivileged: Unprivileged
) -> None:
    home = Home(open_folder)
    path = home.put("p/1.jsonl", b"a\n")
    path.parent.chmod(0o755)
    home.scan()
    home.read()
    other = home.put("other", b"another\n")
    other.rename(path)
    path.parent.chmod(0o711)
    with unprivileged():
        home.scan()
        home.folder.notice([str(path)])
        assert home.read() == [("p/1.jsonl", [b"another"], True)]
        assert not home.folder.asked, "no scan can tell more"
    path.parent.chmod(0o755)


def test_half_a_line_and_one_too_long_are_told_without_any_lines(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.folder = Folder(str(tmp_path), SHAPES, reading=Reading(cap=100))
    home.put("p/1.jsonl", b"a\n")
    home.scan()
    home.read()
    told = []
    for data in (b"h" * 50, b"h" * 200):
        home.folder.notice([str(home.put("p/1.jsonl", data))])
        told += [(read.lines, read.grew, read.oversized) for _, read in home.folder.read()]
    assert told == [([], True, 0), ([], True, 1)]


def test_that_a_rest_is_read_calls_for_the_scan_that_tells_of_the_end(home: Home) -> None:
    path = home.put("p/1.jsonl", b"x\n" * 1000)
    home.scan()
    home.read(10)
    path.unlink()
    assert home.scan().vanished == []
    assert [read.event for _, read in home.folder.read()] == [None]
    assert home.folder.asked
    assert home.scan(after=0).vanished == [str(path)]


def test_who_was_not_where_its_turn_came_keeps_the_turn(home: Home) -> None:
    one, two = home.put("p/1.jsonl", b"a\n"), home.put("p/2.jsonl", b"b\n")
    home.scan()
    aside = home.root / "aside"
    for _ in range(2):
        assert home.folder.pending
        one.rename(aside)
        two.rename(one)
        aside.rename(two)
        if not home.folder.asked:
            assert home.read() == []
    home.scan(after=0)
    assert sorted(home.read()) == [("p/1.jsonl", [b"a"], True), ("p/2.jsonl", [b"b"], True)]
