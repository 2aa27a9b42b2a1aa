"""Trace and span ids, derived from what they stand for.

Nothing is remembered: a sidecar that restarts in the middle of a turn goes on with the same trace,
a subagent can point at its parent's tool call without a look-up, and an exemplar names a trace
whose root does not exist yet. Hashes spread evenly, so samplers that cut by trace id stay fair.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

TRACE_BYTES = 16
SPAN_BYTES = 8


@lru_cache(1024)  # each tool of a turn asks for the same ones
def _hash(size: int, *parts: str) -> int:
    digest = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:size], "big") or 1  # zero means "no id"


def trace_id(agent: str, session: str, turn: str) -> int:
    """Return the id of a turn's trace."""
    return _hash(TRACE_BYTES, "trace", agent, session, turn)


def span_id(agent: str, session: str, turn: str, *part: str) -> int:
    """Return the id of a turn's root span, or of a part of the turn."""
    return _hash(SPAN_BYTES, "span", agent, session, turn, *part)


def tool_span_id(agent: str, session: str, turn: str, call: str) -> int:
    """Return the id of a tool call's span: what a subagent links to."""
    return span_id(agent, session, turn, "tool", call)


def hex_trace(trace: int) -> str:
    """Write a trace id as everybody does."""
    return f"{trace:032x}"


def hex_span(span: int) -> str:
    """Write a span id as everybody does."""
    return f"{span:016x}"
