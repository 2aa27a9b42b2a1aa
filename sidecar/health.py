"""How each source fares: whether it can be read, and whether its worker hangs.

A worker is judged by stamps of its own, never by a common one that a living neighbour refreshes.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

RETRY: Final = 30.0
"""The longest pause before a source that cannot be read is tried again."""


class State(Struct):
    """How a source fares."""

    agent: str
    source: str
    every: float
    patience: float
    up: bool = True
    last_read: float | None = None
    """Core time of the last read that succeeded."""
    beat: float | None = None
    """Core time of the last read that ended, well or not."""
    reading_since: float | None = None
    failures: int = 0
    why: str | None = None

    def stale(self, now: float) -> bool:
        """Whether the worker hangs: a read that does not end, or a pause that does not."""
        if self.reading_since is not None:
            return now - self.reading_since > self.patience
        return self.beat is not None and now - self.beat > max(self.every, RETRY) + self.patience
