"""A turn that hangs is visible in any backend while it hangs; a turn that works costs nothing.

The root of a trace is exported at its end, which is too late to see that there is none. So while a
turn is open and silent, spans are exported as children of the root that will come: the first after
a minute of silence, then at doubling intervals, each covering the time since the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.policy import bound
from sidecar.telemetry import names as n
from sidecar.telemetry.cadence import Cadence
from sidecar.telemetry.parts import Part, child

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.session import Session, Turn
    from sidecar.telemetry.records import Span, Value
    from sidecar.telemetry.watched import Watched

FIRST: Final = 60.0
MOST: Final = 600.0


class Liveness:
    """Sends a span now and then for every open turn that is silent."""

    def __init__(self, watched: Watched, send: Callable[[Span], None], *, after: float = FIRST) -> None:
        """`after`: seconds of silence before the first."""
        self._watched = watched
        self._send = send
        self._after = after
        self._cadences: dict[tuple[str, str, str], Cadence] = {}

    def tick(self, now: float) -> float | None:
        """Send what is due; returns when the next one is, None where no turn is open."""
        open_turns = [(s, s.turn) for s in self._watched.sessions() if s.turn is not None]
        known = self._cadences
        self._cadences = {}
        for session, turn in open_turns:
            key = (session.agent, session.id, turn.id)
            cadence = known.get(key) or Cadence(self._after, max(self._after, MOST))
            self._cadences[key] = cadence
            began = turn.started_at if session.progress_at is None else session.progress_at
            if now >= cadence.due(began):
                self._send(self._span(session, turn, cadence.speak(now), now))
        return min((c.said + c.step for c in self._cadences.values()), default=None)

    def _span(self, session: Session, turn: Turn, since: float, now: float) -> Span:
        attributes: dict[str, Value] = {
            n.TURN_ID: turn.id,
            n.PHASE: session.phase,
            n.SILENT_FOR: round(session.silence(now), 3),
        }
        if session.status is not None:
            attributes[n.STATUS] = session.status.word
        nearest = bound(session, self._watched.rules(session))
        if nearest is not None:
            attributes |= {n.BOUND: nearest.name, n.REMAINING: round(nearest.remaining(now), 3)}
        # A restart covers other stretches than the run before it, and must not repeat its ids.
        part = ("liveness", str(round(self._watched.clock.wall(now) * 1000)))
        return child(self._watched, session, turn, part, Part(n.LIVENESS, since, now, attributes))
