"""The monitoring kit under test: the real servers of one Debian suite over agents that work, hang and ask."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from dashboards.stack.files import Pod
from dashboards.stack.stack import BOUNDS, Ports, Stack
from tests.dashboards.prometheus import Prometheus
from tests.e2e.process import until
from tests.e2e.sidecar import ROOT, free_port

Json = dict[str, Any]


def programs(suite: str) -> Path:
    """Where a suite's programs are unpacked; fetched on first use."""
    folder = ROOT / ".e2e" / "stack" / suite
    fetched = subprocess.run(
        [ROOT / "dashboards" / "stack" / "debian.sh", suite, folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"{suite}: {fetched.stderr.strip().splitlines()[-1]}")
    return folder


class Heard:
    """What Alertmanager told, in its order."""

    def __init__(self) -> None:
        self.alerts: list[tuple[str, Json]] = []
        self._lock = threading.Lock()

    def __call__(self, receiver: str, alert: Json) -> None:
        with self._lock:
            self.alerts.append((receiver, alert))

    def of(self, name: str, status: str, **labels: str) -> list[tuple[str, Json]]:
        with self._lock:
            return [
                (receiver, alert)
                for receiver, alert in self.alerts
                if alert["status"] == status
                and {"alertname": name, **labels}.items() <= alert["labels"].items()
            ]

    def expect(self, name: str, status: str, **labels: str) -> tuple[str, Json]:
        return until(lambda: self.of(name, status, **labels), f"{name} {status} {labels}", 40)[0]


class Kit:
    """The running stack, and what a test asks of it."""

    def __init__(self, root: Path, suite: str) -> None:
        self.suite = suite
        self.bin = programs(suite) / "usr" / "bin"
        self.root = root
        self.ports = Ports(*(free_port() for _ in Ports._fields))
        self.heard = Heard()
        self.stack = Stack(root, self.ports, self._pods(labelled=suite == "own"), self.bin.parents[1])
        self.stack.told = self.heard
        self.prometheus = Prometheus(f"http://127.0.0.1:{self.ports.prometheus}")

    def _pods(self, *, labelled: bool) -> list[Pod]:
        def labels(namespace: str) -> dict[str, str]:
            return {"cluster": "c", "namespace": namespace, "pod": f"{namespace}-0"} if labelled else {}

        acting = ("work,retry,long tool,work", "wedge,work", "work,rest")
        watching = ("slow,work,ask", "wedge,work")
        reaping = {**BOUNDS, "idle": {"limit": "8s", "action": "reap"}}
        return [
            Pod("acting", "enforce", self.ports.enforce, acting, labels("batch"), reaping),
            Pod("watching", "observe", self.ports.observe, watching, labels("lab"), BOUNDS),
        ]

    def place(self, namespace: str) -> dict[str, str]:
        """The labels of alerts about a pod, whichever there are."""
        return {"namespace": namespace} if self.suite == "own" else {}

    def interrupt_what_hangs(self) -> None:
        """As a person would, in observe mode: every session past its bound."""
        url = f"http://127.0.0.1:{self.ports.observe}/api/sessions"
        with urllib.request.urlopen(url, timeout=5) as answer:
            sessions = json.load(answer)["sessions"]
        for session in sessions:
            if session["phase"] == "model" and session["silence_seconds"] > 10:
                request = urllib.request.Request(
                    f"{url}/{session['session']}/interrupt",
                    b'{"reason": "enough"}',
                    {"Authorization": "Bearer demo", "Content-Type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=20) as answer:
                    assert json.load(answer)["outcome"] == "effective"

    def alertmanager(self, path: str, body: object = None) -> Any:
        url = f"http://127.0.0.1:{self.ports.alertmanager}/api/v2/{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            text = answer.read()
            return json.loads(text) if text else None


def processes_below(root: Path) -> list[str]:
    """Command lines that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(root) in line:
            found.append(line)
    return found
