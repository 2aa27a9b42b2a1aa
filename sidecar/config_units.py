"""How single values are written in the configuration: the marks that a settings struct uses.

An adapter declares `timeout: Seconds = 5.0` beside its code and gets seconds; what the file says
is `timeout: 5s`. This module lies below the adapters so that they can say so; `config` reads the
marks and knows nothing else of an adapter. Every parser raises ValueError with the rest of a
sentence that begins with the value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

if TYPE_CHECKING:
    from collections.abc import Callable

Seconds = Annotated[float, Meta(extra={"unit": "duration"})]
"""Written `90s`, `20m`, `1h30m` or `2d`; the program sees seconds."""

FilePath = Annotated[str, Meta(extra={"unit": "path"})]
"""Absolute, or from the home directory (`~/…`): what is relative depends on who started it."""

Url = Annotated[str, Meta(extra={"unit": "url"})]
"""`http://`, `https://` or `unix:/path`, never with credentials: those are read from files."""

Address = Annotated[str, Meta(extra={"unit": "address"})]
"""`HOST:PORT` to listen on; an IPv6 host in brackets."""

LONGEST: Final = 30 * 86_400.0
"""A longer duration is a mistake of units; timers break on far longer ones in silence."""

HIGHEST_PORT: Final = 65_535

EXAMPLES: Final = "90s, 20m, 1h30m or 2d"

_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_DURATION: Final = re.compile("".join(rf"(?:{_NUMBER}{unit})?" for unit in ("d", "h", "m(?!s)", "s", "ms")))


def seconds(text: str) -> float:
    """A duration as seconds."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        if re.fullmatch(r"\d+(\.\d+)?", text):
            raise ValueError(f"has no unit; write {text}s, or a duration such as {EXAMPLES}")
        raise ValueError(f"is not a duration; write one such as {EXAMPLES}")
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    total = sum(float(number) * unit for number, unit in parts if number)
    if total > LONGEST:
        raise ValueError("is longer than 30d")
    return total


def written(duration: float) -> str:
    """Seconds as the configuration writes them: 5400 -> 1h30m."""
    rest, out = duration, ""
    for unit, size in _UNITS.items():
        whole = int(rest / size + 1e-9)
        if whole:
            out, rest = f"{out}{whole}{unit}", rest - whole * size
    return out or "0s"


def path(text: str) -> str:
    """A path that does not depend on the working directory."""
    if "\0" in text or not text.startswith(("/", "~/")):
        raise ValueError("is not an absolute path; begin it with / or ~/")
    return text


def url(text: str) -> str:
    """A URL without credentials."""
    if text.startswith("unix:/"):
        return text
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        known = False
    if not known:
        raise ValueError("is not a URL; write http://HOST:PORT, https://… or unix:/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("has credentials in it; they are read from files only")
    return text.rstrip("/")


def split_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; port 0 lets the system choose one."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host.removeprefix("[").removesuffix("]")
    fits = port.isascii() and port.isdigit() and int(port) <= HIGHEST_PORT
    if not colon or not bare or not fits or ((":" in bare) != bracketed) or re.search(r"[\s/]", bare):
        raise ValueError("is not an address; write HOST:PORT, for example 127.0.0.1:9475 or [::1]:9475")
    return bare, int(port)


def address(text: str) -> str:
    """An address as it was written, checked."""
    split_address(text)
    return text


TEXTS: Final[dict[str, Callable[[str], str]]] = {"path": path, "url": url, "address": address}
"""The units that are texts in the program too."""
