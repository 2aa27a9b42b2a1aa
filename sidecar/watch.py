"""The loop: a task per source and one ticker. Signals in, changes out; nothing else runs here.

Each source is read at its own pace and its reads are stamped, so that a hung one can be told from
a quiet one. The ticker settles and judges; when it comes late itself (the sidecar was frozen,
suspended, starved), every bound is extended by that and every source is read once more before
anything is judged: our own blindness is not an agent's silence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from sidecar import signals as g
from sidecar.agent import SourceDown, looks
from sidecar.fleet import Fleet
from sidecar.health import RETRY, State
from sidecar.limits import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sidecar.agent import Agent, Source
    from sidecar.clock import Clock
    from sidecar.fleet import Past
    from sidecar.session import Session

log = logging.getLogger("sidecar.watch")

BEAT: Final = 1.0
"""Seconds between two ticks at most: what loop lag and lateness are measured by."""

SHORTEST: Final = 0.001
"""The shortest pause between two ticks, in seconds: a deadline a rounding error away is no reason
to spin."""

LATE: Final = 2.0
"""A tick that comes this much too late means that the observer did not run, not that it was busy."""

FIRST_LOOK: Final = 5.0
"""How long the first reads are waited for, so that sources that know one session merge by time."""


class Doing(Protocol):
    """Whoever carries verdicts out."""

    def carry_out(self, session: Session, judged: g.Judged) -> None:
        """Act on a verdict, or say why not; returns at once."""

    def recall(self, session: Session) -> Iterable[g.Signal]:
        """What the journal knows of the session's turn."""

    def resume(self, session: Session) -> None:
        """Take up the verification of an act that a restart cut short."""

    def tick(self, now: float) -> None:
        """Take up what a brake held."""


class Settings(Struct, frozen=True):
    """What the watch takes from the configuration."""

    rules: Mapping[str, Rules]
    luck: Callable[[], float]


