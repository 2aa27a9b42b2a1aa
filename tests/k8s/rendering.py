"""Renders the manifests with the tools that users have, and knows the pods in them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
TOOLS = ROOT / ".e2e" / "kube"
Json = dict[str, Any]

WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job"}
EXAMPLES = {
    "claude-code-job": "claudeCodeJob",
    "opencode-gateway": "opencodeGateway",
    "kbc-box": "kbcBox",
    "agent-sandbox": "agentSandbox",
}


def run(tool: str, *arguments: str) -> str:
    binary = TOOLS / "bin" / tool
    assert binary.exists(), "kubectl and helm are missing: tests/k8s/install.sh brings them"
    env = {"PATH": os.defpath, "HOME": str(TOOLS)}  # nothing of a cluster or a chart museum of the caller's
    done = subprocess.run([binary, *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def kustomized(folder: str | Path) -> str:
    return run("kubectl", "kustomize", str(K8S / folder))


def kustomize(folder: str | Path) -> list[Json]:
    return objects(kustomized(folder))


def helm(*values: str | Path) -> list[Json]:
    """What the chart renders with these values, each a setting or a file of them."""
    chosen = [
        part for value in values for part in ("--values" if isinstance(value, Path) else "--set", str(value))
    ]
    return objects(run("helm", "template", "any", str(K8S / "chart"), "--kube-version", "1.29.0", *chosen))


class Loader(yaml.SafeLoader):
    """Reads `=` as the text it is to every other reader of YAML."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        first: found for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items() if first != "="
    }


def objects(text: str) -> list[Json]:
    return [document for document in yaml.load_all(text, Loader) if document]


def name_of(document: Json) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


def by_name(documents: list[Json]) -> dict[str, Json]:
    named = {name_of(document): comparable(document) for document in documents}
    assert len(named) == len(documents), "no object is there twice"
    return named


def comparable(document: Json) -> Json:
    """An object without what order and layout say nothing: embedded documents parsed, named lists sorted."""
    if document["kind"] == "ConfigMap":
        data = {key: embedded(key, value) for key, value in document["data"].items()}
        return document | {"data": data}
    sorted_: Json = ordered(document)
    return sorted_


def embedded(name: str, text: str) -> Any:
    if name.endswith(".json"):
        return json.loads(text)
    return yaml.safe_load(text) if name.endswith(".yaml") else text.strip()


def ordered(value: Any, key: str = "") -> Any:
    """Lists whose order means nothing, by the name of their entries; init containers run in theirs."""
    if isinstance(value, dict):
        return {name: ordered(part, name) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    parts = [ordered(part) for part in value]
    by = {"env": "name", "volumes": "name", "volumeMounts": "mountPath"}.get(key)
    return sorted(parts, key=lambda part: str(part[by])) if by else parts


def pods(document: Json) -> Iterator[Json]:
    """The pod templates of a workload."""
    spec = document.get("spec", {})
    if document["kind"] in WORKLOADS:
        yield spec["template"]
    elif document["kind"] == "CronJob":
        yield spec["jobTemplate"]["spec"]["template"]
    elif document["kind"] == "Sandbox":
        yield spec["podTemplate"]
