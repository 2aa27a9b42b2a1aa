"""Follow all transcripts of one agent: find them, and read them fairly.

A file untouched for long is dormant: a scan looks at its size, nobody opens it. A file that grew lately is
polled at every read. Any other is read when a scan, or an event the caller passes on, says that it changed.
Longer than most: what is known, what a scan finds different and who is read next are one state.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from sidecar.sources.cursor import Mark, Start, first_line
from sidecar.sources.discover import Found, Scan, Shapes, worth_watching
from sidecar.sources.rota import Rota
from sidecar.sources.tail import BUDGET, CAP, Read, Tail

# Bytes that one read may bring over all files: some 8 ms with all that follows, half of what may hold a loop.
ROUND: Final = 2 << 20
# Bytes given out at a time, so that whoever reads can stop when time is up: lines of a hundred bytes take
# ten times as long as the same bytes in lines of ten thousand. It is what the system is asked for at once.
PIECE: Final = 256 << 10


class Pace(msgspec.Struct, frozen=True):
    """How eagerly files are looked at, in seconds."""

    every: float = 2.0  # between scans: all that no event tells of is that late, a fortieth of any bound
    hot: float = 60.0  # since a file grew: longer than nearly every pause within a turn
    dormant: float = 86_400.0  # since its modification when first seen: a turn open for longer is given up


class Reading(msgspec.Struct, frozen=True):
    """How each file is read."""

    start: Start = first_line
    cap: int = CAP  # bytes of the longest line kept


class Changes(msgspec.Struct, frozen=True):
    """What a scan found to be different."""

    new: list[Found] = []
    moved: list[tuple[str, str]] = []  # from and to: the same file, read on where it was
    vanished: list[str] = []  # told when all that could be read has been
    unreadable: dict[str, str] = {}  # every one, at each scan


class Folder:
    """The files of some shapes below one root, which need not exist yet.

    ``now`` is in seconds of the clock that stamps files; stepping it costs no more than a scan too many.
    """

    def __init__(self, root: str, shapes: Iterable[str], *, pace: Pace | None = None,
                 reading: Reading | None = None, marks: Iterable[Mark] = ()) -> None:  # fmt: skip
        self.root = root.rstrip("/")
        self.directories: list[str] = []  # the ones worth an event: new files and live ones appear in them
        self.linked = False  # whether a file that is read is reached through a link, of which no event tells
        self.tails: dict[str, Tail] = {}  # the files that are read; all others known are dormant
        self.pace = pace or Pace()
        self._shapes = Shapes(shapes)
        self._reading = reading or Reading()
        self._marks = {(mark.dev, mark.ino): mark for mark in marks}
        self._known: dict[str, Found] = {}
        self._rota = Rota()
        self._now = 0.0
        self._scanned: float | None = None  # none: a scan is called for

    @property
    def dormant(self) -> int:
        """Count the files that cost no more than a stat."""
        return len(self._known) - len(self.tails)

    @property
    def pending(self) -> bool:
        """Tell whether another read would bring more at once."""
        return self._rota.pending

    @property
    def hot(self) -> bool:
        """Tell whether another read soon may bring more."""
        return self._rota.hot

    @property
    def asked(self) -> bool:
        """Tell whether something calls for a scan before its time."""
        return self._scanned is None

    def marks(self) -> list[Mark]:
        """Give the places to resume at after a restart, those not taken up yet included."""
        inodes = {(found.dev, found.ino) for found in self._known.values()}
        kept = [mark for inode, mark in self._marks.items() if inode in inodes]
        return kept + [mark for tail in self.tails.values() if (mark := tail.mark())]

    def close(self) -> None:
        """Give back every open file."""
        for tail in self.tails.values():
            tail.close()

    def wake(self, path: str) -> bool:
        """Read a dormant file from where reading starts; all of it so far is history."""
        found = self._known.get(path)
        if found is None or path in self.tails:
            return False
        self._awaken(found)
        return True

    def notice(self, paths: Iterable[str] | None) -> None:
        """Take note of events: these paths changed; None: some events were lost, so anything may have."""
        if paths is None:
            self._scanned = None
            return
        for path in paths:
            below = path.removeprefix(f"{self.root}/")
            if path in self.tails:
                self._rota.soon(path)
            elif self._shapes.fit(below) or (self._shapes.lead(below) and Path(path).is_dir()):
                self._scanned = None

    def scan(self, now: float) -> Changes | None:
        """Look at everything, where that is due, and tell what came and went."""
        self._now = now
        if self._scanned is not None and 0 <= now - self._scanned < self.pace.every:
            return None
        self._scanned, first = now, not self._known
        there = self._shapes.scan(self.root)
        gone = self._gone(there)
        changes = Changes([], [], [], there.unreadable)
        for found in there.found.values():  # first the ones whose old name is another file's by now
            old = gone.get((found.dev, found.ino))
            if old in there.found and found.path not in self._known and self._move(old, found):
                del gone[found.dev, found.ino]
                changes.moved.append((old, found.path))
        for found in sorted(there.found.values(), key=lambda found: -found.mtime_ns):
            if found.path in self._known:
                self._compare(found)
            elif (old := gone.get((found.dev, found.ino))) and self._move(old, found):
                del gone[found.dev, found.ino]
                changes.moved.append((old, found.path))
            else:
                self._meet(found, live=not first)
                changes.new.append(found)
        changes.vanished.extend(p for p in gone.values() if p not in there.found and self._drop(p))
        self.linked = any(self._known[path].linked for path in self.tails)
        self.directories = worth_watching(there, self.tails, self.root.count("/") + self._shapes.depth)
        return changes

    def read(self, budget: int = ROUND) -> Iterator[tuple[str, Read]]:
        """Read on: what changed, then what is hot, then what is far behind in turn, each at most 1 MiB.

        In pieces, and only those that tell something; whoever has had enough leaves the rest for the next
        time. That a file vanished is told by the next scan, which knows whether it moved.
        """
        for path in self._rota:
            tail = self.tails[path]
            for _ in range(BUDGET // PIECE):
                before = tail.position
                read = tail.poll(min(PIECE, budget))
                self._rota.after(path, read, self._now, self.pace.hot)
                if read.event == "vanished":
                    self._scanned = None
                    read = msgspec.structs.replace(read, event=None)
                budget -= max(0, tail.position - before)
                if read.blocks or read.grew or read.oversized or read.event:
                    yield path, read
                if budget <= 0:
                    return
                if not read.behind:
                    break

    def _gone(self, there: Scan) -> dict[tuple[int, int], str]:
        """Find what is known and not there under its name any more; below what cannot be read, none is."""
        hidden = tuple(f"{path}/" for path in there.unreadable)
        return {
            (found.dev, found.ino): path
            for path, found in self._known.items()
            if not _same(found, there.found.get(path)) and not f"{path}/".startswith(hidden)
        }

    def _meet(self, found: Found, *, live: bool) -> None:
        self._known[found.path] = found
        if self._now - found.mtime_ns / 1e9 < self.pace.dormant:
            self._awaken(found, live=live)

    def _compare(self, found: Found) -> None:
        """Look for a difference to what was there before; mere touching wakes nothing."""
        before, self._known[found.path] = self._known[found.path], found
        same = (before.dev, before.ino) == (found.dev, found.ino)
        if tail := self.tails.get(found.path):
            if tail.failure or not same or (before.size, before.mtime_ns) != (found.size, found.mtime_ns):
                self._rota.soon(found.path)
        elif not same or found.size != before.size:
            self._awaken(before if same and found.size > before.size else found)

    def _awaken(self, found: Found, *, live: bool = False) -> None:
        """Begin to read a file; only what exceeds the size it was found with is new."""
        path, mark = found.path, self._marks.pop((found.dev, found.ino), None)
        start, cap = self._reading.start, self._reading.cap
        if mark:
            self.tails[path] = Tail.resume(path, mark, start=start, cap=cap, seen=found.size)
        else:
            self.tails[path] = Tail(path, start=start, cap=cap, seen=found.size)
        (self._rota.soon if live else self._rota.later)(path)

    def _move(self, old: str, found: Found) -> bool:
        """Go on with the same file under its new name."""
        before, tail = self._known[old], self.tails.get(old)
        if tail is None and (before.size, before.mtime_ns) != (found.size, found.mtime_ns):
            return False  # a new file with the inode of a deleted one
        if tail is not None:
            if not tail.adopt(found.path):
                return False
            self.tails[found.path] = self.tails.pop(old)
            self._rota.rename(old, found.path)
        self._known[found.path] = self._known.pop(old)
        self._compare(found)
        return True

    def _drop(self, path: str) -> bool:
        """Forget a file that is gone, unless its rest can still be read."""
        tail = self.tails.get(path)
        if tail and tail.holding:
            self._rota.later(path)
            return False
        del self._known[path]
        self.tails.pop(path, None)
        self._rota.forget(path)
        return True


def _same(one: Found, other: Found | None) -> bool:
    return other is not None and (one.dev, one.ino) == (other.dev, other.ino)
