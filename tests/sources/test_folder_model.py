"""Whatever names files go by, and whoever gets a name next, each of their lines is read once."""

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sidecar.sources.folder import Folder
from sidecar.sources.pace import Pace

NAMES = st.sampled_from(["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"])
BUDGETS = st.sampled_from([1, 50, 300, 1 << 20])


class FollowedFolder(RuleBasedStateMachine):
    """Files are written, given other names, exchanged, rotated and deleted; what is read is counted."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.folder = Folder(str(self.root), ("*.jsonl",), pace=Pace(dormant=float("inf")))
        self.now, self.count = 0.0, 0
        self.seen: Counter[bytes] = Counter()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.close()
            shutil.rmtree(self.root)

    def begun(self) -> bool:
        return hasattr(self, "folder")

    def path(self, name: str) -> Path:
        return self.root / name

    @precondition(begun)
    @rule(
        name=NAMES,
        lengths=st.lists(st.sampled_from([0, 30, 200]), min_size=1, max_size=4),
        whole=st.booleans(),
    )
    def write(self, name: str, lengths: list[int], whole: bool) -> None:
        with self.path(name).open("ab") as file:
            for length in lengths:
                self.count += 1
                file.write(b'{"n":%d,"t":"%s"}\n' % (self.count, b"x" * length))
            if not whole:
                file.write(b'{"n":')

    @precondition(begun)
    @rule(name=NAMES, other=NAMES)
    def rename(self, name: str, other: str) -> None:
        """Where there is another file of that name, it is gone; what was unread of it may be as well."""
        if self.path(name).exists():
            self.path(name).rename(self.path(other))

    @precondition(begun)
    @rule(name=NAMES, other=NAMES)
    def exchange(self, name: str, other: str) -> None:
        one, two = self.path(name), self.path(other)
        if one.exists() and two.exists() and one != two:
            one.rename(self.root / "aside")
            two.rename(one)
            (self.root / "aside").rename(two)

    @precondition(begun)
    @rule()
    def rotate(self) -> None:
        """As log rotators do that number what they keep."""
        for old, new in (("c", "d"), ("b", "c"), ("a", "b")):
            if self.path(f"{old}.jsonl").exists():
                self.path(f"{old}.jsonl").rename(self.path(f"{new}.jsonl"))

    @precondition(begun)
    @rule(name=NAMES)
    def unlink(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    @precondition(begun)
    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if self.path(name).exists():
            os.utime(self.path(name))

    @precondition(begun)
    @rule()
    def scan(self) -> None:
        self.now += 2.0
        self.folder.scan(self.now)

    @precondition(begun)
    @rule(budget=BUDGETS, files=st.integers(1, 4))
    def read(self, budget: int, files: int) -> None:
        for _, read in self.folder.read(budget):
            self.seen.update(read.lines)
            files -= 1
            if not files:
                break

    @precondition(begun)
    @rule()
    def read_to_the_end(self) -> None:
        self.scan()
        self.read(1 << 20, 100)
        while self.folder.pending or self.folder.asked:
            self.folder.scan(self.now)
            self.read(1 << 20, 100)
        there = [line for path in self.root.iterdir() for line in path.read_bytes().split(b"\n")[:-1]]
        assert [line for line in there if self.seen[line] != 1] == []

    @invariant()
    def nothing_twice(self) -> None:
        assert [line for line, count in getattr(self, "seen", Counter()).items() if count > 1] == []


TestFollowedFolder = FollowedFolder.TestCase
TestFollowedFolder.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
