"""What a restart knows of what was told before it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from sidecar import changes as c
from sidecar import signals as g
from sidecar import snapshot as under_test
from sidecar.clock import RecordedClock
from sidecar.session import Session, Turn
from sidecar.snapshot import LOOK_BACK, MAX_BYTES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sidecar.past import Past
    from sidecar.signals import Outcome

NOW = 1_800_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snapshot.jsonl"


def at(path: Path, now: float = NOW, turns: int = 100, agents: Iterable[str] = ("claude-code",)) -> Snapshot:
    return Snapshot(path, RecordedClock(now), dict.fromkeys(agents, lambda _: True), max_turns=turns)


def saved(path: Path, now: float = NOW, turns: int = 100) -> Snapshot:
    made = at(path, now, turns)
    made.save()
    return made


def session(progress: float | None = None) -> Session:
    made = Session("claude-code", "s1", NOW - 1000)
    made.progress_at = progress
    return made


def turn(name: str = "t1", started: float = NOW + 1) -> Turn:
    return Turn(name, started)


def opened(name: str = "t1", started: float = NOW + 1) -> c.TurnOpened:
    return c.TurnOpened(started, turn(name, started))


def closed(name: str = "t1", started: float = NOW + 1, ended: float = NOW + 5) -> c.TurnClosed:
    return c.TurnClosed(ended, turn(name, started))


def tool(name: str = "t1", started: float = NOW + 1) -> c.ToolClosed:
    return c.ToolClosed(started + 1, "c1", "Bash", started, turn(name, started), unfinished=False)


def test_a_first_run_owes_nothing_of_what_lay_there(path: Path) -> None:
    past = at(path).past
    assert past.owes(session(), closed(started=NOW - 1)) is None
    assert past.owes(session(), c.SessionOpened(NOW)) is None
    assert past.owes(session(), c.RetrySeen(NOW, "overloaded")) is None
    assert past.owes(session(), c.PhaseLeft(NOW, "idle", NOW - 1, "model", None, None, None)) is None


def test_a_turn_told_to_its_end_is_told_no_more(path: Path) -> None:
    told = saved(path)
    told(session(), opened())
    told(session(), closed())
    past = at(path, NOW + 60).past
    for change in (opened(), tool(), closed()):
        assert past.owes(session(progress=NOW + 5), change) is False
    assert past.owes(session(progress=NOW + 9), tool()) is None, "it goes on after all"
    for change in (opened(), closed(ended=NOW + 9)):
        assert past.owes(session(progress=NOW + 9), change) is False, "clocks differ, and turns end once"
    verdict = c.ActEnded(NOW + 60, "interrupt", "effective", "model", turn())
    assert past.owes(session(), verdict) is None, "what became of an act is another matter"


def test_of_a_turn_told_to_have_begun_only_the_end_is_owed(path: Path) -> None:
    saved(path)(session(), opened())
    past = at(path, NOW + 60).past
    assert past.owes(session(), closed()) is True
    assert past.owes(session(), opened()) is False
    assert past.owes(session(), tool()) is None


def test_a_turn_never_heard_of_is_owed_whole_if_it_began_since(path: Path) -> None:
    saved(path)
    past = at(path, NOW + 60).past
    for change in (opened(), tool(), closed()):
        assert past.owes(session(), change) is True
    assert past.owes(session(), closed(started=NOW - 1)) is None


def test_a_turn_found_open_counts_as_begun(path: Path) -> None:
    told, found = saved(path), session()
    told(found, c.SessionOpened(NOW))
    found.turn = turn(started=NOW - 50)
    told(found, c.SessionOpened(NOW))
    told(found, c.SessionOpened(NOW))
    assert len(path.read_bytes().splitlines()) == 2
    assert at(path, NOW + 60).past.owes(found, closed(started=NOW - 50)) is True


def ended(path: Path, outcome: Outcome = "died", after: float = 5) -> Past:
    done = turn()
    done.outcome = outcome
    saved(path)(session(), c.TurnClosed(NOW + after, done))
    return at(path, NOW + 60).past


def open_again(progress: float = NOW + 5, started: float = NOW + 1, name: str = "t1") -> Session:
    found = session(progress)
    found.turn = turn(name, started)
    return found


@pytest.mark.parametrize("ends", [True, False])
def test_a_turn_found_open_counts_as_begun_once_all_that_lay_there_is_read(path: Path, ends: bool) -> None:
    told, found = saved(path), session()
    found.dormant, found.behind, found.turn = False, True, turn(started=NOW - 50)
    told(found, c.SessionOpened(NOW))
    told.save()
    assert at(path, NOW + 60).past.owes(found, closed(started=NOW - 50)) is None, "its end may be read next"
    found.behind, found.turn = False, None if ends else found.turn
    told.save()
    owed = at(path, NOW + 60).past.owes(found, closed(started=NOW - 50))
    assert owed is (None if ends else True)


def test_a_session_that_closed_before_all_of_it_was_read_is_waited_for_no_more(path: Path) -> None:
    told, found = saved(path), session()
    found.dormant, found.behind, found.turn = False, True, turn(started=NOW - 50)
    told(found, c.SessionOpened(NOW))
    found.dormant = True
    told.save()
    found.dormant = found.behind = False
    told.save()
    assert at(path, NOW + 60).past.owes(found, closed(started=NOW - 50)) is None


def test_the_end_of_a_turn_that_is_open_again_is_remembered(path: Path) -> None:
    past, end = ended(path), g.TurnEnded(NOW + 5, "died")
    assert past.end(open_again(), None) == end
    assert past.end(open_again(progress=NOW + 5.1), None) is None, "it went on after all"
    assert past.end(open_again(started=NOW + 3), None) is None, "another turn of that name"
    assert past.end(open_again(name="t2"), None) is None
    assert past.end(session(), None) is None
    unseen, behind = open_again(), open_again()
    unseen.progress_at, behind.behind = None, True
    assert past.end(unseen, None) == end
    assert past.end(behind, None) is None, "more of it may be read yet"


def test_what_is_done_long_after_a_turns_end_is_of_another(path: Path) -> None:
    past, end = ended(path, "completed"), g.TurnEnded(NOW + 5, "completed")
    found = open_again()
    assert past.end(found, g.Progress(NOW + 5.9, "later")) is None, "the same record, dated otherwise"
    assert past.end(found, g.Progress(NOW + 6.1, "later")) == end
    assert past.end(found, g.TurnStarted(NOW + 6.1, "t1", NOW + 6.1)) is None
    assert past.end(found, g.Progress(NOW + 6.1)) is None
    assert past.end(found, g.Presence(NOW + 6.1)) is None


def test_an_end_that_a_clock_told_ahead_of_time_is_not_in_the_future(path: Path) -> None:
    end = ended(path, after=3600).end(open_again(), None)
    assert end is not None
    assert end.at == NOW + 60


def test_what_was_told_in_this_run_is_no_past(path: Path) -> None:
    told = saved(path)
    told(session(), closed())
    assert told.past.owes(session(progress=NOW + 5), closed()) is True


def test_what_began_too_long_ago_is_history(path: Path) -> None:
    saved(path)
    past = at(path, NOW + LOOK_BACK + 60).past
    assert past.owes(session(), closed(started=NOW + 1)) is None
    assert past.owes(session(), closed(started=NOW + 61)) is True


def test_a_clock_set_back_makes_nothing_new(path: Path) -> None:
    saved(path)
    assert at(path, NOW - 3600).past.owes(session(), closed(started=NOW - 3601)) is None


def test_what_lay_there_when_an_agent_came_to_the_configuration_is_its_history(path: Path) -> None:
    at(path, agents=["opencode"]).save()
    saved(path, NOW + 60)
    past = at(path, NOW + 120).past
    assert past.owes(session(), closed(started=NOW + 1)) is None
    assert past.owes(session(), closed(started=NOW + 61)) is True
    assert at(path, NOW + 120, agents=["opencode"]).past.owes(session(), closed(started=NOW + 61)) is None


def test_what_lies_at_another_place_than_was_read_is_its_history(path: Path) -> None:
    told, asked = saved(path), list[bytes]()
    told.read_to = lambda: {"claude-code": b"[1]"}
    told.save()

    def resume(places: bytes) -> bool:
        asked.append(places)
        return False

    elsewhere = Snapshot(path, RecordedClock(NOW + 60), {"claude-code": resume})
    assert asked == [b"[1]"]
    assert elsewhere.past.owes(session(), closed(started=NOW + 59)) is None
    assert elsewhere.past.owes(session(), closed(started=NOW + 61)) is True


def test_what_is_remembered_no_more_is_history(path: Path) -> None:
    told = saved(path, turns=2)
    for n in range(4):
        told(session(), opened(f"t{n}", NOW + n))
    told.save()
    assert len(path.read_bytes().splitlines()) == 3
    past = at(path, NOW + 60).past
    assert past.owes(session(), closed("t0", NOW)) is None
    assert past.owes(session(), closed("t1", NOW + 1)) is None
    assert past.owes(session(), closed("t2", NOW + 2)) is True
    assert past.owes(session(), opened("t9", NOW + 3)) is True


def test_places_are_kept_until_there_are_newer_ones(path: Path) -> None:
    told = saved(path)
    told.read_to = lambda: {"a": b"[1]", "b": b'{"x":"y"}'}
    told.save()
    again = at(path, NOW + 60)
    assert again.places == {"a": b"[1]", "b": b'{"x":"y"}'}
    again.read_to = lambda: {"a": b"[2]"}
    again.save()
    assert at(path, NOW + 90).places == {"a": b"[2]", "b": b'{"x":"y"}'}


def test_places_are_there_before_the_first_turn_is_told_of(path: Path) -> None:
    told = saved(path)
    told.read_to = lambda: {"a": b"[1]"}
    told(session(), opened())
    assert at(path).places == {"a": b"[1]"}


def test_places_too_large_are_left_out_and_the_turns_are_not(path: Path) -> None:
    told = saved(path)
    told(session(), opened())
    told.read_to = lambda: {"a": b"[%s]" % (b"1," * (MAX_BYTES // 2) + b"1"), "b": b"[]"}
    told.save()
    assert path.stat().st_size < MAX_BYTES
    again = at(path, NOW + 60)
    assert again.places == {"b": b"[]"}
    assert again.past.owes(session(), closed()) is True


def test_it_is_written_anew_when_it_has_grown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "GROWTH", 10_000)
    told = saved(path)
    for _ in range(1000):
        told(session(), opened())
    assert path.stat().st_size < 10_500


def test_it_is_not_written_when_nothing_is_different(path: Path) -> None:
    told = saved(path)
    inode = path.stat().st_ino
    told.save()
    assert path.stat().st_ino == inode
    told(session(), opened())
    told(session(), opened())
    assert len(path.read_bytes().splitlines()) == 3
    told.save()
    assert len(path.read_bytes().splitlines()) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_ids_are_bounded(path: Path) -> None:
    told, long = saved(path), "x" * 100_000
    told(session(), opened(long))
    assert path.stat().st_size < 1000
    assert at(path, NOW + 60).past.owes(session(), closed(long)) is True


def test_a_line_cut_short_costs_only_itself(path: Path) -> None:
    told = saved(path)
    told(session(), c.RetrySeen(NOW, "overloaded"))
    told(session(), opened("t1"))
    told(session(), opened("t2"))
    path.write_bytes(path.read_bytes()[:-10] + b"\n{}\n")
    past = at(path, NOW + 60).past
    assert past.owes(session(), opened("t1")) is False
    assert past.owes(session(), opened("t2")) is True


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"version":2}\n', b"[" * 100_000, b"\xff\n", b'{"version":1}\n' + b"x" * (7 << 20)],
    ids=["empty", "cut", "newer", "deep", "garbage", "endless"],
)  # fmt: skip
def test_one_of_no_use_is_as_none(path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(content)
    past = at(path).past
    assert past.owes(session(), closed(started=NOW - 1)) is None
    assert "of no use" in caplog.text


def test_one_that_cannot_be_read_is_as_none(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.symlink_to(path.name)
    assert at(path).past.owes(session(), closed(started=NOW - 1)) is None
    assert "cannot be read" in caplog.text
    path.unlink()
    os.mkfifo(path)
    assert at(path).past.owes(session(), closed(started=NOW - 1)) is None


def test_a_folder_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "late" / "snapshot.jsonl"
    told = saved(path)
    told.save()
    told(session(), opened())
    assert caplog.text.count("cannot be written") == 1
    path.parent.mkdir()
    told.save()
    assert at(path, NOW + 60).past.owes(session(), closed()) is True


@pytest.mark.parametrize("short", [False, True], ids=["refused", "cut"])
def test_a_full_disk_is_no_error_and_nothing_is_forgotten(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, short: bool
) -> None:
    told = saved(path)
    told(session(), opened("t0"))
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if short:
            return real(fd, data[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", full)
        told(session(), opened("t1"))
        told(session(), opened("t2"))
        told.save()
    assert caplog.text.count("No space left") == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    told(session(), opened("t3"))
    told.save()
    past = at(path, NOW + 60).past
    assert [past.owes(session(), opened(f"t{n}")) for n in (1, 2, 3, 4)] == [False, False, False, True]


async def test_it_is_kept_from_the_first_look_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "EVERY", 0.0)
    told, looks = at(path), [False, False, True, True]
    with pytest.raises(IndexError):
        await told.keep(lambda: looks.pop(0))
    assert told._file.writable
