"""Metrics as a scrape sees them: text, and numbers by name and labels."""

from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar.telemetry.metrics import Metrics
from tests.telemetry.world import World

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def told(world: World, *, per_session: bool = False) -> Metrics:
    metrics = Metrics(world, per_session=per_session)
    world.told.append(metrics)
    return metrics


def text(metrics: Metrics) -> str:
    body, content_type = metrics.render("")
    assert content_type.startswith("text/plain")
    return body.decode()


def samples(metrics: Metrics) -> Samples:
    found: Samples = {}
    for family in parse_text(text(metrics)):
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def value(metrics: Metrics, name: str, **wanted: str) -> float | None:
    return samples(metrics).get((name, frozenset({"agent": "claude-code", **wanted}.items())))
