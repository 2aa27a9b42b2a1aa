"""OTLP by the OpenTelemetry SDK: imported only where OTLP is configured.

It turns our records and metric families into the SDK's, and sends them with its exporters, whose
options are the standard `OTEL_EXPORTER_OTLP_*` variables. No global provider is set or read.
"""

from __future__ import annotations

import logging
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from sidecar.telemetry import names as n
from sidecar.telemetry.labels import clean
from sidecar.telemetry.points import metrics_data
from sidecar.telemetry.resource import resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client.metrics_core import Metric as Family

    from sidecar.telemetry.records import Event, Span
    from sidecar.telemetry.targets import Target

_EXPORTERS: Final = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
}
_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_SEVERITIES: Final = {"info": SeverityNumber.INFO, "warn": SeverityNumber.WARN}
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)

COMPLAIN_EVERY: Final = 300.0
"""Seconds between two complaints of an exporter: a dead collector is news once, not every batch."""


class _Seldom(logging.Filter):
    """Lets each logger speak now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.spoke: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether it is time again."""
        now = time.monotonic()
        if now - self.spoke.get(record.name, -COMPLAIN_EVERY) < COMPLAIN_EVERY:
            return False
        self.spoke[record.name] = now
        return True


_seldom: Final = _Seldom()


class Otlp:
    """The sending ends of the three signals, and what they share: resource, scope, sampler."""

    def __init__(self, version: str) -> None:
        self._resource = resource(version)
        self._scope = InstrumentationScope(n.SCOPE, version)
        self._sampler = TracerProvider(resource=self._resource, shutdown_on_exit=False).sampler
        self._started = time.time_ns()
        self._exporters: list[Any] = []
        _seldom.spoke.clear()

    def sampled(self, trace: int) -> bool:
        """Tell whether the trace is one of those to keep (OTEL_TRACES_SAMPLER): by its id, so all of it."""
        verdict = self._sampler.should_sample(None, trace, n.INVOKE_AGENT)
        return verdict.decision is Decision.RECORD_AND_SAMPLE

    def spans(self, target: Target) -> Callable[[Sequence[Span]], bool]:
        """Open the way for spans."""
        exporter = self._open("traces", target)
        return lambda batch: _arrived(exporter.export([self._span(span) for span in batch]))

    def events(self, target: Target) -> Callable[[Sequence[Event]], bool]:
        """Open the way for log events."""
        exporter = self._open("logs", target)
        return lambda batch: _arrived(exporter.export([self._event(event) for event in batch]))

    def metrics(self, target: Target) -> Callable[[Sequence[Family]], bool]:
        """Open the way for metrics."""
        exporter = self._open("metrics", target)

        def send(families: Sequence[Family]) -> bool:
            times = (self._started, time.time_ns())
            return _arrived(exporter.export(metrics_data(families, self._resource, self._scope, times)))

        return send

    def close(self) -> None:
        """Shut the exporters, which ends their retries."""
        for exporter in self._exporters:
            exporter.shutdown()

    def _open(self, signal: str, target: Target) -> Any:  # noqa: ANN401 - two unrelated class trees
        module, name = _EXPORTERS[signal]
        transport = "grpc" if target.protocol == "grpc" else "http"
        made = getattr(import_module(f"opentelemetry.exporter.otlp.proto.{transport}.{module}"), name)
        exporter = made(endpoint=target.endpoint, headers=target.headers, timeout=target.timeout)
        for base in type(exporter).__mro__:
            if base.__module__.startswith("opentelemetry.exporter."):
                logging.getLogger(base.__module__).addFilter(_seldom)
        self._exporters.append(exporter)
        return exporter

    def _span(self, span: Span) -> ReadableSpan:
        code = StatusCode.UNSET if span.error is None else StatusCode.ERROR
        parent = None if span.parent is None else _context(span.trace, span.parent)
        return ReadableSpan(
            name=clean(span.name),
            context=_context(span.trace, span.id),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            links=[Link(_context(link.trace, link.span)) for link in span.links],
            kind=_KINDS[span.kind],
            status=Status(code, (clean(span.reason) or None) if span.error else None),
            start_time=_nanos(span.start),
            end_time=_nanos(span.end),
            instrumentation_scope=self._scope,
        )

    def _event(self, event: Event) -> ReadableLogRecord:
        within = NonRecordingSpan(_context(event.trace, event.span))
        record = LogRecord(
            timestamp=_nanos(event.at),
            context=set_span_in_context(within, Context()),
            severity_number=_SEVERITIES[event.severity],
            severity_text=event.severity.upper(),
            body=event.text or None,
            attributes=event.attributes,
            event_name=event.name,
        )
        return ReadableLogRecord(record, self._resource, self._scope)


def _arrived(result: Any) -> bool:  # noqa: ANN401 - three enums without a common class
    """Read an exporter's result; each signal has an enum of its own."""
    return bool(result.name == "SUCCESS")


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=_SAMPLED)


def _nanos(seconds: float) -> int:
    """Go by microseconds: a float of epoch seconds holds no more."""
    return round(seconds * 1e6) * 1000
