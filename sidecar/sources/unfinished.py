"""The lines of many files that wait for their newlines: each is bounded, and so are all together."""

from collections.abc import Iterator
from typing import Final

from sidecar.sources.tail import Tail

# Lines at their cap that all may hold at once; a healthy agent holds none for longer than one write takes.
LINES: Final = 8
# Bytes below which a line is not watched: a thousand files of such take 4 MB.
SHORT: Final = 4096


class Unfinished:
    """Gives up the longest line where all take too much, as if it were over the cap."""

    def __init__(self, cap: int) -> None:
        self._most = LINES * cap
        self._long: set[Tail] = set()

    def after(self, tail: Tail) -> Iterator[Tail]:
        """Take note of what a read left unfinished; give those whose line had to go."""
        if tail.partial_bytes <= SHORT:
            self._long.discard(tail)
            return
        self._long.add(tail)
        while sum(each.partial_bytes for each in self._long) > self._most:
            longest = max(self._long, key=lambda each: each.partial_bytes)
            longest.give_up()
            self._long.discard(longest)
            yield longest

    def forget(self, tail: Tail | None) -> None:
        """Its file is not read any more."""
        if tail is not None:
            self._long.discard(tail)
