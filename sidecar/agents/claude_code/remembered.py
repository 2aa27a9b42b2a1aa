"""What was seen lately, so that what is told twice counts once."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """At least the last `least` different values, at most twice as many; older ones are forgotten.

    In two halves, of which the older is dropped as a whole: taking the oldest out of a long dict one by
    one makes Python walk over the places of those taken out before, each time. In dicts rather than sets:
    the collector of cycles looks into every set whenever it runs, into a dict of plain values never.
    """

    __slots__ = ("_least", "_new", "_old")

    def __init__(self, least: int) -> None:
        self._least = least
        self._new: dict[T, None] = {}
        self._old: dict[T, None] = {}

    def seen(self, value: T) -> bool:
        """Whether the value is remembered; from now on it is."""
        new = self._new
        if value in new or value in self._old:
            return True
        new[value] = None
        if len(new) > self._least:
            self._old, self._new = new, {}
        return False
