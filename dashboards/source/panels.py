"""The words that dashboards are written in: queries, panels, rows, variables, as Grafana's classic JSON.

Schema version 39 is what Grafana 10 to 13 all import. Nothing here names a data source: every panel takes
the one that the variable `datasource` holds. Longer than most modules: it is one vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]

SCHEMA: Final = 39
WIDTH: Final = 24
"""Columns of Grafana's grid."""

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
RUNBOOK: Final = "https://runbooks.example/agent-sidecar/runbook.md"
"""Where the runbook is, until somebody says where: the same stand-in as in rules.yaml."""

COLORS: Final = {
    "idle": "#8e8e9c",
    "starting": "#b8a1e3",
    "model": "#5794f2",
    "tool": "#56a64b",
    "delegated": "#37872d",
    "compacting": "#6ed0e0",
    "waiting": "#ff9830",
    "retrying": "#f2cc0c",
    "limited": "#c4162a",
    "idle_in_turn": "#a352cc",
    "gone": "#e02f44",
    "unknown": "#705da0",
    "completed": "#56a64b",
    "interrupted": "#5794f2",
    "stalled": "#ff9830",
    "failed": "#e02f44",
    "abandoned": "#8e8e9c",
    "died": "#c4162a",
}
"""A phase and an outcome have one colour on every panel."""


class Query(NamedTuple):
    """An expression and how its series are called."""

    expr: str
    legend: str = ""
    kind: str = "range"  # or instant, table, heatmap
    exemplars: bool = False

    def target(self, ref: str) -> Json:
        """Spell it as a panel's target."""
        instant = self.kind in ("instant", "table")
        return {
            "datasource": SOURCE,
            "editorMode": "code",
            "exemplar": self.exemplars,
            "expr": self.expr,
            "format": {"table": "table", "heatmap": "heatmap"}.get(self.kind, "time_series"),
            "instant": instant,
            "legendFormat": self.legend or "__auto",
            "range": not instant,
            "refId": ref,
        }


class Panel(NamedTuple):
    """What is to be shown; its place comes with the layout. `runbook` names a section."""

    title: str
    about: str
    kind: str
    queries: Sequence[Query]
    unit: str
    size: tuple[int, int]
    field: Json
    options: Json
    overrides: Sequence[Json] = ()
    transformations: Sequence[Json] = ()
    runbook: str = ""

    def json(self, number: int, x: int, y: int) -> Json:
        """Spell it at its place."""
        links = [{"title": "Runbook", "url": f"${{runbook}}#{self.runbook}", "targetBlank": True}]
        return {
            "id": number,
            "title": self.title,
            "description": self.about,
            "type": self.kind,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.size[0], "h": self.size[1]},
            "fieldConfig": {
                "defaults": {"unit": self.unit, **self.field},
                "overrides": [*self.overrides],
            },
            "options": self.options,
            "targets": [q.target(chr(ord("A") + at)) for at, q in enumerate(self.queries)],
            "transformations": [*self.transformations],
            "links": links if self.runbook else [],
        }


def steps(*at: tuple[float, str]) -> Json:
    """Thresholds: green up to the first."""
    rest = [{"color": color, "value": value} for value, color in at]
    return {"mode": "absolute", "steps": [{"color": "green", "value": None}, *rest]}


def stat(  # noqa: PLR0913 - a panel, its parts
    title: str,
    about: str,
    query: Query,
    unit: str = "short",
    *,
    size: tuple[int, int] = (4, 4),
    at: Sequence[tuple[float, str]] = ((1, "red"),),
    runbook: str = "",
) -> Panel:
    """One number, coloured where it is bad."""
    options = {
        "colorMode": "background" if at else "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto" if query.legend else "value",
    }
    field = {"color": {"mode": "thresholds"}, "thresholds": steps(*at), "decimals": 0, "noValue": "0"}
    return Panel(title, about, "stat", [query], unit, size, field, options, runbook=runbook)


