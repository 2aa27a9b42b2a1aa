"""Draws the dashboards from what a real Prometheus answers: `make pictures`. Not Grafana, but the same queries."""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

from dashboards.stack.stack import Ports, Stack, demo
from tests.dashboards.draw import draw
from tests.dashboards.prometheus import Prometheus, Shown
from tests.dashboards.test_boards import BOARDS
from tests.e2e.sidecar import free_port

Json = dict[str, Any]
ROOT: Final = Path(__file__).parents[2]
MINUTES: Final = 3.0
"""How long the demo plays before it is drawn."""


def picture(board: Json, prometheus: Prometheus, shown: Shown, file: Path, rows: int) -> None:
    """One dashboard, as far as `rows` grid rows reach."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - after the back end is chosen

    panels = [p for p in board["panels"] if p["gridPos"]["y"] + p["gridPos"]["h"] <= rows]
    high = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels)
    figure = plt.figure(figsize=(14.4, high * 0.36), facecolor="#f4f5f5", dpi=100)
    for panel in panels:
        results = [prometheus.target(t, shown) for t in panel.get("targets", ())]
        draw(figure, panel, results, high)
    figure.savefig(file)
    plt.close(figure)


def main(words: list[str]) -> int:
    """Play the demo, then draw each board whole into a folder, and its first rows where the README shows them."""
    mpl.use("Agg")
    whole = Path(words[0]) if words else ROOT / ".e2e" / "pictures"
    shipped = whole if words else ROOT / "dashboards" / "pictures"
    for folder in (whole, shipped):
        folder.mkdir(parents=True, exist_ok=True)
    ports = Ports(*(free_port() for _ in Ports._fields))
    prometheus = Prometheus(f"http://127.0.0.1:{ports.prometheus}")
    with tempfile.TemporaryDirectory(prefix="pictures-") as root:  # noqa: SIM117 - the stack needs its folder
        with Stack(Path(root), ports, demo(ports), ROOT / ".e2e" / "stack" / "own") as stack:
            until = time.monotonic() + MINUTES * 60
            # The end of the play has to show something stuck: that is what the first row is for.
            while time.monotonic() < until or not _stuck(prometheus):
                stack.check()
                time.sleep(1)
            shown = Shown(back=int(MINUTES * 60) - 10, step=1, window=15)
            for name, board in BOARDS.items():
                first = 31 if name == "agents.json" else 20
                for folder, part, rows in ((whole, "-whole", 999), (shipped, "", first)):
                    file = folder / f"{Path(name).stem}{part}.png"
                    picture(board, prometheus, shown, file, rows)
                    sys.stdout.write(f"{file} {file.stat().st_size >> 10} KiB {datetime.now(UTC):%H:%M:%S}\n")
    return 0


def _stuck(prometheus: Prometheus) -> bool:
    return bool(prometheus.now('ai_agent_bound_remaining_seconds{bound="model"} < -15'))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
