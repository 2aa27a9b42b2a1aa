"""Asking a real Prometheus what a dashboard would ask it."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

from tests.dashboards.names import plain

Json = dict[str, Any]


class Shown(NamedTuple):
    """What a panel shows: how far back, the step of its lines, and the window of its rates (all in seconds)."""

    back: int = 60
    step: int = 1
    window: int = 10

    def filled(self, expr: str) -> str:
        """An expression with Grafana's variables filled in, every place chosen."""
        here = expr.replace("$__rate_interval", f"{self.window}s").replace("$__range", f"{self.back}s")
        return plain(here)


class Prometheus:
    """The query API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **asked: object) -> Any:
        """The data of an answer; an error of the query is raised with its text."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{asked}: {error.read().decode()}") from error

    def now(self, expr: str) -> list[Json]:
        """The series of an expression at this moment."""
        found: list[Json] = self.get("query", query=expr)["result"]
        return found

    def target(self, target: Json, shown: Shown) -> list[Json]:
        """The series of a panel's target, as Grafana would ask for them."""
        expr = shown.filled(target["expr"])
        if target["instant"]:
            return self.now(expr)
        end = time.time()
        found: list[Json] = self.get(
            "query_range", query=expr, start=end - shown.back, end=end, step=shown.step
        )["result"]
        return found

    def exemplars(self, metric: str) -> list[Json]:
        """The examples of a metric within the last ten minutes."""
        found = self.get("query_exemplars", query=metric, start=time.time() - 600, end=time.time())
        return [example for series in found for example in series["exemplars"]]

    def variable(self, query: str) -> list[str]:
        """The values of a variable `label_values(METRIC, LABEL)`."""
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert asked
        found: list[str] = self.get(f"label/{asked[2]}/values", **{"match[]": plain(asked[1])})
        return found
