"""What was seen lately, so that what is told twice counts once."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """At least the last `least` different values, at most twice as many; older ones are forgotten.

    In two halves, of which the older is dropped as a whole: taking the oldest out of a long dict one by
    one makes Python walk over the places of those taken out before, each time.
    """

    __slots__ = ("_least", "_new", "_old")

    def __init__(self, least: int) -> None:
        self._least = least
        self._new: set[T] = set()
        self._old: set[T] = set()

    def seen(self, value: T) -> bool:
        """Whether the value is remembered; from now on it is."""
        new = self._new
        if value in new or value in self._old:
            return True
        new.add(value)
        if len(new) > self._least:
            self._old, self._new = new, set()
        return False
