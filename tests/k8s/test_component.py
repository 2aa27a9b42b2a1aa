"""The component on somebody's own workloads, before and after: `golden/` shows what it does to them."""

from __future__ import annotations

import copy
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jmespath
import pytest
import yaml

from tests.k8s import rendering as r

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.k8s.rendering import Json

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("deployment", "job", "cronjob", "statefulset")


def render(place: Path, before: Path, *components: str, **more: object) -> str:
    """A user's own kustomization beside the component."""
    shutil.copy(before, place / "workload.yaml")
    relative = [os.path.relpath(r.K8S / name, place) for name in components]
    kustomization = {"resources": ["workload.yaml"], "components": relative, **more}
    (place / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return r.run("kubectl", "kustomize", str(place))


@pytest.mark.parametrize("kind", KINDS)
def test_a_users_workload_before_and_after(tmp_path: Path, kind: str) -> None:
    after = render(tmp_path, GOLDEN / f"{kind}.before.yaml", "component")
    path = GOLDEN / f"{kind}.after.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(after)
    assert after == path.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_users_is_lost_or_changed(kind: str) -> None:
    (before,) = r.objects((GOLDEN / f"{kind}.before.yaml").read_text())
    (after,) = r.objects((GOLDEN / f"{kind}.after.yaml").read_text())
    assert lost(before, after) == []


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """What was there before and is not any more."""
    if isinstance(before, dict):
        missing = [f"{path}.{key}" for key in before if key not in after]
        below = [lost(value, after[key], f"{path}.{key}") for key, value in before.items() if key in after]
        return missing + [one for some in below for one in some]
    if isinstance(before, list):
        out = []
        for entry in before:
            matches = [other for other in after if entry == other or _same_name(entry, other)]
            out += lost(entry, matches[0], f"{path}[]") if matches else [f"{path}[{entry}]"]
        return out
    return [] if before == after else [path]


def _same_name(one: Any, other: Any) -> bool:
    keys = ("mountPath", "name")
    return isinstance(one, dict) and any(one.get(key) and one.get(key) == other.get(key) for key in keys)


def test_without_the_label_nothing_happens(tmp_path: Path) -> None:
    (workload,) = r.objects((GOLDEN / "deployment.before.yaml").read_text())
    del workload["metadata"]["labels"]["agent-sidecar/inject"]
    before = tmp_path / "before.yaml"
    before.write_text(yaml.safe_dump(workload))
    assert r.objects(render(tmp_path, before, "component", "host", "shared-pids")) == [workload]


def test_processes_can_be_shared_and_the_host_brought(tmp_path: Path) -> None:
    before = GOLDEN / "deployment.before.yaml"
    (after,) = r.objects(render(tmp_path, before, "component", "shared-pids", "host"))
    (pod,) = r.pods(after)
    assert pod["spec"]["shareProcessNamespace"] is True
    (agent,) = (c for c in pod["spec"]["containers"] if c["name"] == "agent")
    assert {"mountPath": "/opt/agent-host", "name": "agent-host", "readOnly": True} in agent["volumeMounts"]
    (before_,) = r.objects(before.read_text())
    (own,) = r.pods(before_)
    assert agent["command"] == own["spec"]["containers"][0]["command"], "the command stays the user's"


def test_a_volume_of_the_users_own_can_be_the_home(tmp_path: Path) -> None:
    """As README.md shows it: the user's patch comes after the component."""
    patch = yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "reviewer"},
            "spec": {
                "template": {
                    "spec": {
                        "volumes": [
                            {
                                "name": "agent-home",
                                "emptyDir": None,
                                "persistentVolumeClaim": {"claimName": "reviewer"},
                            }
                        ]
                    }
                }
            },
        }
    )
    (after,) = r.objects(
        render(tmp_path, GOLDEN / "deployment.before.yaml", "component", patches=[{"patch": patch}])
    )
    (pod,) = r.pods(after)
    (home,) = (v for v in pod["spec"]["volumes"] if v["name"] == "agent-home")
    assert home == {"name": "agent-home", "persistentVolumeClaim": {"claimName": "reviewer"}}


