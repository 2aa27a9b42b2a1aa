"""Hearing of changes from the kernel."""

import ctypes
import errno
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.sources.inotify import OVERFLOW, Inotify

LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def watch() -> Iterator[Inotify]:
    watch = Inotify()
    yield watch
    watch.close()


class Libc:
    """The C library with one function that fails."""

    def __init__(self, name: str, code: int) -> None:
        self._name, self._code = name, code

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name != self._name:
            real: Callable[..., int] = getattr(LIBC, name)
            return real

        def fail(*_: object) -> int:
            ctypes.set_errno(self._code)
            return -1

        return fail


def statfs_says(magic: int) -> Callable[..., int]:
    def statfs(_: bytes, buffer: ctypes.Array[ctypes.c_char]) -> int:
        ctypes.c_ulong.from_buffer(buffer).value = magic
        return 0

    return statfs


def readable(watch: Inotify) -> bool:
    return bool(select.select([watch], [], [], 0)[0])


def test_appending_creating_moving_and_deleting_are_heard(watch: Inotify, tmp_path: Path) -> None:
    path, moved = tmp_path / "0d5c1b7e-long-session-id.jsonl", tmp_path / "b"
    assert watch.cover([str(tmp_path)])
    assert (watch.mode, watch.reason, readable(watch)) == ("inotify", None, False)
    path.touch()
    assert readable(watch)
    assert watch.drain() == {str(path)}
    with path.open("ab") as file:
        file.write(b"x")
    assert watch.drain() == {str(path)}
    path.rename(moved)
    assert watch.drain() == {str(path), str(moved)}
    moved.unlink()
    assert watch.drain() == {str(moved)}
    assert watch.drain() == set()


def test_a_directory_is_heard_of_before_what_is_made_in_it(watch: Inotify, tmp_path: Path) -> None:
    watch.cover([str(tmp_path)])
    new = tmp_path / "new"
    new.mkdir()
    (new / "made before the watch").touch()
    assert watch.drain() == {str(new)}
    assert watch.cover([str(tmp_path), str(new)])  # new: to be scanned once more
    assert not watch.cover([str(tmp_path), str(new)])
    (new / "file").touch()
    assert watch.drain() == {str(new / "file")}


def test_a_renamed_directory_is_covered_under_its_new_name(watch: Inotify, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    watch.cover([str(tmp_path), str(old)])
    old.rename(new)
    watch.drain()
    watch.cover([str(tmp_path), str(new)])
    (new / "file").touch()
    assert watch.drain() == {str(new / "file")}
    assert watch.watched == {str(tmp_path), str(new)}


def test_a_directory_deleted_and_made_again_is_covered_again(watch: Inotify, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watch.cover([str(folder)])
    folder.rmdir()
    assert watch.drain() == {str(folder)}
    assert watch.watched == set()
    folder.mkdir()
    assert watch.cover([str(folder)])
    folder.rmdir()
    folder.mkdir()
    assert watch.cover([str(folder)])  # though the end of the first was not read yet
    watch.drain()
    (folder / "file").touch()
    assert watch.drain() == {str(folder / "file")}


def test_what_is_not_covered_any_more_is_not_heard(watch: Inotify, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    watch.cover([str(one), str(two)])
    watch.cover([str(two)])
    (one / "file").touch()
    (two / "file").touch()
    assert watch.drain() == {str(two / "file")}
    held = Path(f"/proc/self/fdinfo/{watch.fileno()}").read_text()
    assert held.count("inotify wd:") == 1


def test_absent_directories_and_files_are_left_to_scans(watch: Inotify, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not watch.cover([str(tmp_path / "absent"), str(tmp_path / "file")])
    assert (watch.mode, watch.watched) == ("inotify", set())


def test_names_that_are_no_utf8(watch: Inotify, tmp_path: Path) -> None:
    watch.cover([str(tmp_path)])
    name = os.fsdecode(b"\xff\xfe")
    (tmp_path / name).touch()
    assert watch.drain() == {str(tmp_path / name)}


def test_a_full_queue_is_told(watch: Inotify, tmp_path: Path) -> None:
    watch.cover([str(tmp_path)])
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    one, two = (
        os.open(tmp_path / "1", os.O_CREAT | os.O_RDWR),
        os.open(tmp_path / "2", os.O_CREAT | os.O_RDWR),
    )
    for _ in range(limit // 2 + 10):  # equal events in a row are one, so take turns
        os.pwrite(one, b"x", 0)
        os.pwrite(two, b"x", 0)
    os.close(one)
    os.close(two)
    assert watch.drain() is OVERFLOW
    assert watch.drain() == set()
    assert watch.mode == "inotify"


def test_a_flood_does_not_hold_the_caller(
    watch: Inotify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.cover([str(tmp_path)])
    event = b"\0" * 16
    reads = []

    def endless(_fd: int, size: int) -> bytes:
        reads.append(size)
        return event * 100

    monkeypatch.setattr(os, "read", endless)
    assert watch.drain() == set()
    monkeypatch.undo()
    assert len(reads) == 16


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSYS])
def test_no_instance_left_means_polling(monkeypatch: pytest.MonkeyPatch, code: int, tmp_path: Path) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Libc("inotify_init1", code))
    watch = Inotify()
    assert (watch.mode, watch.reason, watch.fileno()) == ("polling", errno.errorcode[code], -1)
    assert not watch.cover([str(tmp_path)])
    assert watch.drain() == set()
    watch.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_no_watch_left_means_polling(watch: Inotify, tmp_path: Path, code: int) -> None:
    real = Libc("inotify_add_watch", code)
    folder = tmp_path / "folder"
    folder.mkdir()
    watch.cover([str(tmp_path)])
    watch._libc = real  # type: ignore[assignment]
    watch.cover([str(folder), str(tmp_path)])
    assert (watch.mode, watch.reason) == ("polling", errno.errorcode[code])


def test_a_denied_directory_is_left_to_scans(watch: Inotify, tmp_path: Path) -> None:
    watch._libc = Libc("inotify_add_watch", errno.EACCES)  # type: ignore[assignment]
    watch.cover([str(tmp_path)])
    assert (watch.mode, watch.watched) == ("inotify", set())


@pytest.mark.parametrize(
    ("magic", "mode"),
    [(0x6969, "polling"), (0x65735546, "polling"), (0xFF534D42, "polling"), (0xEF53, "inotify")],
)
def test_file_systems_that_tell_nothing_mean_polling(
    watch: Inotify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: int, mode: str
) -> None:
    libc = Libc("", 0)
    monkeypatch.setattr(libc, "statfs", statfs_says(magic), raising=False)
    watch._libc = libc  # type: ignore[assignment]
    watch.cover([str(tmp_path)])
    assert watch.mode == mode


def test_writes_through_a_link_are_silent(watch: Inotify, tmp_path: Path) -> None:
    """Why scans stay needed."""
    folder, target = tmp_path / "folder", tmp_path / "target"
    folder.mkdir()
    target.touch()
    (folder / "link").symlink_to(target)
    watch.cover([str(folder)])
    with (folder / "link").open("ab") as file:
        file.write(b"x")
    assert watch.drain() == set()


def test_closed_twice_and_drained(tmp_path: Path) -> None:
    watch = Inotify()
    watch.cover([str(tmp_path)])
    fd = watch.fileno()
    watch.close()
    watch.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    assert (watch.drain(), watch.fileno(), watch.watched) == (set(), -1, set())
