"""What a scrape of a thousand sessions costs: processor time and bytes, with series by session and without.

    PYTHONPATH=. python tests/bench/bench_scrape.py --sessions 1000 --rounds 20

The test compares with a scrape of one session on the same machine: sessions are folded into the same few
series, so a thousand may cost more time, and no more bytes.
"""

import argparse
import gzip
import statistics
import sys
import time
from typing import NamedTuple

from sidecar import signals as g
from sidecar.telemetry.metrics import Metrics
from tests.telemetry.world import World, prompt, sees

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Cost(NamedTuple):
    """Of one scrape: processor milliseconds, bytes, bytes once compressed, series."""

    milliseconds: float
    size: int
    packed: int
    series: int


def filled(sessions: int, *, per_session: bool) -> Metrics:
    """Play a turn with a tool, tokens and an open request on every session."""
    world = World()
    metrics = Metrics(world, per_session=per_session)
    world.told.append(metrics)
    for number in range(sessions):
        name = f"01890a5d-ac96-774b-bcce-{number:012x}"
        world.see(
            sees(1000),
            prompt(1000, f"{name}-1"),
            g.Used(1001, "claude-x-1", input=100, output=20),
            g.ToolStarted(1002, "c", "Bash"),
            g.ToolEnded(1004, "c"),
            session=name,
        )
    world.clock.at = 1100
    return metrics


def measure(sessions: int, rounds: int, *, per_session: bool) -> Cost:
    """Scrape a few times; the median of the times."""
    metrics = filled(sessions, per_session=per_session)
    times = []
    for _ in range(rounds + 1):
        began = time.process_time()
        body, _ = metrics.render(OPENMETRICS)
        times.append(time.process_time() - began)
    series = sum(not line.startswith(b"#") for line in body.splitlines())
    return Cost(statistics.median(times[1:]) * 1000, len(body), len(gzip.compress(body)), series)


def test_a_thousand_sessions_are_scraped_as_one_is() -> None:
    one, many = (measure(sessions, 5, per_session=False) for sessions in (1, 1000))
    assert many.series == one.series
    assert many.size < one.size * 1.1
    assert many.milliseconds < one.milliseconds * 20


def test_series_by_session_cost_what_they_are() -> None:
    few, many = (measure(sessions, 3, per_session=True) for sessions in (10, 1000))
    assert many.series - few.series == 2 * 990
    assert many.milliseconds < few.milliseconds * 40


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    chosen = parser.parse_args()
    rows = [f"{'sessions':>9} {'by session':>11} {'CPU ms':>7} {'bytes':>8} {'gzip':>7} {'series':>7}"]
    for sessions in (1, chosen.sessions):
        for per_session in (False, True):
            c = measure(sessions, chosen.rounds, per_session=per_session)
            told = "yes" if per_session else "no"
            rows.append(f"{sessions:9} {told:>11} {c.milliseconds:7.1f} {c.size:8} {c.packed:7} {c.series:7}")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
