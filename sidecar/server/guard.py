"""Who may ask: which names a request may be addressed to, and who has the token.

A web page can make a browser send requests to loopback under the page's own name (DNS rebinding),
so a request has to be addressed to an IP address, to localhost, or to a name that was configured.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from sidecar.config_units import split_address

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LONGEST_TOKEN: Final = 4096

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "agent-sidecar",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer. The page adds what it needs of its own to the policy."""


class Hosts:
    """The names that a request may be addressed to."""

    def __init__(self, listen: str, allowed: Iterable[str]) -> None:
        host, _ = split_address(listen)
        self._names = {"localhost", host.lower(), *(name.lower() for name in allowed)}

    def allow(self, header: str | None) -> bool:
        """Whether a Host header names us. The port is not compared: forwards change it."""
        if not header:
            return False
        host = header.strip().lower()
        if host.startswith("["):
            host, bracket, _ = host[1:].partition("]")
            return bool(bracket) and _is_address(host)
        host = host.rsplit(":", 1)[0] if host.count(":") == 1 else host
        return host.rstrip(".") in self._names or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class TokenUnreadableError(Exception):
    """The token file is missing, unreadable, empty or too long: nobody can be let in."""


def read_token(path: Path) -> bytes:
    """Read the token as it is now, so that a rotated secret counts at once."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST_TOKEN + 1)
    except OSError as error:
        raise TokenUnreadableError(f"the token file cannot be read: {error.strerror}") from None
    token = text.strip()
    if not token or len(text) > LONGEST_TOKEN:
        raise TokenUnreadableError("the token file is empty or too long")
    return token


def bearer(header: str | None, token: bytes) -> bool:
    """Whether an Authorization header carries the token; takes as long for any wrong one."""
    scheme, _, given = (header or "").partition(" ")
    known = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token)
    return known and scheme.lower() == "bearer"
