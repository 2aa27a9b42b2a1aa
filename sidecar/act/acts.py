"""The door to acting: verdicts, people, changes, time and restarts come in here.

A little longer than most: whatever lets an act begin or puts it off shares the jobs that wait and run.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Literal

from sidecar import signals as g
from sidecar.act import memory
from sidecar.act.doing import Doing
from sidecar.act.job import Job, following, job_of, named, put_off, shows
from sidecar.journal import MAX_REASON, Deed, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar import changes as c
    from sidecar.act.brakes import Settings
    from sidecar.act.doing import World
    from sidecar.agent import Agent
    from sidecar.journal import Entry, Journal
    from sidecar.limits import Rules
    from sidecar.session import Session
    from sidecar.signals import ActOutcome

log = logging.getLogger(__name__)

HELD_PAUSE: Final = 5.0
"""Seconds before a held act is tried again."""


class Acts:
    """Carries out what policy and people decide; sees agents only through their port."""

    def __init__(
        self,
        world: World,
        agents: Mapping[str, Agent],
        rules: Callable[[Session], Rules],
        journal: Journal,
        settings: Settings,
    ) -> None:
        self._world, self._journal = world, journal
        self._doing = Doing(world, agents, rules, journal, settings)
        self._held: list[Job] = []
        self._tasks: set[asyncio.Task[ActOutcome]] = set()
        self._watched: dict[tuple[str, str], list[Job]] = {}
        self._unfinished: dict[tuple[str, str], list[Entry]] = {}
        self._earlier: dict[tuple[str, str], asyncio.Task[ActOutcome]] = {}
        self._closing = False

    @property
    def settings(self) -> Settings:
        """How acts are carried out; may be set anew at any time."""
        return self._doing.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._doing.settings = settings

    def carry_out(self, session: Session, judged: g.Judged) -> None:
        """Act on a verdict that was just folded, or say at once why not."""
        job = job_of(session, judged, judged.turn)
        at = self._world.clock.wall(judged.at)
        try:
            self._journal.verdict(job.deed, judged.evidence, judged.reason, at)
        except JournalError as error:
            log.warning("a verdict may be given again after a restart: %s", error)
        self._decide(job)

    async def ask(
        self,
        session: Session,
        action: Literal["interrupt", "reap"],
        reason: str,
        *,
        force: bool = False,
    ) -> ActOutcome:
        """Do what a person asks, in observe mode too.

        The hold file and the turn's one interrupt bind people as well; the budget does not, nor
        does it matter who attends the session or when it last moved. A reap that is not forced
        leaves a session that works alone: `superseded`. A call of an earlier run that may still be
        at work is waited for: a second one beside it can do harm.
        """
        if (earlier := self._earlier.pop((session.agent, session.id), None)) is not None:
            await asyncio.wait([earlier])
        ends = session.turn.id if session.turn else None
        deed = Deed(session.agent, session.id, named(session), action)
        job = Job(session, deed, " ".join(reason.split())[:MAX_REASON], ends, None, force)
        outcome = self._doing.impossible(job)
        if outcome is None and (why := self._doing.brakes.hold(self.settings)):
            outcome = put_off(job, why)
        if outcome is not None:
            self._finish(job, outcome)
            return outcome
        return await asyncio.shield(self._begin(job))

    def __call__(self, session: Session, change: c.Change, /) -> None:
        """Notice the effect of an act under way; to be told of every change."""
        for job in self._watched.get((session.agent, session.id), ()):
            if shows(job, session, change):
                job.effect.set()

    def tick(self, now: float) -> None:
        """Take up what was held, if it still stands. Nothing is left to do once its turn ended."""
        held, self._held = self._held, []
        for job in held:
            if not self._doing.same(job):
                continue
            if now < job.due or not self._doing.stands(job):
                self._held.append(job)
                continue
            if not job.follows:
                job.progress_at = job.session.progress_at
            self._decide(job)

    def recall(self, session: Session) -> list[g.Signal]:
        """What earlier runs decided and did about the session's turn, to be folded once.

        Call it when the session is first seen and its turn is known, then `resume`.
        """
        entries = self._journal.recall(session.agent, session.id)
        entries = memory.present(session, entries, self._world.clock)
        if entries:
            self._unfinished[session.agent, session.id] = entries
        return memory.signals(session, entries, self._world.clock)

    def resume(self, session: Session) -> None:
        """Go on where an earlier run was cut short; call it when what `recall` gave is folded.

        What was called is not called again, only verified; what was decided and not called is
        decided again.
        """
        entries = self._unfinished.pop((session.agent, session.id), [])
        decided, called = memory.unfinished(session, entries, self._world.clock)
        for job in decided:
            self._decide(job)
        for job in called:
            self._earlier[session.agent, session.id] = self._begin(job)

    async def drain(self, seconds: float) -> None:
        """Begin nothing more and wait for what runs; a restart verifies what is left over."""
        self._closing = True
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=seconds)
            if left:
                log.warning("%d acts still wait for their effect", len(left))

    def _decide(self, job: Job) -> None:
        outcome: ActOutcome | None
        if job.deed.action == "report":
            outcome = "reported"
        elif self.settings.mode == "observe":
            outcome = "observed"
        else:
            outcome = self._doing.impossible(job)
        if outcome is None:
            self._start(job)
        else:
            self._finish(job, outcome)

    def _start(self, job: Job) -> None:
        if self._closing:
            return  # a verdict without an outcome: the next run takes it up
        now, brakes = self._world.clock.now(), self._doing.brakes
        why = brakes.hold(self.settings) or brakes.take(now, self.settings)
        if why:
            self._finish(job, put_off(job, why))
            return
        job.slot = now
        _ = self._begin(job)  # runs by itself

    def _begin(self, job: Job) -> asyncio.Task[ActOutcome]:
        task = asyncio.create_task(self._run(job), name=str(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, job: Job) -> ActOutcome:
        key = (job.session.agent, job.session.id)
        self._watched.setdefault(key, []).append(job)
        try:
            outcome = await self._doing.carry(job)
        except Exception:
            log.exception("%s", job)
            outcome = "failed"
        finally:
            self._watched[key].remove(job)
            if not self._watched[key]:
                del self._watched[key]
        self._finish(job, outcome)
        lives_on = outcome == "ineffective" and job.deed.action == "interrupt" and job.ends is not None
        if lives_on and job.deed.bound is not None and self.settings.escalate == "reap":
            self._decide(following(job))  # a person decides that for himself
        return outcome

    def _finish(self, job: Job, outcome: ActOutcome) -> None:
        """Tell the outcome. A verdict that is held is told once and waits; a person asks again."""
        now, deed = self._world.clock.now(), job.deed
        if job.slot is not None and not job.intended:
            self._doing.brakes.give_back(job.slot)
        job.slot = None
        if outcome == "held" and deed.bound is not None:
            said, job.held, job.due = job.held, True, now + HELD_PAUSE
            self._held.append(job)
            if said:
                return
        try:
            self._journal.outcome(deed, outcome, self._world.clock.wall(now))
        except JournalError as error:
            log.warning("an outcome is not written down: %s", error)
        acted = g.Acted(now, deed.action, deed.turn, deed.bound, outcome, deed.key, job.intended)
        self._world.fold(job.session, acted)
