"""Follow one file that is appended to, line by line, through everything that may happen to its name.

Between two changes a poll costs one stat and no open file. A changed file is opened, compared with what was
read before, read within the budget and closed; only while bytes are left over does it stay open, so that its
deletion does not take them along. A little longer than most: each way in which a name can lead elsewhere
is one short function.
"""

import os
import time
from typing import Final, Literal, Self

import msgspec

from sidecar.sources.cursor import Change, Cursor, Mark, Start, first_line
from sidecar.sources.framing import cut
from sidecar.sources.openfile import OpenFile, reason, require_regular

Event = Change | Literal["appeared", "vanished", "denied", "error"]

# A poll reads at most this much, so that a file of gigabytes does not hold up the live ones: about 2 ms.
BUDGET: Final = 1 << 20
# The longest line kept. Real records stay below 1 MB; progress records of 3 MB and inlined images were seen.
CAP: Final = 8 << 20
# Kernels before 6.13 stamp changes with the timer's tick, 10 ms at the coarsest: a change that recent may be
# followed by another one with the same stamp, so two ticks pass before an equal stamp means no change.
_TICK_NS: Final = 20_000_000


class Read(msgspec.Struct, frozen=True, gc=False):
    """What one poll brought."""

    blocks: list[bytes]  # whole lines as they lie in the file, in blocks of many
    grew: bool  # the file is larger than when last looked at, be it by half a line
    oversized: int  # lines given up for their length
    event: Event | None  # "denied" and "error" for as long as they last, the others once
    generation: int  # counts the files found under this name
    behind: int  # bytes left over the budget; more than 0: poll again soon
    history: bool  # the lines were there when their generation was first seen; never mixed with new ones

    @property
    def lines(self) -> list[bytes]:
        """Cut the lines apart: without the newline, never blank ones."""
        return [line for block in self.blocks for line in cut(block)]


