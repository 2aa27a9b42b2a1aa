"""Whether a box keeps the promises of the Agent Control API, found out by asking it.

What ends nothing is always tried: the listing, an interrupt of an idle session, of a turn that
does not run, of a session that does not exist. Ending a session is tried only on one that was
named for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sidecar.agent import Finding
from sidecar.control import api
from sidecar.control.api import Unreachable
from sidecar.control.events import event_of, streamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.control.api import Hosted, Settings

NOBODY: Final = "no-such-session/../%00"
"""An id that no box has, with everything in it that must be encoded."""

NO_TURN: Final = "no-such-turn"

PATIENCE: Final = 3.0
"""Seconds within which an order that was accepted has to have its effect, and a stream to say something."""

PAUSE: Final = 0.1


async def conform(settings: Settings, sacrifice: str | None = None) -> list[Finding]:
    """Every check, as findings; `sacrifice` is a session that may be ended."""
    found: list[Finding] = []
    for endpoint in api.endpoints(settings) or [settings.url]:
        try:
            found += await _Run(settings, endpoint).checks(sacrifice)
        except Unreachable as unreachable:
            found.append(Finding(f"reach {endpoint}", ok=False, detail=str(unreachable)))
    return found


class _Run:
    """The checks of one endpoint."""

    def __init__(self, settings: Settings, endpoint: str) -> None:
        self._settings = settings
        self._endpoint = endpoint

    async def checks(self, sacrifice: str | None) -> list[Finding]:
        sessions, odd, why = await api.listed(self._settings, self._endpoint)
        wrong = f", and {odd} entries that are none, the first by {why}" if odd else ""
        found = [Finding("list", ok=not odd, detail=f"{len(sessions)} sessions{wrong}")]
        found.append(await self._expects("an unknown session is 404", NOBODY, "interrupt", {}, 404))
        found.append(await self._expects("so is its reap", NOBODY, "reap", {}, 404))
        for hosted in sessions:
            found += await self._of(hosted)
        found.append(await self._streams(sessions))
        if sacrifice is not None:
            found += await self._ends(sacrifice)
        return found

    async def _of(self, hosted: Hosted) -> list[Finding]:
        who = hosted.id
        shape = [] if hosted.resolution else ["no resolution: judged as record"]
        shape += (
            [] if hosted.last_activity_at is not None else ["no last_activity_at: only events show progress"]
        )
        found = [Finding(f"{who} tells what it can", ok=not shape, detail="; ".join(shape) or "all of it")]
        wrong = {"turn": NO_TURN, "reason": "conformance"}
        if not hosted.can.interrupt:
            found.append(
                await self._expects(f"{who} cannot be interrupted: 501", who, "interrupt", wrong, 501)
            )
        elif hosted.works:
            found.append(
                await self._expects(f"{who}: a turn that does not run is 409", who, "interrupt", wrong, 409)
            )
        else:
            empty = {"turn": None, "reason": "conformance"}
            found.append(
                await self._expects(f"{who} is idle: an interrupt is harmless", who, "interrupt", empty, 202)
            )
            still = await self._listed(who)
            found.append(
                Finding(f"{who} is still there after it", ok=still is not None, detail="listed again")
            )
        if hosted.works:
            found.append(
                await self._expects(
                    f"{who} is busy: no reap unless forced", who, "reap", {"force": False}, 409
                )
            )
        return found

    async def _ends(self, who: str) -> list[Finding]:
        """End the named session for real, and see that it is so."""
        hosted = await self._listed(who)
        if hosted is None:
            return [Finding(f"end {who}", ok=False, detail="it is not listed")]
        found: list[Finding] = []
        if hosted.turn is not None and hosted.can.interrupt:
            reason = "conformance: the turn is ended"
            order = {"turn": hosted.turn, "reason": reason}
            found.append(await self._expects(f"{who}: its turn is interrupted", who, "interrupt", order, 202))
            after = await self._ended(who, hosted.turn)
            lives = after is not None and after.turn != hosted.turn
            told = (
                after is not None and after.last_verdict is not None and after.last_verdict.reason == reason
            )
            found += [
                Finding(f"{who}: the turn ended, the session lives", ok=lives, detail="listed again"),
                Finding(f"{who}: the reason is handed on", ok=told, detail="listed as its last_verdict"),
            ]
        forced = {"turn": None, "force": True, "reason": "conformance: the session is ended"}
        found.append(await self._expects(f"{who} is reaped", who, "reap", forced, 202))
        found.append(await self._expects(f"{who} is gone: 404", who, "reap", forced, 404))
        return found

    async def _ended(self, who: str, turn: str) -> Hosted | None:
        """The session once its turn has ended: 202 is a promise, so it is given a moment."""
        for _ in range(int(PATIENCE / PAUSE)):
            after = await self._listed(who)
            if after is None or after.turn != turn:
                return after
            await asyncio.sleep(PAUSE)
        return await self._listed(who)

    async def _listed(self, who: str) -> Hosted | None:
        answered = await api.listed(self._settings, self._endpoint)
        return next((h for h in answered.sessions if h.id == who), None)

    async def _expects(
        self, what: str, who: str, action: str, body: Mapping[str, object], status: int
    ) -> Finding:
        url = api.target(self._endpoint, "sessions", who, action)
        told = await api.ordered(self._settings, self._endpoint, url, dict(body))
        return Finding(what, ok=told == status, detail=f"HTTP {told}, expected {status}")

    async def _streams(self, sessions: list[Hosted]) -> Finding:
        """The stream opens; what it says first, if anything, is a session or progress."""
        try:
            async with asyncio.timeout(PATIENCE):
                async for data in streamed(self._settings, self._endpoint):
                    known = event_of(data) is not None
                    return Finding(
                        "events", ok=known, detail="a session object" if known else "an unknown shape"
                    )
        except Unreachable as unreachable:
            return Finding("events", ok=False, detail=str(unreachable))
        except TimeoutError:
            quiet = "it is open and has said nothing"
            return Finding("events", ok=not sessions, detail=quiet)
        return Finding("events", ok=False, detail="the stream ends at once")
