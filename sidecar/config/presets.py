"""The bounds of named ways to run an agent. An adapter opts in by naming the preset among its own.

What a preset says beside bounds (addresses, templates, time limits) is the adapter's: it stands
beside the adapter and is laid over this.
"""

from __future__ import annotations

from typing import Any, Final

from sidecar.limits import Rules

_REDCODE: Final = {"limit": "10m", "warn": "5m"}
_EVERY_TOOL: Final = {"limit": "11m", "action": "interrupt"}

PRESETS: Final[dict[str, dict[str, Any]]] = {
    # Nobody sits at the terminal that a remote client drives; only the transcript can be seen.
    "claude-remote-control": {
        "attended": False,
        "bounds": {
            "busy": "off",
            "waiting": "5m",
            "idle_in_turn": "90s",
            "model": {"record": "20m"},
            "starting": "2m",
        },
    },
    # Behind the box's own idle limit of 1800 s and its sweep of 60 s: it goes first.
    "kbc-box": {"bounds": {"idle": {"limit": "35m", "action": "reap"}}},
    # A box that streams deltas and kills tools by itself after ten minutes.
    "sdk-box": {
        "bounds": {
            "model": {"delta": "90s"},
            "tool": {"*": _EVERY_TOOL} | dict.fromkeys(Rules().tool, _EVERY_TOOL),
            "idle": {"limit": "30m", "action": "reap"},
        },
    },
    # The numbers of redcode's own guard, for when it is switched off.
    "redcode": {"bounds": {"model": {"record": _REDCODE, "delta": _REDCODE}}},
}
