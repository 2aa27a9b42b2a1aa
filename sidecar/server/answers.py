"""Health, readiness and metrics as answers, the same for both listeners."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.server.ports import Vitals

JSON: Final = "application/json"

log = logging.getLogger("sidecar.server")


class Answer(NamedTuple):
    """A status, a content type and a body."""

    status: int
    type: str
    body: bytes


def said(status: int, content: object) -> Answer:
    """Some content as JSON."""
    return Answer(status, JSON, msgspec.json.encode(content) + b"\n")


def alive(vitals: Vitals) -> Answer:
    """`/healthz`: 503 names the workers that stand still."""
    return _checked("alive", "stale", vitals.stale)


def ready(vitals: Vitals) -> Answer:
    """`/readyz`: 503 names what has not come up."""
    return _checked("ready", "unready", vitals.unready)


def _checked(good: str, bad: str, check: Callable[[], Sequence[str]]) -> Answer:
    try:
        found = list(check())
    except Exception:
        log.warning("the check of what is %s failed", bad, exc_info=True)
        found = ["the check itself failed; see the log"]
    return said(503 if found else 200, {good: not found, bad: found})


def metrics(vitals: Vitals, accept: str, tries: int = 1) -> Answer:
    """`/metrics`, in the format that the scraper prefers.

    Beside the loop it is tried more than once: state may change while it is read.
    """
    try:
        body, kind = vitals.render(accept)
    except Exception as error:
        if tries > 1 and isinstance(error, RuntimeError):
            return metrics(vitals, accept, tries - 1)
        log.warning("the metrics could not be rendered", exc_info=True)
        return said(500, {"error": "the metrics could not be rendered; see the log"})
    return Answer(200, kind, body)