def rules() -> dict[str, Json]:
    (policy,) = r.kustomize("kyverno")
    return {rule["name"]: rule for rule in policy["spec"]["rules"]}


def test_the_policy_of_kyverno_adds_what_the_component_adds() -> None:
    home = rules()["add-a-home"]["mutate"]["patchStrategicMerge"]
    added: Json = copy.deepcopy(rules()["add-the-sidecar"]["mutate"]["patchStrategicMerge"])
    component: Json = yaml.safe_load((r.K8S / "component" / "pod.yaml").read_text())["spec"]["template"]
    del added["spec"]["initContainers"][0]["securityContext"]["runAsUser"]
    added["spec"]["automountServiceAccountToken"] = added["spec"].pop("+(automountServiceAccountToken)")
    (agent,) = added["spec"]["containers"]
    agent["name"] = agent.pop("(name)")
    added["spec"]["volumes"] = home["spec"]["volumes"] + added["spec"]["volumes"]
    assert added == component


ROOT: Json = {"name": "agent", "securityContext": {"runAsUser": 0}}
OWN: Json = {"name": "agent", "securityContext": {"runAsUser": 4711}}
ANY: Json = {"name": "agent"}
PODS: list[tuple[str, Json, int, list[str]]] = [
    ("its image's user", {"containers": [ANY]}, 10001, ["add-a-home", "add-the-sidecar"]),
    (
        "the pod's user",
        {"containers": [{"name": "proxy"}, ANY], "securityContext": {"runAsUser": 1000}},
        1000,
        ["add-a-home", "add-the-sidecar"],
    ),
    (
        "a user of its own",
        {"containers": [OWN], "securityContext": {"runAsUser": 1000}},
        4711,
        ["add-a-home", "add-the-sidecar"],
    ),
    (
        "a home of its own",
        {"containers": [OWN], "volumes": [{"name": "agent-home"}], "initContainers": [{"name": "clone"}]},
        4711,
        ["add-the-sidecar"],
    ),
    ("root", {"containers": [ROOT], "securityContext": {"runAsUser": 1000}}, 0, []),
    ("a pod of root's", {"containers": [ANY], "securityContext": {"runAsUser": 0}}, 0, []),
    ("no agent", {"containers": [{"name": "web"}]}, 10001, []),
    ("a sidecar already", {"containers": [ANY], "initContainers": [{"name": "agent-sidecar"}]}, 10001, []),
]


@pytest.mark.parametrize(("spec", "user", "applied"), [pod[1:] for pod in PODS], ids=[pod[0] for pod in PODS])
def test_the_policy_of_kyverno_finds_the_agents_user_and_whom_to_leave_alone(
    spec: Json, user: int, applied: list[str]
) -> None:
    sidecar = rules()["add-the-sidecar"]["mutate"]["patchStrategicMerge"]["spec"]["initContainers"][0]
    assert evaluated(sidecar["securityContext"]["runAsUser"], spec) == user
    assert [name for name, rule in rules().items() if applies(rule, spec)] == applied


def evaluated(value: Any, spec: Json) -> Any:
    """A value that may be an expression, as it is for a Pod."""
    match = re.fullmatch(r"\{\{(.*)\}\}", str(value), re.DOTALL)
    return jmespath.search(match[1].strip(), {"request": {"object": {"spec": spec}}}) if match else value


def applies(rule: Json, spec: Json) -> bool:
    """What Kyverno decides by the preconditions, of which all have to hold."""
    operators: dict[str, Callable[[Any, Any], bool]] = {
        "AnyIn": lambda key, value: key in value,
        "Equals": lambda key, value: key == value,
        "NotEquals": lambda key, value: key != value,
    }
    conditions = rule["preconditions"]["all"]
    return all(
        operators[condition["operator"]](
            evaluated(condition["key"], spec), evaluated(condition["value"], spec)
        )
        for condition in conditions
    )
