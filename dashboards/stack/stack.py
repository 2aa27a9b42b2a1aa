"""The monitoring kit: Prometheus, Alertmanager, two sidecars and their agents on loopback."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from dashboards.stack import files
from dashboards.stack.files import HERE, Pod
from dashboards.stack.parts import Part, Webhook, need_free, program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Ports(NamedTuple):
    """Where on loopback everything listens."""

    prometheus: int = 9090
    alertmanager: int = 9093
    enforce: int = 9475
    observe: int = 9477


ENFORCED: Final = ("work,long tool,wedge,retry", "work,retry,work,ask", "work,work,rest")
OBSERVED: Final = ("work,slow,long tool,work,wedge", "work,ask,retry,slow", "work,long tool,rest")
"""What the agents are asked: wedges are ended in the one pod, and stay in the other."""

BOUNDS: Final[dict[str, Any]] = {"model": "4s", "waiting": "6s"}


def demo(ports: Ports) -> list[Pod]:
    """Two sidecars, labelled as a cluster's Prometheus does it."""

    def labels(namespace: str, name: str) -> dict[str, str]:
        return {"cluster": "demo", "namespace": namespace, "pod": name}

    reaping = {**BOUNDS, "idle": {"limit": "8s", "action": "reap"}}
    return [
        Pod("coder-0", "enforce", ports.enforce, ENFORCED, labels("batch", "coder-0"), reaping),
        Pod("reviewer-0", "observe", ports.observe, OBSERVED, labels("lab", "reviewer-0"), BOUNDS),
    ]


class Stack:
    """The running kit. Leaving it ends every process, also when it did not come up whole."""

    def __init__(self, root: Path, ports: Ports, pods: list[Pod], programs: Path | None = None) -> None:
        """`root`: a folder for everything that is written; `programs`: where debian.sh unpacked, or the PATH."""
        self._root = root
        self._ports = ports
        self._pods = pods
        self._programs = programs
        self._parts: list[Part] = []
        self._ending = ExitStack()
        self.told: Callable[[str, dict[str, Any]], None] = lambda *_: None
        """Called with the receiver and each alert that Alertmanager sends."""

    def __enter__(self) -> Self:
        servers = [program(name, self._programs) for name in ("prometheus", "prometheus-alertmanager")]
        for name, port in self._ports._asdict().items():
            need_free(port, name.capitalize(), f"--{name}")
        try:
            webhook = self._ending.enter_context(Webhook(self.told))
            self._write(webhook.url)
            self._start_servers(*servers)
            for pod in self._pods:
                self._start_pod(pod)
            for part in self._parts:
                part.wait()
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def check(self) -> None:
        """Raise if any part has ended."""
        for part in self._parts:
            part.check()

    def home(self, pod: str) -> Path:
        """The folder of a pod: its agents' files, its sidecar's token and hold file."""
        return self._root / pod

    def _write(self, webhook: str) -> None:
        (self._root / "rules.yaml").write_text(files.rules(HERE.as_uri()))
        (self._root / "alertmanager.yaml").write_text(files.alertmanager(webhook))
        (self._root / "prometheus.yaml").write_text(files.prometheus(self._pods, self._ports.alertmanager))

    def _start_servers(self, prometheus: str, alertmanager: str) -> None:
        at = [f"127.0.0.1:{port}" for port in self._ports[:2]]
        # Alertmanager first, so that it is the last to end: Prometheus complains of none.
        self._start(
            "Alertmanager",
            alertmanager,
            f"--config.file={self._root}/alertmanager.yaml",
            f"--storage.path={self._root}/alertmanager",
            f"--web.listen-address={at[1]}",
            "--cluster.listen-address=",
            ready=f"http://{at[1]}/-/ready",
        )
        self._start(
            "Prometheus",
            prometheus,
            f"--config.file={self._root}/prometheus.yaml",
            f"--storage.tsdb.path={self._root}/prometheus",
            f"--web.listen-address={at[0]}",
            "--enable-feature=exemplar-storage",
            ready=f"http://{at[0]}/-/ready",
        )

    def _start_pod(self, pod: Pod) -> None:
        home = self.home(pod.name)
        (home / "claude").mkdir(parents=True)
        (home / "token").write_text("demo\n")
        config = home / "sidecar.yaml"
        config.write_text(files.sidecar(pod, home))
        python = [sys.executable, "-m"]
        ready = f"http://127.0.0.1:{pod.port}/readyz"
        run = [*python, "sidecar.cli", "run", "--config", str(config)]
        self._start(f"sidecar {pod.name}", *run, ready=ready)
        self._start(f"agents {pod.name}", *python, "dashboards.stack.fleet", str(home), *pod.plays)

    def _start(self, name: str, *command: str, ready: str = "") -> None:
        part = Part(name, command, self._root / f"{name.replace(' ', '-')}.log", ready)
        self._parts.append(part)
        self._ending.callback(part.stop)
