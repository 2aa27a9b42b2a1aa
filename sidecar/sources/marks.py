"""The places up to which an earlier run read, each taken up once."""

from collections.abc import Collection, Iterable

from sidecar.sources.cursor import Mark
from sidecar.sources.tail import Tail

Inode = tuple[int, int]


class Marks:
    """What is left of an earlier run's places."""

    def __init__(self) -> None:
        self.resumed = False  # whether there was an earlier run: what it had not met has been seen by nobody
        self._left: dict[Inode, Mark] = {}

    def resume(self, marks: Iterable[Mark]) -> None:
        """Take them over."""
        self.resumed, self._left = True, {(mark.dev, mark.ino): mark for mark in marks}

    def take(self, inode: Inode) -> Mark | None:
        """Give the place in a file that is about to be read."""
        return self._left.pop(inode, None)

    def now(self, known: Collection[Inode], tails: Iterable[Tail]) -> list[Mark]:
        """Give those to keep for the next run, the files touched last at the end.

        Those not taken up yet are among them while their files are there, or while nothing is: the root may
        come yet.
        """
        kept = [mark for inode, mark in self._left.items() if inode in known or not known]
        touched = sorted(tails, key=lambda tail: tail.mtime_ns)
        return kept + [mark for tail in touched if (mark := tail.mark())]
