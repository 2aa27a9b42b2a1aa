"""Twenty files renamed, copied and truncated, and deleted while they are written: nothing lost, nothing twice.

Longer than in the tests: ``python -m tests.sources.test_rotation 60``. Each rotation waits until its file was read
to the end, so that no byte is destroyed unread; what is written in between is found by the reader alone.
"""

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from sidecar.sources.folder import Folder

FILES = 20


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
        self.seen: Counter[bytes] = Counter()

    def path(self) -> Path:
        return self.root / f"{self.chance.randrange(FILES)}.jsonl"

    def write(self) -> None:
        """Append some lines, in pieces."""
        with self.path().open("ab") as file:
            for _ in range(self.chance.randint(1, 30)):
                self.written += 1
                line = b'{"n":%d,"x":"%s"}\n' % (self.written, b"x" * self.chance.choice((0, 50, 5000)))
                cut = self.chance.randrange(len(line))
                file.write(line[:cut])
                file.flush()
                if self.chance.random() < 0.05:
                    self.read()
                file.write(line[cut:])

    def read(self) -> None:
        self.now += 1.0
        self.folder.notice(None)
        self.folder.scan(self.now)
        for _, read in self.folder.read(self.chance.choice((1000, 1 << 20))):
            self.seen.update(read.lines)

    def drain(self) -> None:
        self.read()
        while self.folder.pending or self.folder.asked:
            self.read()

    def rotate(self) -> None:
        """Do one of what rotators do."""
        path = self.path()
        if not path.exists():
            return
        how = self.chance.choice(("rename", "copytruncate", "delete", "move"))
        if how != "rename":
            self.drain()
        if how == "rename":  # within reach of the shapes: it is the same file under another name
            path.rename(path.with_name(f"r{self.written}-{path.name}"))
        elif how == "move":
            path.rename(self.away / f"{self.written}-{path.name}")
        elif how == "copytruncate":
            shutil.copy(path, self.away / f"{self.written}-{path.name}")
            os.truncate(path, 0)
        else:
            path.unlink()

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.chance.choices((self.write, self.read, self.rotate), (6, 3, 1))[0]()
        self.drain()
        self.drain()
        missing = self.written - len(self.seen)
        twice = [line for line, count in self.seen.items() if count > 1]
        assert (missing, twice) == (0, []), f"of {self.written} lines"


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    Stress(tmp_path, seed=6).run(3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        stress = Stress(Path(name), seed=int(time.time()))
        stress.run(float(sys.argv[1]))
        sys.stdout.write(f"{stress.written} lines, each once\n")
