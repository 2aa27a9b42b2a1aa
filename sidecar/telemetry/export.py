"""Sending: three signals, each by a thread of its own, none of which the loop ever waits for.

The SDK is imported when the first signal is to be sent and not before: a sidecar that is only
scraped stays small. At the end everything gets one last push, within the time it is given.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from sidecar.telemetry.outbox import Outbox, Pace, Worker
from sidecar.telemetry.targets import targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric as Family

    from sidecar.telemetry.counts import Counts
    from sidecar.telemetry.otlp import Otlp
    from sidecar.telemetry.records import Event, Span
    from sidecar.telemetry.targets import OtlpSettings, SignalKind, Target

CLOSING = 0.2
"""Seconds of a shutdown's time kept back for shutting the exporters."""


class Origin(NamedTuple):
    """What exports are made of, and who is told what became of them."""

    version: str
    collect: Callable[[], Sequence[Family]]
    """The families of a scrape."""
    spans: Counts
    lost: Callable[[Event], None]
    """Takes a log event that no collector took, from any thread: it is told nowhere else."""

    def became(self, outcome: str, spans: list[Span]) -> None:
        """Count spans by what became of them."""
        self.spans.add(outcome, by=len(spans))

    def told(self, outcome: str, events: list[Event]) -> None:
        """Hand on what did not arrive."""
        if outcome != "exported":
            for event in events:
                self.lost(event)


def export(settings: OtlpSettings, origin: Origin, environ: Mapping[str, str] = os.environ) -> Export | None:
    """Start sending; None where OTLP is not configured. Raises OtlpError."""
    wanted = targets(settings, environ)
    return Export(wanted, origin, environ) if wanted else None


class Export:
    """The three outlets. Nothing here blocks but `shutdown`, and that by the clock."""

    def __init__(
        self, wanted: Mapping[SignalKind, Target], origin: Origin, environ: Mapping[str, str]
    ) -> None:
        from sidecar.telemetry.otlp import Otlp  # noqa: PLC0415 - imports the SDK: only where used

        self._otlp: Otlp = Otlp(origin.version)
        self._spans: Outbox[Span] | None = None
        self._events: Outbox[Event] | None = None
        self._pulse: Worker | None = None
        if "traces" in wanted:
            send = self._otlp.spans(wanted["traces"])
            self._spans = Outbox("traces", send, pace(environ, "BSP"), origin.became)
        if "logs" in wanted:
            tell = self._otlp.events(wanted["logs"])
            self._events = Outbox("logs", tell, pace(environ, "BLRP"), origin.told)
        if "metrics" in wanted:
            push = self._otlp.metrics(wanted["metrics"])
            every = _number(environ, "OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1000
            self._pulse = Worker("metrics", lambda: push(origin.collect()), every)

    @property
    def traces(self) -> bool:
        """Whether spans are sent."""
        return self._spans is not None

    @property
    def logs(self) -> bool:
        """Whether log events are sent."""
        return self._events is not None

    def keeps(self, trace: int) -> bool:
        """Tell whether the trace's spans are sent."""
        return self._otlp.sampled(trace)

    def span(self, span: Span) -> None:
        """Take a span to be sent, where its trace is sampled."""
        if self._spans is not None and self.keeps(span.trace):
            self._spans.put(span)

    def event(self, event: Event) -> None:
        """Take a log event to be sent."""
        if self._events is not None:
            self._events.put(event)

    def shutdown(self, timeout: float) -> None:
        """Push everything a last time and end, within `timeout` seconds whatever the collector does."""
        deadline = time.monotonic() + max(0.0, timeout - CLOSING)
        boxes = [box for box in (self._spans, self._events) if box is not None]
        workers = [box.worker for box in boxes] + ([self._pulse] if self._pulse else [])
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        for box in boxes:
            box.abandon()
        self._otlp.close()


def pace(environ: Mapping[str, str], family: str) -> Pace:
    """Read a queue's size and pace from the standard variables of the batch processors."""
    queue = max(1, _number(environ, f"OTEL_{family}_MAX_QUEUE_SIZE", 2048))
    batch = max(1, _number(environ, f"OTEL_{family}_MAX_EXPORT_BATCH_SIZE", 512))
    every = max(1, _number(environ, f"OTEL_{family}_SCHEDULE_DELAY", 5000 if family == "BSP" else 1000))
    return Pace(queue, min(batch, queue), every / 1000)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(environ.get(name) or default)
    except ValueError:
        return default