class Tail:
    """One followed file. ``start`` says where to begin in it, and in whatever comes to be under its name.

    ``seen`` is the size at which the caller first saw the file, where that was before the first poll: what
    lies below is history, what lies above is new.
    """

    __slots__ = ("_cursor", "_file", "_present", "_settled", "_start", "failure", "generation", "mtime_ns",
                 "path", "size")  # fmt: skip

    def __init__(self, path: str, *, start: Start = first_line, cap: int = CAP,
                 seen: int | None = None) -> None:  # fmt: skip
        self.path = path
        self.generation = 0
        self.size = seen or 0
        self.mtime_ns = 0
        self.failure: str | None = None  # why the last poll could not read the file
        self._cursor = Cursor(cap, seen)
        self._file = OpenFile()
        self._start = start
        self._present = False  # read before, and not missing since
        self._settled: tuple[int, ...] | None = None  # the stat that needs no second look

    @classmethod
    def resume(cls, path: str, mark: Mark, *, start: Start = first_line, cap: int = CAP,
               seen: int | None = None) -> Self:  # fmt: skip
        """Go on where ``mark`` was taken, if the file still is the one it was taken from."""
        tail = cls(path, start=start, cap=cap, seen=seen)
        tail.generation, tail._present = mark.generation, True
        tail._cursor.resume(mark)
        return tail

    def back(self, to: Start) -> Self:
        """Go on earlier than where the mark was taken, for whoever has to know what came before it."""
        self._cursor.back = to
        return self

    @property
    def mtime(self) -> float:
        """Say when the file was touched, in seconds; it never says whether the agent did anything."""
        return self.mtime_ns / 1e9

    @property
    def offset(self) -> int:
        """Give the place after the last newline read: where to go on after a restart."""
        return self._cursor.offset

    @property
    def position(self) -> int:
        """Give the place read up to, an unfinished line included."""
        return self._cursor.pos

    @property
    def holding(self) -> bool:
        """Tell whether the file is kept open for its rest, which its deletion then does not take along."""
        return self._file.fd is not None

    @property
    def partial_bytes(self) -> int:
        """Count the bytes held of a line that waits for its newline."""
        return self._cursor.partial

    def give_up(self) -> None:
        """Let go of that line; it counts as too long, at the next poll."""
        self._cursor.give_up()
        self._settled = None

    def mark(self) -> Mark | None:
        """Give the place to resume at; none before the file was first read."""
        return self._cursor.mark(self.generation)

    def poll(self, budget: int = BUDGET, st: os.stat_result | None = None) -> Read:
        """Read what is new, at most ``budget`` bytes; ``st`` saves the stat where one was just made."""
        try:
            if st is None:
                st = os.stat(self.path)  # noqa: PTH116 - thousands of times a second
            if self._settled == _stamp(st):
                return self._nothing()
            self._settled = self.failure = None
            if self._cursor.boundary is None:
                self._cursor.boundary = self.size = st.st_size
            return self._visit(st, budget)
        except (FileNotFoundError, NotADirectoryError):
            return self._missing(budget)
        except OSError as error:
            return self._failed(error)

    def adopt(self, path: str) -> bool:
        """Follow the file to another name; refused where that is another file."""
        there = OpenFile()
        try:
            fd = there.open(path)
            same = self._cursor.known and self._cursor.recognise(fd, there.stat()) is None
        except OSError:
            return False
        finally:
            there.close()
        if same:
            self.path, self._present, self._settled = path, True, None
        return same

    def close(self) -> None:
        """Give the open file back, if there is one; the tail stays usable."""
        self._file.close()

    def _visit(self, st: os.stat_result, budget: int) -> Read:
        """Look at what the name leads to now, after the rest of what it led to before."""
        if self._file.fd is not None and not self._cursor.owns(st):
            rest = self._advance(self._file.fd, budget)
            return rest if rest.behind else msgspec.structs.replace(rest, behind=max(1, st.st_size))
        require_regular(st)
        return self._advance(self._file.open(self.path), budget)

    def _advance(self, fd: int, budget: int) -> Read:
        """Recognise the open file and read on in it."""
        st = self._file.stat()  # before reading, so that what changes meanwhile shows at the next poll
        event = self._recognise(fd, st)
        grew, self.size, self.mtime_ns = st.st_size > self.size, st.st_size, st.st_mtime_ns
        history = self._cursor.pos < (self._cursor.boundary or 0)
        blocks, failure = self._cursor.read(fd, self.size, budget)
        behind, oversized = max(0, self.size - self._cursor.pos), self._cursor.take_oversized()
        if failure is not None:
            self.failure, event, behind = reason(failure), event or "error", 0
        elif not behind and abs(time.time_ns() - st.st_mtime_ns) > _TICK_NS:
            self._settled = _stamp(st)
        if behind:
            self._file.keep()
        else:
            self._file.close()
        return Read(blocks, grew, oversized, event, self.generation, behind, history and bool(blocks))

    def _recognise(self, fd: int, st: os.stat_result) -> Event | None:
        cursor = self._cursor
        event: Event | None = cursor.recognise(fd, st) if self._present else "appeared"
        if event is None:
            return None
        if cursor.known:  # another file under the name: what it holds at first sight is its history
            self.generation += 1
            cursor.boundary = self.size = st.st_size
        cursor.begin(fd, st, self._start)
        self._present = True
        return event

    def _missing(self, budget: int) -> Read:
        self._settled = self.failure = None
        try:
            rest = self._nothing() if self._file.fd is None else self._advance(self._file.fd, budget)
        except OSError as error:
            return self._failed(error)
        if rest.behind:
            return rest
        event: Event | None = "vanished" if self._present else None
        self._present, self._settled = False, None
        return msgspec.structs.replace(rest, event=event)

    def _failed(self, error: OSError) -> Read:
        denied = isinstance(error, PermissionError)
        if not denied:
            self._file.close()
        self._settled, self.failure = None, reason(error)
        return self._nothing("denied" if denied else "error")

    def _nothing(self, event: Event | None = None) -> Read:
        return Read([], False, 0, event, self.generation, 0, False)  # noqa: FBT003 - in the order above


def _stamp(st: os.stat_result) -> tuple[int, ...]:
    return st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns
