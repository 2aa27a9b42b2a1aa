"""What telemetry reads when it is asked, as opposed to what it is told: the live state.

Whoever watches implements this; telemetry imports neither the loop nor the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from sidecar.agent import WatchLoss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.clock import Clock
    from sidecar.limits import Rules
    from sidecar.session import Session


class SourceState(Struct, frozen=True):
    """How a source fares. `last_read`: epoch seconds of the last read that succeeded."""

    agent: str
    source: str
    up: bool
    last_read: float | None = None


class ControlState(Struct, frozen=True):
    """Whether an agent's control can be reached; `source` is the control's kind."""

    agent: str
    source: str
    up: bool


class Facts(Struct, frozen=True):
    """What is true of the sidecar itself at this moment."""

    version: str
    mode: str
    config_hash: str
    watch_mode: str = "poll"
    watch_losses: dict[WatchLoss, int] = field(default_factory=dict)
    loop_lag: float = 0.0
    reload_ok: bool = True
    caps: dict[str, int] = field(default_factory=dict)
    """Sessions that agents allow at once, where they tell."""
    controls: tuple[ControlState, ...] = ()


class Watched(Protocol):
    """The live state. Read from the loop and, by a scrape, from other threads."""

    @property
    def clock(self) -> Clock:
        """The clock all core times are on."""

    def sessions(self) -> Iterable[Session]:
        """Give the live sessions."""

    def rules(self, session: Session, /) -> Rules:
        """Give the limits that hold for the session."""

    def agents(self) -> Iterable[tuple[str, str]]:
        """Give the configured agents: name and kind."""

    def sources(self) -> Iterable[SourceState]:
        """Give the state of every source."""

    def facts(self) -> Facts:
        """Give the sidecar's own state."""
