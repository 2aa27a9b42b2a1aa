"""Following a file that only grows."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.sources import cursor, tail
from sidecar.sources.records import Records
from sidecar.sources.tail import Read, Tail

ReadAll = Callable[..., list[Read]]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every change lie long ago, so that equal stamps mean no change."""
    monkeypatch.setattr(time, "time_ns", lambda: 1 << 62)


def test_appended_lines_are_read_once(path: Path) -> None:
    path.write_bytes(b"a\nb\n")
    follower = Tail(str(path))
    assert follower.poll().lines == [b"a", b"b"]
    append(path, b"c\n")
    read = follower.poll()
    assert (read.lines, read.grew, read.event, read.generation, read.behind) == ([b"c"], True, None, 0, 0)
    assert follower.poll().lines == []
    assert (follower.size, follower.offset, follower.mtime_ns) == (6, 6, path.stat().st_mtime_ns)
    assert abs(follower.mtime - path.stat().st_mtime) < 1e-6


def test_without_a_change_a_poll_is_one_stat(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"a\n")
    settle(monkeypatch)
    follower = Tail(str(path))
    follower.poll()
    calls: list[str] = []
    real = os.stat

    def counted(path: str) -> os.stat_result:
        calls.append("stat")
        return real(path)

    monkeypatch.setattr(os, "stat", counted)
    monkeypatch.setattr(os, "open", lambda *_: calls.append("open"))
    assert follower.poll() == Read([], False, 0, None, 0, 0, False)
    assert calls == ["stat"]


def test_a_stat_made_by_the_caller_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"a\n")
    settle(monkeypatch)
    follower = Tail(str(path))
    st = path.stat()
    assert follower.poll(st=st).lines == [b"a"]
    append(path, b"b\n")
    assert follower.poll(st=st).lines == []
    assert follower.poll(st=path.stat()).lines == [b"b"]


def test_within_a_clock_tick_an_equal_stamp_proves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"one\n")
    st = path.stat()
    monkeypatch.setattr(time, "time_ns", lambda: st.st_mtime_ns + 1_000_000)
    follower = Tail(str(path))
    follower.poll(st=st)
    path.write_bytes(b"two\n")
    read = follower.poll(st=st)
    assert (read.lines, read.event) == ([b"two"], "rewritten")


def test_byte_by_byte_a_line_is_given_once_and_after_its_newline(path: Path) -> None:
    record = '{"type":"user","text":"ä😀"}'.encode()
    path.touch()
    follower = Tail(str(path))
    follower.poll()
    for at in range(len(record)):
        append(path, record[at : at + 1])
        read = follower.poll()
        assert (read.lines, read.grew) == ([], True)
        assert (follower.partial_bytes, follower.offset) == (at + 1, 0)
    append(path, b"\n")
    assert follower.poll().lines == [record]
    assert follower.partial_bytes == 0


def test_half_a_line_is_never_flushed_but_counts_as_growth(path: Path) -> None:
    path.write_bytes(b"a\n")
    follower = Tail(str(path))
    follower.poll()
    append(path, b'{"half":')
    assert follower.poll().grew
    for _ in range(5):
        read = follower.poll()
        assert (read.lines, read.grew) == ([], False)
    assert (follower.partial_bytes, follower.offset) == (8, 2)


def test_touching_gives_nothing_and_is_no_growth(path: Path) -> None:
    path.write_bytes(b"a\nhalf")
    follower = Tail(str(path))
    follower.poll()
    for when in (0.0, 4e9):
        os.utime(path, (when, when))
        read = follower.poll()
        assert (read.lines, read.grew, read.event, read.generation) == ([], False, None, 0)
        assert follower.mtime == when


