"""A dashboard: its variables, and its rows of panels laid out from left to right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dashboards.source.panels import RUNBOOK, SCHEMA, SOURCE, WIDTH, Json, Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG: Final = "agent-sidecar"
LABELS: Final = ("cluster", "namespace", "pod")
"""Labels of the place, widest first. On a single machine none exists, and `All` matches what has none."""


class Row(NamedTuple):
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


class Board(NamedTuple):
    """A dashboard. `metric` is the one whose labels the variables are read from."""

    uid: str
    title: str
    about: str
    metric: str
    rows: Sequence[Row]

    def json(self) -> Json:
        """Spell it as a file that Grafana imports."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "browser",
            "links": [_others(), _runbook()],
            "templating": {"list": [_datasource(), *_places(self.metric), _runbook_at()]},
            "annotations": {"list": []},
            "panels": _laid_out(self.rows),
        }


def _laid_out(rows: Sequence[Row]) -> list[Json]:
    """Place the panels: each row of the grid is as high as its highest panel."""
    panels: list[Json] = []
    y = 0
    for row in rows:
        panels.append(_heading(row.title, len(panels) + 1, y))
        x, y, high = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.size[0] > WIDTH:
                x, y, high = 0, y + high, 0
            panels.append(panel.json(len(panels) + 1, x, y))
            x, high = x + panel.size[0], max(high, panel.size[1])
        y += high
    return panels


def _heading(title: str, number: int, y: int) -> Json:
    grid = {"x": 0, "y": y, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": grid, "panels": []}


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "hide": 0,
        "refresh": 1,
        "includeAll": False,
        "multi": False,
        "options": [],
        "current": {},
    }


def _places(metric: str) -> list[Json]:
    found = []
    for at, name in enumerate((*LABELS, "agent")):
        wider = ",".join(f'{label}=~"${label}"' for label in LABELS[:at])
        found.append(_labels(name, f"label_values({metric}{{{wider}}}, {name})"))
    return found


def _labels(name: str, query: str) -> Json:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}", "qryType": 1},
        "regex": "",
        "hide": 0,
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "options": [],
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _runbook_at() -> Json:
    value = {"selected": True, "text": RUNBOOK, "value": RUNBOOK}
    return {
        "name": "runbook",
        "label": "Runbook",
        "description": "Where you keep runbook.md.",
        "type": "textbox",
        "query": RUNBOOK,
        "hide": 2,
        "options": [value],
        "current": value,
    }


def _others() -> Json:
    return {
        "type": "dashboards",
        "title": "Agent sidecar",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _runbook() -> Json:
    return {
        "type": "link",
        "title": "Runbook",
        "url": "${runbook}",
        "icon": "doc",
        "targetBlank": True,
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "tooltip": "What each alert means, what to look at, what to do.",
    }
