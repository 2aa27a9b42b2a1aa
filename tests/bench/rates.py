"""How fast a corpus is read, in MB per second of processor time: ours in parts and in whole, and others."""

import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sidecar import signals as g
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import LiveClock
from sidecar.fleet import Fleet
from sidecar.limits import Rules
from sidecar.session import Session
from sidecar.sources.tail import Read, Tail

MTAIL = {
    "by type": 'counter records by type\n/"type":"(?P<type>user|assistant)"/ {\n  records[$type]++\n}\n',
    "lines": "counter lines_total\n/$/ {\n  lines_total++\n}\n",
}
RSYSLOG = """
global(workDirectory="{folder}" maxMessageSize="1m")
module(load="imfile")
input(type="imfile" file="{files}" tag="t" ruleset="r" freshStartTail="off")
template(name="one" type="string" string="1")
ruleset(name="r") {{ action(type="omfile" file="{folder}/out" template="one") }}
"""


class Law:
    """Limits for a fleet that nobody acts upon."""

    def rules(self, _: Session) -> Rules:
        return Rules()

    def alone(self, _: Session) -> bool:
        return True

    def luck(self) -> float:
        return 0.0

    def decide(self, session: Session, judged: g.Judged) -> None: ...

    def opened(self, _: Session) -> Iterable[g.Signal]:
        return ()

    def woken(self, session: Session) -> None: ...


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


def decoded(decode: Callable[[bytes], object] | None) -> Callable[[list[str]], int]:
    """Frame and decode each line, and drop what came of it."""

    def run(paths: list[str]) -> int:
        count = 0
        for batch in framed(paths):
            count += len(batch)
            if decode is not None:
                for line in batch:
                    decode(line)
        return count

    return run


def tailed(paths: list[str]) -> int:
    """Follow with all that belongs to it, and drop the lines."""
    return sum(len(read.lines) for path in paths for read in reads(path))


def reads(path: str) -> Iterator[Read]:
    """Poll a file to its end."""
    tail = Tail(path)
    behind = 1
    while behind:
        read = tail.poll()
        behind = read.behind
        yield read


def whole(*, grown: bool) -> Callable[[list[str]], int]:
    """Bytes to signals to sessions, as growth (all is told) or as what lay there at the start."""

    def run(paths: list[str]) -> int:
        clock = LiveClock(time.monotonic, time.time)
        began = clock.now()
        fleet = Fleet(Law(), told_from=began)
        count = 0
        for path in paths:
            transcript = Transcript(Path(path).stem, clock, by_entrypoint, began)
            for read in reads(path):
                count += sum(map(len, read.blocks))
                now = clock.now()
                fleet.observe("claude-code", transcript.feed(read.blocks, now if grown else None), now)
        return count

    return run


def ways() -> dict[str, Callable[[list[str]], int]]:
    """Everything that runs in this process."""
    found = {
        "full path, as growth": whole(grown=True),
        "full path, as history": whole(grown=False),
        "tail, lines dropped": tailed,
        "framing only": decoded(None),
        "stdlib json to dict": decoded(json.loads),
    }
    try:
        found["orjson to dict"] = decoded(importlib.import_module("orjson").loads)
    except ImportError:
        sys.stderr.write("orjson is not installed: left out\n")
    return found


def seconds(run: Callable[[list[str]], int], paths: list[str]) -> float:
    """Processor seconds of one run in this process."""
    began = time.process_time()
    run(paths)
    return time.process_time() - began


def others(root: Path, paths: list[str], lines: int) -> Iterator[tuple[str, Callable[[], float]]]:
    """Programs of the system that are installed, each as a function that gives its processor seconds."""
    if shutil.which("jq"):
        yield "jq -r .type", lambda: _child(["jq", "-r", ".type", *paths])
    if shutil.which("mtail"):
        for name, program in MTAIL.items():
            yield f"mtail, {name}", lambda program=program: _mtail(root, program)  # type: ignore[misc]
    if shutil.which("rsyslogd"):
        yield "rsyslog, lines", lambda: _rsyslog(root, lines)


def _child(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _mtail(root: Path, program: str) -> float:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "p.mtail"
        path.write_text(program)
        logs = f"{root}/projects/*/*.jsonl"
        return _child(["mtail", "--one_shot", "--progs", str(path), "--logs", logs, "--log_dir", name])


def _rsyslog(root: Path, lines: int) -> float:
    """Run until as many marks were written as there are lines; it would go on for ever."""
    with tempfile.TemporaryDirectory() as name:
        conf, out = Path(name) / "conf", Path(name) / "out"
        conf.write_text(RSYSLOG.format(folder=name, files=f"{root}/projects/*/*.jsonl"))
        command = ["rsyslogd", "-n", "-f", str(conf), "-i", f"{name}/pid"]
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            while not (out.exists() and out.stat().st_size >= lines) and time.monotonic() - began < 120:
                time.sleep(0.05)
            done = out.exists() and out.stat().st_size >= lines
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            running.terminate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done:
        raise RuntimeError("rsyslog did not read all lines within 120 s")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
