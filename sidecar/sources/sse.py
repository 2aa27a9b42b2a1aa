"""Server-sent events out of chunks: the one reader of streams that may be endless, torn or hostile."""

from __future__ import annotations

from typing import Final, NamedTuple

LONGEST_ID: Final = 256
"""Bytes of an event's id; one that is longer is not repeated to the server."""


class Sent(NamedTuple):
    """A server-sent event, and the newest name that the server has given by then, to go on from."""

    data: bytes
    id: str | None = None


class Cutter:
    """Each event as it was sent, whatever pieces it comes in."""

    def __init__(self, most: int, refuse: type[Exception] | None = None, after: str | None = None) -> None:
        """An event of more than `most` bytes raises `refuse`, or has no data where that is None.

        `after`: the id of the event that the stream goes on from.
        """
        self._most, self._refuse = most, refuse
        self._id = after
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._torn = False

    def feed(self, chunk: bytes) -> list[Sent]:
        """The events that this chunk completes; the data of those that are too large is empty."""
        done: list[Sent] = []
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

    def _line(self, line: bytes, done: list[Sent]) -> None:
        if self._torn:
            self._torn = False  # the rest of a line that was let go of: no end of an event, though empty
        elif line.startswith(b"data:") and not self._skipping:
            self._data.append(line[5:].removeprefix(b" "))
            self._size += len(line)
            if self._size > self._most:
                self._skip()
        elif line.startswith(b"id:"):
            self._note(line[3:].strip())
        elif not line:
            if self._data or self._skipping:
                done.append(Sent(b"\n".join(self._data), self._id))
            self._data, self._size, self._skipping = [], 0, False

    def _note(self, name: bytes) -> None:
        if name.isascii() and len(name) <= LONGEST_ID and name.decode("ascii").isprintable():
            self._id = name.decode("ascii")

    def _skip(self) -> None:
        """Let go of an event that is too large, and of the rest of it."""
        if self._refuse is not None:
            raise self._refuse("an event is too large")
        self._skipping = True
        self._data, self._size = [], 0
