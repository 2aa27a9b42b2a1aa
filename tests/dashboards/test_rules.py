"""The rules: what fires and what does not, how alerts are written, how they are routed and inhibited."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.dashboards.names import FOREIGN, exported, metrics, selectors

ROOT = Path(__file__).parents[2]
DASHBOARDS = ROOT / "dashboards"
GROUPS: list[dict[str, Any]] = yaml.safe_load((DASHBOARDS / "rules.yaml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDS = {rule["record"]: rule for rule in RULES if "record" in rule}
CASES = sorted(Path(__file__).parent.glob("*.test.yaml"))
ALERTMANAGER = DASHBOARDS / "alertmanager.yaml"
PLACES = {"cluster", "namespace", "agent", "job"}
"""What an alert may be told apart by: `job` only where Prometheus itself speaks of targets."""

promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
amtool = pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed")


def run(*words: str | Path) -> str:
    done = subprocess.run([*map(str, words)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@promtool
def test_the_rules_are_valid() -> None:
    told = run("promtool", "check", "rules", "--lint-fatal", DASHBOARDS / "rules.yaml")
    assert f"{len(RULES)} rules found" in told


@promtool
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_alerts_fire_and_stay_quiet_as_told(case: Path) -> None:
    run("promtool", "test", "rules", case)


def test_every_alert_is_shown_firing_and_quiet() -> None:
    shown: dict[str, set[bool]] = {name: set() for name in ALERTS}
    for case in CASES:
        for test in yaml.safe_load(case.read_text())["tests"]:
            for row in test.get("alert_rule_test", ()):
                shown[row["alertname"]].add(bool(row.get("exp_alerts")))
    assert {name for name, seen in shown.items() if seen != {True, False}} == set()


def test_every_recorded_sum_is_tested() -> None:
    text = "".join(case.read_text() for case in CASES)
    assert [name for name in RECORDS if f"expr: {name}\n" not in text] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_read_what_exists(rule: dict[str, Any]) -> None:
    read = metrics(rule["expr"])
    assert read
    assert read - exported() - set(FOREIGN) == set()
    for selector in selectors(rule["expr"]):
        if selector.name in FOREIGN:
            continue
        known = next(m for m in _told() if re.sub(r"_bucket$", "", selector.name or "") == m[0])
        assert {matcher.name for matcher in selector.matchers.matchers} <= set(known[1])


def _told() -> list[tuple[str, tuple[str, ...]]]:
    from sidecar.telemetry import names as n  # noqa: PLC0415

    return [(metric.name, metric.labels) for metric in n.METRICS]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_written_as_mixins_are(name: str) -> None:
    rule = ALERTS[name]
    assert re.fullmatch(r"Agent([A-Z][a-z]+)+", name)
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    told = rule["annotations"]
    assert told.keys() == {"summary", "description", "runbook_url"}
    assert re.fullmatch(r"[A-Z][^{}]*\.", told["summary"])
    assert "{{" in told["description"]
    assert told["runbook_url"].partition("#")[2] == name.lower()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_one_per_place_and_agent_and_never_one_per_pod(name: str) -> None:
    outermost = re.match(r"\s*(?:sum|max|count) by \(([^)]+)\) \(", ALERTS[name]["expr"])
    assert outermost
    labels = set(outermost[1].split(", "))
    assert {"cluster", "namespace"} <= labels <= PLACES


def test_what_is_matched_across_series_names_every_label_of_a_sidecar() -> None:
    joins = re.findall(r"(?<!by )\bon \(([^)]+)\)", "".join(rule["expr"] for rule in RULES))
    assert joins
    for labels in joins:
        named = labels.split(", ")
        sidecar = named[:5] == ["cluster", "namespace", "pod", "job", "instance"]
        assert sidecar or named == ["cluster", "namespace", "pod"], labels


def test_a_recording_is_named_by_its_labels_metric_and_operation() -> None:
    for name, rule in RECORDS.items():
        level, metric, operation = name.split(":")
        by = re.search(r"by \(([^)]+)\)", rule["expr"])
        assert by
        assert level == by[1].replace(", ", "_")
        assert metric in {re.sub("_total$", "", read) for read in metrics(rule["expr"])}
        assert operation in ("sum", "max", "rate5m")


def test_every_alert_has_a_section_in_the_runbook_and_no_other_has() -> None:
    text = (DASHBOARDS / "runbook.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(ALERTS)
    for name, section in sections.items():
        for part in ("**Means.**", "**Look at.**", "**Do.**"):
            assert part in section, f"{name} has no {part}"
    linked = set(re.findall(r"\(#(\w+)\)", text))
    assert linked <= {name.lower() for name in ALERTS}


def test_the_readme_lists_every_alert_with_its_severity() -> None:
    text = (ROOT / "README.md").read_text()
    told = dict(re.findall(r"^\| `(Agent\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert told == {name: rule["labels"]["severity"] for name, rule in ALERTS.items()}


def test_panels_that_the_runbook_names_exist() -> None:
    boards = "".join((DASHBOARDS / name).read_text() for name in ("agents.json", "sidecar.json"))
    named = set(re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)", (DASHBOARDS / "runbook.md").read_text()))
    assert named
    assert {name for name in named - {"Agents", "Sidecar"} if f'"title": "{name}"' not in boards} == set()


@amtool
def test_the_routing_is_valid() -> None:
    assert "SUCCESS" in run("amtool", "check-config", ALERTMANAGER)


@amtool
@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_goes_where_its_severity_says(name: str) -> None:
    severity = ALERTS[name]["labels"]["severity"]
    wanted = {"critical": "agents-pager", "warning": "agents-tickets", "info": "agents-quiet"}[severity]
    labels = (f"alertname={name}", f"severity={severity}")
    found = run("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels)
    assert found.strip() == wanted


@amtool
def test_alerts_of_others_go_elsewhere() -> None:
    words = ("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", "alertname=NodeDown")
    assert run(*words).strip() == "default"


def test_inhibitions_name_alerts_that_exist() -> None:
    named = set(re.findall(r"\bAgent[A-Z]\w+", ALERTMANAGER.read_text()))
    assert named
    assert named <= set(ALERTS)
