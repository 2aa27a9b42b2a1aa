"""Spans and log events as this package speaks of them, before any SDK does.

What makes them knows no OpenTelemetry, and what sends them knows no sessions; without a collector
configured nothing of the SDK is ever imported.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Value = str | bool | int | float


class Link(Struct, frozen=True):
    """A pointer to a span of another trace."""

    trace: int
    span: int


class Span(Struct, frozen=True):
    """A finished span. Times are epoch seconds; `error` is its `error.type`, where it failed."""

    name: str
    trace: int
    id: int
    parent: int | None
    start: float
    end: float
    attributes: dict[str, Value]
    kind: Literal["internal", "client"] = "internal"
    links: tuple[Link, ...] = ()
    error: str | None = None
    reason: str = ""
    """The status description: our own sentence, never the agent's."""


class Event(Struct, frozen=True):
    """A log event in the context of a turn's trace; `trace` 0: of none."""

    name: str
    at: float
    trace: int
    span: int
    attributes: dict[str, Value]
    severity: Literal["info", "warn"] = "info"
    text: str = ""
    """The body, for back ends that show nothing else: our own words."""
    line: dict[str, Any] = {}
    """The lifecycle line that it takes the place of."""
