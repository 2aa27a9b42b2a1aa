"""Server-sent events, cut out of whatever pieces a stream comes in."""

from __future__ import annotations

from typing import Final

from sidecar.agent import SourceDown

MAX_EVENT: Final = 1 << 20
"""Bytes of one event: whole tool outputs travel in them."""


class Cutter:
    """Server-sent events out of chunks: the data of each, whatever pieces it comes in."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that this chunk completes. Raises SourceDown where one never ends."""
        self._rest += chunk
        *lines, rest = bytes(self._rest).split(b"\n") if b"\n" in chunk else [bytes(self._rest)]
        self._rest = bytearray(rest)
        done = []
        for line in (each.removesuffix(b"\r") for each in lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(line)
            elif not line and self._data:
                done.append(b"\n".join(self._data))
                self._data, self._size = [], 0
            if self._size > MAX_EVENT:
                break
        if self._size + len(self._rest) > MAX_EVENT:
            raise SourceDown("an event is too large")
        return done
