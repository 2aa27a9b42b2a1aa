"""How long each state may last: the numbers that `policy` judges by, and where they come from.

Seconds throughout; the configuration writes them as `90s` or `20m`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from sidecar.signals import Action

MINUTE: Final = 60.0
HOUR: Final = 3600.0

RETRY_CEILING: Final = 35 * MINUTE
"""Retries that go on this long after the last progress end, however near the next attempt is."""

LIMIT_SLACK: Final = 5 * MINUTE
"""Grace after an announced reset of a usage limit."""

LIMIT_UNTOLD: Final = 6 * HOUR
"""How long a usage limit without a reset time is believed."""

KNOWN_BY_GROWTH: Final = 24 * HOUR
"""How long an open turn keeps a session listed that only its growth makes known."""


class Limit(Struct, frozen=True):
    """How long a state may last. `limit` None: no bound; `warn` None: half the limit (seconds)."""

    limit: float | None
    action: Action = "interrupt"
    warn: float | None = None


def _minutes(limit: float, action: Action = "interrupt", warn: float | None = None) -> Limit:
    return Limit(limit * MINUTE, action, None if warn is None else warn * MINUTE)


def _tool_patterns() -> dict[str, Limit]:
    """Instant tools: open for 15 min they are perhaps waiting for somebody's permission."""
    instant = ("Edit", "Write", "NotebookEdit", "AskUserQuestion", "ExitPlanMode")
    return {name: _minutes(15, "report") for name in instant}


class Rules(Struct, frozen=True):
    """The limits of every bound, in seconds. The defaults come from 100,000 simulated turns.

    Model times are heavy-tailed: a single block can take 35 min to write, and agents give up a
    dead request and recover by themselves after 300, 360 or 600 s. At record resolution 20 min
    would end one healthy turn in 550 and 36 min none; at delta resolution 6 min one in 100 and
    15 min one in 20,000. Hence warn at the first and act at the second number.
    """

    waiting: Limit = _minutes(5)
    compacting: Limit = _minutes(30)
    idle_in_turn: Limit = Limit(90.0, "report")
    tool: dict[str, Limit] = field(default_factory=_tool_patterns)
    retrying: Limit = Limit(RETRY_CEILING)
    model_record: Limit = _minutes(45, warn=20)
    model_delta: Limit = _minutes(15, warn=6)
    starting: Limit = _minutes(10, "report")
    idle: Limit = _minutes(30, "report")
    unprompted: bool = False
    """Whether a session may be reaped before its first turn."""
    limited: Limit = Limit(LIMIT_UNTOLD, "report")
    delegated: Limit = Limit(0.0)
    turn: Limit = Limit(None)
    busy: Limit = Limit(None)
    jitter: float = 0.0
    """The largest share put on top of every limit, times the session's own luck."""
