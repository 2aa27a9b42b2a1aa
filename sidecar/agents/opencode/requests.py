"""Permissions and questions that are listed as pending: those of a turn that was ended stay for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.agents.opencode import records as r
from sidecar.agents.opencode import track as k
from sidecar.agents.opencode.tracks import what

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar import signals as g
    from sidecar.agents.opencode.server import Server
    from sidecar.agents.opencode.track import Track
    from sidecar.agents.opencode.tracks import Tracks


class Requests:
    """Asks one server for them. Keeps nothing."""

    def __init__(self, server: Server, tracks: Tracks) -> None:
        self._server, self._tracks = server, tracks

    async def ask(
        self, directory: str | None, began: float, drain: Callable[[], list[g.Observation]]
    ) -> list[g.Observation]:
        """What of a directory's sessions waits, and what no longer does. Raises SourceDown.

        `drain` decodes what the stream told meanwhile: it is newer than the answers.
        """
        pending: dict[str, tuple[Track, str]] = {}
        for kind in ("permission", "question"):
            found = await self._server.get(r.requests, kind, directory=directory) or []
            for request in found:
                t = self._tracks.get(request.session_id)
                if _current(t, request):
                    pending[request.id] = (t, what(kind, request))
        out, now = drain(), self._tracks.clock.now()
        for request_id, (t, waits) in pending.items():
            if t.turn is not None and t.heard < began:
                out += self._tracks.of(t, k.wait(t, request_id, waits, now))
        for t in list(self._tracks.all.values()):
            if t.shown and t.directory == directory and self._tracks.wanted(t.directory):
                gone = [i for i, (_, at) in t.waits.items() if i not in pending and at < began]
                for request_id in gone:
                    out += self._tracks.of(t, k.answered(t, request_id, now))
        return out


def _current(t: Track, request: r.Request) -> bool:
    """Whether a request was made in the turn that is open; ids of messages and requests grow with time."""
    if t.turn is None:
        return False
    message = request.tool.message_id if request.tool is not None else None
    if message is not None:
        return message in t.messages
    return request.id.partition("_")[2][:12] > t.turn.partition("_")[2][:12]
