"""A place in a file, and what it takes to find the same place in the same file again.

Names, inodes and times each lie: ext4 gives the inode of a deleted file to the next one, rewriting in place
keeps it, renaming keeps everything but the name. So a file is the one read before if device, inode, its
first bytes and the bytes before the place all agree; if not, it is a new generation, read from its beginning.
"""

import os
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from sidecar.sources.framing import ANCHOR, Lines

Start = Callable[[int, int], int]
"""Says where to begin in an open file, given its descriptor and its size: at the first byte of a line."""

Change = Literal["truncated", "replaced", "rewritten"]

# Bytes of a file's beginning that belong to its identity: a transcript's first record holds ids and a time
# stamp well within them, and two reads of at most this size are what a check costs.
_HEAD: Final = 256
# Bytes per read call: below the 128 KiB from which malloc maps fresh pages for each, which takes 1 µs a line.
# Measured over 100 MB, decoded in blocks, in MB per CPU-second: 64 KiB 940, 120 KiB 930, 256 KiB 710.
_CHUNK: Final = 120 << 10


class Mark(msgspec.Struct, frozen=True):
    """A place to resume at after a restart.

    Digests and no name: what stands in a transcript, or in its path, goes nowhere else.
    """

    dev: int
    ino: int
    offset: int  # after a newline, always: a line half read is read again in whole
    head: str
    anchor: str
    generation: int = 0


class Cursor:
    """Where one file has been read up to, and the identity that place belongs to."""

    __slots__ = ("_head", "_lines", "_mark", "back", "boundary", "dev", "ino", "known", "pos")

    def __init__(self, cap: int, seen: int | None = None) -> None:
        self.boundary = seen  # up to here lies what was there when this generation was first seen
        self.dev = self.ino = self.pos = 0
        self.known = False  # whether there is a file to compare with
        self._head = b""
        self._lines = Lines(cap)
        self._mark: Mark | None = None
        self.back: Start = here  # from a mark to where to go on

    @property
    def offset(self) -> int:
        """Give the place after the last newline."""
        return self.pos - self._lines.pending

    @property
    def partial(self) -> int:
        """Count the bytes held of a line without its newline."""
        return self._lines.partial

    def owns(self, st: os.stat_result) -> bool:
        """Tell whether this is the inode read from."""
        return (st.st_dev, st.st_ino) == (self.dev, self.ino)

    def mark(self, generation: int) -> Mark | None:
        """Give the place to resume at; none before there was a file."""
        if self._mark or not self.known:
            return self._mark
        head, anchor = _digest(self._head), _digest(self._lines.anchor)
        return Mark(self.dev, self.ino, self.offset, head, anchor, generation)

    def resume(self, mark: Mark) -> None:
        """Take up a mark, to be compared with the file at the first read."""
        self.dev, self.ino, self.pos = mark.dev, mark.ino, mark.offset
        self.known, self._mark = True, mark

    def begin(self, fd: int, st: os.stat_result, start: Start) -> None:
        """Start on a file not read before, where ``start`` says of what was first seen in it."""
        self.dev, self.ino, self.known, self._mark = st.st_dev, st.st_ino, True, None
        self.boundary = min(st.st_size, st.st_size if self.boundary is None else self.boundary)
        self.pos = start(fd, self.boundary)
        self._head, anchor = _ends(fd, self.pos) if self.pos else (b"", b"")
        self._lines.restart(anchor, start=not self.pos)

    def recognise(self, fd: int, st: os.stat_result) -> Change | None:
        """Say why the open file is not the one read so far; nothing where it still is."""
        if not self.owns(st):
            return "replaced"
        if st.st_size < self.offset:
            return "truncated"
        head, anchor = _ends(fd, self.offset)
        if self._mark is None:
            same = head.startswith(self._head) and anchor == self._lines.anchor
        else:
            same = (_digest(head), _digest(anchor)) == (self._mark.head, self._mark.anchor)
        if not same:
            return "rewritten"
        if self._mark is not None:
            self.pos = self.back(fd, self.pos)
            self._mark, (self._head, anchor) = None, _ends(fd, self.pos)
            self._lines.restart(anchor, start=not self.pos)
        self._recheck(fd, st.st_size)
        return None

    def read(self, fd: int, size: int, budget: int) -> tuple[list[bytes], OSError | None]:
        """Read blocks of lines up to ``size``; stop at the boundary, so that old and new lines never mix."""
        end = size if self.boundary is None or self.pos >= self.boundary else min(size, self.boundary)
        end = min(end, self.pos + budget)
        blocks: list[bytes] = []
        failure = None
        try:
            while self.pos < end and (data := os.pread(fd, min(_CHUNK, end - self.pos), self.pos)):
                self.pos += len(data)
                if block := self._lines.feed(data):
                    blocks.append(block)
            if len(self._head) < min(_HEAD, self.offset):
                self._head = os.pread(fd, min(_HEAD, self.offset), 0)
        except OSError as error:  # what was read until now is given out first
            failure = error
        return blocks, failure

    def give_up(self) -> None:
        """Let go of the unfinished line; it counts as too long."""
        self._lines.give_up()

    def take_oversized(self) -> int:
        """Count the lines given up since this was last asked."""
        count, self._lines.oversized = self._lines.oversized, 0
        return count

    def _recheck(self, fd: int, size: int) -> None:
        """Forget an unfinished line that was cut off or rewritten: none of it was given out."""
        echo = self._lines.echo
        if size < self.pos or (echo and os.pread(fd, len(echo), self.pos - len(echo)) != echo):
            self.pos = self.offset
            self._lines.rewind()
            self.boundary = min(self.boundary or 0, self.pos)


def _ends(fd: int, offset: int) -> tuple[bytes, bytes]:
    """Read the first bytes of a file and the last ones before ``offset``."""
    near = min(ANCHOR, offset)
    return os.pread(fd, min(_HEAD, offset), 0), os.pread(fd, near, offset - near)


def first_line(_: int, __: int) -> int:
    """Begin at the beginning."""
    return 0


def here(_: int, at: int) -> int:
    """Go on at the marked place itself."""
    return at


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
