"""Files that cannot be read, or must not be."""

import errno
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sidecar.sources.cursor import _CHUNK
from sidecar.sources.tail import Tail

Unprivileged = Callable[[], AbstractContextManager[None]]


def failing(code: int, after: int = 0) -> Callable[..., bytes]:
    """Read as usual so many times, then fail."""
    real, left = os.pread, [after]

    def pread(fd: int, count: int, offset: int) -> bytes:
        if not left[0]:
            raise OSError(code, os.strerror(code))
        left[0] -= 1
        return real(fd, count, offset)

    return pread


def test_denied_for_as_long_as_it_lasts_then_read(open_folder: Path, unprivileged: Unprivileged) -> None:
    path = open_folder / "s.jsonl"
    path.write_bytes(b"old\n")
    path.chmod(0o000)
    follower = Tail(str(path))
    with unprivileged():
        for _ in range(2):
            read = follower.poll()
            assert (read.event, read.lines, read.behind, follower.failure) == ("denied", [], 0, "EACCES")
    path.chmod(0o644)
    with path.open("ab") as file:
        file.write(b"new\n")
    with unprivileged():
        first, second = follower.poll(), follower.poll()
    assert (first.event, first.lines, first.history) == ("appeared", [b"old"], True)
    assert (second.event, second.lines, second.history) == (None, [b"new"], False)
    assert follower.failure is None


def test_denied_by_its_folder_is_not_gone(open_folder: Path, unprivileged: Unprivileged) -> None:
    path = open_folder / "s.jsonl"
    path.write_bytes(b"a\n")
    path.chmod(0o644)
    follower = Tail(str(path))
    follower.poll()
    open_folder.chmod(0o000)
    with unprivileged():
        assert follower.poll().event == "denied"
    open_folder.chmod(0o755)
    read = follower.poll()
    assert (read.event, read.lines, read.generation) == (None, [], 0)


def test_a_backlog_is_kept_open_through_a_denial(open_folder: Path, unprivileged: Unprivileged) -> None:
    path = open_folder / "s.jsonl"
    path.write_bytes(b"a\n" * 10)
    follower = Tail(str(path))
    follower.poll(10)
    open_folder.chmod(0o000)
    with unprivileged():
        assert follower.poll().event == "denied"
    open_folder.chmod(0o755)
    path.unlink()
    read = follower.poll()
    assert (len(read.lines), read.event) == (5, "vanished")


def test_fifo_is_refused_unopened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(path)
    follower = Tail(str(path))
    with monkeypatch.context() as guarded:
        guarded.setattr(os, "open", None)
        assert (follower.poll().event, follower.failure) == ("error", "EINVAL")
    path.unlink()
    assert (follower.poll().event, follower.failure) == (None, None)


def test_directory_is_refused(path: Path) -> None:
    path.mkdir()
    assert Tail(str(path)).poll().event == "error"


def test_socket_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
        assert Tail(str(path)).poll().event == "error"


def test_a_name_that_became_a_fifo_before_it_was_opened(path: Path) -> None:
    path.write_bytes(b"a\n")
    st = path.stat()
    path.unlink()
    os.mkfifo(path)
    follower = Tail(str(path))
    assert follower.poll(st=st).event == "error"
    assert not follower.holding


def test_a_name_gone_before_it_was_opened(path: Path) -> None:
    path.write_bytes(b"a\n")
    st = path.stat()
    path.unlink()
    assert Tail(str(path)).poll(st=st).event is None


def test_a_file_of_the_kernel_without_a_size_is_not_read() -> None:
    read = Tail("/proc/self/status").poll()
    assert (read.lines, read.event) == ([], "appeared")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ESTALE])
def test_a_failed_open_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    path.write_bytes(b"a\n")
    follower = Tail(str(path))
    with monkeypatch.context() as broken:

        def refuse(*_: object) -> int:
            raise OSError(code, os.strerror(code))

        broken.setattr(os, "open", refuse)
        for _ in range(2):
            read = follower.poll()
            assert (read.event, read.behind, follower.failure) == ("error", 0, errno.errorcode[code])
    assert follower.poll().lines == [b"a"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_what_was_read_before_an_error_is_given_and_the_rest_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path.write_bytes((b"x" * 99 + b"\n") * 10_000)
    follower = Tail(str(path))
    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", failing(code, after=2))
        read = follower.poll()
    assert (read.event, read.behind, follower.failure) == ("appeared", 0, errno.errorcode[code])
    rest = follower.poll()
    assert (rest.event, rest.generation) == (None, 0)
    assert len(read.lines) == 2 * _CHUNK // 100
    assert len(read.lines) + len(rest.lines) == 10_000


def test_an_error_in_reading_on_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"a\n")
    follower = Tail(str(path))
    follower.poll()
    with path.open("ab") as file:
        file.write(b"b\n")
    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", failing(errno.EIO, after=2))  # those that recognise the file
        assert (follower.poll().event, follower.failure) == ("error", "EIO")
    assert follower.poll().lines == [b"b"]


def test_a_descriptor_gone_stale_is_given_back_for_a_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over NFS, when the server forgot a file that was kept open for its backlog."""
    path.write_bytes(b"a\n" * 100)
    follower = Tail(str(path))
    assert follower.poll(10).behind

    def stale(_: int) -> os.stat_result:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fstat", stale)
        assert (follower.poll().event, follower.failure, follower.holding) == ("error", "ESTALE", False)
    rest = follower.poll()
    assert (len(rest.lines), rest.event, rest.generation) == (95, None, 0)


def test_an_error_while_the_file_is_recognised(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"a\n")
    follower = Tail(str(path))
    follower.poll()
    with path.open("ab") as file:
        file.write(b"b\n")
    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", failing(errno.EIO))
        assert follower.poll().event == "error"
        assert not follower.adopt(str(path))
    assert follower.poll().lines == [b"b"]


def test_a_backlog_of_a_deleted_file_that_cannot_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"a\n" * 100)
    follower = Tail(str(path))
    assert follower.poll(10).behind
    path.unlink()
    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", failing(errno.EIO))
        read = follower.poll()
    assert (read.event, read.behind) == ("error", 0)
    assert follower.poll().event == "vanished"


def test_a_file_that_shrinks_while_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"a\n" * 100)
    real = os.pread

    def shrink(fd: int, count: int, offset: int) -> bytes:
        if count == 200:
            os.truncate(path, 50)
        return real(fd, count, offset)

    with monkeypatch.context() as racing:
        racing.setattr(os, "pread", shrink)
        assert len(Tail(str(path)).poll().lines) == 25
