r"""Cut a stream of bytes into lines, whatever pieces it arrives in.

Lines end at ``\n`` and nowhere else: JSON strings may hold U+2028 and its kin unescaped, at which text-mode
splitting breaks a record in two. A line without its newline is never given out, however long it waits: half
a record is no record. Whole lines are given out in blocks, as they lie in the file: most of them can be
decoded without being cut apart.
"""

from typing import Final

# How much of the bytes before a place is kept to recognise the place again. Two records that agree in their
# last 64 bytes at the same offset would have to share their closing usage counts, id and time stamp.
ANCHOR: Final = 64

_BOM: Final = b"\xef\xbb\xbf"


def cut(block: bytes) -> list[bytes]:
    """Give the lines of a block, blank ones and surrounding space left out."""
    return [line for piece in block.split(b"\n") if (line := piece.strip())]


class Lines:
    """One stream's line cutter; holds at most ``cap`` bytes of an unfinished line."""

    __slots__ = ("_held", "_skipping", "anchor", "cap", "oversized", "pending", "start")

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.oversized = 0
        self.restart()

    def restart(self, anchor: bytes = b"", *, start: bool = True) -> None:
        """Begin at a line's first byte, at a file's ``start`` or behind ``anchor``."""
        self.anchor = anchor  # the last bytes up to and including the last newline
        self.start = start
        self.rewind()

    def rewind(self) -> None:
        """Forget the unfinished line; the next bytes begin again after the last newline."""
        self.pending = 0  # bytes since the last newline, held or skipped
        self._held = bytearray()
        self._skipping = False

    @property
    def partial(self) -> int:
        """Count the bytes kept of an unfinished line."""
        return 0 if self._skipping else len(self._held)

    def give_up(self) -> None:
        """Let go of the unfinished line as if it were too long."""
        self.oversized += 1
        self._skipping = True
        del self._held[:-ANCHOR]

    @property
    def echo(self) -> bytes:
        """Give the last bytes since the last newline, to compare with the file."""
        return bytes(self._held[-ANCHOR:])

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and give the block of lines they complete; empty where these are all blank."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._hold(data)
            return b""
        near = data[max(0, end - ANCHOR) : end]
        self.anchor = near if end >= ANCHOR else (self.anchor + self.echo + near)[-ANCHOR:]
        block = self._finish(data, end) if self.pending else data[:end]
        if self.cap < len(data):  # otherwise no line that lies within the data can be too long
            block = self._drop_long(block)
        if self.start:
            self.start = False
            block = block.removeprefix(_BOM)
        self.pending = 0
        self._hold(data[end:])
        return b"" if block.isspace() else block

    def _finish(self, data: bytes, end: int) -> bytes:
        """Complete the unfinished line; of one that was given up or is too long, only its newline is left."""
        skipping, held = self._skipping, self._held
        self._held, self._skipping = bytearray(), False
        first = data.find(b"\n")
        if not skipping and len(held) + first <= self.cap:
            return b"".join((held, memoryview(data)[:end]))
        self.oversized += not skipping
        return data[first:end]

    def _drop_long(self, block: bytes) -> bytes:
        pieces = block.split(b"\n")
        for index, piece in enumerate(pieces):
            if len(piece) > self.cap:
                self.oversized += 1
                pieces[index] = b""
        return b"\n".join(pieces)

    def _hold(self, rest: bytes) -> None:
        self.pending += len(rest)
        self._held += rest
        if self._skipping:
            del self._held[:-ANCHOR]
        elif len(self._held) > self.cap:
            self.give_up()
