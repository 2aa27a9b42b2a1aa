"""Claude Code: transcripts, registrations and processes in; interrupt and reap by its owner.

No signal ends only a turn of Claude Code: that takes the owner of its input, so `interrupt` needs
a host in front of it. Subagents live inside their parent and cannot be ended alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, Struct

from sidecar.agent import Answer, Can, Finding, Sees
from sidecar.agents.claude_code.hosts import Hosts
from sidecar.agents.claude_code.processes import Processes
from sidecar.agents.claude_code.registrations import Registrations
from sidecar.agents.claude_code.transcripts import Transcripts
from sidecar.config_units import FilePath
from sidecar.sources.process import Process
from sidecar.sources.tail import CAP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar.agent import Order, Source, WatchLoss
    from sidecar.clock import Clock
    from sidecar.control import Control
    from sidecar.control.host import HostControl
    from sidecar.signals import Observation

PROGRAMS: Final = ("claude", "claude-code")
"""Names of its executable, and of the npm package whose script node runs."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a `claude-code` entry may set beside the common keys."""

    config_dir: FilePath | None = None
    """Folder with `projects/` and `sessions/`. Default: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""

    watch: Literal["auto", "poll"] = "auto"
    """How changes of transcripts are noticed. `auto`: the kernel tells (inotify), and looking is for
    what it cannot tell of. `poll`: only looking; for file systems that tell of changes wrongly."""

    line_cap: Annotated[int, Meta(ge=1 << 16, le=1 << 30)] = CAP
    """The longest transcript line that is read, in bytes; a longer one is skipped unread and counted
    as oversized. 8 MiB: records of 3 MB and inlined images were seen; a line is held whole,
    and of those unfinished at the same time eight, then the longest is given up."""


class ClaudeCode:
    """One configuration folder of Claude Code."""

    kind = "claude-code"

    def __init__(self, name: str, settings: Settings, clock: Clock, *, attended: bool | None = None) -> None:
        """`attended` overrides what the adapter sees."""
        self.name = name
        self.root = settings.config_dir or default_root()
        self.control: Control | None = None
        self._attended = attended
        self._clock = clock
        self._hosts: Hosts | None = None
        events, cap = settings.watch == "auto", settings.line_cap
        self._transcripts = Transcripts(self.root, clock, self._attends, events=events, line_cap=cap)
        self._registrations = Registrations(f"{self.root}/sessions", clock, self._transcripts.ends)
        self._registrations.attended = attended
        self._registrations.wants = self._transcripts.want
        self._registrations.unread = self._transcripts.unread
        self._processes = Processes(PROGRAMS, clock, self._registrations, self._transcripts)
        self.sources: list[Source] = [self._registrations, self._transcripts, self._processes]

    def hosted(self, control: HostControl) -> None:
        """Let hosts end turns, and see what they see."""
        self.control = control
        self._hosts = Hosts(control, self._clock, lambda session: session in self._registrations.sessions)
        self.sources.append(self._hosts)

    @property
    def sees(self) -> Sees:
        """A transcript's line is a finished block; a host in front sees each piece."""
        return Sees("record" if self._hosts is None else "delta", tools=True, waiting=True, status=True)

    @property
    def watch_mode(self) -> str:
        """What changes of transcripts are noticed by."""
        return self._transcripts.mode

    @property
    def watch_losses(self) -> Mapping[WatchLoss, int]:
        """What kept changes of transcripts from being told of, and how often."""
        return self._transcripts.losses

    def places(self) -> bytes:
        """How far the transcripts were read."""
        return self._transcripts.places()

    def resume(self, places: bytes) -> bool:
        """Read the transcripts on from there, if these are they."""
        return self._transcripts.resume(places)

    def process(self, session: str) -> Process | None:
        """The session's process, where it is seen."""
        registered = self._registrations.process(session)
        if registered is not None:
            return Process(registered.pid, int(registered.proc_start))
        return self._processes.holder(session)

    def cwd(self, session: str) -> str | None:
        """The working directory of a session: the one it was started in, where that is told."""
        registered = self._registrations.sessions.get(session)
        started = registered.cwd if registered is not None else None
        return started or self._transcripts.cwd(session)

    async def look(self, session: str) -> Sequence[Observation]:
        """The session's file to its end, as far as `unread` says, and every registration."""
        return [*self._registrations.scan(), *self._transcripts.ends(session)]

    def unread(self, session: str) -> bool:
        """Whether the look came to the end of its time before the end of the file."""
        return self._transcripts.unread(session)

    def can(self, session: str) -> Can:
        """A subagent lives inside its parent; everything else is the control's to say."""
        if self.control is None or self._transcripts.is_subagent(session):
            return Can(interrupt=False, reap=False)
        return self.control.can(session)

    async def interrupt(self, order: Order) -> Answer:
        """End the open turn through the control."""
        if self.control is None:
            return Answer("unsupported", "no control is configured")
        return await self.control.interrupt(order)

    async def reap(self, order: Order) -> Answer:
        """End the session through the control."""
        if self.control is None:
            return Answer("unsupported", "no control is configured")
        return await self.control.reap(order)

    async def probe(self) -> Sequence[Finding]:
        """What `check` says of this agent."""
        root = Path(self.root)
        found = [
            _readable("transcripts", root / "projects"),
            _readable("registrations", root / "sessions"),
            *self._registrations.probe(),
        ]
        written = _written(root)
        for session in self._registrations.living():
            if session not in written:
                why = "it runs without a transcript, so its turns cannot be judged"
                found.append(Finding(f"transcript of {session}", ok=False, detail=why))
        if self.control is None:
            found.append(Finding("control", ok=False, detail="none is configured: it can only be watched"))
        elif self._hosts is not None:
            found += await self._hosts.probe()
        return found

    async def close(self) -> None:
        """Let go of files and connections."""
        self._transcripts.close()
        if self._hosts is not None:
            await self._hosts.close()
        if self.control is not None:
            await self.control.close()

    def _attends(self, session: str, entrypoint: str | None) -> bool | None:
        """Whether somebody sits there: the configuration, else the TUI not in the background."""
        if self._attended is not None:
            return self._attended
        registered = self._registrations.sessions.get(session)
        if registered is not None and registered.kind == "bg":
            return False
        return None if entrypoint is None else entrypoint == "cli"


def default_root() -> str:
    """Where Claude Code keeps its files unless told otherwise."""
    return os.environ.get("CLAUDE_CONFIG_DIR") or str(Path.home() / ".claude")


def _written(root: Path) -> set[str]:
    return {path.stem for path in root.glob("projects/*/*.jsonl")}


def _readable(what: str, folder: Path) -> Finding:
    try:
        count = sum(1 for _ in folder.iterdir())
    except FileNotFoundError:
        return Finding(what, ok=False, detail=f"{folder} does not exist yet; it is looked for again")
    except OSError as error:
        return Finding(what, ok=False, detail=f"{folder}: {error.strerror}")
    return Finding(what, ok=True, detail=f"{folder}: {count} entries")
