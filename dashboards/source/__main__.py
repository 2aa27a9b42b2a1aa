"""Writes the dashboards: `python -m dashboards.source`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from dashboards.source.agents import AGENTS
from dashboards.source.sidecar import SIDECAR

BOARDS: Final = {"agents.json": AGENTS, "sidecar.json": SIDECAR}


def written() -> dict[str, str]:
    """The files and what is in them."""
    return {name: json.dumps(board.json(), indent=1) + "\n" for name, board in BOARDS.items()}


if __name__ == "__main__":
    for name, text in written().items():
        (Path(__file__).parents[1] / name).write_text(text)
