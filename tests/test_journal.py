"""The memory of acts: what it keeps, what it survives, and what it refuses to pretend."""

from __future__ import annotations

import errno
import os
import stat
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.journal import Deed, Journal, JournalError, JournalFull, bounded

REASON = "no progress for 45m00s while waiting for the model, limit 45m00s (transcript; no status)"


def deed(turn: str | None = "t1", session: str = "s1", action: str = "interrupt") -> Deed:
    return Deed("claude-code", session, turn, action, "model", "model")  # type: ignore[arg-type]


def story(journal: Journal, turn: str = "t1", at: float = 100.0) -> None:
    """One turn's verdict, intent and outcome."""
    journal.verdict(deed(turn), "transcript", REASON, at)
    journal.intend(deed(turn), REASON, at + 1)
    journal.outcome(deed(turn), "effective", at + 2)


def stories(journal: Journal, turns: int) -> None:
    for n in range(turns):
        story(journal, f"t{n}", at=float(n))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


# What it keeps.


def test_what_one_run_wrote_the_next_one_recalls_in_order(path: Path) -> None:
    story(Journal(path))
    entries = Journal(path).recall("claude-code", "s1")
    assert [(e.event, e.at, e.turn, e.outcome) for e in entries] == [
        ("verdict", 100.0, "t1", None),
        ("intent", 101.0, "t1", None),
        ("outcome", 102.0, "t1", "effective"),
    ]
    assert entries[0].reason == entries[1].reason == REASON
    assert entries[0].evidence == "transcript"


def test_what_this_run_wrote_is_known_and_not_recalled(path: Path) -> None:
    journal = Journal(path)
    story(journal)
    assert journal.recall("claude-code", "s1") == []


def test_a_session_is_recalled_once(path: Path) -> None:
    story(Journal(path))
    journal = Journal(path)
    assert journal.recall("claude-code", "s1")
    assert journal.recall("claude-code", "s1") == []


def test_an_interrupt_is_known_for_its_turn_and_no_other(path: Path) -> None:
    story(Journal(path))
    for journal in (Journal(path), Journal(path)):
        assert journal.acted("claude-code", "s1", "t1")
        assert not journal.acted("claude-code", "s1", "t2")
        assert not journal.acted("claude-code", "s2", "t1")
        assert not journal.acted("codex", "s1", "t1")


def test_a_verdict_or_a_reap_is_no_interrupt(path: Path) -> None:
    journal = Journal(path)
    journal.verdict(deed("t1"), "transcript", REASON, 1)
    journal.intend(deed("t2", action="reap"), REASON, 2)
    assert not journal.acted("claude-code", "s1", "t1")
    assert not journal.acted("claude-code", "s1", "t2")


def test_where_turns_have_no_names_only_interrupts_since_then_count(path: Path) -> None:
    journal = Journal(path)
    journal.intend(deed(None), REASON, 50.0)
    assert journal.acted("claude-code", "s1", None, since=40.0)
    assert not journal.acted("claude-code", "s1", None, since=60.0)


def test_recent_acts_are_those_of_the_policy(path: Path) -> None:
    journal = Journal(path)
    for at in (10.0, 30.0, 20.0):
        journal.intend(deed(f"t{at}"), REASON, at)
    journal.intend(Deed("claude-code", "s1", "t9", "interrupt"), "somebody asked", 40.0)
    assert Journal(path).recent(15.0) == [20.0, 30.0]


def test_without_a_path_it_lasts_as_long_as_the_process_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Journal(None)
    story(journal)
    assert journal.acted("claude-code", "s1", "t1")
    assert [r.getMessage() for r in caplog.records] == [
        "no state_dir: a restart forgets which turns were already interrupted"
    ]


