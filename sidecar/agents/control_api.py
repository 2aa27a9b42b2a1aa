"""Any box that speaks the Agent Control API: its list of sessions, and its events as they come.

The box says what runs; its turns are its own names and are sent back as they are. What it streams
is progress, its status is only its word. A box that tells of open tools has them bounded as tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agent import Answer, Can, Finding, Sees, SourceDown, tool_name
from sidecar.control.api import Hosted, Settings, wall
from sidecar.control.events import Lost
from sidecar.control.host import HostControl
from sidecar.control.told import Told

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from sidecar.agent import Order, Source
    from sidecar.clock import Clock
    from sidecar.control.events import Event
    from sidecar.control.host import Listing

__all__ = ["ControlApi", "Settings"]

RELIST: Final = 5.0
"""Seconds between two listings; in between the events tell what changes."""

WORDS: Final[dict[str, g.Word]] = {"busy": "busy", "idle": "idle", "waiting": "waiting"}


class Box:
    """The source `box`: the listing, and the event stream that fills the time between."""

    name = "box"
    every = RELIST
    patience = 30.0

    def __init__(self, control: HostControl, clock: Clock, attended: bool | None) -> None:  # noqa: FBT001
        self._control = control
        self._clock = clock
        self._attended = attended
        self._told = Told(control)
        self.wake: asyncio.Event | None = self._told.wake
        self._listed_at: float | None = None
        self._known: dict[str, Hosted] = {}

    async def read(self) -> Sequence[g.Observation]:
        """What changed since the last read. Raises SourceDown where the box cannot be asked."""
        now = self._clock.now()
        told = self._told.take()
        out: list[g.Observation] = []
        if self._listed_at is None or now - self._listed_at >= RELIST:
            out += self._listed(await self._control.sessions(), now)
            self._listed_at = now
        for event in told:
            out += self._heard(event, now)
        return out

    async def look(self) -> list[g.Observation]:
        """What was told by now, and then the listing: what is older must not be heard after it."""
        now = self._clock.now()
        told = [seen for event in self._told.take() for seen in self._heard(event, now)]
        return told + self._listed(await self._control.sessions(), now)

    async def close(self) -> None:
        """Stop listening."""
        await self._told.close()

    def _listed(self, listing: Listing, now: float) -> list[g.Observation]:
        if listing.errors and not listing.where:
            endpoint, why = next(iter(listing.errors.items()))
            raise SourceDown(f"{endpoint}: {why}")
        out: list[g.Observation] = []
        for hosted in listing.sessions.values():
            out += self._seen(hosted, now)
        if not listing.errors:
            for session in [s for s in self._known if s not in listing.where]:
                del self._known[session]
                out.append(g.Observation(session, g.Unregistered(now)))
        return out

    def _heard(self, event: Event, now: float) -> list[g.Observation]:
        if isinstance(event.what, Hosted):
            return [] if self._stale(event.what) else self._seen(event.what, now)
        if isinstance(event.what, Lost):
            self._listed_at = None  # nothing is replayed: what was missed is in the list
            return []
        known = event.session in self._known
        return [g.Observation(event.session, g.Progress(now))] if known else []

    def _stale(self, hosted: Hosted) -> bool:
        """Whether a listing overtook this event: its newest progress is older than what is known."""
        known = self._known.get(hosted.id)
        if known is None or known.active_at is None or hosted.active_at is None:
            return False
        return hosted.active_at < known.active_at

    def _seen(self, hosted: Hosted, now: float) -> list[g.Observation]:
        old = self._known.get(hosted.id)
        self._known[hosted.id] = hosted
        signals: list[g.Signal] = []
        if old is None:
            created = wall(hosted.created_at)
            signals.append(g.Registered(now if created is None else self._at(created, now)))
        if old is None or old.resolution != hosted.resolution:
            signals.append(g.SourceUp(now, self.name, hosted.resolution or "record"))
        attended = hosted.attended if self._attended is None else self._attended
        if old is None and attended is not None:
            signals.append(g.Described(now, attended=attended))
        signals += self._turned(hosted, old, now)
        if old is None or (old.status, old.waiting_for) != (hosted.status, hosted.waiting_for):
            word = WORDS.get(hosted.status, "busy")
            signals.append(g.Status(now, word, now, hosted.waits, source=self.name))
        return [g.Observation(hosted.id, signal) for signal in signals]

    def _turned(self, hosted: Hosted, old: Hosted | None, now: float) -> list[g.Signal]:
        """Turns and tools as the box names them, and its newest progress where it moved."""
        before, tools = (old.turn, old.tools) if old is not None else (None, {})
        active = hosted.active_at
        at = now if active is None else self._at(active, now)
        signals: list[g.Signal] = []
        if before is not None and hosted.turn != before:
            # Two turns may follow each other between two looks: the first had ended when the next began.
            over = now if hosted.turn is None else at
            signals += [g.ToolEnded(over, call, echo=True) for call in tools]
            signals.append(g.TurnEnded(over, "completed"))
            tools = {}
        if hosted.turn is not None and hosted.turn != before:
            signals.append(g.TurnStarted(at, hosted.turn, at))
        elif old is not None and active is not None and active != old.active_at:
            signals.append(g.Progress(at))
        signals += [g.ToolEnded(now, call) for call in tools if call not in hosted.tools]
        for call, tool in hosted.tools.items():
            if call not in tools:
                signals.append(g.ToolStarted(now, call, tool_name(tool), turn=hosted.turn))
        return signals

    def _at(self, stamp: float, now: float) -> float:
        return min(now, self._clock.core(stamp))


class ControlApi:
    """One box."""

    kind = "control-api"
    sees = Sees("delta", tools=True, waiting=True, status=True)

    def __init__(self, name: str, settings: Settings, clock: Clock, *, attended: bool | None = None) -> None:
        """`attended` overrides what the box says."""
        self.name = name
        self._control = HostControl(settings, clock)
        self._box = Box(self._control, clock, attended)
        self.sources: list[Source] = [self._box]

    async def look(self, _: str) -> Sequence[g.Observation]:
        """Ask the box for its list: what it says of the others counts too."""
        return await self._box.look()

    def can(self, session: str) -> Can:
        """As the box says."""
        return self._control.can(session)

    async def interrupt(self, order: Order) -> Answer:
        """End the turn that the box has now, if it is the one that was judged."""
        return await self._control.interrupt(order)

    async def reap(self, order: Order) -> Answer:
        """Have the session torn down."""
        return await self._control.reap(order)

    async def probe(self) -> Sequence[Finding]:
        """Whether the box answers, and what it lists."""
        listing = await self._control.sessions()
        found = [Finding(f"box {at}", ok=False, detail=why) for at, why in listing.errors.items()]
        if listing.sessions or not found:
            found.append(Finding("box", ok=True, detail=f"{len(listing.sessions)} sessions"))
        return found

    async def close(self) -> None:
        """Stop listening."""
        await self._box.close()
        await self._control.close()
