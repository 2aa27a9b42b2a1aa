"""What is in `k8s/`: the same from both tools, valid everywhere, and no more than it needs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from sidecar.agents.registry import KINDS
from sidecar.config import load
from tests.k8s import rendering as r
from tests.k8s.restricted import violations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tests.k8s.rendering import Json

VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
FOLDERS = ["core", "monitoring", "base", "kyverno", *(f"examples/{name}" for name in r.EXAMPLES)]
OPERATORS = {"PodMonitor", "PrometheusRule", "AlertmanagerConfig", "ClusterPolicy"}
SANDBOX = {
    "podTemplate",
    "volumeClaimTemplates",
    "operatingMode",
    "shutdownTime",
    "shutdownPolicy",
    "service",
}


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """`k8s/generate.py`, which is a script and no part of the package."""
    spec = importlib.util.spec_from_file_location("generate", r.K8S / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def everything() -> Iterator[tuple[str, Json]]:
    """Every object that either tool renders."""
    for folder in FOLDERS:
        for document in r.kustomize(folder):
            yield folder, document
    for document in r.helm(*(f"examples.{name}.enabled=true" for name in r.EXAMPLES.values())):
        yield "chart", document
    for path in sorted((Path(__file__).parent / "golden").glob("*.after.yaml")):
        for document in r.objects(path.read_text()):
            yield path.name, document


@pytest.mark.parametrize("example", [None, *r.EXAMPLES])
def test_kustomize_and_helm_render_the_same_objects(example: str | None) -> None:
    chosen = [f"examples.{r.EXAMPLES[example]}.enabled=true"] if example else []
    wanted = r.kustomize("base") + (r.kustomize(f"examples/{example}") if example else [])
    rendered, wanted_ = r.by_name(r.helm(*chosen)), r.by_name(wanted)
    assert rendered.keys() == wanted_.keys()
    for name, document in wanted_.items():
        assert rendered[name] == document, name


def test_what_is_written_from_other_files_is_what_they_say(generate: ModuleType) -> None:
    assert generate.main(["--check"]) == 0


def test_the_rules_and_dashboards_are_those_of_the_dashboards_folder() -> None:
    base = r.by_name(r.kustomize("base"))
    rules = yaml.safe_load((r.ROOT / "dashboards" / "rules.yaml").read_text())
    assert base["PrometheusRule/agent-sidecar"]["spec"] == rules
    boards = sorted((r.ROOT / "dashboards").glob("*.json"))
    assert boards
    for path in boards:
        board = base[f"ConfigMap/agent-sidecar-dashboard-{path.stem}"]
        assert board["data"] == {path.name: json.loads(path.read_text())}


def case(name: str, document: Json) -> Json:
    """What to validate it with. A Sandbox is its pod, and no field that its kind has not."""
    about: Json = {"name": f"{name} {r.name_of(document)}", "object": document, "versions": VERSIONS}
    if document["kind"] in OPERATORS:
        schema = str(r.TOOLS / "schemas" / f"{document['kind']}.json")
        return {"name": about["name"], "object": document, "schema": schema}
    if document["kind"] == "Sandbox":
        assert document["spec"].keys() <= SANDBOX
        pod = document["spec"]["podTemplate"]
        assert pod["metadata"].keys() <= {"labels", "annotations"}
        metadata = pod["metadata"] | {"name": "any"}
        return about | {"object": {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}}
    return about


def wrong(cases: list[Json]) -> list[str]:
    python = r.TOOLS / "venv" / "bin" / "python"
    validator = Path(__file__).with_name("validate.py")
    told = subprocess.run(
        [python, validator], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(told.stdout)
    return found


def test_every_object_is_valid_in_every_version_of_kubernetes_and_for_every_operator() -> None:
    cases = [case(name, document) for name, document in everything()]
    assert {case["object"]["kind"] for case in cases} >= OPERATORS
    assert len(cases) > 40
    assert wrong(cases) == []


@pytest.mark.parametrize("name", ["PodMonitor/agent-sidecar", "NetworkPolicy/agent-sidecar"])
def test_a_misspelt_field_is_seen(name: str) -> None:
    (document,) = (o for o in r.kustomize("base") if r.name_of(o) == name)
    assert wrong([case("base", document)]) == []
    assert wrong([case("base", document | {"spec": document["spec"] | {"podSelectr": {}}})])


def test_every_pod_is_restricted() -> None:
    seen = 0
    for folder, document in everything():
        for pod in r.pods(document):
            seen += 1
            assert list(violations(pod["spec"])) == [], (folder, r.name_of(document))
            assert pod["spec"]["automountServiceAccountToken"] is False
    assert seen > len(r.EXAMPLES)


def test_every_sidecar_is_native_reads_only_and_runs_as_its_agent() -> None:
    for _, document in everything():
        for pod in r.pods(document):
            spec = pod["spec"]
            (sidecar,) = (c for c in spec["initContainers"] if c["name"] == "agent-sidecar")
            (agent,) = (c for c in spec["containers"] if c["name"] == "agent")
            assert sidecar["restartPolicy"] == "Always"
            assert not {"startupProbe", "readinessProbe", "lifecycle"} & sidecar.keys()
            added = [c for c in spec["initContainers"] if c["name"].startswith("agent-")]
            assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in added), "its root is read-only"
            written = {m["name"] for m in sidecar["volumeMounts"] if not m.get("readOnly")}
            assert written == {"agent-sidecar-state"}
            assert "runAsUser" not in sidecar["securityContext"] | agent["securityContext"]
            assert spec["securityContext"]["runAsUser"] == 10001
            sizes = {v["name"]: v.get("emptyDir", {}).get("sizeLimit") for v in spec["volumes"]}
            assert sizes["agent-control"]
            assert sizes["agent-sidecar-state"]


def test_nothing_of_ours_limits_what_the_agent_may_write() -> None:
    """A kubelet adds up the limits of ephemeral storage that there are, and evicts a pod that is above the sum."""
    for folder, document in everything():
        for pod in r.pods(document):
            for container in pod["spec"]["initContainers"]:
                if container["name"].startswith("agent-"):
                    assert "ephemeral-storage" not in container["resources"]["limits"], folder
                    assert container["resources"]["requests"]["ephemeral-storage"]


def test_the_sandbox_has_the_components_sidecar_and_host() -> None:
    (sandbox,) = r.kustomize("examples/agent-sandbox")
    (job,) = (o for o in r.kustomize("examples/claude-code-job") if o["kind"] == "Job")
    (ours,), (theirs,) = r.pods(sandbox), r.pods(job)
    assert r.ordered(ours["spec"]["initContainers"]) == r.ordered(theirs["spec"]["initContainers"])


def test_every_configuration_is_one_that_the_sidecar_takes() -> None:
    seen = []
    for _, document in everything():
        text = document.get("data", {}).get("config.yaml") if document["kind"] == "ConfigMap" else None
        if text is not None:
            config = load(text, {"HOME": "/"}, KINDS)
            assert config.settings.mode == "observe", "nothing is ended before somebody says so"
            assert config.settings.scrape_listen == "0.0.0.0:9476"
            watches = [a["watch"] for a in yaml.safe_load(text)["agents"] if a["kind"] == "claude-code"]
            assert set(watches) <= {"poll"}, "inotify instances are a node's"
            seen.append(document["metadata"]["name"])
    assert {"agent-sidecar", "opencode-gateway-sidecar", "kbc-box-sidecar"} <= set(seen)


def test_one_version_is_spoken_of_everywhere() -> None:
    version = tomllib.loads((r.ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((r.K8S / "chart" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    texts = [
        path.read_text()
        for path in (r.ROOT / "README.md", r.K8S / "README.md", r.K8S / "image" / "Containerfile")
    ]
    texts += [json.dumps(document) for _, document in everything()]
    assert set(re.findall(r"\bagent-sidecar:(\d[\w.]*)", "".join(texts))) == {version}


GOOD: Json = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "c",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"hostPID": True}, ["hostPID"]),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, ["volume v: hostPath"]),
        ({"securityContext": {}}, ["container c: runAsNonRoot", "container c: seccompProfile"]),
        (
            {"containers": [{"name": "c"}]},
            ["container c: allowPrivilegeEscalation", "container c: capabilities"],
        ),
        (
            {"initContainers": [GOOD["containers"][0] | {"ports": [{"hostPort": 1}]}]},
            ["container c: hostPort"],
        ),
    ],
)
def test_the_check_of_pods_sees_what_is_forbidden(change: Json, told: list[str]) -> None:
    assert list(violations(GOOD | change)) == told
