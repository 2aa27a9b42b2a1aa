"""The act itself: look again, judge again, write the reason, call, and see what comes of it.

A little longer than most: what it asks of the sessions stands beside the one order of its steps.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from sidecar import signals as g
from sidecar.act.brakes import Brakes
from sidecar.act.job import put_off, runs, since, whose
from sidecar.agent import Answer, Order
from sidecar.journal import JournalError
from sidecar.policy import bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar.act.brakes import Settings
    from sidecar.act.job import Job
    from sidecar.agent import Agent
    from sidecar.clock import Clock
    from sidecar.journal import Journal
    from sidecar.limits import Rules
    from sidecar.session import Session
    from sidecar.signals import ActOutcome

log = logging.getLogger(__name__)

REAP_PAUSES: Final = (2.0, 8.0)
"""A failed reap is tried again after these seconds: it may be repeated, an interrupt may not."""

LOOKS: Final = 6
"""How often within the grace the agent is looked at: one that is polled shows its end no sooner."""


class World(Protocol):
    """The sessions, as far as acting needs them."""

    @property
    def clock(self) -> Clock:
        """The core's time and the wall's."""

    def session(self, agent: str, session_id: str, /) -> Session | None:
        """The session of that id, if it is still known."""

    def fold(self, session: Session, signal: g.Signal, /) -> None:
        """The one writer of state; its listeners are told before this returns."""

    async def refresh(self, session: Session, /) -> None:
        """Re-read all that can be re-read of the session, through the same fold."""


class Doing:
    """What it takes to carry a job out; keeps nothing of it but the budget."""

    def __init__(
        self,
        world: World,
        agents: Mapping[str, Agent],
        rules: Callable[[Session], Rules],
        journal: Journal,
        settings: Settings,
    ) -> None:
        self.settings = settings
        now = world.clock.now()
        recent = journal.recent(world.clock.wall(now - settings.per))
        self.brakes = Brakes(min(now, world.clock.core(at)) for at in recent)
        self._world, self._agents, self._rules, self._journal = world, agents, rules, journal

    def impossible(self, job: Job) -> ActOutcome | None:
        """Why the act cannot be carried out at all."""
        session = job.session
        agent = self._agents.get(session.agent)
        if agent is None:
            return "unsupported"
        can = agent.can(session.id)
        if job.deed.action == "reap":
            return None if can.reap else "unsupported"
        if can.interrupt:
            return "superseded" if self._spent(job) else None
        # A subagent that cannot be ended alone: its verdict trips its parent's turn.
        parted = session.parent is not None and job.deed.bound is not None
        return "reported" if parted else "unsupported"

    def same(self, job: Job) -> bool:
        """Whether the session is still there, and its open turn still the same, or still none."""
        session = job.session
        if self._world.session(session.agent, session.id) is not session:
            return False
        return session.closed is None and job.ends == (session.turn.id if session.turn else None)

    def stands(self, job: Job) -> bool:
        """Whether the verdict would be given again."""
        session, now = job.session, self._world.clock.now()
        if session.attended:
            return False
        if job.follows:
            return session.progress_at == job.progress_at
        running = bounds(session, self._rules(session))
        return any(b.key == job.deed.key and now >= b.deadline for b in running)

    async def carry(self, job: Job) -> ActOutcome:
        """Carry the job out, from the look to the outcome."""
        if job.intended:  # by an earlier run, which did not live to see the outcome
            return await self._verify(job)
        for pause in REAP_PAUSES if job.deed.action == "reap" else ():
            outcome = await self._try(job)
            if outcome != "failed":
                return outcome
            await asyncio.sleep(pause)
        return await self._try(job)

    async def _try(self, job: Job) -> ActOutcome:
        if not await self._look(job):
            return "failed"
        if job.intended and job.effect.is_set():
            return whose(job)  # the call that seemed to fail had arrived
        if self._overtaken(job):
            return "superseded"
        if why := self._intend(job):
            return put_off(job, why)
        answer = await self._call(job)
        if answer.result == "accepted":
            return await self._verify(job)
        log.warning("%s: %s %s", job, answer.result, answer.detail)
        arrived = answer.result == "failed" and job.effect.is_set()
        return whose(job) if arrived else answer.result

    async def _look(self, job: Job) -> bool:
        """Read everything once more. Who cannot look does not act."""
        try:
            async with asyncio.timeout(self.settings.deadline):
                await self._world.refresh(job.session)
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises, it did not look
            log.warning("%s: it cannot be looked at: %s", job, type(error).__name__)
            return False
        return True

    def _overtaken(self, job: Job) -> bool:
        """Whether the session is no longer what was decided about."""
        session, reap = job.session, job.deed.action == "reap"
        if not self.same(job):
            return True
        if reap and not job.force and (runs(session) or session.in_background):
            return True
        if not reap and (not runs(session) or session.end is not None or self._spent(job)):
            return True
        if job.deed.bound is None:
            return False
        moved = session.progress_at != job.progress_at or session.end is not None
        return moved or not self.stands(job)

    def _spent(self, job: Job) -> bool:
        """Whether the turn had its interrupt; without a turn, whether its present state had one."""
        start = 0.0 if job.ends is not None else self._world.clock.wall(since(job.session))
        return self._journal.acted(job.deed.agent, job.deed.session, job.deed.turn, start)

    def _intend(self, job: Job) -> str:
        """Write the reason and tell it, once: only then may the agent be called. Or say why not."""
        if job.intended:
            return ""
        if why := self.brakes.hold(self.settings):
            return why
        now, deed = self._world.clock.now(), job.deed
        try:
            self._journal.intend(deed, job.reason, self._world.clock.wall(now))
        except JournalError as error:
            return str(error)
        job.intended = True
        job.effect.clear()
        intended = g.Intended(now, deed.action, deed.turn, deed.bound, job.reason)
        self._world.fold(job.session, intended)
        return ""

    async def _call(self, job: Job) -> Answer:
        deed, agent = job.deed, self._agents[job.deed.agent]
        seconds = max(self.settings.deadline, agent.can(deed.session).patience)
        order = Order(deed.action, deed.session, job.ends, job.reason, job.progress_at, job.force)
        try:
            async with asyncio.timeout(seconds):
                if deed.action == "interrupt":
                    return await agent.interrupt(order)
                return await agent.reap(order)
        except TimeoutError:
            return Answer("failed", f"no answer within {seconds:g} s")
        except Exception as error:  # noqa: BLE001 - an adapter's fault is its answer, not our end
            return Answer("failed", type(error).__name__)

    async def _verify(self, job: Job) -> ActOutcome:
        """Wait for the effect, and look for it now and then; the last look is after the grace."""
        now = asyncio.get_running_loop().time
        until = now() + self.settings.grace
        step = max(1.0, self.settings.grace / LOOKS)
        while not job.effect.is_set() and (left := until - now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(step, left)):
                    await job.effect.wait()
            if not job.effect.is_set():
                await self._look(job)
        return whose(job) if job.effect.is_set() else "ineffective"
