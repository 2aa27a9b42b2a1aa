"""What a sidecar says of itself: by the downward API, the kernel, and the standard variables above all."""

import os
from pathlib import Path

import pytest

from sidecar.telemetry.resource import K8S, resource

ID = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
POD = "0b5a2f7c-1f44-4b3a-9b50-0a52a7a1d1f3"
SANDBOX = "a" * 64


def attributes(proc: Path) -> dict[str, object]:
    return dict(resource("1.2.3", proc).attributes)


def test_without_a_pod_it_names_the_service_and_the_process(tmp_path: Path) -> None:
    found = attributes(tmp_path)
    assert (found["service.name"], found["service.version"]) == ("agent-sidecar", "1.2.3")
    assert len(str(found["service.instance.id"])) == 36, "random: each process is an instance of its own"
    assert found["process.pid"] == os.getpid()
    assert str(found["process.executable.name"]).startswith("python")
    assert found["process.runtime.name"] == "cpython"
    assert found["telemetry.sdk.language"] == "python"
    assert not [name for name in found if name.startswith(("k8s.", "container.", "process.command"))]
    assert "service.namespace" not in found


def test_the_downward_api_describes_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in K8S:
        monkeypatch.setenv(name.upper().replace(".", "_"), f"my-{name.split('.')[1]}")
    monkeypatch.setenv("K8S_POD_NAME", "box-1")
    monkeypatch.setenv("K8S_POD_UID", POD)
    found = attributes(tmp_path)
    assert {name: found[name] for name in K8S} == {
        "k8s.cluster.name": "my-cluster",
        "k8s.namespace.name": "my-namespace",
        "k8s.node.name": "my-node",
        "k8s.pod.name": "box-1",
        "k8s.pod.uid": POD,
        "k8s.container.name": "my-container",
        "k8s.deployment.name": "my-deployment",
    }
    assert found["service.namespace"] == "my-namespace"
    assert found["service.instance.id"] == "my-namespace.box-1.my-container"


def test_half_a_pod_is_no_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S_POD_NAME", "box-1")
    monkeypatch.setenv("K8S_NODE_NAME", "")
    found = attributes(tmp_path)
    assert found["k8s.pod.name"] == "box-1"
    assert "k8s.node.name" not in found
    assert len(str(found["service.instance.id"])) == 36


def test_the_standard_variables_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S_POD_NAME", "box-1")
    said = "k8s.pod.name=other,service.version=9,service.instance.id=me,team=a%2Cb,process.pid=1"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", said)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-sidecar")
    found = attributes(tmp_path)
    assert found["service.name"] == "my-sidecar"
    assert (found["service.version"], found["service.instance.id"]) == ("9", "me")
    assert (found["k8s.pod.name"], found["team"], found["process.pid"]) == ("other", "a,b", "1")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cgroup", f"12:cpu:/docker/{ID}\n0::/docker/{ID}\n"),
        ("cgroup", f"0::/system.slice/docker-{ID}.scope\n"),
        ("cgroup", f"1:name=systemd:/kubepods/burstable/pod{POD}/{ID}\n"),
        (
            "cgroup",
            f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
        ),
        ("cgroup", f"11:memory:/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope\n"),
        (
            "mountinfo",
            f"1 2 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda rw\n",
        ),
    ],
)
def test_the_containers_id_is_read_where_the_kernel_tells(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / name).write_text(text)
    assert attributes(tmp_path)["container.id"] == ID


def test_a_pods_sandbox_is_not_its_container(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("0::/\n9:name=systemd:/user.slice/session-1.scope\n")
    cri = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
    mount = f"1 2 8:1 {cri}/{SANDBOX}/hostname /etc/hostname rw - ext4 /dev/sda rw\n"
    (tmp_path / "mountinfo").write_text(mount)
    assert "container.id" not in attributes(tmp_path)


def test_names_that_are_no_text_are_made_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S_POD_NAME", "p\udcff" * 2000)
    assert len(str(attributes(tmp_path)["k8s.pod.name"])) == 1024
