"""Addresses that cannot be listened on, said so that one knows what to change."""

from __future__ import annotations

import errno
import socket
from typing import Final

WHY: Final = {
    errno.EADDRINUSE: "the port is in use, perhaps by another sidecar",
    errno.EACCES: "permission denied; ports below 1024 need a privilege",
    errno.EPERM: "permission denied",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EAFNOSUPPORT: "this machine does not speak that kind of address",
}


class ListenError(Exception):
    """A listener that did not come up; the text names the setting, the address and the reason."""

    def __init__(self, setting: str, address: str, error: OSError) -> None:
        why = "the host name cannot be resolved" if isinstance(error, socket.gaierror) else None
        why = why or WHY.get(error.errno or 0) or error.strerror or str(error)
        super().__init__(f"{setting}: cannot listen on {address}: {why}")


def bound_to(listening: socket.socket) -> str:
    """HOST:PORT of a socket that listens: with port 0 the system chose one."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
