"""How far a replay runs on: a time, or a duration after the last record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.clock import parse
from sidecar.config_units import seconds

if TYPE_CHECKING:
    from collections.abc import Callable


def until(text: str | None) -> Callable[[float], float]:
    """From the last record's time, when to stop. Raises ValueError with the rest of a sentence."""
    if text is None:
        return lambda last: last
    if text.startswith("+"):
        more = seconds(text[1:])
        return lambda last: last + more
    stamp = parse(text)
    if stamp is None:
        raise ValueError(f"{text!r} is neither a time (2026-11-30T12:00:00Z) nor a duration (+1h)")
    end = stamp
    return lambda last: max(last, end)
