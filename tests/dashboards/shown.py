"""What a panel says of its results: numbers in its unit, series by its legend, in its colours."""

from __future__ import annotations

import re
from math import isnan
from typing import Any

Json = dict[str, Any]
Results = list[list[Json]]
TEXT = "#24292e"
PALETTE = (
    "#5794f2",
    "#ff9830",
    "#56a64b",
    "#b877d9",
    "#e02f44",
    "#f2cc0c",
    "#6ed0e0",
    "#8e8e9c",
    "#a16a3c",
    "#37872d",
)


def value(number: float, unit: str) -> str:
    """A number as the panel's unit has it."""
    if isnan(number):
        return ""
    if unit in ("s", "dateTimeFromNow"):
        for size, name in ((3600, "h"), (60, "min"), (1, "s")):
            if abs(number) >= size:
                return f"{number / size:.3g} {name}"
        return f"{number * 1000:.3g} ms" if number else "0 s"
    if unit == "bytes":
        return f"{number / 2**20:.0f} MiB"
    if unit in ("percentunit", "percent"):
        return f"{number * (100 if unit == 'percentunit' else 1):.3g} %"
    if abs(number) >= 1000:
        number, unit = number / 1000, f"suffix: k{unit.removeprefix('suffix:').strip()}"
    return f"{number:.3g}" + (unit.removeprefix("suffix:") if unit.startswith("suffix:") else "")


def named(target: Json, series: Json) -> str:
    """The legend of a series."""
    return re.sub(r"{{(\w+)}}", lambda m: series["metric"].get(m[1], ""), target["legendFormat"])


def colors(panel: Json) -> dict[str, str]:
    """The colours that the panel gives by name."""
    return {
        o["matcher"]["options"]: p["value"]["fixedColor"]
        for o in panel["fieldConfig"]["overrides"]
        for p in o["properties"]
        if p["id"] == "color"
    }


def named_series(panel: Json, results: Results) -> list[tuple[str, str, Json]]:
    """Name, colour and points of every series."""
    fixed = colors(panel)
    found: list[tuple[str, str, Json]] = []
    for target, rows in zip(panel["targets"], results, strict=True):
        for series in rows:
            name = named(target, series)
            found.append((name, fixed.get(name, PALETTE[len(found) % len(PALETTE)]), series))
    return found