def series(  # noqa: PLR0913 - a panel, its parts
    title: str,
    about: str,
    queries: Sequence[Query],
    unit: str = "short",
    *,
    size: tuple[int, int] = (12, 8),
    stack: str = "none",
    bars: bool = False,
    log: bool = False,
    dashed: str = "",
    runbook: str = "",
) -> Panel:
    """Lines or bars over time; `dashed` is a pattern of series that are limits and not measurements."""
    custom = {
        "drawStyle": "bars" if bars else "line",
        "fillOpacity": 80 if bars else (40 if stack != "none" else 8),
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": stack, "group": "A"},
        "scaleDistribution": {"type": "log", "log": 10} if log else {"type": "linear"},
        "axisSoftMin": 0,
    }
    options = {
        "legend": {
            "displayMode": "table",
            "placement": "right",
            "calcs": ["lastNotNull", "max"],
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    known = {q.legend for q in queries} & {"{{phase}}", "{{outcome}}", "{{bound}}"}
    overrides = [_colored(name, color) for name, color in COLORS.items() if known]
    if dashed:
        overrides += [_colored(f"{name} limit", color) for name, color in COLORS.items()]
        overrides.append(_dashed(dashed))
    field = {"color": {"mode": "palette-classic"}, "custom": custom, "min": None if log else 0}
    return Panel(title, about, "timeseries", queries, unit, size, field, options, overrides, runbook=runbook)


def heatmap(title: str, about: str, query: Query, *, size: tuple[int, int] = (12, 8)) -> Panel:
    """Counts by bucket over time."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "steps": 64,
            "scale": "exponential",
            "exponent": 0.5,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "rowsFrame": {"layout": "auto"},
        "tooltip": {"mode": "single", "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "unit": "s", "decimals": 0},
        "legend": {"show": True},
    }
    return Panel(title, about, "heatmap", [query], "short", size, {}, options)


def ranking(title: str, about: str, query: Query, *, size: tuple[int, int], runbook: str) -> Panel:
    """Bars, one per series, the newest value of each."""
    options = {
        "displayMode": "gradient",
        "orientation": "horizontal",
        "minVizHeight": 12,
        "showUnfilled": True,
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    field = {"color": {"mode": "palette-classic"}, "min": 0, "decimals": 0, "noValue": "none"}
    return Panel(title, about, "bargauge", [query], "short", size, field, options, runbook=runbook)


class Column(NamedTuple):
    """A column of a table: the field as queries return it, its heading, its unit."""

    field: str
    head: str
    unit: str = ""


def table(  # noqa: PLR0913 - a panel, its parts
    title: str,
    about: str,
    queries: Sequence[Query],
    columns: Sequence[Column],
    *,
    size: tuple[int, int] = (24, 7),
    runbook: str = "",
) -> Panel:
    """Rows by the labels that the queries share; only the columns that are named, in their order."""
    heads = {c.field: c.head for c in columns}
    organize = {
        "indexByName": {c.field: at for at, c in enumerate(columns)},
        "renameByName": heads,
        "includeByName": dict.fromkeys(heads, True),
    }
    overrides = [
        {
            "matcher": {"id": "byName", "options": c.head},
            "properties": [{"id": "unit", "value": c.unit}],
        }
        for c in columns
        if c.unit
    ]
    options = {
        "cellHeight": "sm",
        "showHeader": True,
        "sortBy": [{"displayName": columns[-1].head, "desc": True}],
    }
    transformations = [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
    field = {"custom": {"align": "auto", "filterable": True}, "noValue": "nothing"}
    return Panel(
        title, about, "table", queries, "none", size, field, options, overrides, transformations, runbook
    )


def _colored(name: str, color: str) -> Json:
    value = {"mode": "fixed", "fixedColor": color}
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "color", "value": value}],
    }


def _dashed(pattern: str) -> Json:
    return {
        "matcher": {"id": "byRegexp", "options": pattern},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "custom.lineWidth", "value": 2},
        ],
    }
