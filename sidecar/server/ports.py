"""What the server asks of the rest: sessions on the loop's thread, vital signs from any.

Whoever composes the program implements both; the server knows neither the fleet nor telemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from sidecar.signals import ActOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Shown = dict[str, Any]
"""A session object, as `sidecar.view` makes it."""


class Ask(Struct, frozen=True):
    """A person's request to end something. `force`: reap although a turn is open."""

    agent: str
    session: str
    action: Literal["interrupt", "reap"]
    reason: str
    force: bool


class Done(Struct, frozen=True):
    """What became of a request."""

    outcome: ActOutcome
    detail: str = ""


class Sessions(Protocol):
    """The sessions and what can be asked of them. Called on the event loop's thread only."""

    def sessions(self) -> Sequence[Shown]:
        """Every session that is listed."""

    def session(self, session: str, agent: str | None) -> Sequence[Shown]:
        """Those with this id: two agents may use the same one. None: of any agent."""

    def explain(self, agent: str, session: str) -> Shown:
        """The evidence, the running bounds and the last changes of one session."""

    def subscribe(self, tell: Callable[[str, str], None]) -> Callable[[], None]:
        """Call `tell(agent, session)` whenever a session is different; returns how to stop it.

        Only who changed is told: the object is asked for when a client is ready to take it.
        """

    async def ask(self, ask: Ask) -> Done:
        """Carry out a person's request and verify its effect; may take as long as the grace."""


class Vitals(Protocol):
    """Whether the sidecar itself lives, and its metrics.

    Called from the scrape listener's threads too, even while the event loop is blocked: nothing
    here may wait for the loop, take its locks, or touch a disk.
    """

    def stale(self) -> Sequence[str]:
        """The workers that have not stamped within their own interval, each as a short sentence.

        Constant work, and never about an agent: a stalled agent must not restart its pod.
        """

    def unready(self) -> Sequence[str]:
        """What has not come up yet, each as a short sentence."""

    def render(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that `accept` prefers, and its content type.

        Runs on the loop's thread as long as that answers, else beside it: it has to survive state
        that changes while it is read (a RuntimeError is tried again).
        """
