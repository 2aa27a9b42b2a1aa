"""What changes below a folder are noticed by: events where the kernel tells of them, and scans always.

Many changes come at once, a line at a time; so the first of them rings after a moment in which the others
arrive. Until then the kernel's queue is left alone: it coalesces equal events by itself, and an idle folder
costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from sidecar.sources.inotify import OVERFLOW, Inotify
from sidecar.sources.pace import Pace

if TYPE_CHECKING:
    from sidecar.agent import WatchLoss
    from sidecar.sources.folder import Folder

log = logging.getLogger("sidecar.sources")

Mode = Literal["inotify", "mixed", "poll"]

COALESCE: Final = 0.05
"""Seconds between the first event and the ring. With 50 files of 5 lines a second, decoded and folded, a wake
every 20 ms costs half as much again; half of this is the median time from append to signal."""

HEARD: Final = Pace(every=5.0, hot=0.0)
"""While events are heard, a scan only finds what they left out."""

DEAF: Final = Pace(every=1.0)
"""Without events a scan is what finds a file that slept. 1,000 files: 6 ms a scan, 0.6 % of a core."""

_LOSSES: Final[dict[str, WatchLoss]] = {
    "EMFILE": "no_instance",
    "ENFILE": "no_instance",
    "ENOSPC": "no_watch",
    "ENOMEM": "no_watch",
    "network": "network",
}

POLL: Final = 0.2
"""Seconds between two looks at files that grew lately, where no events tell of them."""


class Hearing:
    """Listens for one folder. `wake` is set when there is something to read."""

    def __init__(self, folder: Folder, *, events: bool = True) -> None:
        """`events` false: never ask the kernel."""
        self.wake = asyncio.Event()
        self.losses: Counter[WatchLoss] = Counter()
        """How often events were dropped, each followed by a scan, and whether there are none any more."""
        self._folder = folder
        self._inotify = Inotify() if events else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ring: asyncio.TimerHandle | None = None
        self._covered = False
        self._lost()
        self._adjust()

    @property
    def mode(self) -> Mode:
        """Say what changes are noticed by; `mixed` where events cannot tell of everything."""
        if self._inotify is None:
            return "poll"
        return "inotify" if self._hears_all else "mixed"

    @property
    def every(self) -> float:
        """Give the seconds until the next look, should nothing ring."""
        if self._folder.pending or self._folder.asked:
            return 0.0
        if self._hears_all:
            return HEARD.every
        return POLL if self._folder.hot else DEAF.every

    @property
    def _hears_all(self) -> bool:
        """A link's target changes unheard, and nothing is heard of a root that is not there yet."""
        return self._inotify is not None and self._covered and not self._folder.linked

    def listen(self) -> None:
        """Take what the kernel tells, and have it ring for more. To be called in the loop, before a read."""
        if self._inotify is None:
            return
        self._rest()
        changed = self._inotify.drain()
        if changed is OVERFLOW:
            self.losses["overflow"] += 1
            log.warning("events of %s were dropped; everything is looked at", self._folder.root)
        self._folder.notice(None if changed is OVERFLOW else changed)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._inotify.fileno(), self._heard)

    def cover(self) -> bool:
        """Listen to what the last scan found worth it; tell whether to scan again, for the moment between."""
        if self._inotify is None:
            return False
        new = self._inotify.cover(self._folder.directories)
        directories = self._folder.directories
        self._covered = bool(directories) and self._inotify.watched.issuperset(directories)
        self._lost()
        self._adjust()
        return new

    def close(self) -> None:
        """Stop listening."""
        self._rest()
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _heard(self) -> None:
        """Ring in a moment; until somebody listens again, the queue fills unwatched."""
        self._rest()
        self._ring = asyncio.get_running_loop().call_later(COALESCE, self.wake.set)

    def _rest(self) -> None:
        if self._loop is not None and self._inotify is not None:
            self._loop.remove_reader(self._inotify.fileno())
        if self._ring is not None:
            self._ring.cancel()
        self._loop = self._ring = None

    def _lost(self) -> None:
        """Fall back to looking, for good, where events cannot be had."""
        if self._inotify is not None and self._inotify.reason is not None:
            log.warning("no events of %s (%s): it is polled", self._folder.root, self._inotify.reason)
            self.losses[_LOSSES.get(self._inotify.reason.split()[0], "unsupported")] += 1
            self.close()

    def _adjust(self) -> None:
        self._folder.pace = HEARD if self._hears_all else DEAF
