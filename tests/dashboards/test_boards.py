"""The dashboards: what Grafana's own linters check, and that every query reads what the code exports."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dashboards.source.__main__ import written
from sidecar.session import PHASES
from sidecar.telemetry import labels
from sidecar.telemetry import names as n
from tests.dashboards.names import FOREIGN, exported, family, metrics, selectors
from tests.dashboards.test_rules import ALERTS, RULES

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))
}
PANELS = {
    f"{name}: {panel['title']}": panel
    for name, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
}
TARGETS = {f"{name} {t['refId']}": t for name, panel in PANELS.items() for t in panel["targets"]}

NOT_SHOWN = {
    "ai_agent_session_silence_seconds": "exists only with metrics.per_session; a board of sessions is the page",
    "ai_agent_session_phase": "as above",
}
"""Metrics that no dashboard shows, and why."""


def test_the_files_are_what_their_source_makes() -> None:
    """Mended by: python -m dashboards.source."""
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == written()


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_one_that_grafana_imports(name: str) -> None:
    board = BOARDS[name]
    assert re.fullmatch(r"[a-z-]{1,40}", board["uid"])
    assert not {"__inputs", "__requires", "id"} & board.keys()
    assert 36 <= board["schemaVersion"] <= 41
    assert board["tags"] == ["agent-sidecar"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in board["panels"]]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_fit_the_grid_and_do_not_overlap(name: str) -> None:
    places = [panel["gridPos"] for panel in BOARDS[name]["panels"]]
    for p in places:
        assert p["x"] >= 0
        assert p["x"] + p["w"] <= 24
        assert p["h"] >= 1
    for a, b in combinations(places, 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (a, b)


@pytest.mark.parametrize("name", BOARDS)
def test_the_variables_are_the_data_source_and_the_place(name: str) -> None:
    variables = {v["name"]: v for v in BOARDS[name]["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", "namespace", "pod", "agent", "runbook"]
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    for label in ("cluster", "namespace", "pod", "agent"):
        v = variables[label]
        # `.*` matches what has no such label: on a single machine there is neither cluster nor pod.
        assert (v["includeAll"], v["multi"], v["allValue"], v["refresh"]) == (True, True, ".*", 2)
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", v["query"]["query"])
        assert asked
        assert asked[2] == label
        assert metrics(asked[1]) <= exported()
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(BOARDS[name]["panels"])))
    assert used - {"__rate_interval", "__range", *variables} == {"1"}  # label_replace's own


@pytest.mark.parametrize("name", BOARDS)
def test_no_data_source_is_named(name: str) -> None:
    found: list[Any] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            found.extend([node["datasource"]] if "datasource" in node else [])
            for below in node.values():
                collect(below)
        elif isinstance(node, list):
            for below in node:
                collect(below)

    collect(BOARDS[name])
    assert found
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in found)


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_says_what_it_shows(name: str) -> None:
    panel = PANELS[name]
    assert re.match(r"[A-Z]", panel["title"])
    assert panel["description"].rstrip().endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    refs = [t["refId"] for t in panel["targets"]]
    assert len(set(refs)) == len(refs)
    for link in panel["links"]:
        section = link["url"].partition("#")[2]
        assert section in {alert.lower() for alert in ALERTS}


def test_every_alert_is_linked_from_a_panel() -> None:
    linked = {link["url"].partition("#")[2] for panel in PANELS.values() for link in panel["links"]}
    assert {alert for alert in ALERTS if alert.lower() not in linked} == set()


@pytest.mark.parametrize("name", TARGETS)
def test_a_query_obeys_the_variables_and_reads_what_exists(name: str) -> None:
    target = TARGETS[name]
    for selector in selectors(target["expr"]):
        assert selector.name in exported() | set(FOREIGN)
        matched = {m.name: m.value for m in selector.matchers.matchers}
        assert matched["cluster"] == ".*", "the cluster's variable is not obeyed"
        if selector.name in FOREIGN:
            continue
        metric = next(m for m in n.METRICS if m.name == family(selector.name or ""))
        assert {"namespace", "pod"} <= matched.keys()
        assert ("agent" in matched) == ("agent" in metric.labels)
        own = matched.keys() - {"cluster", "namespace", "pod"}
        assert own <= set(metric.labels)


@pytest.mark.parametrize("name", TARGETS)
def test_a_query_is_written_as_linters_want_it(name: str) -> None:
    target = TARGETS[name]
    for called, window in re.findall(r"(rate|increase)\([^()]*\[([^\]]+)\]", target["expr"]):
        assert window == "$__rate_interval" or (called, window) == ("increase", "$__range")
    counters = {m.name for m in n.METRICS if m.kind != "gauge"}
    read = {family(name) for name in metrics(target["expr"])}
    assert not (read & counters) or re.search(r"(rate|increase)\(", target["expr"])
    panel = PANELS[name.rpartition(" ")[0]]
    if panel["type"] in ("timeseries", "bargauge", "heatmap"):
        assert target["legendFormat"] != "__auto"
    for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
        assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), label


def test_values_that_queries_and_rules_ask_for_exist() -> None:
    """A typing error in a label's value is a panel that is always empty."""
    closed: dict[str, set[str]] = {
        "phase": set(PHASES),
        "bound": set(labels.BOUNDS),
        "kind": set(labels.RECORD_KINDS),
        "mode": {"observe", "enforce"},
        "attended": {"true", "false"},
        "outcome": {outcome for _, outcome in labels.ACTION_PAIRS}
        | set(labels.SPAN_OUTCOMES)
        | set(labels.TURN_OUTCOMES),
        "action": {action for action, _ in labels.ACTION_PAIRS},
    }
    seen = 0
    for expr in [t["expr"] for t in TARGETS.values()] + [rule["expr"] for rule in RULES]:
        for selector in selectors(expr):
            for matcher in selector.matchers.matchers:
                if matcher.name in closed and selector.name not in FOREIGN:
                    seen += 1
                    assert set(matcher.value.split("|")) <= closed[matcher.name], (
                        matcher.name,
                        matcher.value,
                    )
    assert seen


def test_every_metric_is_shown_or_has_a_reason_not_to_be() -> None:
    shown = {family(name) for t in TARGETS.values() for name in metrics(t["expr"])}
    told = {metric.name for metric in n.METRICS}
    assert told - shown == set(NOT_SHOWN)


def test_a_stall_leads_to_its_trace() -> None:
    """Exemplars are asked for where the code has some: in every histogram, and nowhere else."""
    with_examples = {m.name for m in n.METRICS if m.kind == "histogram"}
    for target in TARGETS.values():
        read = {family(name) for name in metrics(target["expr"])}
        assert target["exemplar"] == bool(read & with_examples)
