"""The source `host`: what the owner of a session's input sees, piece by piece.

A host gives a session `delta` resolution from the moment it sees partial messages. Of its status
only a session without a registration takes notice: the registration says more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agent import Finding, SourceDown
from sidecar.control.api import Hosted, wall
from sidecar.control.events import Lost
from sidecar.control.told import Told

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from sidecar.clock import Clock
    from sidecar.control.host import HostControl

RELIST: Final = 5.0
"""Seconds between two listings; in between the streams tell what changes."""

UNNAMED: Final = "host-"
NAMELESS: Final = 10.0
"""A host names a session itself until the agent told its id, which takes a second. One that stays
without a name hangs in its start, and is shown."""

WORDS: Final[dict[str, g.Word]] = {"busy": "busy", "idle": "idle", "waiting": "waiting"}


class Hosts:
    """The sessions of all hosts of one agent."""

    name = "host"
    every = RELIST
    patience = 30.0

    def __init__(self, control: HostControl, clock: Clock, registered: Callable[[str], bool]) -> None:
        """`registered` tells whether a session speaks for itself."""
        self._control = control
        self._clock = clock
        self._registered = registered
        self._told = Told(control)
        self.wake: asyncio.Event | None = self._told.wake
        self._listed_at: float | None = None
        self._known: dict[str, Hosted] = {}
        self._lost: set[str] = set()
        self._ours: set[str] = set()
        self._unnamed: dict[str, float] = {}

    async def read(self) -> Sequence[g.Observation]:
        """What the hosts told since the last read. Raises SourceDown where none can be asked."""
        now = self._clock.now()
        out: list[g.Observation] = []
        for event in self._told.take():  # before the list, which is newer
            if isinstance(event.what, Hosted):
                out += [] if self._overtaken(event.what) else self._seen(event.what, now)
            elif isinstance(event.what, Lost):
                out += self._gone(event.session, now)
            elif event.session in self._known:
                out.append(g.Observation(event.session, g.Progress(now)))
        if self._listed_at is None or now - self._listed_at >= RELIST:
            self._listed_at = now
            out += await self._list(now)
        return out

    def _overtaken(self, hosted: Hosted) -> bool:
        """Whether it was told before what a list has said since."""
        known = self._known.get(hosted.id)
        if known is None or known.active_at is None or hosted.active_at is None:
            return False
        return hosted.active_at < known.active_at

    async def probe(self) -> list[Finding]:
        """For `check`: which hosts answer, and what they can do."""
        listing = await self._control.sessions()
        found = [Finding(f"control {at}", ok=False, detail=why) for at, why in listing.errors.items()]
        for hosted in listing.sessions.values():
            can = [
                name
                for name, able in (("interrupt", hosted.can.interrupt), ("reap", hosted.can.reap))
                if able
            ]
            found.append(
                Finding(f"control of {hosted.id}", ok=bool(can), detail=" and ".join(can) or "nothing")
            )
        return found or [Finding("control", ok=False, detail="no host listens yet; hosts come with sessions")]

    async def close(self) -> None:
        """Stop listening."""
        await self._told.close()

    async def _list(self, now: float) -> list[g.Observation]:
        listing = await self._control.sessions()
        if listing.errors and not listing.where:
            endpoint, why = next(iter(listing.errors.items()))
            raise SourceDown(f"{endpoint}: {why}")
        out: list[g.Observation] = []
        for hosted in listing.sessions.values():
            out += self._seen(hosted, now)
        if not listing.errors:
            for session in [s for s in self._known if s not in listing.where]:
                out += self._left(session, now)
        return out

    def _seen(self, hosted: Hosted, now: float) -> list[g.Observation]:
        if hosted.id.startswith(UNNAMED) and now - self._unnamed.setdefault(hosted.id, now) < NAMELESS:
            return []
        old = None if hosted.id in self._lost else self._known.get(hosted.id)
        self._lost.discard(hosted.id)
        self._known[hosted.id] = hosted
        signals: list[g.Signal] = []
        if old is None or old.resolution != hosted.resolution:
            delta: g.Resolution | None = "delta" if hosted.resolution == "delta" else None
            signals.append(g.SourceUp(now, self.name, delta))
        if old is None and hosted.attended:
            signals.append(g.Described(now, attended=True))
        if not self._registered(hosted.id):
            signals += self._speaks(hosted, old, now)
        return [g.Observation(hosted.id, signal) for signal in signals]

    def _speaks(self, hosted: Hosted, old: Hosted | None, now: float) -> list[g.Signal]:
        """A session that has no registration is known by its host."""
        signals: list[g.Signal] = []
        if hosted.id not in self._ours:
            self._ours.add(hosted.id)
            created = wall(hosted.created_at)
            signals.append(g.Registered(now if created is None else min(now, self._clock.core(created))))
        if old is None or (old.status, old.waiting_for) != (hosted.status, hosted.waiting_for):
            word = WORDS.get(hosted.status, "busy")
            signals.append(g.Status(now, word, now, hosted.waits, source=self.name))
        return signals

    def _gone(self, session: str, now: float) -> list[g.Observation]:
        """Its stream ended: we see less, which says nothing of the session."""
        if session not in self._known or session in self._lost:
            return []
        self._lost.add(session)
        return [g.Observation(session, g.SourceLost(now, self.name))]

    def _left(self, session: str, now: float) -> list[g.Observation]:
        """Every host answers, and none has it any more."""
        out = self._gone(session, now)
        del self._known[session]
        self._lost.discard(session)
        if session in self._ours:
            self._ours.discard(session)
            if not self._registered(session):
                out.append(g.Observation(session, g.Unregistered(now)))
        return out
