"""The chart's values: each changes what it names, everything the sidecar can be told is one, and no other is taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sidecar.agents.registry import KINDS
from sidecar.config import load
from sidecar.config.describe import describe_settings
from tests.k8s import rendering as r

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.k8s.rendering import Json

EXAMPLES = [f"examples.{name}.enabled=true" for name in r.EXAMPLES.values()]


def leaves(value: Json, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that can be set, by its path; lists and what is empty count as one."""
    for key, below in value.items():
        if isinstance(below, dict) and below:
            yield from leaves(below, f"{path}{key}.")
        else:
            yield path + key, below


VALUES = dict(leaves(yaml.safe_load((r.K8S / "chart" / "values.yaml").read_text())))
# Where another of the same type would not do, or a second one has to go with it.
OTHERS: dict[str, list[str]] = {
    "config.scrape_listen": ["config.scrape_listen=127.0.0.1:9476"],
    "examples.claudeCodeJob.endedTurn": ["examples.claudeCodeJob.endedTurn=FailJob"],
    "examples.kbcBox.config.scrape_listen": ["examples.kbcBox.config.scrape_listen=127.0.0.1:9476"],
    "examples.opencodeGateway.config.scrape_listen": [
        "examples.opencodeGateway.config.scrape_listen=127.0.0.1:9476"
    ],
    "hold": ["hold=1"],
    "image.pullPolicy": ["image.pullPolicy=Always"],
    "sidecar.port": [
        "sidecar.port=9999",
        *(
            f"{config}.scrape_listen=0.0.0.0:9999"
            for config in ("config", "examples.kbcBox.config", "examples.opencodeGateway.config")
        ),
    ],
}


def another(path: str, value: object) -> list[str]:
    """The same value told otherwise."""
    if path in OTHERS:
        return OTHERS[path]
    if f"{path}=true" in EXAMPLES:
        return [f"{path}=false"]
    if isinstance(value, bool):
        return [f"{path}={json.dumps(not value)}"]
    if isinstance(value, int):
        return [f"{path}={value + 1}"]
    if isinstance(value, list):
        return [f"{path}[0].name=other"] if not value or isinstance(value[0], dict) else [f"{path}[0]=4711"]
    return [f"{path}.other=x"] if isinstance(value, dict) else [f"{path}=other"]


@pytest.fixture(scope="module")
def unchanged() -> list[Json]:
    return r.helm(*EXAMPLES)


@pytest.mark.parametrize("path", VALUES)
def test_every_value_changes_what_is_rendered(path: str, unchanged: list[Json]) -> None:
    assert r.helm(*EXAMPLES, *another(path, VALUES[path])) != unchanged


def test_values_land_where_they_are_meant_to() -> None:
    documents = r.by_name(
        r.helm(
            *EXAMPLES,
            "image.digest=sha256:feed",
            "config.mode=enforce",
            "hold=1",
            "agent.user=4711",
            "shareProcessNamespace=true",
            "podMonitor.labels.release=prometheus",
            "prometheusRule.enabled=false",
            "dashboards.enabled=false",
            "networkPolicy.monitoringNamespace=observability",
            "examples.claudeCodeJob.endedTurn=FailJob",
        )
    )
    (pod,) = r.pods(documents["Job/claude-code"])
    assert {c["image"] for c in pod["spec"]["initContainers"]} == {"agent-sidecar@sha256:feed"}
    assert pod["spec"]["securityContext"]["runAsUser"] == 4711
    assert pod["spec"]["shareProcessNamespace"] is True
    assert documents["ConfigMap/agent-sidecar"]["data"]["config.yaml"]["mode"] == "enforce"
    assert documents["ConfigMap/agent-sidecar-hold"]["data"] == {"hold": "1"}
    assert documents["PodMonitor/agent-sidecar"]["metadata"]["labels"]["release"] == "prometheus"
    assert "PrometheusRule/agent-sidecar" not in documents
    assert not [name for name in documents if "dashboard" in name]
    assert "observability" in json.dumps(documents["NetworkPolicy/agent-sidecar"])
    rules = documents["Job/claude-code"]["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["action"] == "FailJob"


def test_numbers_stay_whole(tmp_path: Path) -> None:
    """Helm reads those of a file as floating ones: an OpenShift namespace's users would be 1.00066e+09."""
    path = tmp_path / "values.yaml"
    path.write_text(
        """
agent: {user: 1000660000, group: 1000660000}
examples: {claudeCodeJob: {enabled: true, activeDeadlineSeconds: 31536000}, agentSandbox: {enabled: true}}
config: {agents: [{kind: claude-code, config_dir: /agent/.claude, line_cap: 1073741824}], bounds: {turn: off}}
"""
    )
    documents = r.by_name(r.helm(path))
    (pod,) = r.pods(documents["Job/claude-code"])
    assert pod["spec"]["securityContext"]["runAsUser"] == 1000660000
    assert pod["spec"]["securityContext"]["runAsGroup"] == 1000660000
    assert documents["Job/claude-code"]["spec"]["activeDeadlineSeconds"] == 31536000
    (sandbox,) = r.pods(documents["Sandbox/claude-code"])
    assert sandbox["spec"]["securityContext"]["fsGroup"] == 1000660000
    config = documents["ConfigMap/agent-sidecar"]["data"]["config.yaml"]
    assert config["agents"][0]["line_cap"] == 1073741824
    assert load(yaml.safe_dump(config), {"HOME": "/"}, KINDS).agents


def settings() -> Json:
    """A configuration that has every setting there is, whether or not they go together."""
    whole: Json = {}
    agents: dict[str, Json] = {}
    for row in describe_settings(KINDS):
        place, path = whole, row.path
        if path.startswith("agents["):
            kind, _, path = path.removeprefix("agents[").partition("].")
            place = agents.setdefault(kind or "any", {})
        *parents, last = path.replace("[", ".").replace("]", "").split(".")
        for parent in parents:
            if not isinstance(place.get(parent), dict):
                place[parent] = {}
            place = place[parent]
        place[last] = yaml.safe_load(row.default) if row.type == "number" else f"{row.path}: {row.default}"
    return whole | {"scrape_listen": "0.0.0.0:9476", "agents": list(agents.values())}


def test_every_setting_of_the_sidecar_can_be_a_value(tmp_path: Path) -> None:
    wanted = settings()
    assert len(list(leaves(wanted))) > 30
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump({"config": wanted}))
    (told,) = (o for o in r.helm(path) if r.name_of(o) == "ConfigMap/agent-sidecar")
    assert yaml.safe_load(told["data"]["config.yaml"]) == wanted


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("exmaples.claudeCodeJob.enabled=true", "exmaples"),
        ("sidecar.resource.limits.cpu=1", "resource"),
        ("podMonitor.enabled=yes", "podMonitor"),
        ("examples.claudeCodeJob.endedTurn=Fail", "FailJob"),
        ("sidecar.port=9999", "sidecar.port, 9999"),
        ("config.scrape_listen=off", "sidecar.port, 9476"),
    ],
)
def test_a_wrong_value_is_refused_and_named(value: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        r.helm(value)
