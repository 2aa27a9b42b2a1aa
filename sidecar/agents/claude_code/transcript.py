"""One Claude Code transcript as signals: whose a record is, when it counts, and whether it was told.

- Bookkeeping (titles, modes, requests, snapshots) is appended at any time, into other sessions'
  files too, with old stamps or none: it never moves a clock.
- Files are rewritten and histories copied, so a record is told by its id, once.

A little longer than most modules: the short way that every line takes is spelt out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.claude_code import records as r
from sidecar.agents.claude_code.conversation import REMEMBERED, Conversation
from sidecar.agents.claude_code.remembered import Remembered
from sidecar.clock import Clock, iso, parse
from sidecar.sources.condense import condense
from sidecar.sources.framing import cut
from sidecar.sources.records import Blocks, Records

if TYPE_CHECKING:
    from collections.abc import Iterable

FRESH: Final = 2.0
"""A record that arrives this soon after its stamp counts at the stamp; any other at arrival."""

CONVERSATION: Final = frozenset(("user", "assistant", "system"))

CANONICAL: Final = len("2026-01-01T00:00:00.000Z")
"""How the agent writes stamps, and how `iso` writes them back."""

Attends = Callable[[str, str | None], bool | None]
"""Whether somebody sits at a session, by its id and the newest record's entrypoint."""


def by_entrypoint(_: str, entrypoint: str | None) -> bool | None:
    """The TUI is attended; None where the record does not say."""
    return None if entrypoint is None else entrypoint == "cli"


