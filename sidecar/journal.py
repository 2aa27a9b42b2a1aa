"""What was decided, done and seen to come of it, on disk before it is done: the memory of acts.

One JSON line per verdict, intent and outcome, in a file that only ever grows by whole lines until
it is rewritten smaller. An intent is on the disk before `intend` returns, so that a sidecar killed
in the middle of an act knows afterwards that it acted: one interrupt per turn, across restarts.
Whatever cannot be written is therefore not done; whatever cannot be read is skipped and counted.

Appends are synchronous: nothing may come between the look at a session and the reason for ending
its turn, and there are a handful an hour. The file is opened for each of them, so a volume that
was full, read-only or not mounted is used again as soon as it can be.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct, structs

from sidecar.signals import Action, ActOutcome, BoundName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

log = logging.getLogger(__name__)

MAX_BYTES: Final = 4 << 20
MAX_TURNS: Final = 10_000
MAX_ID: Final = 256
MAX_REASON: Final = 500
PER_TURN: Final = 64
"""Entries remembered of one turn: it has a verdict per bound and at most three lines for each."""

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_GARBAGE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_Event = Literal["verdict", "intent", "outcome"]


class JournalError(Exception):
    """The journal cannot be written or read, so what it was to say must not be done."""


class JournalFull(JournalError):  # noqa: N818 - it says what is the matter; no caller has erred
    """There is no room for the line."""


class Deed(Struct, frozen=True):
    """What is done to whom, and by which bound; `bound` None: a person asked."""

    agent: str
    session: str
    turn: str | None
    action: Action
    bound: BoundName | None = None
    key: str = ""


class Entry(Struct, frozen=True, omit_defaults=True):
    """A line. `at` is wall-clock time, the only one that means something after a restart.

    An intent of long ago holds its outcome itself.
    """

    event: _Event
    at: float
    agent: str
    session: str
    action: Action
    turn: str | None = None
    bound: BoundName | None = None
    key: str = ""
    outcome: ActOutcome | None = None
    evidence: str = ""
    reason: str = ""


def bounded(name: str) -> str:
    """An agent's id as the journal writes it: encodable, of bounded length, still distinct."""
    name = name.encode("utf-8", "backslashreplace").decode()
    if len(name) <= MAX_ID:
        return name
    return name[: MAX_ID - 33] + "~" + hashlib.sha256(name.encode()).hexdigest()[:32]


class Journal:
    """The lines of this and earlier runs; without a path they last as long as the process."""

    def __init__(self, path: Path | None, *, max_bytes: int = MAX_BYTES, max_turns: int = MAX_TURNS) -> None:
        """Read what earlier runs wrote. That it cannot be read is an error only for an intent."""
        self.skipped = 0
        """Lines that were no entries: torn by a crash, or not ours."""
        self.failures = 0
        """Writes that failed."""
        self._file = None if path is None else _File(path, max_bytes)
        self._max_turns = max_turns
        self._turns: dict[tuple[str, str, str | None], list[Entry]] = {}
        self._earlier: dict[tuple[str, str], list[Entry]] = {}
        if path is None:
            log.warning("no state_dir: a restart forgets which turns were already interrupted")
        try:
            self._ready()
        except OSError as error:
            log.warning("the journal cannot be read, so nothing is ended: %s", error)

    def verdict(self, deed: Deed, evidence: str, reason: str, at: float) -> None:
        """Note what was decided, so that a restart does not decide it again."""
        entry = _entry("verdict", deed, at)
        self._write(structs.replace(entry, evidence=evidence, reason=_short(reason)))

    def intend(self, deed: Deed, reason: str, at: float) -> None:
        """Put the reason on the disk: it is there on return, or JournalError is raised."""
        self._write(structs.replace(_entry("intent", deed, at), reason=_short(reason)))

    def outcome(self, deed: Deed, outcome: ActOutcome, at: float) -> None:
        """Note what came of it."""
        self._write(structs.replace(_entry("outcome", deed, at), outcome=outcome))

    def recall(self, agent: str, session: str) -> list[Entry]:
        """What earlier runs wrote of a session, oldest first; told once, then it is known."""
        return self._earlier.pop((bounded(agent), bounded(session)), [])

    def acted(self, agent: str, session: str, turn: str | None, since: float = 0.0) -> bool:
        """Whether an interrupt of this turn was intended, since `since` where that matters."""
        with suppress(OSError):  # then the intent that follows fails by it
            self._ready()
        key = (bounded(agent), bounded(session), None if turn is None else bounded(turn))
        return any(
            entry.event == "intent" and entry.action == "interrupt"
            for entry in self._turns.get(key, ())
            if entry.at >= since
        )

    def recent(self, since: float) -> list[float]:
        """When the policy acted since then: a restart is no way around its budget."""
        return sorted(
            entry.at
            for entries in self._turns.values()
            for entry in entries
            if entry.event == "intent" and entry.bound is not None and entry.at >= since
        )

    def _ready(self) -> None:
        """Read the file, at the first moment that it can be read. Raises OSError."""
        if self._file is None or self._file.read:
            return
        for line in self._file.lines():
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except _GARBAGE:
                self.skipped += 1
                continue
            self._remember(entry)
            self._earlier.setdefault((entry.agent, entry.session), []).append(entry)

    def _remember(self, entry: Entry) -> None:
        key = (entry.agent, entry.session, entry.turn)
        self._turns[key] = [*self._turns.pop(key, [])[1 - PER_TURN :], entry]
        if len(self._turns) > self._max_turns:
            del self._turns[next(iter(self._turns))]

    def _write(self, entry: Entry) -> None:
        """An intent that is not on the disk is not remembered either: it does not happen."""
        try:
            if self._file is not None:
                self._ready()
                self._file.append(entry, self._turns.values)
        except OSError as error:
            self.failures += 1
            if entry.event != "intent":
                self._remember(entry)
            kind = JournalFull if error.errno in _FULL else JournalError
            raise kind(f"the journal cannot be written: {error.strerror or error}") from error
        self._remember(entry)


