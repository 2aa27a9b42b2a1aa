"""The queue is bounded, the loop never waits, and what became of spans is told truly."""

import logging
import threading
import time
from collections import Counter

import pytest

from sidecar.telemetry.outbox import Outbox, Pace, Worker


class Gate:
    """An exporter that takes a batch only when it is let."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.sent: list[int] = []
        self.arrives = True

    def __call__(self, batch: list[int]) -> bool:
        self.entered.release()
        self.open.wait(20)
        self.sent += batch
        return self.arrives


def box(gate: Gate, pace: Pace, counted: Counter[str]) -> Outbox[int]:
    def became(outcome: str, items: list[int]) -> None:
        counted[outcome] += len(items)

    return Outbox("test", gate, pace, became)


def test_the_oldest_makes_room_and_is_counted() -> None:
    gate, counted = Gate(), Counter[str]()
    outbox = box(gate, Pace(queue=10, batch=4, every=60), counted)
    for number in range(4):
        outbox.put(number)
    assert gate.entered.acquire(timeout=10)
    started = time.monotonic()
    for number in range(4, 1004):
        outbox.put(number)
    assert time.monotonic() - started < 1
    assert counted == {"dropped": 990}
    gate.open.set()
    outbox.worker.stop()
    outbox.worker.join(10)
    assert gate.sent == [0, 1, 2, 3, *range(994, 1004)]
    assert counted == {"dropped": 990, "exported": 14}


def test_a_failed_batch_is_not_called_exported() -> None:
    gate, counted = Gate(), Counter[str]()
    gate.open.set()
    gate.arrives = False
    outbox = box(gate, Pace(10, 4, 60), counted)
    outbox.put(1)
    outbox.worker.stop()
    outbox.worker.join(10)
    assert +counted == {"failed": 1}


def test_an_exporter_that_raises_has_failed_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    counted: Counter[str] = Counter()
    tried = threading.Semaphore(0)

    def send(batch: list[int]) -> bool:
        tried.release()
        if batch == [1]:
            raise RuntimeError("broken")
        return True

    def became(outcome: str, items: list[int]) -> None:
        counted[outcome] += len(items)

    with caplog.at_level(logging.ERROR):
        outbox = Outbox("test", send, Pace(10, 1, 60), became)
        outbox.put(1)
        assert tried.acquire(timeout=10)
        outbox.put(2)
        assert tried.acquire(timeout=10)
        outbox.worker.stop()
        outbox.worker.join(10)
    assert counted == {"failed": 1, "exported": 1}


def test_what_is_left_at_the_end_is_given_up_and_counted() -> None:
    gate, counted = Gate(), Counter[str]()
    outbox = box(gate, Pace(10, 2, 60), counted)
    for number in range(5):
        outbox.put(number)
    assert gate.entered.acquire(timeout=10)
    outbox.worker.stop()
    outbox.worker.join(0.01)
    outbox.abandon()
    outbox.put(6)
    assert counted == {"failed": 2, "dropped": 4}
    gate.open.set()
    outbox.worker.join(10)
    assert +counted == {"failed": 2, "dropped": 4}


def test_a_worker_told_to_stop_at_work_works_once_more() -> None:
    working, go_on = threading.Semaphore(0), threading.Event()
    rounds: list[int] = []

    def work() -> None:
        rounds.append(len(rounds))
        working.release()
        go_on.wait(10)

    worker = Worker("test", work, 60)
    worker.hurry()
    assert working.acquire(timeout=10)
    worker.stop()
    go_on.set()
    worker.join(10)
    assert rounds == [0, 1]