class Transcript:
    """Decodes one file, line by line. Keeps no content, and never raises on what it reads."""

    def __init__(self, stem: str, clock: Clock, attends: Attends, since: float = -math.inf) -> None:
        """`stem` is the file's name without its ending; `attends` knows who sits there.

        `since`: when the sidecar began, in core seconds; of what lies before that only the outcome is told.
        """
        self.session: str | None = stem if _is_uuid(stem) else None
        self.cwd: str | None = None
        self.stamp: float | None = None
        self.subagent = False
        self._clock = clock
        self._attends = attends
        self._since = since
        self._now = self._skew = 0.0
        self._arrival: float | None = None
        self._blocks = Blocks(r.Usual)
        self._records = Records(r.Record)
        self._last: float | None = None
        self._written: str | None = None
        self._uuids = Remembered[int](REMEMBERED)
        self._conversations: dict[str, Conversation] = {}
        self._conversation = Conversation(self._core)
        # Of the newest record:
        self._whose: str | None = None
        self._version: str | None = None
        self._entrypoint: str | None = None
        self._facts: dict[str, tuple[str | None, str | None]] = {}
        self._described: list[g.Observation] = []
        self._counts = dict.fromkeys(("progress", "presence", "unknown", "malformed"), 0)

    def feed(self, blocks: Iterable[bytes], arrival: float | None, oversized: int = 0) -> list[g.Observation]:
        """The signals of these blocks of lines. `arrival` None: they lay there before, their stamps count."""
        self._now, self._skew, self._arrival = self._clock.now(), self._clock.core(0.0), arrival
        for block in blocks:
            self._read(block)
        out = [*self._described, *self._told()]
        self._described.clear()
        counts, session = self._counts, self.session
        if session is not None and self._last is not None and (any(counts.values()) or oversized):
            out.append(g.Observation(session, g.Records(self._last, **counts, oversized=oversized)))
            self._counts = dict.fromkeys(counts, 0)
        return out

    def _told(self) -> list[g.Observation]:
        """What the conversations said, of long ago only what still matters."""
        told: list[g.Observation] = []
        for session, conversation in self._conversations.items():
            signals = conversation.told()
            if self._arrival is None:
                signals = condense(signals, self._since)
            told += [g.Observation(session, signal) for signal in signals]
        return told

    def _read(self, block: bytes) -> None:
        """Take a block of lines, at once where all of them have their usual shape."""
        found = self._blocks.decode(block)
        if found is None:
            for line in cut(block):
                self._loose(line)
            return
        at, take, text = 0, self._take, r.Text.ANY
        for x, end in zip(*found, strict=True):
            message = x.message
            if message is not None and message.content is text:
                self._loose(block[at:end])  # of a text only a `Record` shows the beginning
            else:
                take(x)
            at = end + 1

    def _loose(self, line: bytes) -> None:
        """Take a line of any other shape, or damaged."""
        decoded = self._records.decode(line)
        # A line that took a repair was not well-formed as written, whatever was saved of it.
        self._counts["malformed"] += decoded.malformed or bool(decoded.repaired)
        for record in decoded.records:
            self._take(record)

    def _take(self, x: r.Record | r.Usual) -> None:
        """Say what a record says. This runs for every line: what is usual takes the short way."""
        at = self._at(x.timestamp)
        if x.type not in CONVERSATION:
            self._counts["presence" if x.type in r.PRESENCE else "unknown"] += 1
            return
        # Files are rewritten and histories copied: what was told before is not told again.
        repeated = x.uuid is not None and self._uuids.seen(hash(x.uuid))
        session = None if repeated else self._session_of(x)
        if session is None or at is None:
            self._counts["presence"] += 1
            return
        if x.version != self._version or x.entrypoint != self._entrypoint or session != self._whose:
            self._describe(session, x, at)
        if x.cwd:
            self.cwd = x.cwd
        written, stamp = self._written, self.stamp
        if written is None:
            written = iso(self._clock.wall(at) if stamp is None else stamp)
        began = at if stamp is None or stamp + self._skew > at else stamp + self._skew
        self._counts[self._conversation.tell(x, at, began, written)] += 1

    def _at(self, stamp: str | float | None) -> float | None:
        """When a record counts. File order rules: the clock of a file never goes back."""
        told = None if stamp is None else self._core_of(stamp)
        at = arrival = self._arrival
        if arrival is None:
            at = self._last if told is None else min(told, self._now)
        elif told is not None and 0 <= arrival - told <= FRESH:
            at = told
        last = self._last
        if at is None or (last is not None and at < last):
            return last
        self._last = at
        return at

    def _core_of(self, stamp: str | float) -> float | None:
        """A record's stamp as core seconds; the newest one is remembered, and how it was written."""
        written = None
        if isinstance(stamp, str):
            wall = parse(stamp)
            if wall is None:
                return None
            if len(stamp) == CANONICAL and stamp[10] == "T" and stamp[19] == "." and stamp[23] == "Z":
                written = stamp
        else:
            wall = stamp / 1000
        self.stamp, self._written = wall, written
        return wall + self._skew

    def _session_of(self, x: r.Envelope) -> str | None:
        """The session a record belongs to: a subagent's own id, else the file's."""
        if x.is_sidechain and x.agent_id:
            self.session = x.agent_id
            return x.agent_id
        if self.session is None:
            self.session = x.session_id
        return self.session if x.session_id in (None, self.session) else None

    def _describe(self, session: str, x: r.Envelope, at: float) -> None:
        """Facts that the newest record settles: the version, and whether somebody sits there."""
        self._whose, self._version, self._entrypoint = session, x.version, x.entrypoint
        known = self._conversations.get(session)
        self._conversation = known or Conversation(self._core)
        self._conversations[session] = self._conversation
        if known is None:
            self._described.append(g.Observation(session, g.SourceUp(at, "transcript", "record")))
        facts = (x.version, x.entrypoint)
        if self._facts.get(session) == facts:
            return
        self._facts[session] = facts
        parent = x.session_id if x.is_sidechain and x.agent_id else None
        self.subagent = parent is not None
        attended = self._attends(session if parent is None else parent, x.entrypoint)
        self._described.append(g.Observation(session, g.Described(at, parent, x.version, attended)))

    def _core(self, wall: float) -> float:
        return wall + self._skew


def _is_uuid(stem: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", stem) is not None
