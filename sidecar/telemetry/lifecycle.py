"""The lifecycle lines: what happened to sessions and turns, one JSON object per line on stdout.

Ids, states and numbers only. Where a collector takes log events, verdicts and acts go there and
not here, unless it does not take them after all: a reason is never lost. All else stays. Nothing
that happens to the stream may reach the loop: a reader that went away or a full disk is counted,
and the next line tries again.

`silence` lines keep a clock of their own, "what did we last say?", beside the session's "what did
the agent last do?", so that speaking of a silence never ends it.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from sidecar import changes as c
from sidecar.clock import iso
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.cadence import Cadence
from sidecar.telemetry.labels import clean, fit
from sidecar.telemetry.lines import LINES, Fields, silence
from sidecar.telemetry.records import Event, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.session import Session, Turn
    from sidecar.telemetry.watched import Watched

log = logging.getLogger("sidecar.telemetry")

SILENT_AFTER: Final = 60.0
SILENT_EVERY: Final = 300.0

_ATTRIBUTES: Final = {
    "turn": n.TURN_ID,
    "parent": n.PARENT,
    "bound": n.BOUND,
    "action": n.ACTION,
    "outcome": n.ACTION_OUTCOME,
    "evidence": n.EVIDENCE,
    "reason": n.REASON,
}
_TROUBLE: Final = frozenset(("failed", "ineffective", "held"))


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take text."""

    def flush(self) -> object:
        """Let it out."""


class Lifecycle:
    """Listens to changes and writes lines."""

    def __init__(
        self,
        watched: Watched,
        stream: Stream,
        *,
        events: Callable[[Event], None] | None = None,
        progress: bool = False,
    ) -> None:
        """`events` takes verdicts and acts instead of the stream; `progress`: turn.progress too."""
        self._watched = watched
        self._stream = stream
        self._events = events
        self._progress = progress
        self._silences: dict[tuple[str, str, str], Cadence] = {}
        self._broken = False
        self._lock = Lock()
        self.lost = 0
        """Lines that could not be written."""

    def __call__(self, session: Session, change: c.Change) -> None:
        """Say what the change is, where it is one of those that are said."""
        describe = LINES.get(type(change))
        if describe is None or (isinstance(change, c.GapClosed) and not self._progress):
            return
        for event, fields, turn in describe(session, change):
            self._say(session, change.at, event, fields, turn)

    def tick(self, now: float) -> float | None:
        """Speak of silences that are due; returns when the next one is."""
        silent = [(s, s.turn) for s in self._watched.sessions() if s.turn is not None]
        known = self._silences
        self._silences = {}
        for session, turn in silent:
            key = (session.agent, session.id, turn.id)
            cadence = self._silences[key] = known.get(key) or Cadence(SILENT_AFTER, SILENT_EVERY)
            began = turn.started_at if session.progress_at is None else session.progress_at
            if now >= cadence.due(began):
                cadence.speak(now)
                self._say(session, now, "silence", silence(session, turn, now), turn)
        return min((x.said + x.step for x in self._silences.values()), default=None)

    def _say(self, session: Session, at: float, event: str, fields: Fields, turn: Turn | None) -> None:
        wall = self._watched.clock.wall(at)
        key = None if turn is None else (session.agent, session.id, turn.id)
        trace, span = (ids.trace_id(*key), ids.span_id(*key)) if key else (0, 0)
        line: Fields = {"at": iso(wall), "event": event, "agent": session.agent}
        line |= {"session": session.id, "parent": session.parent} | fields
        if event in n.EVENTS and key:
            line |= {"trace_id": ids.hex_trace(trace), "span_id": ids.hex_span(span)}
        line = fit(line)
        if event in n.EVENTS and self._events is not None:
            self._events(_event(session, wall, (event, fields, line), (trace, span)))
        else:
            self._write(line)

    def undelivered(self, event: Event) -> None:
        """Write the line of an event that no collector took; from any thread."""
        self._write(event.line)

    def _write(self, line: Fields) -> None:
        with self._lock:
            try:
                self._stream.write(msgspec.json.encode(line).decode() + "\n")
                self._stream.flush()
            except (OSError, ValueError) as error:  # ValueError: the stream was closed
                self.lost += 1
                if not self._broken:
                    log.warning("lifecycle lines cannot be written: %s", type(error).__name__)
                self._broken = True
            else:
                self._broken = False


def _event(session: Session, at: float, told: tuple[str, Fields, Fields], context: tuple[int, int]) -> Event:
    event, fields, line = told
    attributes: dict[str, Value] = {n.AGENT_NAME: session.agent, n.CONVERSATION: session.id}
    for name, value in ({"parent": session.parent} | fields).items():
        if value is not None:
            attributes[_ATTRIBUTES[name]] = value
    trouble = event == "turn.stalled" or fields.get("outcome") in _TROUBLE
    acted = ": ".join(str(fields[word]) for word in ("action", "outcome") if word in fields)
    text = fields.get("reason") or acted or event
    return Event(
        n.EVENTS[event], at, *context, fit(attributes), "warn" if trouble else "info", clean(text), line
    )
