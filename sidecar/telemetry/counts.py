"""Counters and histograms that changes feed: numbers by label values, read whole at a scrape.

The client library's own classes would do, but for three things: series have to exist at 0 before
anything happened, an exemplar's time is the change's and not the call's, and the same numbers go
out over OTLP. Each holds its lock for a few lines: the loop feeds, scrapes read from other threads.
"""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Exemplar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sidecar.telemetry.names import Metric

Labels = tuple[str, ...]


class Trace(Struct, frozen=True):
    """The trace an observation belongs to, and when it was made (epoch seconds)."""

    trace: str
    span: str
    at: float


class Counts:
    """One family of counters."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._values: dict[Labels, float] = {}
        self._lock = Lock()

    def zero(self, keys: Iterable[Labels]) -> None:
        """Make these series exist: a counter that begins at 1 hides its first event from rates."""
        with self._lock:
            for key in keys:
                self._values.setdefault(key, 0.0)

    def add(self, *labels: str, by: float = 1.0) -> None:
        """Count."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0.0) + by

    def values(self) -> dict[Labels, float]:
        """Return the numbers as they are now."""
        with self._lock:
            return dict(self._values)

    def family(self) -> CounterMetricFamily:
        """Return the numbers as a scrape wants them."""
        return counter(self.metric, self.values())


def counter(metric: Metric, values: Mapping[Labels, float]) -> CounterMetricFamily:
    """Make a counter family of numbers by label values."""
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


class Series(Struct):
    """One histogram. `counts` are per bucket, the last one is above all bounds."""

    counts: list[int]
    exemplars: list[Exemplar | None]
    total: float = 0.0


class Spread:
    """One family of histograms."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._series: dict[Labels, Series] = {}
        self._lock = Lock()

    def zero(self, keys: Iterable[Labels]) -> None:
        """Make these series exist."""
        with self._lock:
            for key in keys:
                self._at(key)

    def observe(self, *labels: str, value: float, trace: Trace | None = None) -> None:
        """Take a value down; the newest of each bucket is its example.

        Below zero is zero: stamps of two files may disagree, and a sum must never go back.
        """
        value = max(0.0, value)
        with self._lock:
            series = self._at(labels)
            bucket = bisect_left(self.metric.buckets, value)
            series.counts[bucket] += 1
            series.total += value
            if trace is not None:
                ids = {"trace_id": trace.trace, "span_id": trace.span}
                series.exemplars[bucket] = Exemplar(ids, value, trace.at)

    def family(self) -> HistogramMetricFamily:
        """Return the histograms as a scrape wants them: cumulative."""
        family = HistogramMetricFamily(self.metric.name, self.metric.help, labels=self.metric.labels)
        bounds = [*(str(float(bound)) for bound in self.metric.buckets), "+Inf"]
        with self._lock:
            for labels, series in sorted(self._series.items()):
                family.add_metric(labels, _cumulative(bounds, series), series.total)
        return family

    def _at(self, labels: Labels) -> Series:
        series = self._series.get(labels)
        if series is None:
            buckets = len(self.metric.buckets) + 1
            series = self._series[labels] = Series([0] * buckets, [None] * buckets)
        return series


def _cumulative(bounds: list[str], series: Series) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    rows: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    below = 0
    for bound, count, exemplar in zip(bounds, series.counts, series.exemplars, strict=True):
        below += count
        rows.append((bound, below) if exemplar is None else (bound, below, exemplar))
    return rows
