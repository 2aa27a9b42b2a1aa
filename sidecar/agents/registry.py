"""The agents that can be watched, by kind: a literal table, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from sidecar.agents.claude_code import recording as claude_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sidecar.signals import Observation


class Recording(Protocol):
    """What an agent left behind, to be read once."""

    def observations(self) -> list[Observation]:
        """Everything recorded, in file order per file; times are the records' own."""


class Kind(Struct, frozen=True):
    """An agent kind: how its recordings are read."""

    name: str
    recording: Callable[[Sequence[Path]], Recording]


KINDS: Final[dict[str, Kind]] = {
    "claude-code": Kind("claude-code", claude_code.Recording),
}
