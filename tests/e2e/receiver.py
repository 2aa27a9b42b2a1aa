"""The receiving end of OTLP as a test wants to read it: what a real sidecar really put on the wire.

The servers are the telemetry tests' own, which decode with the protocol's published definitions; here the
messages become plain values, so that a test compares numbers and names and no protobuf.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.e2e.process import until
from tests.telemetry.collector import Received, over_grpc, over_http, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS = {"http": over_http, "grpc": over_grpc}
ERROR = 2  # STATUS_CODE_ERROR


class Span(NamedTuple):
    """A span as it arrived: ids as hexadecimal digits, times in nanoseconds since the epoch."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: dict[str, Any]
    failed: bool
    reason: str


class Event(NamedTuple):
    """A log event in its trace."""

    name: str
    trace: str
    span: str
    attributes: dict[str, Any]
    severity: str
    body: str
    at: int
    resource: dict[str, Any]


class Receiver:
    """A collector that a sidecar sends to."""

    def __init__(self, received: Received, protocol: str) -> None:
        self._received = received
        self.settings = {"endpoint": received.url, "protocol": protocol}
        """The sidecar's `telemetry.otlp`."""

    def spans(self, name: str = "") -> list[Span]:
        """What arrived so far under names that begin so, in the order of arrival."""
        return [_span(span) for span in self._received.spans if span.name.startswith(name)]

    def events(self, name: str = "") -> list[Event]:
        scopes = [(r, s) for r, s in self._received.scopes if hasattr(s, "log_records")]
        logs = [(resource, log) for resource, scope in scopes for log in scope.log_records]
        return [_event(log, resource) for resource, log in logs if log.event_name.startswith(name)]

    def span(self, name: str) -> Span:
        """Wait for the first span of that name."""
        return until(lambda: self.spans(name), f"a span {name}")[0]

    @property
    def pushes(self) -> int:
        """How often metrics came."""
        return len(self._received.pushes)

    def value(self, metric: str, **labels: str) -> float:
        """A series' value in the newest push; it has to be there."""
        data = self._received.pushes[-1][metric]
        points = getattr(data, data.WhichOneof("data")).data_points
        (found,) = [p for p in points if plain(p.attributes) == labels]
        return float(getattr(found, found.WhichOneof("value")))


@contextmanager
def receiving(protocol: str) -> Iterator[Receiver]:
    """Listen for OTLP over `http` or `grpc`."""
    with SERVERS[protocol]() as received:
        yield Receiver(received, protocol)


def _span(span: Any) -> Span:
    return Span(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        plain(span.attributes),
        span.status.code == ERROR,
        span.status.message,
    )


def _event(log: Any, resource: dict[str, Any]) -> Event:
    ids = log.trace_id.hex(), log.span_id.hex()
    text = log.body.string_value
    return Event(
        log.event_name,
        *ids,
        plain(log.attributes),
        log.severity_text,
        text,
        log.time_unix_nano,
        resource,
    )
