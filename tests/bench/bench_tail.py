"""What reading transcripts costs, beside what others take and what was to be reached: `make bench`.

    python -m tests.bench.bench_tail --megabytes 1000 --rounds 3

Rates are MB per second of processor time, medians of the rounds, all in one run on the same files, so that their
ratios hold on any machine. The page cache is warm. Programs that are not installed are left out with a note.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench import live
from tests.bench.corpus import MB, fill
from tests.bench.rates import decoded, others, seconds, ways


def say(what: str, value: str, goal: str = "") -> None:
    """Print a row."""
    sys.stdout.write(f"{what:44}{value:>14}   {goal}\n")
    sys.stdout.flush()


def rates(root: Path, paths: list[str], rounds: int) -> None:
    """Measure everybody on the same files."""
    total = sum(Path(path).stat().st_size for path in paths) / MB
    lines = decoded(None)(paths)
    say(f"{total:.0f} MB, {lines} lines, {len(paths)} files", "MB/CPU-s")
    found: dict[str, float] = {}
    for name, run in ways().items():
        found[name] = total / statistics.median(seconds(run, paths) for _ in range(rounds))
    for name, measured in others(root, paths, lines):
        found[name] = total / statistics.median(measured() for _ in range(rounds))
    for program in ("jq", "mtail", "rsyslogd"):
        if shutil.which(program) is None:
            say(program, "not installed")
    mtail = max((rate for name, rate in found.items() if name.startswith("mtail")), default=None)
    least = [("400", 400.0), ("orjson", found.get("orjson to dict")), ("3 x mtail", mtail and 3 * mtail)]
    wanted = ", ".join(
        f">= {name}" + ("" if name == "400" else f" = {rate:.0f}") for name, rate in least if rate
    )
    for name, rate in sorted(found.items(), key=lambda row: -row[1]):
        say(name, f"{rate:.0f}", wanted if name.startswith("full") else "")


def running(paths: list[str]) -> None:
    """Measure what only a running one shows."""
    say("", "")
    for events, p50, p99, idle in ((True, "<= 30", "<= 100", "<= 0.5"), (False, "", "<= 1100", "<= 1")):
        mode = "inotify" if events else "polling"
        told = live.steady(events=events)
        say(f"{mode}: 1,000 idle files, % of a core", f"{told['idle']:.2f}", idle)
        say(f"{mode}: and 50 x 5 lines/s, % of a core", f"{told['busy']:.2f}", "<= 3")
        say(f"{mode}: append to signal, median, ms", f"{told['p50']:.0f}", p50)
        say(f"{mode}: append to signal, 99 %, ms", f"{told['p99']:.0f}", p99)
    say("start: 5,000 old files, 3 live, s", f"{live.start():.2f}", "<= 1")
    holds, spent = live.hold(paths)
    say("catching up: loop held, median, ms", f"{holds[len(holds) // 2] * 1000:.1f}")
    say("catching up: loop held, longest, ms", f"{holds[-1] * 1000:.1f}", "<= 15")
    say("catching up: the same, processor's alone, ms", f"{spent[-1] * 1000:.1f}", "<= 15")
    say("a line of 50 MB: memory, MB", f"+{live.long_line():.1f}", "<= 16")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1000, help="200 is quick")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = fill(Path(name), chosen.megabytes * MB)
        rates(Path(name), paths, chosen.rounds)
        running(paths)


if __name__ == "__main__":
    main()
