"""The running sidecar: every part put together once, started, reloaded and stopped here."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar.act import Acts
from sidecar.act import Settings as ActSettings
from sidecar.agent import Resumes
from sidecar.agents.registry import KINDS
from sidecar.board import Board
from sidecar.clock import LiveClock
from sidecar.config.version import package_version
from sidecar.itself import caps, reached, unheard, watched_by
from sidecar.journal import Journal
from sidecar.server import Options, Server
from sidecar.snapshot import Snapshot
from sidecar.telemetry.targets import OtlpError, OtlpSettings, Protocol
from sidecar.telemetry.telemetry import Settings as TelemetrySettings
from sidecar.telemetry.telemetry import Telemetry
from sidecar.telemetry.watched import Facts, SourceState
from sidecar.watch import Settings as WatchSettings
from sidecar.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TextIO

    from sidecar.config import AgentConfig, Config
    from sidecar.config.reload import Reload, Reloaded
    from sidecar.limits import Rules
    from sidecar.session import Session

log = logging.getLogger("sidecar")

DRAIN: Final = 1.5
LAST_LOOK: Final = 0.5
FLUSH: Final = 2.0
"""Seconds at shutdown for acts under way, for what agents wrote last and for the last push: together
under the 5 s in which a terminated sidecar has to be gone."""

PROTOCOLS: Final[dict[str, Protocol]] = {"http": "http/protobuf", "grpc": "grpc"}

POLL: Final = 2.0
"""Seconds between two looks at the configuration file; a change has to be read twice."""


def chosen(config: Config) -> tuple[AgentConfig, ...]:
    """The agents to watch: those configured, else those found here, else all that could come."""
    if config.agents is not None:
        return config.agents
    here = tuple(agent for kind, agent in config.found.items() if KINDS[kind].found())
    return here or tuple(config.found.values())


class Service:
    """One sidecar."""

    def __init__(self, config: Config, stream: TextIO, *, reload: Reload | None = None) -> None:
        """Must be made inside the event loop: core time is the loop's."""
        loop = asyncio.get_running_loop()
        self.clock = LiveClock(loop.time, time.time)
        self.config = config
        self._reload = reload
        self._reload_ok = True
        entries = chosen(config)
        agents = [KINDS[entry.kind].build(entry, self.clock) for entry in entries]
        self._controls = {entry.name: entry.control.kind for entry in entries if entry.control is not None}
        rules = {entry.name: entry.rules for entry in entries}
        luck = random.Random().random  # noqa: S311 - jitter is no secret
        self._readers = {agent.name: agent for agent in agents if isinstance(agent, Resumes)}
        resumes = {a.name: a.resume if isinstance(a, Resumes) else nowhere for a in agents}
        self.snapshot = Snapshot(Path(config.settings.state_dir) / "snapshot.jsonl", self.clock, resumes)
        self.watch = Watch(agents, WatchSettings(rules, luck), self.clock, self.snapshot.past)
        self._version = package_version()
        why = unwritable(Path(config.settings.state_dir))
        if why is not None:
            log.warning("state_dir %s: %s; nothing will be ended", config.settings.state_dir, why)
        self.snapshot.save()
        self.snapshot.read_to = self._read_to
        journal = Journal(Path(config.settings.state_dir) / "journal.jsonl")
        self.acts = Acts(self.watch, self.watch.agents, self.watch.rules, journal, acting(config))
        self.watch.doing = self.acts
        self.telemetry = Telemetry(self, stream, telling(config))
        self.board = Board(self.watch, self.acts)
        self.watch.fleet.listeners += [self.snapshot, self.telemetry, self.acts, self.board]
        options = Options(config.settings.listen, config.settings.allowed_hosts, config.settings.token_file)
        self.server = Server(self.board, self, options, config.settings.scrape_listen)

    # What telemetry reads.

    def sessions(self) -> Iterable[Session]:
        """The live sessions."""
        return self.watch.sessions()

    def rules(self, session: Session, /) -> Rules:
        """The limits that hold for the session."""
        return self.watch.rules(session)

    def agents(self) -> Iterable[tuple[str, str]]:
        """Names and kinds."""
        return [(agent.name, agent.kind) for agent in self.watch.agents.values()]

    def sources(self) -> Iterable[SourceState]:
        """How every source fares."""
        return [
            SourceState(
                s.agent, s.source, s.up, None if s.last_read is None else self.clock.wall(s.last_read)
            )
            for s in self.watch.states.values()
        ]

    def facts(self) -> Facts:
        """The sidecar's own state."""
        return Facts(
            self._version,
            self.config.settings.mode,
            self.config.config_hash,
            watch_mode=watched_by(self.watch),
            watch_losses=unheard(self.watch),
            loop_lag=self.watch.lag,
            reload_ok=self._reload_ok,
            controls=reached(self.watch, self._controls),
            caps=caps(self.watch),
        )

    # What the server asks.

    def stale(self) -> Sequence[str]:
        """The workers that hang."""
        return self.watch.stale()

    def unready(self) -> Sequence[str]:
        """What has not come up yet."""
        return () if self.watch.ready else ("the first look at the agents is not done",)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The metrics."""
        return self.telemetry.render(accept)

    # Its life.

    async def run(self, stop: asyncio.Event, started: Callable[[], None] = lambda: None) -> None:
        """Serve and watch until `stop` is set; raises ListenError where an address is taken."""
        await self.server.start()
        started()
        working = [
            asyncio.create_task(self.watch.run(), name="watch"),
            asyncio.create_task(self._tell(), name="telling"),
            asyncio.create_task(self.snapshot.keep(lambda: self.watch.ready), name="remembering"),
        ]
        if self._reload is not None:
            working.append(asyncio.create_task(self._follow(self._reload), name="configuration"))
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([*working, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                task.result()
        finally:
            await self._shut(working, stopping)

    async def _shut(self, working: Sequence[asyncio.Task[None]], stopping: asyncio.Task[bool]) -> None:
        await self.acts.drain(DRAIN)
        for task in (*working, stopping):
            task.cancel()
        await asyncio.gather(*working, stopping, return_exceptions=True)
        await self.watch.last_look(LAST_LOOK)
        await self.server.stop()
        self.snapshot.save()
        self.snapshot.close()
        await asyncio.to_thread(self.telemetry.shutdown, FLUSH)  # of agents that are still watched
        for agent in self.watch.agents.values():
            await agent.close()

    async def _tell(self) -> None:
        """Speak of silences when they are due."""
        while True:
            due = self.telemetry.tick(self.clock.now())
            await asyncio.sleep(1.0 if due is None else min(1.0, max(0.05, due - self.clock.now())))

    def _read_to(self) -> dict[str, bytes]:
        return {name: reader.places() for name, reader in self._readers.items()}

    async def _follow(self, reload: Reload) -> None:
        """Take a changed configuration; a bad one leaves the old in force."""
        asked = asyncio.Event()
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await asked.wait()
            reloaded = reload.reload() if asked.is_set() else reload.poll()
            asked.clear()
            if reloaded is not None:
                self._take(reloaded)

    def _take(self, reloaded: Reloaded) -> None:
        self._reload_ok = not reloaded.problems
        for problem in reloaded.problems:
            log.error("configuration not taken: %s", problem)
        if reloaded.problems:
            return
        self.config = reloaded.config
        rules = {entry.name: entry.rules for entry in chosen(reloaded.config)}
        known = self.watch.settings.rules
        kept = {name: rules.get(name, known[name]) for name in known}
        self.watch.settings = WatchSettings(kept, self.watch.settings.luck)
        self.acts.settings = acting(reloaded.config)
        self.watch.fleet.due(self.clock.now())
        waiting = [
            *reloaded.waiting,
            *(change.path for change in reloaded.changed if _of_agents(change.path)),
        ]
        log.info("configuration taken; from the next start: %s", ", ".join(waiting) or "nothing")


def nowhere(_: bytes) -> bool:
    """Resume an agent that reads no files: whatever was read under its name was another one."""
    return False


def _of_agents(path: str) -> bool:
    """A change of an agent's entry that is not one of its bounds."""
    return path.startswith("agents.") and ".rules" not in path


