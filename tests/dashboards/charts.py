"""Panels over time, drawn with matplotlib: lines, stacks and heat maps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tests.dashboards.shown import named_series, value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tests.dashboards.shown import Json, Results


def _points(series: Json) -> tuple[list[datetime], list[float]]:
    return [datetime.fromtimestamp(at, UTC) for at, _ in series["values"]], [
        float(v) for _, v in series["values"]
    ]


def lines(axes: Axes, panel: Json, results: Results) -> None:
    custom, unit = panel["fieldConfig"]["defaults"]["custom"], panel["fieldConfig"]["defaults"]["unit"]
    stacking, shown = custom["stacking"]["mode"], named_series(panel, results)
    if stacking != "none":
        _stacked(axes, shown, percent=stacking == "percent")
    else:
        for name, color, series in shown:
            dashed = name.endswith(" limit")
            at, values = _points(series)
            axes.plot(
                at, values, color=color, lw=1.6 if dashed else 1.1, ls="--" if dashed else "-", label=name
            )
    if custom["scaleDistribution"]["type"] == "log":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif not any(v < 0 for _, _, s in shown for v in _points(s)[1]):
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: value(v, unit)))
    _look(axes)
    if shown:
        newest = {name: value(_points(s)[1][-1], unit) for name, _, s in shown}
        handles, names = axes.get_legend_handles_labels()
        texts = [f"{name}  {newest[name]}" if stacking == "none" else name for name in names]
        axes.legend(
            handles, texts, loc="upper left", bbox_to_anchor=(1.01, 1.03), fontsize=6.5, frameon=False
        )


def _stacked(axes: Axes, shown: list[tuple[str, str, Json]], *, percent: bool) -> None:
    grid = sorted({at for _, _, s in shown for at, _ in s["values"]})
    if not grid:
        return
    rows = []
    for _, _, series in shown:
        known = {at: float(v) for at, v in series["values"]}
        rows.append([known.get(at, 0.0) for at in grid])
    stack = np.nan_to_num(np.array(rows))
    if percent:
        stack = 100 * stack / np.maximum(stack.sum(axis=0), 1e-9)
    at = [datetime.fromtimestamp(t, UTC) for t in grid]
    axes.stackplot(
        at, stack, colors=[c for _, c, _ in shown], labels=[name for name, _, _ in shown], alpha=0.75
    )


def heat(axes: Axes, _: Json, results: Results) -> None:
    rows = sorted(results[0], key=lambda s: float(s["metric"]["le"]))
    grid = sorted({at for s in rows for at, _ in s["values"]})
    table = [dict(s["values"]) for s in rows]
    counts = np.array([[float(row.get(at, 0)) for at in grid] for row in table])
    counts = np.diff(counts, axis=0, prepend=0)
    shown = np.ma.masked_less_equal(counts, 0.01)
    at = [datetime.fromtimestamp(t, UTC) for t in grid]
    axes.pcolormesh(at, np.arange(len(rows)), shown, cmap="Oranges", shading="nearest")
    labels = [s["metric"]["le"] for s in rows]
    axes.set_yticks(
        range(len(rows)), [f"≤ {value(float(le), 's')}" if le != "+Inf" else "longer" for le in labels]
    )
    _look(axes)


def _look(axes: Axes) -> None:
    # Few enough that a picture of three minutes has a tick a minute: finer ones would repeat their label.
    axes.xaxis.set_major_locator(AutoDateLocator(minticks=2, maxticks=6))
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.tick_params(labelsize=6.5, length=2, colors="#52545c")
    axes.grid(color="#e8e9ea", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
