"""How files are looked at and read."""

import msgspec

from sidecar.sources.cursor import Start, first_line, here
from sidecar.sources.tail import CAP


class Pace(msgspec.Struct, frozen=True):
    """How eagerly files are looked at, in seconds."""

    every: float = 2.0  # between scans: all that no event tells of is that late, a fortieth of any bound
    hot: float = 60.0  # since a file grew: longer than nearly every pause within a turn
    dormant: float = 86_400.0  # since its modification when first seen: a turn open for longer is given up


class Reading(msgspec.Struct, frozen=True):
    """How each file is read."""

    start: Start = first_line
    back: Start = here  # from the place that was marked before a restart: to where what it meant began
    cap: int = CAP  # bytes of the longest line kept
