"""Which version this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """The version that is installed; `0` when run from a bare checkout."""
    try:
        return version("agent-sidecar")
    except PackageNotFoundError:
        return "0"
