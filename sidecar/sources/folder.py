"""Follow all transcripts of one agent: find them, and read them fairly.

A file untouched for long is dormant: a scan looks at its size, nobody opens it. A file that grew lately is
polled at every read. Any other is read when a scan, or an event the caller passes on, says that it changed.
Longer than most: what is known, what a scan finds different and who is read next are one state.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from sidecar.sources.cursor import Mark, first_line
from sidecar.sources.discover import Found, Scan, Shapes, worth_watching
from sidecar.sources.marks import Marks
from sidecar.sources.pace import Pace, Reading
from sidecar.sources.rota import Rota
from sidecar.sources.tail import BUDGET, Read, Tail
from sidecar.sources.unfinished import Unfinished

# Bytes that one read may bring over all files: some 8 ms with all that follows, half of what may hold a loop.
ROUND: Final = 2 << 20
# Bytes given out at a time, so that whoever reads can stop when time is up: lines of a hundred bytes take
# ten times as long as the same bytes in lines of ten thousand. It is what the system is asked for at once.
PIECE: Final = 256 << 10


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
                 reading: Reading | None = None) -> None:  # fmt: skip
        self.root = root.rstrip("/")
        self.directories: list[str] = []  # the ones worth an event: new files and live ones appear in them
        self.linked = False  # whether a file that is read is reached through a link, of which no event tells
        self.tails: dict[str, Tail] = {}  # the files that are read; all others known are dormant
        self.pace = pace or Pace()
        self._shapes = Shapes(shapes)
        self._reading = reading or Reading()
        self._marks = Marks()
        self._unfinished = Unfinished(self._reading.cap)
        self._known: dict[str, Found] = {}
        self._rota = Rota()
        self._now = 0.0
        self._hidden: tuple[str, ...] = ()  # what lies below these is unknown, not gone
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

    def resume(self, marks: Iterable[Mark]) -> None:
        """Take up the places of an earlier run, before the first scan.

        What it had not met is read from its beginning, for nobody has seen any of it.
        """
        self._marks.resume(marks)

    def marks(self) -> list[Mark]:
        """Give the places to resume at after a restart, the files touched last at the end."""
        return self._marks.now({_inode(found) for found in self._known.values()}, self.tails.values())

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
        moved, waiting = self._follow(there, gone)
        changes = Changes([], moved, [], there.unreadable)
        for found in sorted(there.found.values(), key=lambda found: -found.mtime_ns):
            if found.path in waiting:
                continue
            if found.path in self._known:
                self._compare(found)
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
        time. Whether a file that is not there has vanished is told by the next scan, which knows whether it
        moved; and what has its name by then is not read before, for it may have moved there.
        """
        for path in self._rota:
            tail = self.tails[path]
            for _ in range(BUDGET // PIECE):
                before, st = tail.position, _stat(path)
                if not tail.holding and self._astray(path, st):
                    self._rota.soon(path)
                    self._scanned = None
                    break
                read = self.piece(path, min(PIECE, budget), None if isinstance(st, OSError) else st)
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

    def piece(self, path: str, budget: int = PIECE, st: os.stat_result | None = None) -> Read:
        """Read on in one file that is read, out of turn; what is left of it then is read in turn."""
        tail = self.tails[path]
        read = tail.poll(budget, st)
        self._rota.after(path, read, self._now, self.pace.hot)
        for full in self._unfinished.after(tail):
            self._rota.soon(full.path)  # which tells what it lost
        return read

    def _gone(self, there: Scan) -> dict[tuple[int, int], str]:
        """Find what is known and not there under its name any more; below what cannot be read, none is."""
        self._hidden = tuple(f"{path}/" for path in there.unreadable)
        return {
            _inode(found): path
            for path, found in self._known.items()
            if not _same(found, there.found.get(path)) and not _below(path, self._hidden)
        }

    def _meet(self, found: Found, *, live: bool) -> None:
        self._known[found.path] = found
        if self._now - found.mtime_ns / 1e9 < self.pace.dormant:
            self._awaken(found, live=live, unseen=self._marks.resumed and not live)

    def _compare(self, found: Found) -> None:
        """Look for a difference to what was there before; mere touching wakes nothing."""
        before, self._known[found.path] = self._known[found.path], found
        same = _same(before, found)
        if tail := self.tails.get(found.path):
            if tail.failure or not same or (before.size, before.mtime_ns) != (found.size, found.mtime_ns):
                self._rota.soon(found.path)
        elif not same or found.size != before.size:
            self._awaken(before if same and found.size > before.size else found)

    def _awaken(self, found: Found, *, live: bool = False, unseen: bool = False) -> None:
        """Begin to read a file; only what exceeds the size it was found with is new."""
        path, mark = found.path, self._marks.take(_inode(found))
        start, back, cap = self._reading.start, self._reading.back, self._reading.cap
        if unseen:
            start = first_line
        if mark:
            self.tails[path] = Tail.resume(path, mark, start=start, cap=cap, seen=found.size).back(back)
        else:
            self.tails[path] = Tail(path, start=start, cap=cap, seen=found.size)
        (self._rota.soon if live else self._rota.later)(path)

    def _follow(
        self, there: Scan, gone: dict[tuple[int, int], str]
    ) -> tuple[list[tuple[str, str]], set[str]]:
        """Go on with files under their new names, all at once: one may have the other's by now.

        Where the rest of what had such a name is still to be read, all wait; these names are given as well.
        """
        moving = [
            (old, found)
            for found in there.found.values()
            if (old := gone.get(_inode(found))) and not _same(found, self._known.get(found.path))
        ]
        inodes = {_inode(found) for found in there.found.values()}
        if any(self._rest(found.path, inodes) for _, found in moving):
            for _, found in moving:
                del gone[_inode(found)]
            return [], {name for old, found in moving for name in (old, found.path)}
        names = {old: found.path for old, found in moving if self._goes_on(old, found)}
        known = {new: self._known.pop(old) for old, new in names.items()}
        tails = {new: self.tails.pop(old) for old, new in names.items() if old in self.tails}
        for found in known.values():
            del gone[_inode(found)]
        for path in known.keys() & self._known.keys():
            self._forget(path)
        self._known |= known
        self.tails |= tails
        self._rota.rename(names)
        return list(names.items()), set()

    def _rest(self, path: str, inodes: set[tuple[int, int]]) -> bool:
        """Tell whether a name stood for a file that is nowhere any more and kept open for its rest."""
        known = self._known.get(path)
        return known is not None and _inode(known) not in inodes and self._holding(path)

    def _goes_on(self, old: str, found: Found) -> bool:
        """Tell whether a file found under another name is the one known, and not a new one with its inode."""
        before, tail = self._known[old], self.tails.get(old)
        if tail is None:
            return (before.size, before.mtime_ns) == (found.size, found.mtime_ns)
        return tail.adopt(found.path)

    def _astray(self, path: str, st: os.stat_result | OSError) -> bool:
        """Tell whether the name leads elsewhere since the last scan, and the next one can say where."""
        if isinstance(st, OSError):
            return isinstance(st, FileNotFoundError | NotADirectoryError)
        return (st.st_dev, st.st_ino) != _inode(self._known[path]) and not _below(path, self._hidden)

    def _holding(self, path: str) -> bool:
        return path in self.tails and self.tails[path].holding

    def _drop(self, path: str) -> bool:
        """Forget a file that is gone, unless its rest can still be read."""
        if self._holding(path):
            self._rota.later(path)
            return False
        self._forget(path)
        return True

    def _forget(self, path: str) -> None:
        del self._known[path]
        self._unfinished.forget(self.tails.pop(path, None))
        self._rota.forget(path)


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return f"{path}/".startswith(folders)


def _inode(found: Found) -> tuple[int, int]:
    return found.dev, found.ino


def _same(one: Found, other: Found | None) -> bool:
    return other is not None and _inode(one) == _inode(other)


def _stat(path: str) -> os.stat_result | OSError:
    """Look at what has the name now, or say why that cannot be."""
    try:
        return os.stat(path)  # noqa: PTH116 - thousands of times a second
    except OSError as error:
        return error
