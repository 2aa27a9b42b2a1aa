"""How acts are carried out, and what stops those that are otherwise right."""

from __future__ import annotations

import os
import stat
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable


class Settings(Struct, frozen=True):
    """How acts are carried out. Durations in seconds."""

    mode: Literal["observe", "enforce"] = "observe"
    """`observe` judges and tells what it would have done, and touches nothing."""
    escalate: Literal["none", "reap"] = "none"
    """What follows an interrupt without effect."""
    grace: float = 30.0
    """How long an accepted act may take to show its effect."""
    deadline: float = 10.0
    """How long a look or a call may take."""
    max: int = 10
    """Acts of the policy in any `per` seconds: more at once are an outage, not so many stalls."""
    per: float = 600.0
    """The time that `max` counts in."""
    hold_file: str | None = None
    """A file that stops all acts while it holds anything but nothing, `0` or `false`."""


class Brakes:
    """What stops acts that are otherwise right: a switch for a whole fleet, and a budget."""

    def __init__(self, recent: Iterable[float]) -> None:
        """`recent`: when earlier runs acted, on the core's clock."""
        self._acts = deque(recent)

    def hold(self, settings: Settings) -> str:
        """Why nobody may act now; empty: go on. What cannot be read may be meant to stop us."""
        if settings.hold_file is None:
            return ""
        try:
            return "the hold file says so" if _says_hold(Path(settings.hold_file)) else ""
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"the hold file cannot be read: {error.strerror}"

    def take(self, now: float, settings: Settings) -> str:
        """Take one act out of the budget, or say why not."""
        while self._acts and self._acts[0] <= now - settings.per:
            self._acts.popleft()
        if len(self._acts) >= settings.max:
            return f"{settings.max} acts in {settings.per:g} s are enough"
        self._acts.append(now)
        return ""

    def give_back(self, at: float) -> None:
        """An act that was not needed after all costs nothing."""
        with suppress(ValueError):  # so long ago that it left the budget by itself
            self._acts.remove(at)


def _says_hold(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return True  # a pipe or a device: whatever it would say, it was not mounted to let go
        return file.read(64).strip().lower() not in (b"", b"0", b"false")
