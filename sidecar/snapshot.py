"""What was told and how far was read, on disk, so that a restart tells nothing twice and misses no end.

Counters begin at 0 with every process, and spans have derived ids; so what must not happen is that a turn's
end is told by two runs, or by none because it came while no sidecar ran. A line is appended before a turn's
beginning or end is told; the whole is written anew, by renaming, at intervals and at the end.

Killed at any moment, a turn's end is told at most once: once where the kill did not fall between the line and
the telling. Of a turn under way at the kill, what ended before the restart is not told again, and not made
up for; a turn that began since is told in whole. Nothing is synced: what the machine forgets when it loses
power costs what a first start does not know either. Nothing here is ever fatal, or stops an act.
Longer than most: what is told, remembered and written anew is one state.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from sidecar import changes as c
from sidecar.journal import bounded
from sidecar.notebook import Notebook
from sidecar.past import ROUNDED, Key, Past, Told, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sidecar.clock import Clock
    from sidecar.session import Session, Turn

log = logging.getLogger(__name__)

VERSION: Final = 1
MAX_BYTES: Final = 4 << 20
"""Of the file as it is written anew: more than the turns remembered and the places of 2,000 files take."""
GROWTH: Final = 1 << 20
"""Bytes appended until the file is written anew before its time."""
MAX_TURNS: Final = 2_000
EVERY: Final = 30.0
"""Seconds between two that are written: all that a kill in between costs is reading that much again."""
SOON: Final = 0.05
"""Seconds between two looks at whether everything was read for the first time."""
LOOK_BACK: Final = 86_400.0
"""Seconds: what began longer ago and was never heard of is history, as files untouched for that long are."""

_GARBAGE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class _Line(Struct, omit_defaults=True):
    """One line: the first says the version, every other a turn or the places of one agent's files."""

    version: int = 0
    since: dict[str, float] = {}
    turn: Told | None = None
    agent: str = ""
    places: Raw = Raw()


class Snapshot:
    """The file, and a listener that is to be told of changes before all others."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        resumes: Mapping[str, Callable[[bytes], bool]],
        *,
        max_turns: int = MAX_TURNS,
    ) -> None:
        """Read what earlier runs wrote of these agents; what cannot be read, or used, is as nothing.

        `resumes`, by agent: read on from these places; false where they are not in what it reads now.
        """
        self.places: dict[str, bytes] = {}
        """How far the files of each agent were read, in words of its own (JSON)."""
        self.read_to: Callable[[], Mapping[str, bytes]] = dict
        """Gives the places as they are now; asked once the first turn is told of, and at each `save`."""
        self._file, self._clock, self._max_turns = Notebook(path, MAX_BYTES + 2 * GROWTH), clock, max_turns
        now = clock.wall(clock.now())
        self._since: dict[str, float] = {}
        self._turns: dict[Key, Told] = {}
        self._written = b""
        self._failing = self._noted = False
        self._unread: list[Session] = []
        self._load()
        for agent in resumes.keys() & self.places.keys():
            if not resumes[agent](self.places[agent]):
                self._since.pop(bounded(agent), None)
        # What lay there when an agent was first watched is its history.
        self._since = {
            a: min(now, max(self._since.get(a, now), now - LOOK_BACK)) for a in map(bounded, resumes)
        }
        since = {agent: clock.core(at) + ROUNDED for agent, at in self._since.items()}
        self.past = Past(since, self._turns, clock)

    def __call__(self, session: Session, change: c.Change) -> None:
        """Note what is about to be told of turns."""
        if isinstance(change, c.TurnOpened):
            self._note(session, change.turn, None)
        elif isinstance(change, c.TurnClosed):
            self._note(session, change.turn, self._clock.wall(change.at))
        elif isinstance(change, c.SessionOpened):
            turn = session.turn
            if session.behind:  # the end of what is open so far may lie there, and is history
                self._unread.append(session)
            elif turn is not None and key_of(session, turn) not in self._turns:
                self._note(session, turn, None)

    def save(self) -> None:
        """Write the whole file anew, where it would be different."""
        self._find()
        self.places |= self.read_to()
        data = self._whole()
        if data == self._written and not self._file.added and self._file.writable:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._failed(error)
        else:
            self._written, self._failing = data, False

    async def keep(self, ready: Callable[[], bool]) -> None:
        """Save once everything was read for the first time, and now and then."""
        while True:
            await asyncio.sleep(EVERY if ready() else SOON)
            if ready():
                self.save()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _find(self) -> None:
        """Remember as begun what is open in sessions that opened behind and are read by now."""
        unread = [session for session in self._unread if not session.dormant]
        self._unread = [session for session in unread if session.behind]
        for session in unread:
            turn = session.turn
            if not session.behind and turn is not None and key_of(session, turn) not in self._turns:
                self._remember(session, turn, None)

    def _remember(self, session: Session, turn: Turn, ended: float | None) -> Told:
        key = key_of(session, turn)
        told = Told(*key, self._clock.wall(turn.started_at), ended, turn.outcome or "completed")
        self._turns.pop(key, None)
        self._turns[key] = told
        if len(self._turns) > self._max_turns:
            self._forget()
        return told

    def _note(self, session: Session, turn: Turn, ended: float | None) -> None:
        told = self._remember(session, turn, ended)
        if not self._noted:  # where the turn began has to be found again
            self._noted = True
            self.save()
            return
        try:
            self._file.add(_encode(_Line(turn=told)))
        except OSError as error:
            self._failed(error)
        if self._file.added > GROWTH:
            self.save()

    def _forget(self) -> None:
        """Drop the turn heard of least lately; what is not remembered any more is history."""
        told = self._turns.pop(next(iter(self._turns)))
        self._since[told.agent] = max(self._since.get(told.agent, told.started), told.started)

    def _whole(self) -> bytes:
        lines = [_Line(VERSION, self._since), *(_Line(turn=told) for told in self._turns.values())]
        room = MAX_BYTES - len(data := b"".join(map(_encode, lines)))
        for agent, places in self.places.items():
            line = _encode(_Line(agent=agent, places=Raw(places)))
            if len(line) <= room:
                data, room = data + line, room - len(line)
        return data

    def _failed(self, error: OSError) -> None:
        self._file.close()
        if not self._failing:
            log.warning("the snapshot cannot be written: %s", error.strerror)
        self._failing = True

    def _load(self) -> None:
        try:
            lines = self._file.read()
        except OSError as error:
            log.warning("the snapshot cannot be read: %s", error.strerror)
            return
        if not lines:
            return
        head = _decode(lines[0])
        if head is None or head.version != VERSION:
            log.warning("the snapshot %s is of no use: another version, or damaged", self._file.path)
            return
        self._since = head.since
        for line in lines[1:]:
            self._take(_decode(line))

    def _take(self, line: _Line | None) -> None:
        """One line; the last one may have been cut short by a crash."""
        if line is None:
            return
        if line.turn is not None:
            told = line.turn
            key = (told.agent, told.session, told.turn)
            self._turns.pop(key, None)
            self._turns[key] = told
        elif line.agent:
            self.places[line.agent] = bytes(line.places)


def _encode(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _decode(line: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(line, type=_Line)
    except _GARBAGE:
        return None
