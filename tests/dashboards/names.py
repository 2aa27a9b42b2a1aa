"""Names of metrics in PromQL: what an expression reads, and what the code exports."""

from __future__ import annotations

import re
from typing import Any

import promql_parser
from promql_parser import VectorSelector

from sidecar.telemetry import names as n

FOREIGN = {
    "up": "Prometheus",
    "scrape_duration_seconds": "Prometheus",
    "scrape_samples_scraped": "Prometheus",
    "ALERTS": "Prometheus",
    "kube_pod_status_phase": "kube-state-metrics",
}
"""Metrics that are not ours, and whose they are."""

GRAFANA = {"$__rate_interval": "5m", "$__range": "3h"}


def exported() -> set[str]:
    """Every series name of ours, those of histograms included."""
    found = {metric.name for metric in n.METRICS}
    for metric in n.METRICS:
        if metric.kind == "histogram":
            found |= {f"{metric.name}_{suffix}" for suffix in ("bucket", "sum", "count")}
    return found


def family(name: str) -> str:
    """The metric that a series belongs to."""
    bare = re.sub(r"_(bucket|sum|count)$", "", name)
    return bare if any(m.name == bare and m.kind == "histogram" for m in n.METRICS) else name


def plain(expr: str) -> str:
    """An expression of a dashboard with Grafana's variables filled in as for `All`."""
    for variable, value in GRAFANA.items():
        expr = expr.replace(variable, value)
    return re.sub(r'"\$[a-z]\w*"', '".*"', expr)


def selectors(expr: str) -> list[VectorSelector]:
    """Every selector of an expression; a syntax error raises."""
    found: list[VectorSelector] = []
    todo: list[Any] = [promql_parser.parse(plain(expr))]
    while todo:
        node = todo.pop()
        if isinstance(node, VectorSelector):
            found.append(node)
        else:
            todo += [
                child
                for name in ("expr", "lhs", "rhs", "vector_selector", "param")
                if (child := getattr(node, name, None)) is not None
            ]
            todo += list(getattr(node, "args", ()) or ())
    return found


def metrics(expr: str) -> set[str]:
    """The names that an expression reads."""
    return {name for s in selectors(expr) if (name := s.name) is not None}
