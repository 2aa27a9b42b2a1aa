"""When to speak of a silence again: less and less often, and anew for each silence.

Who speaks keeps one of these for itself. It knows when something was last said, which is not when
the agent last did something: saying so must never look like progress.
"""

from __future__ import annotations

from msgspec import Struct


class Cadence(Struct):
    """`first` seconds into a silence, then at doubling intervals of at most `most`."""

    first: float
    most: float
    began: float | None = None
    """The silence spoken of, by the moment of its last progress."""
    said: float = 0.0
    step: float = 0.0

    def due(self, began: float) -> float:
        """Return when to speak next of the silence that began then."""
        if began != self.began:
            self.began, self.said, self.step = began, began, self.first
        return self.said + self.step

    def speak(self, now: float) -> float:
        """Note that it was spoken of; returns the moment it was last, or the silence's beginning."""
        last, self.said = self.said, now
        self.step = min(self.step * 2, self.most)
        return last
