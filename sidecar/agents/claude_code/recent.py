"""Where in a long transcript to begin: what a session does now depends on its last turns alone.

Transcripts of gigabytes exist. The open turn, its tools and what still runs in the background are told by
what follows the last but one prompt; so that is looked for from the end. To begin earlier is slower, and
never wrong.
"""

from __future__ import annotations

import math
import os
from typing import Final

from sidecar import signals as g
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import RecordedClock

FIRST: Final = 256 << 10
"""Bytes looked at first: whole files of less are read faster than searched."""

FARTHEST: Final = 4 << 20
"""Bytes looked at at most, which takes some 5 ms. Longer turns are rare; their files are read in whole."""

TURNS: Final = 2
"""Turns to begin with: the open one, and the one whose end says how many background tasks it left."""

NAMED: Final = b'"promptSource"'
"""What a record that opens a turn holds, in files that name sources. Others are read in whole."""


def recent(fd: int, size: int) -> int:
    """Give the place in the open file where to begin, at the first byte of a line.

    Of its first `size` bytes the last ones are searched. Raises OSError.
    """
    reach = FIRST
    while reach < size and reach <= FARTHEST:
        at = _prompt(os.pread(fd, reach, size - reach))
        if at is not None:
            return size - reach + at
        reach *= 4
    return 0


def _prompt(data: bytes) -> int | None:
    """Find the last but one whole line that opens a turn."""
    found, at = 0, len(data)
    while (at := data.rfind(NAMED, 0, at)) >= 0:
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        named = data[at + len(NAMED) : at + len(NAMED) + 3].lstrip(b": ").startswith(b'"')
        if named and start and end >= 0 and _opens(data[start:end]):
            found += 1
            if found == TURNS:
                return start
        at = start
    return None


def _opens(line: bytes) -> bool:
    """Tell whether a turn begins with this line, as the decoder of the whole file would."""
    alone = Transcript("", RecordedClock(math.inf), by_entrypoint)
    return any(isinstance(signal, g.TurnStarted) for _, signal in alone.feed([line], None))
