"""The whole chain with real servers: an agent hangs, its series tells, an alert fires, a webhook hears of it.

Once with Debian's own Prometheus and Alertmanager and a cluster's labels, once with a newer suite's and none.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dashboards.stack.files import Pod
from dashboards.stack.stack import BOUNDS, Ports, Stack
from sidecar.telemetry import ids
from tests.dashboards.prometheus import Prometheus, Shown
from tests.dashboards.test_boards import BOARDS, PANELS
from tests.dashboards.test_rules import CASES
from tests.e2e.process import until
from tests.e2e.sidecar import ROOT, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
NEWER = "trixie"
SUITES = ("own", NEWER)

QUIET = {
    "Alerts that fire": "none has to, at that moment",
    "Sessions against the cap": "the demo's agent has none",
    "Sidecars down": "none is",
    "Blind": "none is",
    "Sources lost": "none is",
    "Controls out of reach": "none is",
    "Configurations refused": "none is",
}
"""Panels that are rightly empty after the demo."""


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


@pytest.fixture(scope="module", params=SUITES)
def kit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    # A unix socket's path has to fit in 108 bytes, so the folder's name is short.
    root = tmp_path_factory.mktemp(request.param)
    os.environ["PYTHONPATH"] = str(ROOT)
    made = Kit(root, request.param)
    (root / "acting").mkdir()
    (root / "acting" / "hold").write_text("1\n")
    with made.stack:
        yield made
        made.stack.check()
    assert processes_below(root) == []


@pytest.mark.timeout(120)
def test_an_agent_hangs_an_alert_fires_a_webhook_hears_it_and_of_its_end(kit: Kit) -> None:
    # In enforce mode a brake holds: that alerts, and so does what it leaves running. On one machine, where
    # no namespace tells the pods apart, this silences what follows below as long as it lasts.
    acted = kit.place("batch")
    assert kit.heard.expect("AgentActsHeld", "firing", agent="claude-code", **acted)[0] == "agents-tickets"
    receiver, alert = kit.heard.expect("AgentTurnsOverdue", "firing", agent="claude-code", **acted)
    assert receiver == "agents-pager"
    where = "batch-0" if kit.suite == "own" else f"127.0.0.1:{kit.ports.enforce}"
    assert f"{where} (model)" in alert["annotations"]["description"]
    (kit.root / "acting" / "hold").write_text("0\n")
    kit.heard.expect("AgentTurnsOverdue", "resolved", agent="claude-code", **acted)
    effective = 'ai_agent_actions_total{action="interrupt",outcome="effective"} > 0'
    until(lambda: kit.prometheus.now(effective), "the held act took effect")

    # In observe mode nothing ends the turn until a person does.
    watched = kit.place("lab")
    receiver, alert = kit.heard.expect("AgentTurnsOverdueObserved", "firing", agent="claude-code", **watched)
    assert receiver == "agents-tickets"
    assert alert["labels"]["severity"] == "warning"
    assert "unattended claude-code sessions" in alert["annotations"]["description"]
    assert alert["annotations"]["runbook_url"].endswith("runbook.md#agentturnsoverdueobserved")
    kit.interrupt_what_hangs()
    kit.heard.expect("AgentTurnsOverdueObserved", "resolved", agent="claude-code", **watched)


@pytest.mark.timeout(120)
def test_every_query_of_every_dashboard_runs_and_shows_what_the_demo_did(kit: Kit) -> None:
    shown = Shown(back=90)
    empty = set(PANELS)

    def none_left() -> bool:
        for name in sorted(empty):
            if all(kit.prometheus.target(t, shown) for t in PANELS[name]["targets"]):
                empty.discard(name)
        return {PANELS[name]["title"] for name in empty} <= set(QUIET)

    with suppress(TimeoutError):
        until(none_left, "data on every panel", 40)
    assert {PANELS[name]["title"] for name in empty} - set(QUIET) == set()
    for board in BOARDS.values():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                values = kit.prometheus.variable(variable["query"]["query"])
                there = kit.suite == "own" or variable["name"] == "agent"
                assert bool(values) == there, variable["name"]


@pytest.mark.timeout(60)
def test_examples_lead_to_the_traces_of_the_turns(kit: Kit) -> None:
    traces = set()
    for path in kit.root.glob("*/claude/projects/*/*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "promptId" in record:
                key = ("claude-code", record["sessionId"], record["promptId"])
                traces.add(ids.hex_trace(ids.trace_id(*key)))
    for metric in ("ai_agent_silence_gap_seconds", "ai_agent_turn_duration_seconds"):
        found = kit.prometheus.exemplars(f"{metric}_bucket")
        assert found
        assert {example["labels"]["trace_id"] for example in found} <= traces


@pytest.mark.timeout(60)
def test_an_outage_silences_what_follows_from_it_in_its_namespace_only(kit: Kit) -> None:
    begins = datetime.now(UTC).isoformat()
    annotations = {"summary": "a test", "description": "a test"}

    def alert(name: str, namespace: str, **labels: str) -> Json:
        named = {"alertname": name, "namespace": namespace, **labels}
        return {"labels": named, "annotations": annotations, "startsAt": begins}

    outage = alert("AgentVerdictRateHigh", "n1", severity="critical")
    kit.alertmanager("alerts", [outage])
    kit.heard.expect("AgentVerdictRateHigh", "firing", namespace="n1")
    stuck = {"severity": "critical", "agent": "codex"}
    kit.alertmanager("alerts", [alert("AgentTurnsOverdue", where, **stuck) for where in ("n1", "n2")])
    kit.heard.expect("AgentTurnsOverdue", "firing", namespace="n2")
    states = {
        found["labels"]["namespace"]: found["status"]["state"]
        for found in kit.alertmanager("alerts?filter=agent=codex")
    }
    assert states == {"n1": "suppressed", "n2": "active"}
    assert kit.heard.of("AgentTurnsOverdue", "firing", namespace="n1") == []


@pytest.mark.timeout(60)
def test_promtool_of_that_suite_agrees_with_the_rules_and_the_metrics(kit: Kit) -> None:
    for case in CASES:
        done = subprocess.run(
            [kit.bin / "promtool", "test", "rules", case], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with urllib.request.urlopen(f"http://127.0.0.1:{kit.ports.enforce}/metrics", timeout=5) as answer:
        text = answer.read()
    done = subprocess.run(
        [kit.bin / "promtool", "check", "metrics"],
        input=text.decode(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def started(ports: list[int]) -> subprocess.Popen[str]:
    options = [f"--{name}={port}" for name, port in zip(Ports._fields, ports, strict=True)]
    where = ["--programs", str(programs("own"))]
    return subprocess.Popen(
        [sys.executable, "-m", "dashboards.stack", *where, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(60)
def test_ctrl_c_ends_every_process() -> None:
    ports = [free_port() for _ in Ports._fields]
    stack = started(ports)
    assert stack.stdout
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(stack.stdout.readline())
        assert lines[-1]
    for port in ports:
        assert any(f"http://127.0.0.1:{port}/" in line for line in lines)
    (root,) = Path("/proc", str(stack.pid), "task", str(stack.pid)).glob("children")
    children = root.read_text().split()
    assert len(children) == 6
    time.sleep(1)  # the agents are up too
    stack.send_signal(signal.SIGINT)
    out, errors = stack.communicate(timeout=30)
    assert (stack.returncode, errors) == (0, ""), out
    assert [pid for pid in children if Path("/proc", pid).exists()] == []
    assert not any("agent-sidecar-stack-" in line for line in processes_below(Path("agent-sidecar-stack-")))


@pytest.mark.timeout(60)
def test_a_port_that_is_taken_is_named_and_nothing_stays() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        stack = started([free_port(), port, free_port(), free_port()])
        out, errors = stack.communicate(timeout=30)
    assert (stack.returncode, out) == (1, "")
    assert errors == (
        f"stack: port {port} for Alertmanager: Address already in use; choose another with --alertmanager PORT\n"
    )
