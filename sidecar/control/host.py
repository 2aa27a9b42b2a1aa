"""Acting through whoever owns the agent: a host with a session each, or a box with many.

Which endpoint a session belongs to is asked anew before every act, for hosts come and go and what
they call a turn is their own. A host is sent the name of the turn that it has now, and only if it
saw no progress that was not judged: a turn that its owner knows to be at work is left alone.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from sidecar.agent import Answer, Can, Order
from sidecar.control import api
from sidecar.control.api import Hosted, Settings, Unreachable, Vacant
from sidecar.control.events import Event, follow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sidecar.clock import Clock

__all__ = ["Event", "HostControl", "Hosted", "Listing", "Settings"]

SLACK: Final = 5.0
"""By how much a host's progress may be newer than the judged one: a transcript's line comes later
than the stream, stamps are rounded, clocks differ. What was judged is minutes old."""

ACCEPTED: Final = (200, 202, 204)
RESULTS: Final[dict[int, Literal["unsupported", "superseded"]]] = {409: "superseded", 501: "unsupported"}


class Listing(Struct, frozen=True):
    """What all hosts say."""

    sessions: dict[str, Hosted] = field(default_factory=dict)
    """By session id. One that several hosts claim is not among them: nobody knows whose it is."""
    where: dict[str, list[str]] = field(default_factory=dict)
    """The endpoints that list a session."""
    errors: dict[str, str] = field(default_factory=dict)
    """What is wrong with which endpoint."""


class HostControl:
    """The hosts of one configured agent."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._known: dict[str, Hosted] | None = None

    def can(self, session: str, /) -> Can:
        """As last listed. Before the first listing nobody knows, so asking is worth a try."""
        if self._known is None:
            return Can(interrupt=True, reap=True)
        hosted = self._known.get(session)
        if hosted is None:
            return Can(interrupt=False, reap=False)
        return Can(hosted.can.interrupt, hosted.can.reap)

    async def sessions(self) -> Listing:
        """Ask every host what it has. One that is gone or hangs is an error beside the others."""
        found = api.endpoints(self._settings)
        answers = await asyncio.gather(
            *(api.listed(self._settings, endpoint) for endpoint in found), return_exceptions=True
        )
        listing = Listing()
        for endpoint, answer in zip(found, answers, strict=True):
            if isinstance(answer, Vacant):
                continue
            if isinstance(answer, Unreachable):
                listing.errors[endpoint] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                if answer.odd:  # what is missing from the list may still be there
                    listing.errors[endpoint] = f"{answer.odd} entries of its list make no sense"
                for hosted in answer.sessions:
                    listing.where.setdefault(hosted.id, []).append(endpoint)
                    listing.sessions[hosted.id] = hosted
        for session, claimed in listing.where.items():
            if len(claimed) > 1:
                del listing.sessions[session]
        self._note(listing)
        return listing

    async def events(self) -> AsyncGenerator[Event, None]:
        """What the hosts tell as it happens, for as long as it is iterated over."""
        async with aclosing(follow(self._settings)) as told:
            async for event in told:
                if self._known is not None and isinstance(event.what, Hosted):
                    self._known[event.session] = event.what
                yield event

    async def interrupt(self, order: Order, /) -> Answer:
        """End the turn."""
        return await self._act(order, "interrupt")

    async def reap(self, order: Order, /) -> Answer:
        """End the session: one at rest unless forced."""
        return await self._act(order, "reap")

    async def close(self) -> None:
        """Connections last as long as their request."""

    def _note(self, listing: Listing) -> None:
        """Remember who can do what. Those whose host did not answer may still be there."""
        kept = self._known if listing.errors and self._known is not None else {}
        if listing.sessions or not listing.errors:
            self._known = kept | listing.sessions

    async def _act(self, order: Order, action: Literal["interrupt", "reap"]) -> Answer:
        listing = await self.sessions()
        hosted, claimed = listing.sessions.get(order.session), listing.where.get(order.session, [])
        if hosted is None:
            return Answer("failed", _missing(claimed, listing.errors))
        refused = self._refusal(order, action, hosted)
        if refused is not None:
            return refused
        wanted: dict[str, object] = {"turn": hosted.turn, "reason": order.reason}
        if action == "reap":
            wanted["force"] = order.force
        url = api.target(claimed[0], "sessions", order.session, action)
        try:
            status = await api.ordered(self._settings, claimed[0], url, wanted)
        except Unreachable as unreachable:
            return Answer("failed", str(unreachable))
        return Answer("accepted" if status in ACCEPTED else RESULTS.get(status, "failed"), f"HTTP {status}")

    def _refusal(self, order: Order, action: Literal["interrupt", "reap"], hosted: Hosted) -> Answer | None:
        """Why the host is not asked: what it says of the session does not fit the verdict."""
        if not (hosted.can.interrupt if action == "interrupt" else hosted.can.reap):
            return Answer("unsupported", "its host cannot")
        if action == "interrupt" and not hosted.works:
            return Answer("superseded", "no turn runs there")
        if action == "reap" and hosted.works and not order.force:
            return Answer("superseded", "a turn runs there")
        active = hosted.active_at
        if order.progress_at is not None and active is not None:
            newer = self._clock.core(active) - order.progress_at
            if newer > SLACK:
                return Answer("superseded", f"its host saw progress {newer:.0f} s after what was judged")
        return None


def _missing(claimed: list[str], errors: dict[str, str]) -> str:
    if claimed:
        return f"{len(claimed)} hosts claim this session"
    if errors:
        return f"no host lists this session; {len(errors)} cannot be asked: {next(iter(errors.values()))}"
    return "no host lists this session"
