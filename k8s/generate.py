#!/usr/bin/env python3
"""Write what follows from `component/`, `host/`, `shared-pids/`, `dashboards/` and the chart's values.

    python k8s/generate.py [--check]

A CronJob's pod lies one level deeper than a Deployment's, a Kyverno policy says the same of a bare Pod, the
operator wants rules and routes in objects of its own, and Helm a schema of the values: one source each, the
rest is written here whenever one has changed, and a test compares. With --check nothing is written, and a
difference is exit status 1. (Longer than most: this is the one place that knows what follows from what.)
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

K8S = Path(__file__).parent
DASHBOARDS = K8S.parent / "dashboards"
Yaml = dict[str, Any]

LABELS = {"app.kubernetes.io/name": "agent-sidecar"}
CAMEL = re.compile(r"_([a-z])")
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"(.*)"\s*')


def load(path: Path) -> Any:  # noqa: ANN401 - a document of any shape
    """Read one YAML document."""
    return yaml.safe_load(path.read_text("utf-8"))


def pod_of(component: str) -> Yaml:
    """The pod template that a component lays over a workload's."""
    template: Yaml = load(K8S / component / "pod.yaml")["spec"]["template"]
    return template


def cronjob(component: str) -> Yaml:
    """The same for a CronJob."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "any"},
        "spec": {"jobTemplate": {"spec": {"template": pod_of(component)}}},
    }


def prometheusrule() -> Yaml:
    """The rules as the operator's object."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "agent-sidecar", "labels": LABELS},
        "spec": {"groups": load(DASHBOARDS / "rules.yaml")["groups"]},
    }


def alertmanagerconfig() -> Yaml:
    """Routes and inhibitions as the operator's object, whose root route is given by the operator itself."""
    source = load(DASHBOARDS / "alertmanager.yaml")
    (route,) = source["route"]["routes"]
    used = {route["receiver"], *(below["receiver"] for below in route.get("routes", ()))}
    return {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": "agent-sidecar", "labels": LABELS},
        "spec": {
            "route": camel(route),
            "inhibitRules": [
                {
                    "sourceMatch": matchers(rule["source_matchers"]),
                    "targetMatch": matchers(rule["target_matchers"]),
                    "equal": rule["equal"],
                }
                for rule in source["inhibit_rules"]
            ],
            "receivers": [receiver for receiver in source["receivers"] if receiver["name"] in used],
        },
    }


def camel(route: Yaml) -> Yaml:
    """A route in the operator's spelling."""
    spelt: Yaml = {}
    for key, value in route.items():
        told = value
        if key == "matchers":
            told = matchers(value)
        elif key == "routes":
            told = [camel(below) for below in value]
        spelt[CAMEL.sub(lambda match: match[1].upper(), key)] = told
    return spelt


def matchers(texts: list[str]) -> list[Yaml]:
    """Matchers in the operator's spelling."""
    found = []
    for text in texts:
        match = MATCHER.fullmatch(text)
        if match is None:
            raise ValueError(f"alertmanager.yaml: not a matcher: {text}")
        name, kind, value = match.groups()
        found.append({"name": name, "matchType": kind, "value": value})
    return found


