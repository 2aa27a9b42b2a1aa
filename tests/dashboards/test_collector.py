"""The collector's recipe: whole in itself, and no sampler that remembers in the way of a sidecar's traces."""

from pathlib import Path
from typing import Any

import yaml

from sidecar.telemetry import names as n

RECIPE: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "dashboards/collector.yaml").read_text())
PIPELINES: dict[str, dict[str, list[str]]] = RECIPE["service"]["pipelines"]


def test_every_component_is_used_and_every_used_one_is_there() -> None:
    ends = {*RECIPE["receivers"], *RECIPE["connectors"]}, {*RECIPE["exporters"], *RECIPE["connectors"]}
    assert {name for line in PIPELINES.values() for name in line["receivers"]} == ends[0]
    assert {name for line in PIPELINES.values() for name in line["exporters"]} == ends[1]
    assert {name for line in PIPELINES.values() for name in line["processors"]} == {*RECIPE["processors"]}


def test_a_sidecars_traces_go_around_the_tail_sampler() -> None:
    routing = RECIPE["connectors"]["routing"]
    (row,) = routing["table"]
    assert (row["context"], row["condition"]) == ("resource", f'attributes["service.name"] == "{n.SCOPE}"')
    for pipeline in (*row["pipelines"], *routing["default_pipelines"]):
        assert PIPELINES[pipeline]["receivers"] == ["routing"]
    (ours,) = row["pipelines"]
    assert "tail_sampling" not in PIPELINES[ours]["processors"]
    assert RECIPE["processors"]["probabilistic_sampler"]["mode"] == "proportional"


def test_the_decisions_outlive_the_spans() -> None:
    sampler = RECIPE["processors"]["tail_sampling"]
    assert min(sampler["decision_cache"].values()) >= 10 * sampler["num_traces"]
