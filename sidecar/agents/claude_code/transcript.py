"""One Claude Code transcript as signals: whose a record is, when it counts, and whether it was told.

- Bookkeeping (titles, modes, requests, snapshots) is appended at any time, into other sessions'
  files too, with old stamps or none: it never moves a clock.
- Files are rewritten and histories copied, so a record is told by its id, once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.claude_code import records as r
from sidecar.agents.claude_code.conversation import REMEMBERED, Conversation
from sidecar.agents.claude_code.remembered import Remembered
from sidecar.agents.claude_code.times import Times
from sidecar.sources.condense import condense
from sidecar.sources.framing import cut
from sidecar.sources.records import Blocks, Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sidecar.clock import Clock

CONVERSATION: Final = frozenset(("user", "assistant", "system"))

_observed = partial(tuple.__new__, g.Observation)  # as `Observation(…)`, in half the time

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
        self.subagent = False
        self.times = Times(clock)
        self._attends = attends
        self._since = since
        self._blocks = Blocks(r.Line)
        self._records = Records(r.Record)
        self._uuids = Remembered[int](REMEMBERED)
        self._conversations: dict[str, Conversation] = {}
        self._conversation = Conversation(self.times)
        self._whose: tuple[object, ...] | None = None
        self._facts: dict[str, tuple[str | None, str | None]] = {}
        self._described: list[g.Observation] = []
        self._counts = dict.fromkeys(("progress", "presence", "unknown", "malformed"), 0)

    def feed(self, blocks: Iterable[bytes], arrival: float | None, oversized: int = 0) -> list[g.Observation]:
        """The signals of these blocks of lines. `arrival` None: they lay there before, their stamps count."""
        self.times.read(arrival)
        for block in blocks:
            self._take(self._lines(block))
        out = [*self._described, *self._told(arrival)]
        self._described.clear()
        counts, session = self._counts, self.session
        if session is not None and self.times.last is not None and (any(counts.values()) or oversized):
            out.append(g.Observation(session, g.Records(self.times.last, **counts, oversized=oversized)))
            self._counts = dict.fromkeys(counts, 0)
        return out

    def _told(self, arrival: float | None) -> list[g.Observation]:
        """What the conversations said, of long ago only what still matters."""
        told: list[g.Observation] = []
        for session, conversation in self._conversations.items():
            signals = conversation.told()
            if arrival is None:
                signals = condense(signals, self._since)
            told += map(_observed, zip(repeat(session), signals))
        return told

    def _lines(self, block: bytes) -> Iterable[r.Line]:
        """Decode a block, at once where all its lines have their usual shape."""
        return self._blocks.decode(block) or (x for line in cut(block) for x in self._loose(line))

    def _loose(self, line: bytes) -> Iterator[r.Line]:
        """Decode a line of any other shape, or damaged."""
        decoded = self._records.decode(line)
        # A line that took a repair was not well-formed as written, whatever was saved of it.
        self._counts["malformed"] += decoded.malformed or bool(decoded.repaired)
        return map(r.line, decoded.records)

    def _take(self, lines: Iterable[r.Line]) -> None:
        """Say what records say. This runs for every line: what is usual takes the short way."""
        counts, seen, when = self._counts, self._uuids.seen, self.times.at
        for x in lines:
            at, kind, uuid = when(x.timestamp), x.type, x.uuid
            if kind not in CONVERSATION:
                counts["presence" if kind in r.PRESENCE else "unknown"] += 1
                continue
            # Files are rewritten and histories copied: what was told before is not told again.
            told = uuid is not None and seen(hash(uuid))
            # Nearly always a record belongs to whom the one before it did.
            whose = (x.session_id, x.agent_id, x.is_sidechain, x.cwd, x.version, x.entrypoint)
            if told or not (whose == self._whose or self._belongs(x, at)) or at is None:
                counts["presence"] += 1
                continue
            self._whose = whose
            counts[self._conversation.tell(x, at)] += 1

    def _belongs(self, x: r.Line, at: float | None) -> bool:
        """Whether a record is of this file's session; if so, take note of whose it is."""
        session = self._session_of(x)
        if session is None or at is None:
            return False
        if x.cwd:
            self.cwd = x.cwd
        self._describe(session, x, at)
        return True

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
        known = self._conversations.get(session)
        self._conversation = known or Conversation(self.times)
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


def _is_uuid(stem: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", stem) is not None
