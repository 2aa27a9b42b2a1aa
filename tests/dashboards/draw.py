"""A panel drawn with matplotlib: enough of Grafana's look to judge what a reader of the dashboard sees."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.dashboards.charts import heat, lines
from tests.dashboards.shown import PALETTE, TEXT, named, value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tests.dashboards.shown import Json, Results

STATES = {"green": "#4caf50", "orange": "#ff9830", "red": "#e02f44"}


def draw(figure: Figure, panel: Json, results: Results, high: int) -> None:
    """Draw a panel at its place on a grid `high` rows high."""
    place = panel["gridPos"]
    x, y, w, h = place["x"] / 24, place["y"] / high, place["w"] / 24, place["h"] / high
    if panel["type"] == "row":
        figure.text(x + 0.006, 1 - y - h * 0.65, panel["title"], fontsize=11, weight="bold", color=TEXT)
        return
    gap, line = 0.003, 1 / high
    box = figure.add_axes((x + gap, 1 - y - h + line * 0.1, w - 2 * gap, h - line * 0.2))
    box.set(xticks=[], yticks=[], facecolor="white")
    box.spines[:].set_color("#d8d9da")
    figure.text(x + 0.008, 1 - y - line * 0.75, panel["title"], fontsize=8.5, weight="bold", color=TEXT)
    kind = panel["type"]
    if kind in ("timeseries", "heatmap"):
        wide = (0.66 if place["w"] > 8 else 0.55) if kind == "timeseries" else 0.9
        left = 0.035 + (0.03 if kind == "heatmap" else 0)
        inner = (x + left, 1 - y - h + line * 1.1, w * wide - 0.02, h - line * 2.2)
        axes = figure.add_axes(inner)
        (lines if kind == "timeseries" else heat)(axes, panel, results)
    else:
        {"stat": _number, "table": _table, "bargauge": _ranking}[kind](box, panel, results)


def _number(axes: Axes, panel: Json, results: Results) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    found = [
        (named(t, s), float((s.get("values") or [s.get("value")])[-1][1]))
        for t, rows in zip(panel["targets"], results, strict=True)
        for s in rows
    ]
    number = max((v for _, v in found), default=0.0)
    color = "green"
    for step in defaults["thresholds"]["steps"][1:]:
        if number >= step["value"]:
            color = step["color"]
    if panel["options"]["colorMode"] == "background":
        axes.set_facecolor(STATES[color])
        axes.text(
            0.5,
            0.4,
            value(number, defaults["unit"]),
            fontsize=20,
            ha="center",
            va="center",
            color="white",
            weight="bold",
        )
    else:
        for at, (name, v) in enumerate(found):
            middle = 0.5 if len(found) == 1 else 0.3 + 0.4 * at
            axes.text(
                middle, 0.45, f"{v:g}", fontsize=18, ha="center", va="center", color=TEXT, weight="bold"
            )
            axes.text(middle, 0.18, name, fontsize=8, ha="center", va="center", color=TEXT)


def _ranking(axes: Axes, panel: Json, results: Results) -> None:
    rows = sorted((float(s["value"][1]), named(panel["targets"][0], s)) for s in results[0])[-6:]
    top = max((v for v, _ in rows), default=1.0) or 1.0
    step = 0.72 / max(1, len(rows))
    for at, (number, name) in enumerate(rows):
        y = 0.06 + at * step
        axes.barh(
            y, 0.45 * number / top, step * 0.7, left=0.42, align="edge", color=PALETTE[at % len(PALETTE)]
        )
        axes.text(0.4, y + step * 0.3, name, fontsize=7, ha="right", va="center", color=TEXT)
        axes.text(
            0.43 + 0.45 * number / top, y + step * 0.3, f"{number:.0f}", fontsize=7, va="center", color=TEXT
        )
    axes.set(xlim=(0, 1), ylim=(0, 1))


def _table(axes: Axes, panel: Json, results: Results) -> None:
    organize = next(t["options"] for t in panel["transformations"] if t["id"] == "organize")
    heads = organize["renameByName"]
    units = {
        o["matcher"]["options"]: p["value"]
        for o in panel["fieldConfig"]["overrides"]
        for p in o["properties"]
        if p["id"] == "unit"
    }
    merged: list[Json] = []
    for target, rows in zip(panel["targets"], results, strict=True):
        field = "Value" if len(results) == 1 else f"Value #{target['refId']}"
        for s in rows:
            labels = {k: v for k, v in s["metric"].items() if not k.startswith("__")}
            same = [r for r in merged if all(r.get(k, v) == v for k, v in labels.items() if k in r)]
            row = same[0] if same and len(results) > 1 else {}
            if not row:
                merged.append(row)
            row |= labels | {field: float(s["value"][1])}
    columns = [f for f in heads if any(f in row for row in merged)] or list(heads)
    now = datetime.now(UTC).timestamp()
    cells = [[_cell(row.get(f, ""), units.get(heads[f], ""), now) for f in columns] for row in merged]
    if not cells:
        axes.text(0.5, 0.45, "nothing", fontsize=9, ha="center", color="#8e8e9c")
        return
    wide = [max(len(heads[f]), *(len(row[at]) for row in cells)) + 2 for at, f in enumerate(columns)]
    high = min(0.78, 0.13 * (len(cells) + 1) * 8 / panel["gridPos"]["h"])
    made = axes.table(
        cells,
        colLabels=[heads[f] for f in columns],
        colWidths=[w / sum(wide) for w in wide],
        bbox=(0.01, 0.82 - high, 0.98, high),
        cellLoc="left",
        edges="horizontal",
    )
    made.auto_set_font_size(False)
    made.set_fontsize(7)
    for (row, _), cell in made.get_celld().items():
        cell.set_edgecolor("#e8e9ea")
        cell.get_text().set_weight("bold" if row == 0 else "normal")


def _cell(content: object, unit: str, now: float) -> str:
    if not isinstance(content, float):
        return textwrap.shorten(str(content), 34, placeholder="…")
    if unit == "dateTimeFromNow":
        return f"{value(now - content / 1000, 's')} ago"
    return value(content, unit)
