"""All of it in one piece: what a sidecar plugs into its watch, its clockwork and its server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct, field

from sidecar.telemetry.export import Origin, export
from sidecar.telemetry.lifecycle import Lifecycle
from sidecar.telemetry.liveness import FIRST, Liveness
from sidecar.telemetry.metrics import Metrics
from sidecar.telemetry.spans import Spans
from sidecar.telemetry.targets import OtlpSettings

if TYPE_CHECKING:
    from sidecar.changes import Change
    from sidecar.session import Session
    from sidecar.telemetry.lifecycle import Stream
    from sidecar.telemetry.records import Event
    from sidecar.telemetry.watched import Watched

log = logging.getLogger("sidecar.telemetry")


class Settings(Struct, frozen=True):
    """What the configuration says of telemetry."""

    otlp: OtlpSettings = field(default_factory=OtlpSettings)
    liveness_after: float = FIRST
    """Seconds of silence before the first liveness span of a turn."""
    per_session: bool = False
    """Series for each session, at most 1,000: costly for a Prometheus that keeps them all."""
    progress_lines: bool = False
    """`turn.progress` lines."""


class Telemetry:
    """A listener that tells everybody here, and never raises: the watch must go on."""

    def __init__(self, watched: Watched, stream: Stream, settings: Settings) -> None:
        """Start it all; raises OtlpError where the environment asks for what is not built."""
        self._metrics = Metrics(watched, per_session=settings.per_session)
        origin = Origin(
            watched.facts().version,
            self._metrics.collect,
            self._metrics.spans,
            self._undelivered,
        )
        self._export = export(settings.otlp, origin)
        events = self._export.event if self._export is not None and self._export.logs else None
        self.lifecycle = Lifecycle(watched, stream, events=events, progress=settings.progress_lines)
        # The line comes first: a reason is written before anything else is done with it.
        self._listeners: list[Lifecycle | Spans | Metrics] = [self.lifecycle, self._metrics]
        self._ticking: list[Lifecycle | Liveness] = [self.lifecycle]
        if self._export is not None and self._export.traces:
            self._metrics.keeps = self._export.keeps
            self._listeners.append(Spans(watched, self._export.span))
            self._ticking.append(Liveness(watched, self._export.span, after=settings.liveness_after))

    def __call__(self, session: Session, change: Change) -> None:
        """Tell of a change."""
        for listener in self._listeners:
            try:
                listener(session, change)
            except Exception:
                log.exception("%s, told of %s", type(listener).__name__, type(change).__name__)

    def tick(self, now: float) -> float | None:
        """Speak of silences that are due; returns when the next one is, None where none is open."""
        due: list[float] = []
        for part in self._ticking:
            try:
                following = part.tick(now)
            except Exception:
                log.exception("%s, at a tick", type(part).__name__)
            else:
                due += [] if following is None else [following]
        return min(due, default=None)

    def _undelivered(self, event: Event) -> None:
        self.lifecycle.undelivered(event)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics' body and content type for an `Accept` header; from any thread."""
        return self._metrics.render(accept)

    def shutdown(self, timeout: float) -> None:
        """Push what is left, within `timeout` seconds."""
        if self._export is not None:
            self._export.shutdown(timeout)