def dashboards() -> Yaml:
    """A ConfigMap for each dashboard, labelled as Grafana's sidecar looks for them."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "configMapGenerator": [
            {"name": f"agent-sidecar-dashboard-{path.stem}", "files": [path.name]}
            for path in sorted(DASHBOARDS.glob("*.json"))
        ],
        "generatorOptions": {
            "disableNameSuffixHash": True,
            "labels": LABELS | {"grafana_dashboard": "1"},
        },
    }


# A pipe binds looser than `||`, hence the parentheses.
AGENTS_USER = (
    "{{ (request.object.spec.containers[?name=='agent'].securityContext.runAsUser | [0])"
    " || request.object.spec.securityContext.runAsUser || `10001` }}"
)
NO_HOME: Yaml = {
    "key": "{{ request.object.spec.volumes[?name=='agent-home'] || `[]` | length(@) }}",
    "operator": "Equals",
    "value": 0,
}
SIDECARS = "{{ request.object.spec.initContainers[?name=='agent-sidecar'] || `[]` | length(@) }}"


def policy() -> Yaml:
    """The component as a mutation of every Pod with an agent in the namespaces that are labelled for it."""
    pod = pod_of("component")
    spec = pod["spec"]
    (sidecar,) = spec["initContainers"]
    (agent,) = spec["containers"]
    sidecar["securityContext"]["runAsUser"] = AGENTS_USER
    home, *others = spec["volumes"]
    patch = {
        "metadata": {"labels": pod["metadata"]["labels"]},
        "spec": {
            "+(automountServiceAccountToken)": spec["automountServiceAccountToken"],
            "initContainers": [sidecar],
            "containers": [{"(name)": agent.pop("name"), **agent}],
            "volumes": others,
        },
    }
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {
            "name": "agent-sidecar",
            "labels": LABELS,
            "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"},
        },
        "spec": {
            "background": False,
            "rules": [
                # A home of the pod's own (a StatefulSet's claim) stays: two sources are no valid volume.
                rule("add-a-home", {"spec": {"volumes": [home]}}, NO_HOME),
                rule("add-the-sidecar", patch),
            ],
        },
    }


def rule(name: str, patch: Yaml, *further: Yaml) -> Yaml:
    """A mutation of Pods that have an agent, and no sidecar yet."""
    resources = {
        "kinds": ["Pod"],
        "operations": ["CREATE"],
        "namespaceSelector": {"matchLabels": {"agent-sidecar/inject": "true"}},
    }
    conditions = [
        {"key": "agent", "operator": "AnyIn", "value": "{{ request.object.spec.containers[].name }}"},
        {"key": SIDECARS, "operator": "Equals", "value": 0},
        # The sidecar must not be root, and as anybody else it could not read what root writes.
        {"key": AGENTS_USER, "operator": "NotEquals", "value": 0},
        *further,
    ]
    return {
        "name": name,
        "match": {"any": [{"resources": resources}]},
        "preconditions": {"all": conditions},
        "mutate": {"patchStrategicMerge": patch},
    }


# Values that are handed on as they are: to the sidecar, which checks its own, or to Kubernetes.
FREE = {"annotations", "config", "env", "labels", "livenessProbe", "resources"}
CHOICES: dict[str, list[str | int]] = {
    "endedTurn": ["Count", "FailJob", "Ignore"],
    "hold": ["0", "1", 0, 1],
    "pullPolicy": ["Always", "IfNotPresent", "Never"],
}
TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}


def schema() -> Yaml:
    """What the chart's values may be: those of values.yaml and no others, of the type they have there."""
    top = shape("", load(K8S / "chart" / "values.yaml"))
    top["properties"]["global"] = {"type": "object"}  # Helm's own, of a chart that has this one below it
    return {"$schema": "http://json-schema.org/draft-07/schema#", **top}


def shape(name: str, value: Any) -> Yaml:  # noqa: ANN401 - a value of any shape
    """The schema of one value."""
    if name in CHOICES:
        return {"enum": CHOICES[name]}
    told: Yaml = {"type": TYPES[type(value)]}
    if isinstance(value, dict) and name not in FREE:
        told["additionalProperties"] = False
        told["properties"] = {key: shape(key, below) for key, below in value.items()}
    return told


FROM_COMPONENT = "k8s/component/pod.yaml"


def generated() -> dict[Path, str]:
    """Every file that is written here, and what belongs into it."""
    files: dict[Path, tuple[str, Yaml]] = {
        K8S / name / "cronjob.yaml": (f"k8s/{name}/pod.yaml", cronjob(name))
        for name in ("component", "host", "shared-pids")
    }
    files[K8S / "kyverno" / "policy.yaml"] = (FROM_COMPONENT, policy())
    files[K8S / "monitoring" / "prometheusrule.yaml"] = ("dashboards/rules.yaml", prometheusrule())
    files[K8S / "monitoring" / "alertmanagerconfig.yaml"] = (
        "dashboards/alertmanager.yaml",
        alertmanagerconfig(),
    )
    files[DASHBOARDS / "kustomization.yaml"] = ("the dashboards beside it", dashboards())
    texts = {path: text_of(source, document) for path, (source, document) in files.items()}
    return texts | {K8S / "chart" / "values.schema.json": json.dumps(schema(), indent=2) + "\n"}


def text_of(source: str, document: Yaml) -> str:
    """A document that says where it comes from."""
    body = yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
    return f"# Written by k8s/generate.py from {source}: change that.\n{body}"


def main(arguments: list[str]) -> int:
    """Write, or compare."""
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    if arguments == ["--check"]:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(K8S.parent)} is not what k8s/generate.py writes\n")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(generated()[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
