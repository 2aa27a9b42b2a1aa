"""Server-sent events, cut out of whatever pieces a stream comes in."""

from __future__ import annotations

from typing import Final, NamedTuple

from sidecar.agent import SourceDown

MAX_EVENT: Final = 1 << 20
"""Bytes of one event: whole tool outputs travel in them."""

LONGEST_ID: Final = 256
"""Bytes of an event's id; one that is longer is not repeated to the server."""


class Sent(NamedTuple):
    """A server-sent event, and the newest name that the server has given by then, to go on from."""

    data: bytes
    id: str | None = None


class Cutter:
    """Server-sent events out of chunks: each as it was sent, whatever pieces it comes in."""

    def __init__(self, after: str | None = None) -> None:
        """`after`: the event that the stream goes on from."""
        self._id = after
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Sent]:
        """The events that this chunk completes. Raises SourceDown where one never ends."""
        self._rest += chunk
        lines: list[bytes] = []
        if b"\n" in chunk:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
        done = []
        for line in (each.removesuffix(b"\r") for each in lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(line)
            elif line.startswith(b"id:"):
                self._note(line[3:].strip())
            elif not line and self._data:
                done.append(Sent(b"\n".join(self._data), self._id))
                self._data, self._size = [], 0
            if self._size > MAX_EVENT:
                break
        if self._size + len(self._rest) > MAX_EVENT:
            raise SourceDown("an event is too large")
        return done

    def _note(self, name: bytes) -> None:
        if name.isascii() and len(name) <= LONGEST_ID and name.decode("ascii").isprintable():
            self._id = name.decode("ascii")
