"""The source `process`: Claude Code processes that no registration speaks for, and what all use.

A session that hangs in its first dialog has no transcript and no registration, only a process.
Processes of other configuration folders are none of ours: their environment tells.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.sources import process

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from sidecar.agents.claude_code.registrations import Registrations
    from sidecar.agents.claude_code.transcripts import Transcripts
    from sidecar.clock import Clock

EVERY: Final = 5.0

TOO_YOUNG: Final = 3.0
"""Seconds a process may take to register before it is looked at: registration comes within 1 s."""

ENVIRONMENT: Final = 256 << 10
"""Bytes of a process's environment that are searched for two names."""


class Processes:
    """Matches processes to sessions, and measures those that hold one."""

    name = "process"
    patience = 30.0
    wake: asyncio.Event | None = None

    def __init__(
        self,
        names: Sequence[str],
        clock: Clock,
        registrations: Registrations,
        transcripts: Transcripts,
    ) -> None:
        self._names = names
        self._clock = clock
        self._registrations = registrations
        self._transcripts = transcripts.cwds
        self._ends, self._unread = transcripts.ends, transcripts.unread
        self._root = Path(registrations.folder).parent
        self._held: dict[process.Process, str] = {}
        self._leaving: dict[str, float] = {}
        """When sessions ended of which there is more to read first, as far as was read."""

    @property
    def every(self) -> float:
        """At once while the last of a session is to be read."""
        return 0.0 if self._leaving else EVERY

    def holder(self, session: str) -> process.Process | None:
        """The process that holds a session without a registration."""
        return next((p for p, held in self._held.items() if held == session), None)

    async def read(self) -> Sequence[g.Observation]:
        """Who appeared, who ended, and what is used."""
        now = self._clock.now()
        running = {process.Process(r.pid, r.start): r for r in process.agents(self._names)}
        registered = {r.pid: r for r in self._registrations.sessions.values()}
        out: list[g.Observation] = []
        for session in list(self._leaving):
            out += self._left(session, now, registered=False)
        for held, session in list(self._held.items()):
            if held.pid in registered or process.alive(held.pid, held.start) is False:
                del self._held[held]
                out += self._left(session, now, registered=held.pid in registered)
        for seen, what in running.items():
            if seen not in self._held and seen.pid not in registered:
                out += self._unregistered(seen, what, now, set(registered))
        return out + self._used(now)

    def _left(self, session: str, now: float, *, registered: bool) -> list[g.Observation]:
        """A held process ended, or speaks for itself by now; what it wrote last comes first."""
        if registered:
            ours = session.startswith("pid-")
            return [g.Observation(session, g.Closed(now, "registered"))] if ours else []
        last = list(self._ends(session))
        at = max([now, self._leaving.pop(session, now), *(o.signal.at for o in last)])
        if self._unread(session):
            self._leaving[session] = at
            return last
        return [*last, g.Observation(session, g.ProcessGone(at))]

    def _unregistered(
        self, seen: process.Process, what: process.Running, now: float, registered: set[int]
    ) -> list[g.Observation]:
        started = now - _age(seen)
        if now - started < TOO_YOUNG or not self._ours(seen.pid) or _below(seen.pid, registered):
            return []
        session = self._transcripts().get(what.cwd or "", "")
        taken = {r.session_id for r in self._registrations.sessions.values()} | set(self._held.values())
        if not session or session in taken:
            session = f"pid-{seen.pid}"
        self._held[seen] = session
        signals = [g.SourceUp(now, self.name), g.ProcessSeen(now, seen.pid, started)]
        return [g.Observation(session, signal) for signal in signals]

    def _ours(self, pid: int) -> bool:
        """Whether the process keeps its files in our folder; one that cannot be asked is not ours."""
        try:
            with Path(f"/proc/{pid}/environ").open("rb") as file:
                pairs = [pair.partition(b"=") for pair in file.read(ENVIRONMENT).split(b"\0")]
        except OSError:
            return False
        env = {name: value for name, _, value in pairs if name in (b"CLAUDE_CONFIG_DIR", b"HOME")}
        own = env.get(b"CLAUDE_CONFIG_DIR") or env.get(b"HOME", b"") + b"/.claude"
        return os.path.realpath(os.fsdecode(own)) == os.path.realpath(self._root)

    def _used(self, now: float) -> list[g.Observation]:
        holders = [(held, session) for held, session in self._held.items()]
        for registered in self._registrations.sessions.values():
            live = self._registrations.process(registered.session_id)
            if live is not None:
                holders.append((process.Process(live.pid, int(live.proc_start)), live.session_id))
        out: list[g.Observation] = []
        for holder, session in holders:
            used = process.usage(holder.pid, holder.start)
            if used is not None:
                out.append(g.Observation(session, g.ProcessUsed(now, used.rss, used.cpu)))
        return out


def _age(seen: process.Process) -> float:
    """Seconds since the process started, by the kernel's clock since boot."""
    with Path("/proc/uptime").open() as file:
        uptime = float(file.read().split()[0])
    return max(0.0, uptime - seen.start / os.sysconf("SC_CLK_TCK"))


def _below(pid: int, ancestors: set[int]) -> bool:
    """Whether a process was started by one of these: an agent's own helpers hold no session."""
    for _ in range(32):
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return False
        pid = int(stat.rpartition(b")")[2].split()[1])
        if pid in ancestors:
            return True
        if pid <= 1:
            return False
    return False