def test_the_file_belongs_to_its_owner_alone(path: Path) -> None:
    journal = Journal(path, max_bytes=2000)
    for n in range(20):  # compacted on the way
        story(journal, f"t{n}")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ids_are_data_and_nothing_else(path: Path) -> None:
    odd = 'a"b\nc\u2028d\x00e\udce9'
    journal = Journal(path)
    journal.intend(Deed(odd, odd, odd, "interrupt", "model", "tool:*\n"), "one\ntwo", 1.0)
    assert path.read_bytes().count(b"\n") == 1
    again = Journal(path)
    assert again.acted(odd, odd, odd)
    assert [e.reason for e in again.recall(odd, odd)] == ["one\ntwo"]


def test_long_ids_and_reasons_are_cut_and_stay_distinct(path: Path) -> None:
    long = "x" * 100_000
    journal = Journal(path)
    journal.intend(deed(long + "1", session=long), "y" * 100_000, 1.0)
    assert path.stat().st_size < 2000
    assert Journal(path).acted("claude-code", long, long + "1")
    assert not Journal(path).acted("claude-code", long, long + "2")
    assert bounded("short") == "short"


# What it survives.


def test_a_torn_last_line_is_skipped_and_the_next_one_starts_afresh(path: Path) -> None:
    story(Journal(path))
    path.write_bytes(path.read_bytes()[:-9])
    journal = Journal(path)
    assert (journal.skipped, journal.acted("claude-code", "s1", "t1")) == (1, True)
    story(journal, "t2")
    again = Journal(path)
    assert (again.skipped, again.acted("claude-code", "s1", "t2")) == (1, True)


def test_garbage_is_skipped_and_counted(path: Path) -> None:
    story(Journal(path))
    garbage = [b"", b"{", b"null", b"[1]", b'{"event":"dance"}', b"\xff\xfe", b'"' + b"\x80" * 9 + b'"']
    deep = b'{"event":"intent","x":' + b"[" * 100_000
    path.write_bytes(b"\n".join([*garbage, deep, b""]) + path.read_bytes())
    journal = Journal(path)
    assert journal.skipped == 7
    assert len(journal.recall("claude-code", "s1")) == 3


def test_a_file_removed_under_us_is_written_again_with_what_it_held(path: Path) -> None:
    journal = Journal(path)
    story(journal, "t1")
    path.unlink()
    story(journal, "t2")
    assert Journal(path).acted("claude-code", "s1", "t1")
    assert Journal(path).acted("claude-code", "s1", "t2")


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=2000))
def test_any_prefix_of_the_file_with_any_end_recalls_without_raising(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("prefix") / "journal.jsonl"
    for turn in ("t1", "t2"):
        story(Journal(path), turn)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + tail)
    journal = Journal(path)
    lines = whole[:cut].count(b"\n")
    assert len(journal.recall("claude-code", "s1")) >= min(lines, 6)
    journal.intend(deed("t3"), REASON, 1.0)
    assert Journal(path).acted("claude-code", "s1", "t3")


# Its size.


def test_it_never_grows_beyond_its_bound_and_forgets_the_oldest_turns_last(path: Path) -> None:
    journal = Journal(path, max_bytes=20_000)
    largest = 0
    for n in range(300):
        story(journal, f"t{n}", at=float(n))
        largest = max(largest, path.stat().st_size)
    assert largest <= 20_000
    again = Journal(path, max_bytes=20_000)
    kept = [again.acted("claude-code", "s1", f"t{n}") for n in range(300)]
    assert all(kept[-40:])
    assert kept == sorted(kept)  # what is forgotten is older than what is kept


def test_old_turns_keep_the_fact_and_lose_the_reason(path: Path) -> None:
    journal = Journal(path, max_bytes=20_000)
    stories(journal, 300)
    entries = Journal(path, max_bytes=20_000).recall("claude-code", "s1")
    assert entries[0].event != "verdict"
    assert entries[0].reason == ""
    assert entries[-2].reason == REASON


