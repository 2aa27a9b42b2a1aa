"""The families of a scrape as the SDK's metric points: the same numbers, so the same values.

Always cumulative: counters and histograms here are totals since the sidecar started, which is also
what their last push before the end of a short job has to be.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from sidecar.telemetry import names as n

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Exemplar as Example
    from prometheus_client.samples import Sample

Times = tuple[int, int]
"""Nanoseconds: when the totals began, and now."""

_TABLE: Final = {metric.name.removesuffix("_total"): metric for metric in n.METRICS}
_TOTALS: Final = AggregationTemporality.CUMULATIVE


def metrics_data(
    families: Sequence[Family], resource: Resource, scope: InstrumentationScope, times: Times
) -> MetricsData:
    """Make one export of everything a scrape would show now."""
    metrics = [_metric(family, _TABLE[family.name], times) for family in families]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _metric(family: Family, told: n.Metric, times: Times) -> Metric:
    data: Gauge | Sum | Histogram
    if told.kind == "histogram":
        data = Histogram(_histograms(family, told, times), _TOTALS)
    else:
        points = [NumberDataPoint(s.labels, *times, float(s.value)) for s in family.samples]
        data = Gauge(points) if told.kind == "gauge" else Sum(points, _TOTALS, is_monotonic=True)
    return Metric(told.name, told.help, told.unit, data)


def _histograms(family: Family, told: n.Metric, times: Times) -> list[HistogramDataPoint]:
    """Undo what the text format does: buckets are cumulative there and spread over samples."""
    groups: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        groups.setdefault(tuple(labels.items()), []).append(sample)
    return [_histogram(dict(labels), rows, told, times) for labels, rows in groups.items()]


def _histogram(
    labels: dict[str, str], rows: list[Sample], told: n.Metric, times: Times
) -> HistogramDataPoint:
    buckets = [row for row in rows if row.name.endswith("_bucket")]
    below = [0, *(int(row.value) for row in buckets)]
    total = next(row.value for row in rows if row.name.endswith("_sum"))
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=times[0],
        time_unix_nano=times[1],
        count=below[-1],
        sum=total,
        bucket_counts=[upper - lower for lower, upper in pairwise(below)],
        explicit_bounds=told.buckets,
        min=None,  # type: ignore[arg-type] # optional on the wire; the text format knows none
        max=None,  # type: ignore[arg-type]
        exemplars=[_exemplar(row.exemplar) for row in buckets if row.exemplar is not None],
    )


def _exemplar(example: Example) -> Exemplar:
    trace, span = int(example.labels["trace_id"], 16), int(example.labels["span_id"], 16)
    at = float(example.timestamp or 0.0)
    return Exemplar({}, float(example.value), round(at * 1e6) * 1000, span, trace)
