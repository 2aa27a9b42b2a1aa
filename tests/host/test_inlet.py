"""The agent's input: two writers, one stream of whole lines."""

from __future__ import annotations

import fcntl
import os
import threading
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from sidecar.host import STATE_SWITCH, Inlet, InletClosedError, Outcome, Prompted, Session, ignore
from tests.host.driver import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = 4096


class Narrow:
    """An inlet whose pipe takes one page, and the end that the agent reads."""

    def __init__(self, *, whole_lines: bool = True) -> None:
        self.reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
        self.inlet = Inlet(writing, whole_lines=whole_lines)
        self.outcomes: list[Outcome] = []
        self.threads: list[threading.Thread] = []

    def aside(self, work: threading.Thread) -> None:
        work.start()
        self.threads.append(work)

    def relay(self, data: bytes) -> None:
        self.aside(threading.Thread(target=self.inlet.relay, args=(data, ignore)))

    def insert(self, line: bytes) -> None:
        def wait() -> None:
            self.outcomes.append(self.inlet.insert(line, PATIENCE, lambda: True))

        self.aside(threading.Thread(target=wait))
        until(lambda: self.inlet._inserting or self.outcomes, "the insertion waits or is done")

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            data += os.read(self.reading, PAGE)
        return data

    def close(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)
        self.inlet.close(lambda: True)
        os.close(self.reading)


@pytest.fixture
def narrow() -> Iterator[Narrow]:
    pipe = Narrow()
    yield pipe
    pipe.close()


def test_an_insertion_goes_in_after_the_line_that_is_under_way(narrow: Narrow) -> None:
    data = (b"a" * 6000 + b"\n") * 100 + b"unfinished"
    narrow.relay(data)
    until(lambda: not narrow.inlet._between_lines, "the first line is under way")
    narrow.insert(b"ours\n")
    passed = narrow.read(len(data) + 5)
    assert passed == data[:6001] + b"ours\n" + data[6001:]
    assert narrow.outcomes == [Outcome.DONE]


def test_several_insertions_go_in_whole(narrow: Narrow) -> None:
    narrow.relay(b"first\n")
    for line in (b"one\n", b"two\n", b"three\n"):
        narrow.insert(line)
    passed = narrow.read(20)
    assert passed.startswith(b"first\n")
    assert sorted(passed.splitlines()) == [b"first", b"one", b"three", b"two"]


def test_nothing_is_said_or_written_for_an_agent_that_has_closed_its_input(narrow: Narrow) -> None:
    os.close(narrow.reading)
    asked = []

    def go() -> bool:
        asked.append(True)
        return True

    assert narrow.inlet.insert(b"ours\n", PATIENCE, go) is Outcome.CLOSED
    assert asked == []
    with pytest.raises(InletClosedError):
        narrow.inlet.relay(b"data", ignore)
    assert narrow.inlet.closed
    narrow.reading = os.open(os.devnull, os.O_RDONLY)


def test_who_may_not_insert_any_more_inserts_nothing(narrow: Narrow) -> None:
    assert narrow.inlet.insert(b"ours\n", PATIENCE, lambda: False) is Outcome.SUPERSEDED
    narrow.relay(b"theirs\n")
    assert narrow.read(7) == b"theirs\n"


def noting(told: list[bytes]) -> Callable[[bytes], bytes]:
    def note(data: bytes) -> bytes:
        told.append(data)
        return data

    return note


def test_a_line_is_told_of_once_and_before_anything_can_come_in_between(narrow: Narrow) -> None:
    told: list[bytes] = []
    narrow.insert(b"ours\n")
    narrow.inlet.relay(b"theirs\n", noting(told))
    assert told == [b"theirs\n"]
    assert narrow.read(12) == b"ours\ntheirs\n"
    narrow.inlet.close(lambda: True)
    with pytest.raises(InletClosedError):
        narrow.inlet.relay(b"late\n", noting(told))
    assert told == [b"theirs\n"]


def test_a_line_that_does_not_fit_at_once_is_told_of_once(
    narrow: Narrow, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bytes] = []
    attempts: list[int] = []
    write = narrow.inlet._write

    def attempt(data: memoryview) -> int:
        attempts.append(write(data))
        return attempts[-1]

    monkeypatch.setattr(narrow.inlet, "_write", attempt)
    narrow.inlet.relay(b"x" * PAGE, ignore)
    narrow.aside(threading.Thread(target=narrow.inlet.relay, args=(b"more", noting(told))))
    until(lambda: attempts.count(0) > 1, "the agent does not read")
    assert narrow.read(PAGE + 4) == b"x" * PAGE + b"more"
    assert told == [b"more"]


def test_an_input_is_closed_only_if_it_may_be(narrow: Narrow) -> None:
    assert not narrow.inlet.close(lambda: False)
    narrow.relay(b"still open\n")
    assert narrow.read(11)
    assert narrow.inlet.close(lambda: True)
    assert os.read(narrow.reading, 1) == b""


def test_keys_have_no_lines_to_wait_for() -> None:
    keys = Narrow(whole_lines=False)
    keys.relay(b"dra")
    assert keys.read(3) == b"dra"
    keys.insert(b"\x1b")
    assert keys.read(1) == b"\x1b"
    keys.close()


def test_what_the_agent_has_not_read_is_known(narrow: Narrow) -> None:
    assert narrow.inlet.drained
    narrow.relay(b"four")
    until(lambda: not narrow.inlet.drained, "it lies in the pipe")
    narrow.read(4)
    assert narrow.inlet.drained


def test_an_insertion_and_whoever_waits_for_the_turns_end_do_not_wait_for_each_other(
    narrow: Narrow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_SWITCH, "1")  # set if it is not, which is to end with the test
    session = Session("s", attended=False)
    mode = Prompted(session, Namespace(line_deadline=PATIENCE))
    mode.inlet = narrow.inlet
    looked = threading.Event()

    def may_end(_now: float, _since: float) -> bool:
        looked.set()
        return False

    monkeypatch.setattr(session.turns, "may_end", may_end)
    waiting = threading.Thread(target=mode._withhold, daemon=True)
    waiting.start()

    def go() -> bool:
        looked.clear()
        assert looked.wait(PATIENCE), "it is waited for us while we hold the input"
        session.judged("interrupt", "why")
        return True

    assert narrow.inlet.insert(b"line\n", PATIENCE, go) is Outcome.DONE
    session.end()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_what_is_noted_may_be_kept_from_the_agent(narrow: Narrow) -> None:
    narrow.inlet.relay(b"not this\n", lambda _: b"")
    narrow.inlet.relay(b"of this a part\n", lambda data: data[3:])
    narrow.insert(b"ours\n")
    assert narrow.read(17) == b"this a part\nours\n"