class _File:
    """The lines on disk. Raises OSError throughout; never leaves half a line before a whole one."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.read = False
        self._path = path
        self._max_bytes = max_bytes
        self._torn = False

    def lines(self) -> list[bytes]:
        """The lines there are; of a file grown beyond all bounds, the newest."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self.read = True
            return []
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            plain = stat.S_ISREG(status.st_mode)
            file.seek(max(0, status.st_size - 2 * self._max_bytes) if plain else 0)
            data = file.read(2 * self._max_bytes) if plain else b""
        self.read, self._torn = True, not data.endswith(b"\n") and data != b""
        return [line for line in data.split(b"\n") if line.strip()]

    def append(self, entry: Entry, memory: Callable[[], Iterable[list[Entry]]]) -> None:
        """Add a line; an intent is on the disk on return. `memory`: what a smaller file keeps."""
        line = _encode(entry)
        self._make_room(len(line), memory)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            self._put(fd, line)
            if entry.event == "intent":
                os.fsync(fd)
        finally:
            os.close(fd)

    def _put(self, fd: int, line: bytes) -> None:
        """Write at once; whatever a failed write left behind, the next line starts afresh."""
        data = b"\n" + line if self._torn else line
        self._torn = True
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._torn = False

    def _make_room(self, more: int, memory: Callable[[], Iterable[list[Entry]]]) -> None:
        """Rewrite a full file smaller. Where that fails it may grow on, to twice its size at most."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:  # the first line of all, or somebody removed the file
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._rewrite(memory())
            return
        if size + more <= self._max_bytes:
            return
        try:
            self._rewrite(memory())
        except OSError as error:
            if size + more > 2 * self._max_bytes:
                raise
            log.warning("the journal cannot be compacted: %s", error.strerror)

    def _rewrite(self, memory: Iterable[list[Entry]]) -> None:
        new = self._path.with_name(self._path.name + ".new")
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.writelines(_kept(memory, self._max_bytes * 3 // 4))
            file.flush()
            os.fsync(fd)
        new.rename(self._path)
        self._torn = False
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _entry(event: _Event, deed: Deed, at: float) -> Entry:
    turn = None if deed.turn is None else bounded(deed.turn)
    agent, session = bounded(deed.agent), bounded(deed.session)
    return Entry(event, at, agent, session, deed.action, turn, deed.bound, bounded(deed.key))


def _short(reason: str) -> str:
    return reason.encode("utf-8", "backslashreplace").decode()[:MAX_REASON]


def _encode(entry: Entry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def _kept(memory: Iterable[list[Entry]], room: int) -> list[bytes]:
    """The newest turns in full, older ones as the bare fact that they were interrupted."""
    whole_until, kept = room // 2, list[bytes]()
    for entries in reversed(list(memory)):
        lines = b"".join(map(_encode, entries if room > whole_until else _sealed(entries)))
        room -= len(lines)
        if room < 0:
            break
        kept.append(lines)
    return kept[::-1]


def _sealed(entries: list[Entry]) -> list[Entry]:
    """One line that still says that the turn had its interrupt, and what came of it."""
    interrupts = [e for e in entries if e.action == "interrupt" and e.event != "verdict"]
    intents = [e for e in interrupts if e.event == "intent"]
    outcomes = [e.outcome for e in interrupts if e.outcome not in (None, "held")]
    last = outcomes[-1] if outcomes else None
    return [structs.replace(e, outcome=last, evidence="", reason="") for e in intents[-1:]]
