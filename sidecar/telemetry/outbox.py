"""What is to be sent waits in a bounded queue; a thread of its own sends it, at its own pace.

The loop never waits: putting something in is an append under a lock, and when nobody takes it the
oldest is dropped. What became of things is told: of a batch, the exporter's own result says it.
Threads are daemons: a collector that accepts and never answers cannot hold the process at its end.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("sidecar.telemetry")

T = TypeVar("T")


class Pace(Struct, frozen=True):
    """How much waits at most, how much is sent at once, and how often (seconds)."""

    queue: int = 2048
    batch: int = 512
    every: float = 5.0


class Worker:
    """A thread that works every so often, and once more when it is told to stop."""

    def __init__(self, name: str, work: Callable[[], object], every: float) -> None:
        self._work = work
        self._every = every
        self._wake = Event()
        self._stopping = False
        self._thread = Thread(target=self._run, name=f"sidecar-{name}", daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """Have it work now."""
        self._wake.set()

    def stop(self) -> None:
        """Have it work a last time and end."""
        self._stopping = True
        self._wake.set()

    def join(self, timeout: float) -> None:
        """Wait for its end, so long and no longer."""
        self._thread.join(timeout)

    def _run(self) -> None:
        last = False
        while not last:
            self._wake.wait(self._every)
            self._wake.clear()
            last = self._stopping  # told while working, it works once more
            try:
                self._work()
            except Exception:
                log.exception("%s could not be sent", self._thread.name)


class Outbox(Generic[T]):
    """A bounded queue and the worker that empties it."""

    def __init__(
        self, name: str, send: Callable[[list[T]], bool], pace: Pace, became: Callable[[str, list[T]], None]
    ) -> None:
        """`send` says whether a batch arrived; `became`, from any thread, `exported`, `failed`, `dropped`."""
        self._send = send
        self._pace = pace
        self._became = became
        self._queue: deque[T] = deque()
        self._lock = Lock()
        self._sending: list[T] = []
        self._closed = False
        self.worker = Worker(name, self._drain, pace.every)

    def put(self, item: T) -> None:
        """Take something to be sent. Never blocks; what does not fit displaces the oldest."""
        dropped: list[T] = []
        with self._lock:
            if self._closed:
                dropped = [item]
            else:
                if len(self._queue) >= self._pace.queue:
                    dropped = [self._queue.popleft()]
                self._queue.append(item)
            full = len(self._queue) >= self._pace.batch
        if dropped:
            self._became("dropped", dropped)
        if full:
            self.worker.hurry()

    def abandon(self) -> None:
        """Give up on what is left; a batch under way is taken for failed."""
        with self._lock:
            dropped, failed = list(self._queue), self._sending
            self._queue.clear()
            self._sending, self._closed = [], True
        self._became("failed", failed)
        self._became("dropped", dropped)

    def _drain(self) -> None:
        while batch := self._take():
            arrived = False
            try:
                arrived = self._send(batch)
            finally:
                with self._lock:
                    sent, self._sending = self._sending, []
                self._became("exported" if arrived else "failed", sent)

    def _take(self) -> list[T]:
        with self._lock:
            count = min(self._pace.batch, len(self._queue))
            self._sending = [self._queue.popleft() for _ in range(count)]
            return self._sending
