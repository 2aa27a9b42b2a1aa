"""Why the provider is asked again, by what the server says of it: a word, never its sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from msgspec import Raw

CAUSES: Final = (
    ("timeout", (b"timed out", b"timeout")),
    ("rate_limit", (b"rate limit", b"rate_limit", b"429", b"too many requests")),
    ("overloaded", (b"overload", b"529")),
    ("server_error", (b"500", b"502", b"503", b"504", b"server error", b"unavailable")),
    ("connection", (b"econn", b"socket", b"connect", b"network", b"fetch failed")),
)


def cause(text: Raw) -> str:
    """A closed set of words for why the provider is asked again."""
    written = bytes(memoryview(text)[:400]).lower()
    return next((word for word, marks in CAUSES if any(mark in written for mark in marks)), "other")
