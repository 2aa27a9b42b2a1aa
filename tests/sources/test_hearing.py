"""Changes ring soon where the kernel tells of them, and are looked for where it does not."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from sidecar.sources import inotify as inotify_module
from sidecar.sources.folder import Folder
from sidecar.sources.hearing import DEAF, HEARD, POLL, Hearing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Place:
    """A root with one file, followed and listened to, on a clock of the test's."""

    def __init__(self, root: Path, *, events: bool = True) -> None:
        self.now = 0.0
        self.root = root
        self.folder = Folder(str(root), ("*/*.jsonl",))
        self.hearing = Hearing(self.folder, events=events)

    def write(self, name: str, data: bytes = b"{}\n") -> Path:
        path = self.root / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        return path

    def look(self) -> int:
        """Do one round as a source does; count the lines."""
        self.hearing.listen()
        for _ in range(3):
            if self.folder.scan(self.now) is None:
                break
            if self.hearing.cover():
                self.folder.notice(None)
        return sum(len(read.lines) for _, read in self.folder.read())

    async def rings(self) -> bool:
        try:
            async with asyncio.timeout(5):
                await self.hearing.wake.wait()
        except TimeoutError:
            return False
        self.hearing.wake.clear()
        return True


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.hearing.close()


async def test_growth_rings_and_is_read_without_a_scan(place: Place) -> None:
    place.write("s.jsonl")
    assert place.look() == 1
    assert (place.hearing.mode, place.hearing.every) == ("inotify", HEARD.every)
    place.write("s.jsonl")
    assert await place.rings()
    assert place.look() == 1


async def test_many_changes_ring_once(place: Place) -> None:
    place.write("s.jsonl")
    place.look()
    for _ in range(50):
        place.write("s.jsonl")
    assert await place.rings()
    place.write("s.jsonl")
    assert place.look() == 51
    assert not place.hearing.wake.is_set(), "what came before the look is read, and rings no more"


async def test_a_file_in_a_directory_made_in_the_same_moment_is_found(place: Place) -> None:
    place.look()
    path = place.write("s.jsonl")
    assert await place.rings()
    assert place.look() == 1
    with path.open("ab") as file:
        file.write(b"{}\n")
    assert await place.rings(), "the new directory is listened to"


async def test_a_root_that_is_not_there_is_polled_until_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path / "later")
    assert place.look() == 0
    assert (place.hearing.mode, place.hearing.every, place.folder.pace) == ("mixed", DEAF.every, DEAF)
    place.write("s.jsonl")
    place.now += DEAF.every
    assert place.look() == 1
    assert (place.hearing.mode, place.folder.pace) == ("inotify", HEARD)
    place.hearing.close()


async def test_a_linked_file_is_polled_for_its_target_grows_unheard(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"{}\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "s.jsonl").symlink_to(target)
    assert place.look() == 1
    assert (place.hearing.mode, place.hearing.every) == ("mixed", DEAF.every)
    for later in (DEAF.every, 0.0):
        with target.open("ab") as file:
            file.write(b"{}\n")
        place.now += later
        assert place.look() == 1, "found by a scan first; then it grew lately, so it is looked at each time"
        assert place.hearing.every == POLL


async def test_switched_off_nobody_asks_the_kernel(tmp_path: Path) -> None:
    place = Place(tmp_path, events=False)
    place.write("s.jsonl")
    assert place.look() == 1
    assert (place.hearing.mode, place.hearing.every, place.folder.pace) == ("poll", DEAF.every, DEAF)
    place.hearing.close()


async def test_no_instance_left_is_polled_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Exhausted(inotify_module.Inotify):
        def __init__(self) -> None:
            super().__init__()
            self.reason = errno.errorcode[errno.EMFILE]

    monkeypatch.setattr("sidecar.sources.hearing.Inotify", Exhausted)
    place = Place(tmp_path)
    place.write("s.jsonl")
    assert place.look() == 1
    assert place.hearing.mode == "poll"
    assert "EMFILE" in caplog.text
    assert place.hearing.losses == {"no_instance": 1}


async def test_what_another_machine_writes_is_polled_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify_module.Inotify, "_silent", lambda *_: "nfs")
    place = Place(tmp_path)
    place.write("s.jsonl")
    place.look()
    assert place.hearing.mode == "poll"
    assert place.hearing.losses == {"network": 1}


async def test_no_watch_left_while_running_is_polled_from_then_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.write("s.jsonl")
    place.look()
    kernel = place.hearing._inotify
    assert kernel is not None

    def exhausted(_: str, *, known: bool) -> int:  # noqa: ARG001 - as the real one
        kernel.reason = "ENOSPC"
        return -1

    monkeypatch.setattr(kernel, "_add", exhausted)
    place.now += HEARD.every
    place.look()
    assert (place.hearing.mode, place.folder.pace) == ("poll", DEAF)
    assert "ENOSPC" in caplog.text
    assert place.hearing.losses == {"no_watch": 1}
    place.write("s.jsonl")
    place.now += DEAF.every
    assert place.look() == 1


async def test_dropped_events_call_for_a_look_at_everything(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("s.jsonl")
    place.look()
    kernel = place.hearing._inotify
    assert kernel is not None
    monkeypatch.setattr(kernel, "drain", lambda: inotify_module.OVERFLOW)
    place.write("s.jsonl")
    place.write("new.jsonl")
    assert place.look() == 2
    assert place.hearing.losses == {"overflow": 1}


async def test_a_scan_finds_what_no_event_told_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("s.jsonl")
    place.look()
    kernel = place.hearing._inotify
    assert kernel is not None
    monkeypatch.setattr(kernel, "drain", set)
    place.write("s.jsonl")
    assert place.look() == 0
    place.now += HEARD.every
    assert place.look() == 1


async def test_closed_it_rings_no_more(place: Place) -> None:
    place.write("s.jsonl")
    place.look()
    place.write("s.jsonl")
    await asyncio.sleep(0)
    place.hearing.close()
    place.hearing.close()
    assert place.hearing.mode == "poll"
    place.look()
