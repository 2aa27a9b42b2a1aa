"""How a running sidecar's transcripts fare: latency, processor, start, hold and memory. Real files, real time."""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from sidecar import signals as g
from sidecar.agents.claude_code.transcript import by_entrypoint
from sidecar.agents.claude_code.transcripts import Transcripts
from sidecar.clock import LiveClock
from sidecar.fleet import Fleet
from tests.bench.rates import Law

WINDOW = 8.0  # seconds that are measured
RECORD = (
    '{"type":"assistant","uuid":"%s","timestamp":"%s","sessionId":"%s","version":"2","message":{"id":"%s",'
    '"content":[{"type":"text","text":"%s"}]}}\n'
)
WRITER = """
import sys, time
from datetime import UTC, datetime
paths, record, count = sys.argv[3:], sys.argv[1], 0
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for path in paths:
        count += 1
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with open(path, "ab") as file:
            file.write((record % (count, now, path[-42:-6], count, "x" * 2400)).encode())
        time.sleep(0.2 / len(paths))
"""


def make(root: Path, idle: int, active: int, age: float = 0.0) -> list[str]:
    """Write a file for each session; give the active ones' paths."""
    folder = root / "projects" / "-work"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(idle + active):
        session = f"{number:08d}-0000-4000-8000-{int(age):012d}"
        path = folder / f"{session}.jsonl"
        path.write_text((RECORD % (number, "2026-01-01T00:00:00.000Z", session, number, "x" * 1000)) * 100)
        if age:
            os.utime(path, (time.time() - age,) * 2)
        paths.append(str(path))
    return paths[:active]


class Pump:
    """Reads as the watch does, and folds."""

    def __init__(self, root: Path, *, events: bool = True) -> None:
        self.clock = LiveClock(time.monotonic, time.time)
        self.source = Transcripts(str(root), self.clock, by_entrypoint, events=events)
        self.fleet = Fleet(Law(), told_from=self.clock.now())
        self.late: list[float] = []
        self.holds: list[float] = []
        self.spent: list[float] = []

    async def once(self) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        found = await self.source.read()
        self.fleet.observe("claude-code", found, self.clock.now())
        self.holds.append(time.perf_counter() - began)
        self.spent.append(time.process_time() - cpu)
        now = self.clock.now()
        self.late += [now - s.at for _, s in found if isinstance(s, g.Progress)]

    async def run(self, seconds: float) -> None:
        wake = self.source.wake
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            every = self.source.every
            if every == 0.0:
                await asyncio.sleep(0)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), min(every, left))
                wake.clear()
            await self.once()

    async def settle(self) -> None:
        await self.once()
        while self.source.every == 0.0:
            await self.once()


async def _steady(root: Path, active: list[str], *, events: bool) -> tuple[float, list[float]]:
    pump = Pump(root, events=events)
    await pump.settle()
    await pump.run(0.5)
    pump.late.clear()
    command = [sys.executable, "-c", WRITER, RECORD, str(WINDOW), *active]
    writer = subprocess.Popen(command) if active else None  # noqa: ASYNC220 - it is started, not waited for
    began = time.process_time()
    await pump.run(WINDOW)
    used = time.process_time() - began
    if writer is not None:
        writer.wait()
    pump.source.close()
    return used / WINDOW * 100, sorted(pump.late)


def steady(*, events: bool) -> dict[str, float]:
    """1,000 idle files alone, and with 50 that gain five lines a second each."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        active = make(root, 1000, 50)
        idle, _ = asyncio.run(_steady(root, [], events=events))
        busy, late = asyncio.run(_steady(root, active, events=events))
    return {
        "idle": idle,
        "busy": busy,
        "p50": statistics.median(late) * 1000,
        "p99": late[len(late) * 99 // 100] * 1000,
        "count": len(late),
    }


def start() -> float:
    """Seconds until 5,000 old files and 3 live ones are known and read."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        make(root, 5000, 0, age=30 * 86400)
        make(root, 0, 3)
        began = time.perf_counter()
        asyncio.run(Pump(root).settle())
        return time.perf_counter() - began


def _append(root: Path, paths: list[str]) -> None:
    for path in paths:
        with (root / "projects" / "-work" / Path(path).name).open("ab") as file:
            file.write(Path(path).read_bytes())


async def _catch_up(root: Path, paths: list[str]) -> tuple[list[float], list[float]]:
    """Let files that are followed grow by the whole corpus, and read that in turns."""
    pump = Pump(root)
    await pump.settle()
    gc.collect()
    gc.freeze()  # as the command does when it has started: what is loaded is not looked at again
    pump.holds.clear()
    pump.spent.clear()
    _append(root, paths)
    await pump.run(0.1)
    await pump.settle()
    pump.source.close()
    gc.unfreeze()
    return sorted(pump.holds), sorted(pump.spent)


def hold(paths: list[str]) -> tuple[list[float], list[float]]:
    """Seconds for which each turn held the loop while it caught up, and those of the processor, sorted.

    On a machine that others use, too, the difference is theirs.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "projects" / "-work").mkdir(parents=True)
        for path in paths:
            (root / "projects" / "-work" / Path(path).name).write_bytes(b"")
        return asyncio.run(_catch_up(root, paths))


def long_line() -> float:
    """MB of memory that a line of 50 MB takes, above the usual: in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.jsonl"
        path.write_bytes(b'{"type":"user","message":"' + b"x" * 50_000_000 + b'"}\n{"type":"mode"}\n')
        script = (
            "import sys\nfrom sidecar.sources.tail import Tail\n"
            "rss=lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
            "before=rss(); t=Tail(sys.argv[1]); lines=0; over=0; behind=1\n"
            "while behind:\n r=t.poll(); lines+=len(r.lines); over+=r.oversized; behind=r.behind\n"
            "assert (lines, over) == (1, 1)\nprint((rss()-before)/1024)"
        )
        told = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
        )
    return float(told.stdout)