def test_it_starts_where_it_is_told_to(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfold\n" * 2 + b"begun")
    asked: list[int] = []

    def start(fd: int, size: int) -> int:
        asked.append(size)
        return os.pread(fd, size, 0).index(b"\n") + 1

    follower = Tail(str(path), start=start, seen=14)
    read = follower.poll()
    assert (read.lines, read.history, asked) == ([b"\xef\xbb\xbfold"], True, [14]), "a BOM is one at 0 only"
    append(path, b" new\n")
    assert follower.poll().lines == [b"begun new"]
    path.write_bytes(b"anothr\nnow\n")
    read = follower.poll()
    assert (read.lines, read.event, asked) == ([b"now"], "truncated", [14, 11])


def test_where_to_start_cannot_be_read(path: Path) -> None:
    path.write_bytes(b"line\n")
    broken = True

    def start(_: int, __: int) -> int:
        if broken:
            raise OSError(errno.EIO, "broken")
        return 0

    follower = Tail(str(path), start=start)
    assert (follower.poll().event, follower.failure) == ("error", "EIO")
    broken = False
    assert follower.poll().lines == [b"line"]


def test_what_was_there_when_first_seen_is_history(path: Path) -> None:
    path.write_bytes(b"old\nbegun")
    follower = Tail(str(path))
    read = follower.poll()
    assert (read.lines, read.history, read.grew) == ([b"old"], True, False)
    append(path, b" before\nnew\n")
    read = follower.poll()
    assert (read.lines, read.history, read.grew) == ([b"begun before", b"new"], False, True)


def test_a_size_seen_earlier_parts_history_from_news(path: Path) -> None:
    path.write_bytes(b"old\nnew\n")
    follower = Tail(str(path), seen=4)
    read = follower.poll()
    assert (read.lines, read.history, read.grew, read.behind) == ([b"old"], True, True, 4)
    read = follower.poll()
    assert (read.lines, read.history, read.behind) == ([b"new"], False, 0)


def test_a_file_shrunk_since_it_was_seen_does_not_make_news_history(path: Path) -> None:
    path.write_bytes(b"old\n")
    follower = Tail(str(path), seen=1000)
    assert follower.poll().history
    append(path, b"new\n")
    assert not follower.poll().history


def test_a_backlog_is_read_by_budget(path: Path, read_all: ReadAll) -> None:
    path.write_bytes(b"0123456\n" * 100)
    follower = Tail(str(path))
    reads = read_all(follower, 80)
    assert [len(read.lines) for read in reads] == [10] * 10
    assert [read.behind for read in reads] == list(range(720, -1, -80))
    assert not any(read.grew for read in reads)


def test_a_poll_reads_no_more_than_its_budget(path: Path) -> None:
    path.write_bytes(b"0123456\n" * (3 << 17))
    follower = Tail(str(path))
    assert follower.poll().behind == 2 << 20
    assert follower.position == tail.BUDGET == 1 << 20


@pytest.mark.parametrize("budget", [1, 7, 64])
def test_lines_are_whole_whatever_the_budget(path: Path, read_all: ReadAll, budget: int) -> None:
    lines = [('{"t":"' + "ä😀" * n + '"}').encode() for n in range(12)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert [line for read in read_all(Tail(str(path)), budget) for line in read.lines] == lines


def test_a_line_over_the_cap_is_counted_and_the_next_one_read(path: Path, read_all: ReadAll) -> None:
    path.write_bytes(b"a\n" + b"x" * (3 << 20) + b"\nb\n")
    follower = Tail(str(path), cap=1 << 20)
    reads = read_all(follower)
    assert [line for read in reads for line in read.lines] == [b"a", b"b"]
    assert sum(read.oversized for read in reads) == 1
    assert follower.partial_bytes == 0


def test_a_line_over_the_cap_is_growth_while_it_is_written(path: Path) -> None:
    path.write_bytes(b"a\n")
    follower = Tail(str(path), cap=1000)
    follower.poll()
    for _ in range(5):
        append(path, b"x" * 500)
        assert follower.poll().grew
    assert (follower.offset, follower.partial_bytes) == (2, 0)


def test_a_line_of_50_mb_is_read_whole_under_a_larger_cap(path: Path, read_all: ReadAll) -> None:
    path.write_bytes(b"x" * (50 << 20) + b"\n")
    lines = [line for read in read_all(Tail(str(path), cap=64 << 20)) for line in read.lines]
    assert [len(line) for line in lines] == [50 << 20]


def test_lines_at_the_edge_of_a_read_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "_CHUNK", 64)
    lines = [b"x" * length for length in (62, 63, 64, 65, 127, 128)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert Tail(str(path)).poll().lines == lines


def test_three_writers_at_once_lose_nothing(path: Path) -> None:
    write = (
        "import os,sys;fd=os.open(sys.argv[1],os.O_WRONLY|os.O_APPEND|os.O_CREAT)\n"
        "for n in range(500): os.write(fd,b'%s-%d-%s\\n'%(sys.argv[2].encode(),n,b'x'*(n%300)))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", write, str(path), name]) for name in "abc"]
    follower = Tail(str(path))
    lines: list[bytes] = []
    while any(writer.poll() is None for writer in writers) or follower.poll(0).behind:
        lines += follower.poll().lines
    lines += follower.poll().lines
    for name in (b"a", b"b", b"c"):
        own = [line.split(b"-")[1] for line in lines if line.startswith(name + b"-")]
        assert own == [b"%d" % n for n in range(500)]
    assert follower.generation == 0


def test_a_hole_in_the_file_costs_no_record(path: Path) -> None:
    """A writer that kept its place after a truncation leaves a hole, which reads as NULs."""
    path.write_bytes(b'{"n":1}\n' * 3)
    follower = Tail(str(path))
    follower.poll()
    with path.open("r+b") as writer:
        writer.seek(0, os.SEEK_END)
        path.write_bytes(b"")
        writer.write(b'{"n":2}\n')
        writer.flush()
        assert path.read_bytes() == b"\0" * 24 + b'{"n":2}\n'
        (line,) = follower.poll().lines
        writer.write(b'{"n":3}\n')
        writer.flush()
        (after,) = follower.poll().lines
    records = Records(dict[str, int])
    assert [records.decode(found).records for found in (line, after)] == [[{"n": 2}], [{"n": 3}]]
