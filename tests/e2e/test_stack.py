"""The whole chain with real servers: an agent hangs, its series tells, an alert fires, a webhook hears of it.

Once with Debian's own Prometheus and Alertmanager and a cluster's labels, once with a newer suite's and none.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.telemetry import ids
from tests.dashboards.prometheus import Shown
from tests.dashboards.test_boards import BOARDS, PANELS
from tests.dashboards.test_rules import CASES
from tests.e2e.kit import Kit, processes_below
from tests.e2e.process import until
from tests.e2e.sidecar import ROOT

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
