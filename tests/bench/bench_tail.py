"""How fast transcripts are caught up with, per second of processor time.

    python tests/bench/bench_tail.py --megabytes 1000 --rounds 5

The generated lines have the sizes of real ones: half below 1.2 KB, one in ten above 8 KB, up to 468 KB. The
page cache is warm and the process alone; other work on the machine makes processor seconds slower by a tenth.
"""

import argparse
import importlib
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from sidecar.sources.records import Records
from sidecar.sources.tail import Tail

MB = 1_000_000
MEDIAN, SPREAD, LONGEST = 1200, 1.49, 468_000  # bytes of a line: a log-normal's median and sigma, cut off
FLOOR = 250  # MB per CPU-second on the slowest machine in use; some 500 to 700 are usual


class Block(msgspec.Struct):
    type: str
    id: str | None = None
    name: str | None = None


class Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    content: str | list[Block] = ""
    usage: dict[str, int] = {}


class Record(msgspec.Struct):
    type: str
    timestamp: str | None = None
    uuid: str | None = None
    session: str | None = msgspec.field(name="sessionId", default=None)
    message: Message | None = None


def lines(chance: random.Random) -> Iterator[bytes]:
    """Make records of a session, with the content they are skipped for."""
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz{}()\\\n\"'", k=chance.randint(1, 12)))
        for _ in range(4000)
    ]
    while True:
        size = min(LONGEST, int(MEDIAN * math.exp(chance.gauss(0, SPREAD))))
        text = " ".join(chance.choices(words, k=size // 9 + 1))
        block: dict[str, object] = {"type": "text", "text": text}
        if chance.random() < 0.4:
            block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": text}}
        message = {
            "id": f"msg_{chance.random()}",
            "role": "assistant",
            "model": "some-model",
            "content": [block],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 17, "output_tokens": 4711, "cache_read_input_tokens": 100_000},
        }
        record = {
            "parentUuid": str(chance.random()),
            "isSidechain": False,
            "type": "assistant",
            "message": message,
            "uuid": str(chance.random()),
            "timestamp": "2026-01-01T00:00:00.000Z",
            "sessionId": "e3b0c442-98fc-4c14-9afb-f4c8996fb924",
            "version": "2.1.332",
        }
        yield json.dumps(record, separators=(",", ":")).encode()


def fill(folder: Path, size: int) -> list[str]:
    """Write files of a megabyte each."""
    source = lines(random.Random(7))  # noqa: S311 - the same lines each time
    paths = []
    for number in range(math.ceil(size / MB)):
        path = folder / f"{number}.jsonl"
        with path.open("wb") as file:
            while file.tell() < MB:
                file.write(next(source) + b"\n")
        paths.append(str(path))
    return paths


def framed(paths: Iterable[str]) -> Iterator[list[bytes]]:
    """Split only: the least that any reader does."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        rest, at = b"", 0
        while data := os.pread(fd, 256 << 10, at):
            at += len(data)
            *whole, rest = (rest + data).split(b"\n")
            yield whole
        os.close(fd)


def tailed(paths: Iterable[str]) -> Iterator[list[bytes]]:
    """Follow with all that belongs to it."""
    for path in paths:
        tail = Tail(path)
        behind = 1
        while behind:
            read = tail.poll()
            behind = read.behind
            yield read.lines


def decoders() -> dict[str, Callable[[bytes], object] | None]:
    """Give the ways to decode a line; None where a library is not installed."""
    try:
        orjson: Callable[[bytes], object] | None = importlib.import_module("orjson").loads
    except ImportError:
        orjson = None
    return {"records": Records(Record).decode, "orjson": orjson, "json": json.loads}


def measure(batches: Iterator[list[bytes]], decode: Callable[[bytes], object] | None) -> tuple[float, int]:
    """Count the processor seconds and the lines."""
    count = 0
    began = time.process_time()
    for batch in batches:
        count += len(batch)
        if decode is not None:
            for line in batch:
                decode(line)
    return time.process_time() - began, count


def run(size: int, rounds: int) -> dict[str, tuple[float, int]]:
    """Measure each way: the median of MB per processor second, and the lines read."""
    results = {}
    with tempfile.TemporaryDirectory() as name:
        paths = fill(Path(name), size)
        total = sum(Path(path).stat().st_size for path in paths) / MB
        ways: list[
            tuple[str, Callable[[Iterable[str]], Iterator[list[bytes]]], Callable[[bytes], object] | None]
        ]
        ways = [("framing only", framed, None), ("tail", tailed, None)]
        ways += [(f"tail + {label}", tailed, decode) for label, decode in decoders().items() if decode]
        for label, source, decode in ways:
            runs = [measure(source(paths), decode) for _ in range(rounds + 1)][1:]  # the first one warms up
            results[label] = (total / statistics.median(seconds for seconds, _ in runs), runs[0][1])
    return results


def test_catching_up_is_fast_enough() -> None:
    results = run(32 * MB, 3)
    assert results["tail + records"][0] > FLOOR
    assert len({count for _, count in results.values()}) == 1


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    rows = [f"{'':20}{'MB per CPU-second':>18}{'lines':>10}"]
    results = run(chosen.megabytes * MB, chosen.rounds)
    rows += [f"{label:20}{speed:18.0f}{count:10}" for label, (speed, count) in results.items()]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
