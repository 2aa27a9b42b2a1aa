"""Whatever is done to a file between polls, each of its lines is read once per generation, in order."""

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sidecar.sources.tail import Tail

if TYPE_CHECKING:
    from sidecar.sources.cursor import Mark

CAP = 200  # bytes; a few of the lines written are longer
BUDGETS = st.sampled_from([1, 7, 64, 1000, 1 << 20])
LENGTHS = st.sampled_from([0, 1, 30, 70, 150, 250])


def whole_lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n")[:-1] if line and len(line) <= CAP]


def too_long(content: bytes) -> int:
    """Count the lines over the cap, one that is still being written included."""
    return sum(len(line) > CAP for line in content.split(b"\n"))


class Told(NamedTuple):
    """What was delivered until a mark, by generation."""

    delivered: dict[int, list[bytes]]
    oversized: Counter[int]


class FollowedFile(RuleBasedStateMachine):
    """The file is its own oracle: after a read to the end, what it holds is what was delivered."""

    @initialize(exists=st.booleans())
    def begin(self, exists: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "s.jsonl"
        self.count = 0
        if exists:
            self.path.write_bytes(self.line(30))
        self.tail = Tail(str(self.path), cap=CAP)
        self.delivered: dict[int, list[bytes]] = {}
        self.oversized: Counter[int] = Counter()
        # Generations that may have lost a line which was given up already, half written.
        self.loose: set[int] = set()
        self.marked: tuple[Mark, Told] | None = None
        # What a file held that lost its name while it was kept open for its backlog.
        self.owed: list[tuple[int, list[bytes]]] = []
        self.untouched = False  # since the last poll, apart from growing

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.tail.close()
            shutil.rmtree(self.folder)

    def line(self, length: int) -> bytes:
        """Make a line of which no stretch of 64 bytes occurs in another."""
        self.count += 1
        padding = (b"x%d" % self.count * length)[:length]
        return b'{"n":%d,"t":"%s"}\n' % (self.count, padding)

    def present(self) -> bool:
        return hasattr(self, "path") and self.path.exists()

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def disturbed(self) -> None:
        """Note that something else than growth happened to the file."""
        self.untouched = False
        self.loose.add(self.tail.generation)

    def owe(self) -> None:
        """Note what is still to come of a file about to lose its name."""
        fd = self.tail._file.fd
        if fd is not None and self.untouched and os.path.samestat(os.fstat(fd), self.path.stat()):
            self.owed.append((self.tail.generation, whole_lines(self.path.read_bytes())))

    @precondition(present)
    @rule(lengths=st.lists(LENGTHS, min_size=1, max_size=4), blank=st.booleans())
    def append(self, lengths: list[int], blank: bool) -> None:
        self.write(b"\n" * blank + b"".join(map(self.line, lengths)))

    @precondition(present)
    @rule(length=LENGTHS)
    def append_partial(self, length: int) -> None:
        self.write(self.line(length)[: -1 - length // 2])

    @precondition(present)
    @rule()
    def complete(self) -> None:
        self.write(b"\n")

    @precondition(present)
    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        os.truncate(self.path, int(self.path.stat().st_size * part))
        self.disturbed()

    @precondition(present)
    @rule(cut=st.integers(1, 80))
    def replace_last_bytes(self, cut: int) -> None:
        os.truncate(self.path, max(0, self.path.stat().st_size - cut))
        self.write(self.line(cut))
        self.disturbed()

    @precondition(present)
    @rule(grow=st.booleans())
    def rewrite(self, grow: bool) -> None:
        old = self.path.read_bytes()
        self.path.write_bytes(old.replace(b"x", b"y") + self.line(30) * grow)
        self.disturbed()

    @rule(lengths=st.lists(LENGTHS, max_size=3))
    def rename_over(self, lengths: list[int]) -> None:
        if self.path.exists():
            self.owe()
        other = self.folder / "other"
        other.write_bytes(b"".join(map(self.line, lengths)))
        other.rename(self.path)
        self.disturbed()

    @precondition(present)
    @rule(lengths=st.lists(LENGTHS, max_size=6))
    def replace_with_the_same_inode(self, lengths: list[int]) -> None:
        """As deleted and made again between two polls, where the next file gets the inode."""
        self.path.write_bytes(b"".join(map(self.line, lengths)))
        self.disturbed()

    @precondition(present)
    @rule(lengths=st.lists(LENGTHS, max_size=6), budget=BUDGETS)
    def vanish_and_come_back_with_the_same_inode(self, lengths: list[int], budget: int) -> None:
        """As deleted, missed, and made again."""
        self.owe()
        aside = self.folder / "aside"
        self.path.rename(aside)
        while self.read(budget):
            pass
        self.settle_debts()
        aside.write_bytes(b"".join(map(self.line, lengths)))
        aside.rename(self.path)
        self.disturbed()

    @precondition(present)
    @rule(lengths=st.lists(LENGTHS, max_size=3), stale=st.booleans())
    def copy_and_truncate(self, lengths: list[int], stale: bool) -> None:
        """As log rotators do; a writer that kept its place leaves a hole behind the truncation."""
        size = self.path.stat().st_size
        os.truncate(self.path, 0)
        with self.path.open("r+b") as writer:
            writer.seek(size if stale else 0)
            writer.write(b"".join(map(self.line, lengths)))
        self.disturbed()

    @precondition(present)
    @rule(count=st.sampled_from([1, 63, 64, 65, 300]))
    def pad_with_nuls(self, count: int) -> None:
        self.write(b"\0" * count)

    @precondition(present)
    @rule()
    def copy_over(self) -> None:
        """As pruners do that leave nothing out."""
        self.owe()
        other = self.folder / "other"
        shutil.copy(self.path, other)
        other.rename(self.path)
        self.disturbed()

    @precondition(present)
    @rule()
    def unlink(self) -> None:
        self.owe()
        self.path.unlink()
        self.disturbed()

    @precondition(lambda self: hasattr(self, "path") and not self.path.exists())
    @rule(lengths=st.lists(LENGTHS, max_size=3))
    def recreate(self, lengths: list[int]) -> None:
        self.path.write_bytes(b"".join(map(self.line, lengths)))

    @precondition(present)
    @rule(when=st.sampled_from([0, 4_000_000_000]))
    def touch(self, when: int) -> None:
        os.utime(self.path, (when, when))

    @precondition(present)
    @rule()
    def move_and_adopt(self) -> None:
        moved = self.folder / f"moved{self.count}"
        self.path.rename(moved)
        if self.tail.adopt(str(moved)):
            self.path = moved
        else:
            moved.rename(self.path)

    @rule(budget=BUDGETS)
    def poll(self, budget: int) -> None:
        self.read(budget)

    def read(self, budget: int) -> int:
        read = self.tail.poll(budget)
        self.delivered.setdefault(read.generation, []).extend(read.lines)
        self.oversized[read.generation] += read.oversized
        assert self.tail.partial_bytes <= CAP
        self.untouched = True
        return read.behind

    @rule(budget=BUDGETS)
    def poll_to_the_end(self, budget: int) -> None:
        while self.read(budget):
            pass
        self.settle_debts()
        if self.path.exists():
            content = self.path.read_bytes()
            assert self.delivered[self.tail.generation] == whole_lines(content)
            given_up, generation = too_long(content), self.tail.generation
            assert self.oversized[generation] >= given_up
            assert self.oversized[generation] == given_up or generation in self.loose
        assert not self.tail.holding

    def settle_debts(self) -> None:
        for generation, lines in self.owed:
            # More may follow: a copy that got the same inode is the same file to everyone.
            assert self.delivered[generation][: len(lines)] == lines
        self.owed = []

    @rule()
    def mark(self) -> None:
        mark = self.tail.mark()
        if mark is not None:
            delivered = {key: list(lines) for key, lines in self.delivered.items()}
            self.marked = (mark, Told(delivered, self.oversized.copy()))

    @rule(fresh=st.booleans())
    def restart(self, fresh: bool) -> None:
        """Resume where the mark was taken, be it a while ago; begin anew without one."""
        if fresh:
            self.mark()
        self.tail.close()
        self.owed, self.untouched = [], False
        self.delivered, self.oversized, self.loose = {}, Counter(), set()
        if self.marked is None:
            self.tail = Tail(str(self.path), cap=CAP)
            return
        mark, told = self.marked
        self.delivered = {key: list(lines) for key, lines in told.delivered.items() if key <= mark.generation}
        self.oversized.update({key: n for key, n in told.oversized.items() if key <= mark.generation})
        self.loose.add(mark.generation)  # a line given up before its end is given up again
        self.tail = Tail.resume(str(self.path), mark, cap=CAP)

    @invariant()
    def nothing_twice(self) -> None:
        for delivered in getattr(self, "delivered", {}).values():
            lines = [line for line in delivered if line.strip(b"\0")]
            assert len(lines) == len(set(lines))


TestFollowedFile = FollowedFile.TestCase
TestFollowedFile.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
