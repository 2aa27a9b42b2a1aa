"""Server-sent events out of chunks: the one reader of streams that may be endless, torn or hostile."""

from __future__ import annotations


class Cutter:
    """The data of each event, or None for one that is larger than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._torn = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The events that this chunk completes."""
        done: list[bytes | None] = []
        scanned = len(self._rest)
        self._rest += chunk
        start = 0
        while (at := self._rest.find(b"\n", max(start, scanned))) >= 0:
            self._line(bytes(self._rest[start:at]).removesuffix(b"\r"), done)
            start = at + 1
        del self._rest[:start]
        if self._size + len(self._rest) > self._most or self._skipping:
            self._skip()
            self._torn = self._torn or bool(self._rest)
            self._rest.clear()
        return done

    def _line(self, line: bytes, done: list[bytes | None]) -> None:
        if self._torn:
            self._torn = False  # the rest of a line that was let go of: no end of an event, though empty
        elif line.startswith(b"data:") and not self._skipping:
            self._data.append(line[5:].removeprefix(b" "))
            self._size += len(line)
            if self._size > self._most:
                self._skip()
        elif not line:
            if self._data or self._skipping:
                done.append(None if self._skipping else b"\n".join(self._data))
            self._data, self._size, self._skipping = [], 0, False

    def _skip(self) -> None:
        """Let go of an event that is too large, and of the rest of it."""
        self._skipping = True
        self._data, self._size = [], 0
