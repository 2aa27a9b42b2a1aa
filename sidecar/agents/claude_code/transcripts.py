"""The source `transcript`: every session's file and its subagents' files, as they grow.

A little longer than most: which files are read, behind, lost or wanted is one state.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import msgspec

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.claude_code.recent import recent
from sidecar.agents.claude_code.transcript import Transcript
from sidecar.sources.cursor import Mark
from sidecar.sources.folder import Folder
from sidecar.sources.hearing import Hearing
from sidecar.sources.pace import Reading
from sidecar.sources.tail import CAP

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from sidecar.agent import WatchLoss
    from sidecar.clock import Clock
    from sidecar.sources.folder import Changes
    from sidecar.sources.hearing import Mode
    from sidecar.sources.tail import Read

SHAPES: Final = ("projects/*/*.jsonl", "projects/*/*/subagents/agent-*.jsonl")

SCANS: Final = 3
"""Scans in a row at most: each finds what was made in a directory before it was listened to."""

TURN: Final = 0.004
"""Seconds of reading after which the loop has its turn: folding takes as long again at the most, and 15 ms
is what may pass before somebody else is served. Bytes alone bound no time: a line costs, however short."""

MARKED: Final = 2_000
"""Places kept over a restart: a hundred times what is ever live at once, in half a megabyte."""


class Places(msgspec.Struct, frozen=True):
    """How far the files below a folder, named by a digest, were read."""

    root: str
    touched: float
    """When the newest of them was written to, in epoch seconds."""
    marks: list[Mark]


class Transcripts:
    """Follows the files below one configuration folder."""

    name = "transcript"
    patience = 30.0

    def __init__(
        self,
        root: str,
        clock: Clock,
        attends: Callable[[str, str | None], bool | None],
        *,
        events: bool = True,
        line_cap: int = CAP,
    ) -> None:
        """`events` false: files are polled, unheard. `line_cap`: bytes of the longest line kept."""
        self.root = root
        self._clock = clock
        self._attends = attends
        self._began = clock.now()
        self._began_wall = clock.wall(self._began)
        self._id = blake2b(os.fsencode(root), digest_size=16).hexdigest()
        self._folder = Folder(root, SHAPES, reading=Reading(recent, recent, line_cap))
        self._hearing = Hearing(self._folder, events=events)
        self._decoders: dict[str, Transcript] = {}
        self._named: dict[str, Transcript] = {}
        self._behind: set[str] = set()
        self._lost: set[str] = set()
        self._unread: set[str] = set()
        self._wanted: set[str] = set()
        self._paths: set[str] = set()

    @property
    def every(self) -> float:
        """At once while there is more to read."""
        return self._hearing.every

    @property
    def wake(self) -> asyncio.Event:
        """Set soon after a file changed, where the kernel tells."""
        return self._hearing.wake

    @property
    def mode(self) -> Mode:
        """What changes are noticed by."""
        return self._hearing.mode

    @property
    def losses(self) -> Mapping[WatchLoss, int]:
        """What kept changes from being told of, and how often."""
        return self._hearing.losses

    async def read(self) -> Sequence[g.Observation]:
        """New records of all files, a bounded amount."""
        self._hearing.listen()
        return self.scan()

    def scan(self) -> list[g.Observation]:
        """The same, at once."""
        now = self._clock.now()
        out = self._scanned(now)
        for path, read in self._folder.read():
            out += self._fed(path, read, now)
            if self._clock.now() - now >= TURN:
                break
        if self._folder.asked:  # a file was gone when it was to be read
            out += self._scanned(now)
        return out

    def _scanned(self, now: float) -> list[g.Observation]:
        """Look at everything, where that is due."""
        out: list[g.Observation] = []
        at = self._clock.wall(now)  # once: asked twice, it may step back by a rounding error
        for _ in range(SCANS):
            changes = self._folder.scan(at)
            if changes is None:
                break
            out += self._changed(changes, now)
            if self._hearing.cover():
                self._folder.notice(None)
        return out

    def _changed(self, changes: Changes, now: float) -> list[g.Observation]:
        """What came, moved and went."""
        self._check(changes.unreadable)
        self._paths |= {found.path for found in changes.new}
        names = dict(changes.moved)  # which may be each other's
        self._paths = self._paths - names.keys() | set(names.values())
        self._behind = {names.get(path, path) for path in self._behind}
        self._decoders |= {
            new: self._decoders.pop(old) for old, new in names.items() if old in self._decoders
        }
        out = [told for path in changes.vanished for told in self._vanished(path, now)]
        self._wake()
        return out

    def want(self, session: str) -> None:
        """A session lives, whatever the age of its file: read it."""
        if session not in self._wanted:
            self._wanted.add(session)
            self._wake()

    def is_subagent(self, session: str) -> bool:
        """Whether the session lives inside another."""
        return any(d.subagent and d.session == session for d in self._decoders.values())

    def ends(self, session: str) -> list[g.Observation]:
        """Read a session's files to their end, as far as a turn of the loop goes: `unread` tells of more."""
        out: list[g.Observation] = []
        now = self._clock.now()
        self._unread.discard(session)
        if all(decoder.session != session for decoder in self._decoders.values()):
            self._folder.notice(None)  # it may have come and gone between two scans
            out += self.scan()
        for path, decoder in list(self._decoders.items()):
            if decoder.session != session or path not in self._folder.tails:
                continue
            read = self._folder.piece(path)
            out += self._fed(path, read, now)
            while read.behind:
                if self._clock.now() - now >= TURN:
                    self._unread.add(session)
                    return out
                read = self._folder.piece(path)
                out += self._fed(path, read, now)
        return out

    def unread(self, session: str) -> bool:
        """Whether the turn was over before the session's files were."""
        return session in self._unread

    def cwds(self) -> dict[str, str]:
        """The newest session of each working directory, by directory."""
        newest: dict[str, tuple[float, str]] = {}
        for decoder in self._decoders.values():
            if decoder.cwd and decoder.session and not decoder.subagent:
                mine = (decoder.times.wall or 0.0, decoder.session)
                newest[decoder.cwd] = max(mine, newest.get(decoder.cwd, mine))
        return {cwd: session for cwd, (_, session) in newest.items()}

    def cwd(self, session: str) -> str | None:
        """The directory that a session was last seen to work in."""
        mine = (d.cwd for d in self._decoders.values() if d.session == session and not d.subagent)
        return next((cwd for cwd in mine if cwd), None)

    def places(self) -> bytes:
        """How far the files were read; of very many, those touched last."""
        touched = max((tail.mtime for tail in self._folder.tails.values()), default=self._began_wall)
        return msgspec.json.encode(Places(self._id, touched, self._folder.marks()[-MARKED:]))

    def resume(self, places: bytes) -> bool:
        """Read on from what an earlier run saw of a file, so that no turn that ended since is left out."""
        try:
            told = msgspec.json.decode(places, type=Places)
        except msgspec.MsgspecError:  # of another version: the files say the rest themselves
            return False
        if told.root != self._id:
            return False
        self._folder.resume(told.marks)
        self._began = min(self._began, self._clock.core(told.touched))  # of later turns all is to be told
        return True

    def close(self) -> None:
        """Let go of the files."""
        self._hearing.close()
        self._folder.close()

    def _wake(self) -> None:
        for path in self._paths - self._decoders.keys():
            parts = PurePath(path)
            if parts.stem in self._wanted or parts.parts[-3] in self._wanted:
                self._folder.wake(path)

    def _check(self, unreadable: dict[str, str]) -> None:
        for path, why in unreadable.items():
            if path in (self.root, f"{self.root}/projects"):
                raise SourceDown(f"{path}: {why}")

    def _fed(self, path: str, read: Read, now: float) -> list[g.Observation]:
        decoder = self._decoder(path)
        out = decoder.feed(read.blocks, None if read.history else now, read.oversized)
        session = decoder.session
        if session is None:
            return out
        if (read.behind > 0) != (path in self._behind):
            (self._behind.add if read.behind else self._behind.discard)(path)
            at = out[0].signal.at if out and read.behind else now
            out.insert(
                0 if read.behind else len(out), g.Observation(session, g.CatchingUp(at, read.behind > 0))
            )
        if read.event in ("vanished", "denied", "error"):
            out += self._vanished(path, now)
        elif path in self._lost and read.blocks:
            self._lost.discard(path)
            out.append(g.Observation(session, g.SourceUp(now, "transcript", "record")))
        return out

    def _decoder(self, path: str) -> Transcript:
        """What decodes a file: a copy in another folder tells of the same session, and is told with it."""
        if path not in self._decoders:
            stem = PurePath(path).stem
            new = Transcript(stem, self._clock, self._attends, self._began)
            self._decoders[path] = self._named.setdefault(stem, new)
        return self._decoders[path]

    def _vanished(self, path: str, now: float) -> list[g.Observation]:
        self._paths.discard(path)
        decoder = self._decoders.get(path)
        if decoder is None or decoder.session is None or path in self._lost:
            return []
        self._lost.add(path)
        if any(other is decoder and p not in self._lost for p, other in self._decoders.items()):
            return []  # the session is read on under its other name
        return [g.Observation(decoder.session, g.SourceLost(now, "transcript"))]
