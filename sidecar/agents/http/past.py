"""What a stream tells of the past when it begins: of it all, only a turn that is still open counts."""

from __future__ import annotations

from typing import Final

from sidecar import signals as g

MOST: Final = 10_000
"""Signals kept of one turn; servers keep about as many events."""


class Past:
    """The signals of the last turn so far, as long as it has not ended. Turns of before are history."""

    def __init__(self) -> None:
        self.signals: list[g.Signal] = []

    def add(self, signals: list[g.Signal]) -> None:
        """Take what came next. Of a run of progress the newest is as good as all."""
        for signal in signals:
            last = self.signals[-1] if self.signals else None
            if isinstance(signal, g.TurnEnded):
                self.signals.clear()
            elif isinstance(signal, g.Progress) and isinstance(last, g.Progress) and len(self.signals) > 1:
                self.signals[-1] = signal
            elif not isinstance(signal, g.Presence) and len(self.signals) < MOST:
                self.signals.append(signal)
