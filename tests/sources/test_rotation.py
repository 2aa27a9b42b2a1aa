"""Twenty files renamed, moved away, copied and truncated, and deleted while they are written, read or not.

Longer than in the tests: ``python -m tests.sources.test_rotation 60``. A rotation comes when all was read, when
the file is kept open for bytes left in it, or when some were written that nobody has looked at. Lost may be what
was destroyed unread, by truncation or with its last name, and that exactly; nothing may come twice.
"""

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

from sidecar.sources.folder import Folder

FILES = 20
WAYS = ("rename", "move", "copytruncate", "delete")
STATES = ("all read", "kept open", "unread")


class Stress:
    """The writer and the reader, step by step, so that a failure can be repeated by its seed."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - the same steps each time
        self.root = root / "logs"
        self.root.mkdir()
        self.away = root / "away"
        self.away.mkdir()
        self.folder = Folder(str(self.root), ("*.jsonl",))
        self.written = 0
        self.now = 0.0
        self.seen: Counter[int] = Counter()
        self.destroyed: set[int] = set()
        self.turned: Counter[tuple[str, str]] = Counter()

    def path(self) -> Path:
        return self.root / f"{self.chance.randrange(FILES)}.jsonl"

    def line(self) -> tuple[bytes, bytes]:
        """A new line in two pieces."""
        self.written += 1
        line = b'{"n":%d,"x":"%s"}\n' % (self.written, b"x" * self.chance.choice((0, 50, 5000)))
        cut = self.chance.randrange(len(line))
        return line[:cut], line[cut:]

    def write(self) -> None:
        """Append some lines, in pieces."""
        with self.path().open("ab") as file:
            for _ in range(self.chance.randint(1, 30)):
                begun, rest = self.line()
                file.write(begun)
                file.flush()
                if self.chance.random() < 0.05:
                    self.read()
                file.write(rest)

    def read(self) -> None:
        self.now += 1.0
        self.folder.notice(None)
        self.folder.scan(self.now)
        for _, read in self.folder.read(self.chance.choice((1000, 1 << 20))):
            self.seen.update(map(number, read.lines))

    def drain(self) -> None:
        self.read()
        while self.folder.pending or self.folder.asked:
            self.read()

    def unread(self, path: Path) -> tuple[str, set[int]]:
        """How much of a file was read, and which of its lines were not."""
        left = {number(line) for line in path.read_bytes().split(b"\n") if line} - self.seen.keys()
        tail = self.folder.tails.get(str(path))
        fd = None if tail is None else tail._file.fd
        kept = fd is not None and os.path.samestat(os.fstat(fd), path.stat())
        return ("all read" if not left else "kept open" if kept else "unread"), left

    def rotate(self) -> None:
        """Do one of what rotators do."""
        path, how = self.path(), self.chance.choice(WAYS)
        if not path.exists():
            return
        if self.chance.random() < 0.3:
            self.drain()
        state, left = self.unread(path)
        self.turned[how, state] += 1
        if how == "copytruncate" or state == "unread":
            self.destroyed |= left if how != "rename" else set()
        if how == "rename":
            self.rename(path)
        elif how == "move":
            path.rename(self.away / f"{self.written}-{path.name}")
        elif how == "copytruncate":
            shutil.copy(path, self.away / f"{self.written}-{path.name}")
            os.truncate(path, 0)
        else:
            path.unlink()

    def rename(self, path: Path) -> None:
        """Within reach of the shapes it is the same file; its writer finishes the line it is at."""
        begun, rest = self.line()
        with path.open("ab") as file:
            file.write(begun)
            file.flush()
            path.rename(path.with_name(f"r{self.written}-{path.name}"))
            if self.chance.random() < 0.5:
                self.read()
            file.write(rest)

    def run(self, seconds: float) -> None:
        """For so long, and until every way has met every state of what was read."""
        end, all_of_them = time.monotonic() + seconds, set(product(WAYS, STATES))
        while time.monotonic() < end or self.turned.keys() != all_of_them:
            self.chance.choices((self.write, self.read, self.rotate), (6, 3, 1))[0]()
        self.drain()
        self.drain()
        missing = set(range(1, self.written + 1)) - self.seen.keys()
        twice = [n for n, count in self.seen.items() if count > 1]
        assert (missing ^ self.destroyed, twice) == (set(), []), f"of {self.written} lines"


def number(line: bytes) -> int:
    return int(line[5 : line.index(b",")])


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    Stress(tmp_path, seed=6).run(3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        stress = Stress(Path(name), seed=int(time.time()))
        stress.run(float(sys.argv[1]))
        turned, lost = stress.turned.total(), len(stress.destroyed)
        sys.stdout.write(
            f"{stress.written} lines, {turned} rotations that destroyed {lost} unread, all else once\n"
        )
