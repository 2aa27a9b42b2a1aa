"""The one door to agents: what an adapter is, and what the rest may ask of it.

`watch` reads `sources` and folds what they observe; `act` asks `look`, `interrupt` and `reap`.
Neither knows which agent it talks to, and no adapter knows another.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

from msgspec import Struct

from sidecar.signals import Action, Resolution

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sidecar.signals import Observation


TOOL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,127}")
"""What the name of a tool looks like, those of MCP servers included."""

UNNAMED_TOOL: Final = "unknown"


def tool_name(told: str | None) -> str:
    """A tool's name where it is one. Models invent tools: anything else could be content, and as long."""
    return told if told is not None and TOOL.fullmatch(told) else UNNAMED_TOOL


class SourceDown(Exception):  # noqa: N818 - it says what happened; no caller has erred
    """A source cannot be read now. The text says why, without content: it is shown and logged."""


WatchLoss = Literal["overflow", "no_instance", "no_watch", "network", "unsupported"]
"""Why the kernel did not tell of a change: events were dropped, once; or, from then on, files are polled
because it gives no queue or watch more, the file system is another machine's, or it cannot tell at all."""


class Source(Protocol):
    """One place where an agent can be observed: its transcripts, its status files, an endpoint."""

    @property
    def name(self) -> str:
        """What it is called in metrics and findings."""

    @property
    def every(self) -> float:
        """Seconds between two reads, 0 while there is more to read; a set `wake` brings the next forward."""

    @property
    def patience(self) -> float:
        """Seconds one read may take before the sidecar calls itself unhealthy."""

    @property
    def wake(self) -> asyncio.Event | None:
        """Set when there is something to read; None: only time tells."""

    async def read(self) -> Sequence[Observation]:
        """What was seen since the last read. Raises SourceDown."""


@runtime_checkable
class Piecewise(Protocol):
    """An agent whose look may leave something unread, so that none holds the loop."""

    def unread(self, session: str) -> bool:
        """Whether the last look at the session did: fold what it saw, and look again."""


async def looks(agent: Agent, session: str) -> AsyncIterator[Sequence[Observation]]:
    """Look until nothing of the session is left unread.

    Others are served between two pieces, and read on: fold what is given before the next is asked for.
    """
    yield await agent.look(session)
    while isinstance(agent, Piecewise) and agent.unread(session):
        await asyncio.sleep(0)
        yield await agent.look(session)


@runtime_checkable
class Resumes(Protocol):
    """An adapter that reads on, after a restart, where it was."""

    def places(self) -> bytes:
        """How far what it reads was read, as JSON, in words of its own."""

    def resume(self, places: bytes) -> bool:
        """Read on there, as far as what is there is still the same; before the first read. Never raises.

        False: they are places in something else than what is read now, all of which is history.
        """


class Sees(Struct, frozen=True):
    """What an adapter can see of a session at best, as it is configured."""

    resolution: Resolution | None
    """How finely it sees a turn's progress; None: it sees no turns, only life and death."""
    tools: bool
    """Open tool calls."""
    waiting: bool
    """That somebody is waited for."""
    status: bool
    """The agent's own word for whether it works."""


class Can(Struct, frozen=True):
    """What can be done to a session. A subagent that cannot be ended alone has neither."""

    interrupt: bool
    reap: bool
    patience: float = 0.0
    """Seconds a call may take before it counts as failed, where the agent is known to need longer than
    `actions.deadline` gives: a compile box answers a close when all is torn down, 10 s at worst."""


class Order(Struct, frozen=True):
    """An act to carry out. `progress_at` is the progress that was judged, on the core clock."""

    action: Action
    session: str
    turn: str | None
    reason: str
    progress_at: float | None
    force: bool = False
    """Reap although a turn is open."""


class Answer(Struct, frozen=True):
    """What the control said. `accepted` is a promise, not an effect: that is verified after."""

    result: Literal["accepted", "failed", "unsupported", "superseded"]
    detail: str = ""


class Finding(Struct, frozen=True):
    """A line of `check`: whether something can be read, reached, controlled or seen."""

    what: str
    ok: bool
    detail: str


class Agent(Protocol):
    """An adapter for one configured agent."""

    @property
    def name(self) -> str:
        """The `agent` label: the configured name, by default the preset's or the kind's."""

    @property
    def kind(self) -> str:
        """Which adapter it is."""

    @property
    def sources(self) -> Sequence[Source]:
        """Where it can be observed."""

    @property
    def sees(self) -> Sees:
        """What it can see; what else happens is not judged."""

    async def look(self, session: str) -> Sequence[Observation]:
        """Re-read all that can be re-read of one session, right before an act."""

    def can(self, session: str) -> Can:
        """What can be done to this session now."""

    async def interrupt(self, order: Order) -> Answer:
        """End the open turn and keep the session."""

    async def reap(self, order: Order) -> Answer:
        """Tear the session down in the agent's safest way that keeps its history."""

    async def probe(self) -> Sequence[Finding]:
        """For `check`: can it be read, reached, controlled; are its processes visible."""

    async def close(self) -> None:
        """Let go of files and connections."""