def acting(config: Config) -> ActSettings:
    """How acts are carried out, by the configuration."""
    told = config.settings.actions
    return ActSettings(
        config.settings.mode, told.escalate, told.grace, told.deadline, told.max, told.per, told.hold_file
    )


def telling(config: Config) -> TelemetrySettings:
    """What is told, by the configuration."""
    told = config.settings.telemetry
    otlp = OtlpSettings()
    if told.otlp is not None:
        o = told.otlp
        protocol = PROTOCOLS.get(o.protocol or "")
        headers = None if o.headers_file is None else headers_in(Path(o.headers_file))
        otlp = OtlpSettings(o.endpoint, protocol, o.traces, o.metrics, o.logs, headers, o.timeout)
    after = told.liveness_after
    return TelemetrySettings(
        otlp,
        float("inf") if after is None else after,
        config.settings.metrics.per_session,
        told.turn_progress,
    )


def unwritable(folder: Path) -> str | None:
    """Why the journal cannot be written there, made if need be; None where it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    return None if os.access(folder, os.W_OK | os.X_OK) else "cannot be written to"


def headers_in(path: Path) -> dict[str, str]:
    """The headers of a file, `name: value` a line; raises OtlpError."""
    try:
        pairs = [line.partition(":") for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeError) as error:
        raise OtlpError(f"telemetry.otlp.headers_file: {path} cannot be read ({error})") from error
    for name, colon, _ in pairs:
        if not colon or not name.strip():
            raise OtlpError(f"telemetry.otlp.headers_file: {path}: a line is not `name: value`")
    return {name.strip(): value.strip() for name, _, value in pairs}


def lines(config: Config) -> TextIO:
    """Where lifecycle lines go."""
    return sys.stdout if config.settings.telemetry.lines else Path("/dev/null").open("w")