def test_ten_thousand_turns_fit_into_four_mebibytes(path: Path) -> None:
    path.parent.mkdir()
    turn = "0b7f3c9e-6a51-4d6e-9d25-3f1f0a4c{:04x}"
    line = (
        b'{"event":"%s","at":1796040000.123,"agent":"claude-code","session":"3e1f0a4c-6a51-4d6e-9d25-0b7f3c9e0000",'
        b'"action":"interrupt","turn":"%s","bound":"model","key":"model"}\n'
    )
    events = (b"intent", b"outcome")
    lines = [line % (event, turn.format(n).encode()) for n in range(10_000) for event in events]
    path.write_bytes(b"".join(lines))
    journal = Journal(path)
    path.unlink()
    story(journal, "new")
    assert path.stat().st_size < 4 << 20
    again = Journal(path)
    assert again.acted("claude-code", "3e1f0a4c-6a51-4d6e-9d25-0b7f3c9e0000", turn.format(1))


def test_no_more_turns_are_remembered_than_allowed() -> None:
    journal = Journal(None, max_turns=3)
    stories(journal, 5)
    assert [journal.acted("claude-code", "s1", f"t{n}") for n in range(5)] == [False, False, True, True, True]


def test_a_file_that_grew_beyond_all_bounds_is_read_from_its_newest_end(path: Path) -> None:
    journal = Journal(path)
    stories(journal, 100)
    small = Journal(path, max_bytes=5000)
    assert small.acted("claude-code", "s1", "t99")
    assert not small.acted("claude-code", "s1", "t0")
    assert small.skipped <= 1


# What it refuses.


def test_on_a_full_disk_an_intent_is_refused_and_not_remembered() -> None:
    journal = Journal(Path("/dev/full"))
    with pytest.raises(JournalFull, match="No space left"):
        journal.intend(deed(), REASON, 1.0)
    assert not journal.acted("claude-code", "s1", "t1")
    assert journal.failures == 1


def test_after_a_write_that_was_cut_short_the_next_line_starts_afresh(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    story(journal)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
        with pytest.raises(JournalFull):
            journal.intend(deed("t2"), REASON, 1.0)
    journal.intend(deed("t3"), REASON, 1.0)
    again = Journal(path)
    assert again.skipped == 1
    assert [again.acted("claude-code", "s1", t) for t in ("t1", "t2", "t3")] == [True, False, True]


def test_a_line_that_reached_the_file_but_perhaps_not_the_disk_is_no_intent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    story(journal)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(JournalError):
        journal.intend(deed("t2"), REASON, 1.0)
    assert not journal.acted("claude-code", "s1", "t2")


def test_an_outcome_that_cannot_be_written_is_remembered_all_the_same(path: Path) -> None:
    path.mkdir(parents=True)
    journal = Journal(path)  # a directory
    with pytest.raises(JournalError):
        journal.outcome(deed(), "failed", 1.0)
    with pytest.raises(JournalError):
        journal.verdict(deed(), "transcript", REASON, 1.0)
    assert journal.failures == 2


def test_a_volume_that_comes_back_is_used_again(path: Path) -> None:
    path.parent.parent.joinpath("state").write_text("in the way")
    journal = Journal(path)
    with pytest.raises(JournalError):
        journal.intend(deed(), REASON, 1.0)
    path.parent.unlink()
    journal.intend(deed(), REASON, 1.0)
    assert Journal(path).acted("claude-code", "s1", "t1")


def test_what_cannot_be_read_at_first_is_read_before_anything_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    story(Journal(path))
    opened = os.open
    calls = count()

    def refuse(name: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(name) == str(path) and next(calls) < 3:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(name, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    journal = Journal(path)
    assert "nothing is ended" in caplog.text
    with pytest.raises(JournalError, match="Permission denied"):
        journal.intend(deed("t2"), REASON, 1.0)
    assert not journal.acted("claude-code", "s1", "t1")
    assert journal.acted("claude-code", "s1", "t1")


def test_where_it_cannot_be_compacted_it_grows_on_to_twice_its_size(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path, max_bytes=3000)
    story(journal)
    opened = os.open

    def refuse(name: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(name).endswith(".new"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(name, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(JournalError, match="Read-only"):
        stories(journal, 100)
    assert 5000 < path.stat().st_size <= 6000
    monkeypatch.undo()
    story(journal, "last")
    assert path.stat().st_size <= 3000
