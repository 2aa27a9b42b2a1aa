"""Ending a turn and putting a session away, by OpenCode's own API.

An abort is always answered with success, for a session that rests, is gone or belongs to another
process too: it is a promise, and its effect is seen by whoever watches. A request that was pending
stays listed after its turn is gone until somebody answers it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from sidecar.agent import Answer, Order, SourceDown
from sidecar.agents.opencode import records as r

if TYPE_CHECKING:
    from sidecar.agents.opencode.server import Server
    from sidecar.agents.opencode.tracks import Tracks

DONE: Final = (200, 204)
MISSING: Final = 404
FAMILY: Final = 64
"""Subagents of one turn that are ended with it, however deep."""

PAUSE: Final = 0.2
PATIENCE: Final = 6.0
"""Seconds until a session has to rest after its abort: within the time that one call has."""


class Acts:
    """Carries orders out."""

    def __init__(self, server: Server, tracks: Tracks) -> None:
        self._server = server
        self._tracks = tracks

    async def interrupt(self, order: Order) -> Answer:
        """End the turn and its subagents'."""
        t = self._tracks.get(order.session)
        if t.guarded or (order.turn is not None and t.turn != order.turn):
            return Answer("superseded", "the turn is over, or being ended by the agent's own guard")
        try:
            return await self._abort(order.session, t.directory)
        except SourceDown as down:
            return Answer("failed", str(down))

    async def reap(self, order: Order) -> Answer:
        """Put the session away: at rest, nothing pending, then archived (or deleted, where configured)."""
        t = self._tracks.get(order.session)
        try:
            family = [order.session, *await self._children(order.session, t.directory)]
            if await self._busy(family, t.directory):
                if not order.force:
                    return Answer("superseded", "a turn runs there")
                aborted = await self._abort(order.session, t.directory)
                if aborted.result != "accepted" or not await self._rests(family, t.directory):
                    return Answer("failed", aborted.detail or "it does not come to rest")
            await self._reject(family, t.directory)
            status = await self._put_away(order.session, t.directory)
        except SourceDown as down:
            return Answer("failed", str(down))
        return Answer("accepted" if status in (*DONE, MISSING) else "failed", f"HTTP {status}")

    async def _abort(self, session: str, directory: str | None) -> Answer:
        """Abort the session, then whichever of its subagents goes on."""
        status = await self._server.order("POST", "session", session, "abort", directory=directory)
        if status not in DONE:
            return Answer("failed", f"HTTP {status}")
        children = await self._children(session, directory)
        for child in await self._busy(children, directory) if children else ():
            await self._server.order("POST", "session", child, "abort", directory=directory)
        return Answer("accepted")

    async def _children(self, session: str, directory: str | None) -> list[str]:
        """Its subagents, theirs too; those of a deleted session are known from the stream alone."""
        found: dict[str, None] = {}
        parents = [session]
        while parents and len(found) < FAMILY:
            parent = parents.pop()
            asked = await self._server.get(r.infos, "session", parent, "children", directory=directory)
            names = {info.id for info in asked or ()} | self._tracks.children(parent)
            new = [name for name in sorted(names) if name not in found and name != session]
            found |= dict.fromkeys(new)
            parents += new
        return list(found)

    async def _busy(self, family: list[str], directory: str | None) -> list[str]:
        words = await self._server.get(r.words, "session", "status", directory=directory) or {}
        return [name for name in family if name in words and words[name].type != "idle"]

    async def _rests(self, family: list[str], directory: str | None) -> bool:
        for _ in range(int(PATIENCE / PAUSE)):
            if not await self._busy(family, directory):
                return True
            await asyncio.sleep(PAUSE)
        return False

    async def _reject(self, family: list[str], directory: str | None) -> None:
        """Answer what nobody waits for any more; who asked is gone."""
        for kind in ("permission", "question"):
            pending = await self._server.get(r.requests, kind, directory=directory) or []
            for request in pending:
                if request.session_id not in family:
                    continue
                if kind == "permission":
                    path, body = (kind, request.id, "reply"), {"reply": "reject"}
                else:
                    path, body = (kind, request.id, "reject"), {}
                await self._server.order("POST", *path, directory=directory, body=body)

    async def _put_away(self, session: str, directory: str | None) -> int:
        if self._server.settings.delete:
            return await self._server.order("DELETE", "session", session, directory=directory)
        archived = {"time": {"archived": int(time.time() * 1000)}}
        return await self._server.order("PATCH", "session", session, directory=directory, body=archived)