class Watch:
    """Watches agents until it is cancelled."""

    def __init__(self, agents: Sequence[Agent], settings: Settings, clock: Clock,
                 past: Past | None = None) -> None:  # fmt: skip
        self.clock = clock
        self.agents = {agent.name: agent for agent in agents}
        self.settings = settings
        self.doing: Doing | None = None
        self.started = clock.now()
        self.fleet = Fleet(self, told_from=self.started, past=past)
        self.states = {
            (agent.name, source.name): State(agent.name, source.name, source.every, source.patience)
            for agent in agents
            for source in agent.sources
        }
        self._locks = {key: asyncio.Lock() for key in self.states}
        self.lag = 0.0
        self.ticked_at = self.started
        self.ready = False
        self._over = False
        self._due = asyncio.Event()
        self._skew = clock.wall(0.0)

    # What the fleet asks.

    def rules(self, session: Session) -> Rules:
        """The limits of the session's agent."""
        return self.settings.rules[session.agent]

    def alone(self, session: Session) -> bool:
        """Whether the session's own turn can be ended."""
        return session.parent is None or self.agents[session.agent].can(session.id).interrupt

    def luck(self) -> float:
        """A session's share of the jitter."""
        return self.settings.luck()

    def decide(self, session: Session, judged: g.Judged) -> None:
        """Hand a verdict to whoever acts."""
        if self.doing is not None:
            self.doing.carry_out(session, judged)

    def opened(self, session: Session) -> Iterable[g.Signal]:
        """What was decided about the session before a restart."""
        return () if self.doing is None else self.doing.recall(session)

    def woken(self, session: Session) -> None:
        """Have an act that a restart cut short taken up."""
        if self.doing is not None:
            self.doing.resume(session)

    # What acting and telling ask.

    def sessions(self) -> list[Session]:
        """The sessions that are shown."""
        return self.fleet.live()

    def session(self, agent: str, session_id: str) -> Session | None:
        """A shown session."""
        found = self.fleet.get(agent, session_id)
        return None if found is None or found.dormant else found

    def fold(self, session: Session, signal: g.Signal) -> None:
        """The one writer, for the outcomes of our own acts."""
        self.fleet.fold(session, signal)
        self._due.set()

    async def refresh(self, session: Session) -> None:
        """Re-read what can be re-read of a session and its subagents, through the one fold."""
        for name in (session.id, *session.children):
            async for found in looks(self.agents[session.agent], name):
                self.fleet.observe(session.agent, found, self.clock.now())

    def stale(self) -> list[str]:
        """The workers that hang; empty where all is well. Never depends on an agent's state."""
        now = self.clock.now()
        hung = [f"{s.agent}/{s.source}" for s in self.states.values() if s.stale(now)]
        if now - self.ticked_at > BEAT + LATE + FIRST_LOOK:
            hung.append("ticker")
        return hung

    # The loop.

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._first_look()
        self.ready = True
        async with asyncio.TaskGroup() as tasks:
            for agent in self.agents.values():
                for source in agent.sources:
                    tasks.create_task(self._follow(agent, source), name=f"{agent.name}/{source.name}")
            tasks.create_task(self._tick(), name="ticker")

    async def last_look(self, within: float) -> None:
        """Once `run` is over: read what was written last, and take pending ends for what they are.

        A container's sidecar is ended as soon as its agent has, and nobody reads after it. Nothing is judged,
        and a source that went with its agent is no loss. Takes at most `within` seconds.
        """
        self._over = True
        until, agents = self.clock.now() + within, self.agents.values()
        await asyncio.gather(*(self._look(agent, within) for agent in agents))
        while any(s.every <= 0 for a in agents for s in a.sources) and (left := until - self.clock.now()) > 0:
            await asyncio.gather(*(self._look(agent, left) for agent in agents))
        for session in self.fleet.live():
            if session.end is not None:
                self.fleet.fold(session, g.Ticked(max(self.clock.now(), session.end.due)))

    async def _first_look(self) -> None:
        """Read everything once, and merge by time: a status must not overtake the history."""
        for agent in self.agents.values():
            await self._look(agent, FIRST_LOOK)
        self.ticked_at = self.clock.now()

    async def _look(self, agent: Agent, within: float) -> None:
        """Read every source of an agent once; those that take longer than `within` are left."""
        reads = [asyncio.ensure_future(self._read(agent, source)) for source in agent.sources]
        if not reads:
            return
        done, late = await asyncio.wait(reads, timeout=within)
        for task in late:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        found = [observation for task in done for observation in task.result()]
        self.fleet.observe(agent.name, found, self.clock.now())

    async def _follow(self, agent: Agent, source: Source) -> None:
        state = self.states[agent.name, source.name]
        while True:
            await self._pause(source, state)
            found = await self._read(agent, source)
            if found:
                self.fleet.observe(agent.name, found, self.clock.now())
                self._due.set()

    async def _pause(self, source: Source, state: State) -> None:
        pause = source.every
        if state.failures:
            pause = min(RETRY, max(source.every, 0.5) * 2 ** min(state.failures, 6))
        if source.wake is None or pause <= 0:  # what lies there already rings for nobody
            await asyncio.sleep(pause)
        else:
            with suppress(TimeoutError):  # no `wait_for`: before Python 3.12 it may swallow our end
                async with asyncio.timeout(pause):
                    await source.wake.wait()
        if source.wake is not None:
            source.wake.clear()

    async def _read(self, agent: Agent, source: Source) -> Sequence[g.Observation]:
        state = self.states[agent.name, source.name]
        async with self._locks[agent.name, source.name]:
            return await self._read_alone(agent, source, state)

    async def _read_alone(self, agent: Agent, source: Source, state: State) -> Sequence[g.Observation]:
        state.reading_since = self.clock.now()
        try:
            found = await source.read()
        except SourceDown as down:
            if not self._over:
                self._lost(state, str(down))
            return ()
        except Exception as error:
            # One broken source must not stop the others; its name and place are told, no content.
            log.exception("source %s/%s: %s", agent.name, source.name, type(error).__name__)
            self._lost(state, type(error).__name__)
            return ()
        finally:
            state.beat, state.reading_since = self.clock.now(), None
        state.last_read = state.beat
        state.failures = 0
        if not state.up:
            self._regained(state)
        return found

    def _lost(self, state: State, why: str) -> None:
        if state.up:  # sessions tell of it too, but there may be none: a wrong address shows nothing else
            log.warning("source %s/%s is lost: %s", state.agent, state.source, why)
        state.failures += 1
        state.up, state.why = False, why
        now = self.clock.now()
        for session in self.fleet.known(state.agent):
            if session.sources.get(state.source):
                self.fleet.fold(session, g.SourceLost(now, state.source))

    def _regained(self, state: State) -> None:
        log.info("source %s/%s is read again", state.agent, state.source)
        state.up, state.why = True, None
        now = self.clock.now()
        for session in self.fleet.known(state.agent):
            if session.sources.get(state.source) is False:
                self.fleet.fold(session, g.SourceUp(now, state.source))

    async def _tick(self) -> None:
        due = self.clock.now()
        while True:
            pause = min(BEAT, max(SHORTEST, due - self.clock.now()))
            planned = self.clock.now() + pause
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._due.wait()
                planned = self.clock.now()
            self._due.clear()
            await asyncio.sleep(0)  # let what arrived together be judged together
            now = self.clock.now()
            self.lag = max(0.0, now - planned)
            if self.lag > LATE or self._stepped():
                await self._catch_up(self.lag)
                now = self.clock.now()
            due = self.fleet.tick(now)
            if self.doing is not None:
                self.doing.tick(now)
            self.ticked_at = now

    def _stepped(self) -> bool:
        """Whether the wall clock and ours moved apart: a suspend, or a step of the wall clock."""
        skew = self.clock.wall(0.0)
        moved, self._skew = abs(skew - self._skew) > LATE, skew
        return moved

    async def _catch_up(self, by: float) -> None:
        """We did not run: extend every bound by that, and look again before anything is judged."""
        now = self.clock.now()
        for session in self.fleet.live():
            self.fleet.fold(session, g.Late(now, by))
        for agent in self.agents.values():
            await self._look(agent, FIRST_LOOK)
        self.fleet.due(self.clock.now())
