"""One Claude Code transcript as signals: which lines are work, which are only signs of life.

What was learned from real files, and why this is not simpler:

- A line per finished block; nothing while the model writes it. A stream, a stall and a black hole
  look the same, so only blocks, tool results and prompts are progress.
- `-p`, stream-json and the SDK write no end of a turn: the last block of a message that calls no
  tool is a provisional one. The TUI writes `turn_duration`.
- Bookkeeping (titles, modes, requests, snapshots) is appended at any time, into other sessions'
  files too, with old stamps or none: it never moves a clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.claude_code import records as r
from sidecar.clock import Clock, iso, parse
from sidecar.sources.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTLE: Final = 1.5
"""Seconds after the last block before a turn counts as ended: blocks come ~100 ms apart."""

SETTLE_TUI: Final = 60.0
"""The TUI writes `turn_duration` when its stop hooks are done; without it the turn ends here."""

FRESH: Final = 2.0
"""A record that arrives this soon after its stamp counts at the stamp; any other at arrival."""

REMEMBERED: Final = 65_536
"""Record ids kept per file, so that a rewritten file does not tell its history twice."""

DELEGATES: Final = frozenset(("Agent", "Task"))

MARKER: Final = b"[Request interrupted by user"
NOT_PROMPTS: Final = (b"<command-", b"<local-command-", b"<bash-", b"Caveat: ")
LIMIT_TEXT: Final = re.compile(rb"(?i)limit reached|hit your [\w\s-]{0,40}limit|out of extra usage")
LIMIT_EPOCH: Final = re.compile(rb"\|(\d{9,11})\b")


Attends = Callable[[str, str | None], bool | None]
"""Whether somebody sits at a session, by its id and the newest record's entrypoint."""


def by_entrypoint(_: str, entrypoint: str | None) -> bool | None:
    """The TUI is attended; None where the record does not say."""
    return None if entrypoint is None else entrypoint == "cli"


class Transcript:
    """Decodes one file, line by line. Keeps no content, and never raises on what it reads."""

    def __init__(self, stem: str, clock: Clock, attends: Attends) -> None:
        """`stem` is the file's name without its ending; `attends` knows who sits there."""
        self.session: str | None = stem if _is_uuid(stem) else None
        self.cwd: str | None = None
        self.stamp: float | None = None
        self.entrypoint: str | None = None
        self.subagent = False
        self._clock = clock
        self._attends = attends
        self._records = Records(r.Record)
        self._last: float | None = None
        self._messages: dict[str, None] = {}
        self._uuids: dict[int, None] = {}
        self._open: dict[str, set[str]] = {}
        self._pending: dict[str, int] = {}
        self._described: dict[str, tuple[str | None, str | None]] = {}
        self._prompts: set[str] = set()
        self._sources_named = False
        self._counts = dict.fromkeys(("progress", "presence", "unknown", "malformed"), 0)

    def feed(self, lines: Iterable[bytes], arrival: float | None, oversized: int = 0) -> list[g.Observation]:
        """The signals of these lines. `arrival` None: they lay there before, their stamps count."""
        out: list[g.Observation] = []
        for line in lines:
            decoded = self._records.decode(line)
            # A line that took a repair was not well-formed as written, whatever was saved of it.
            self._counts["malformed"] += decoded.malformed or bool(decoded.repaired)
            for record in decoded.records:
                self._record(record, arrival, out)
        counts, session = self._counts, self.session
        if session is not None and self._last is not None and (any(counts.values()) or oversized):
            out.append(g.Observation(session, g.Records(self._last, **counts, oversized=oversized)))
            self._counts = dict.fromkeys(counts, 0)
        return out

    def _record(self, x: r.Record, arrival: float | None, out: list[g.Observation]) -> None:
        at = self._at(x.timestamp, arrival)
        if x.type not in ("user", "assistant", "system"):
            known = x.type in r.PRESENCE
            self._counts["presence" if known else "unknown"] += 1
            return
        if x.uuid is not None and self._repeated(x.uuid):
            self._counts["presence"] += 1
            return
        session = self._session_of(x)
        if session is None or at is None:
            self._counts["presence"] += 1
            return
        self._describe(session, x, at, out)
        unknown = self._counts["unknown"]
        signals = self._conversation(x, session, at)
        if self._counts["unknown"] == unknown:
            self._counts["progress" if any(_works(s) for s in signals) else "presence"] += 1
        out += [g.Observation(session, s) for s in signals]

    def _at(self, stamp: str | float | None, arrival: float | None) -> float | None:
        """When a record counts. File order rules: the clock of a file never goes back."""
        wall = parse(stamp) if isinstance(stamp, str) else stamp
        if isinstance(stamp, float | int):
            wall = stamp / 1000
        told = None if wall is None else self._clock.core(wall)
        if wall is not None:
            self.stamp = wall
        if arrival is None:
            at = self._last if told is None else min(told, self._clock.now())
        else:
            fresh = told is not None and 0 <= arrival - told <= FRESH
            at = told if fresh else arrival
        if at is not None and self._last is not None:
            at = max(at, self._last)
        self._last = at if at is not None else self._last
        return at

    def _repeated(self, uuid: str) -> bool:
        """Whether this record was told before: files are rewritten, histories copied."""
        key = hash(uuid)
        if key in self._uuids:
            return True
        self._uuids[key] = None
        if len(self._uuids) > REMEMBERED:
            del self._uuids[next(iter(self._uuids))]
        return False

    def _session_of(self, x: r.Record) -> str | None:
        """The session a record belongs to: a subagent's own id, else the file's."""
        if x.is_sidechain and x.agent_id:
            if self.session is None or x.agent_id != self.session:
                self.session = x.agent_id
            return x.agent_id
        if self.session is None:
            self.session = x.session_id
        return self.session if x.session_id in (None, self.session) else None

    def _describe(self, session: str, x: r.Record, at: float, out: list[g.Observation]) -> None:
        """Facts that the newest record settles: the version, and whether somebody sits there."""
        self.cwd = x.cwd or self.cwd
        self.entrypoint = x.entrypoint or self.entrypoint
        facts = (x.version, x.entrypoint)
        if self._described.get(session) == facts:
            return
        if session not in self._described:
            out.append(g.Observation(session, g.SourceUp(at, "transcript", "record")))
        self._described[session] = facts
        parent = x.session_id if x.is_sidechain and x.agent_id else None
        self.subagent = parent is not None
        attended = self._attends(session if parent is None else parent, x.entrypoint)
        out.append(g.Observation(session, g.Described(at, parent, x.version, attended)))

    def _conversation(self, x: r.Record, session: str, at: float) -> list[g.Signal]:
        if x.type == "system":
            return self._system(x, session, at)
        body = r.message(x)
        if body is None:
            self._counts["unknown"] += 1
            return []
        if x.is_sidechain and not x.agent_id:
            return [g.Progress(at)]
        if x.type == "user":
            return self._user(x, body, session, at)
        return self._assistant(x, body, session, at)

    def _system(self, x: r.Record, session: str, at: float) -> list[g.Signal]:
        if x.subtype == "turn_duration":
            self._open.pop(session, None)
            self._pending[session] = x.pending_background_agent_count or 0
            return [g.TurnEnded(at, "completed"), g.Background(at, self._pending[session])]
        if x.subtype == "api_error":
            due = None if x.retry_in_ms is None else at + x.retry_in_ms / 1000
            return [g.Retrying(at, r.retry_cause(x), due)]
        if x.subtype == "compact_boundary":
            return [g.CompactionEnded(at)]
        if x.subtype not in r.SYSTEM_PRESENCE:
            self._counts["unknown"] += 1
        return []

    def _user(self, x: r.Record, body: r.Message, session: str, at: float) -> list[g.Signal]:
        results = [b for b in r.blocks(body) or () if b.type == "tool_result"]
        if results:
            return self._tool_results(x, results, session, at)
        text = r.text_prefix(body)
        if text.startswith(MARKER):
            self._open.pop(session, None)
            return [g.TurnEnded(at, "interrupted")]
        if not self._is_prompt(x, text):
            return []
        self._open.pop(session, None)
        signals: list[g.Signal] = []
        if x.turn_origin == "task_notification" and self._pending.get(session):
            self._pending[session] -= 1
            signals.append(g.Background(at, self._pending[session]))
        turn = x.prompt_id or self._stamp_id(at)
        if x.is_sidechain and turn in self._prompts:
            turn = self._stamp_id(at)
        self._prompts.add(turn)
        stamp = at if self.stamp is None else min(at, self._clock.core(self.stamp))
        return [*signals, g.TurnStarted(at, turn, stamp)]

    def _is_prompt(self, x: r.Record, text: bytes) -> bool:
        """Whether a user line opens a turn: it names its source, in files that name sources."""
        if x.is_meta or x.is_compact_summary or text.startswith(NOT_PROMPTS):
            return False
        self._sources_named = self._sources_named or x.prompt_source is not None
        return bool(x.prompt_source or x.is_sidechain or not self._sources_named)

    def _tool_results(self, x: r.Record, results: list[r.Block], session: str, at: float) -> list[g.Signal]:
        signals: list[g.Signal] = []
        for block in results:
            call = block.tool_use_id or ""
            self._open.get(session, set()).discard(call)
            # A resume writes the results that a killed process could not: nothing worked.
            signals.append(g.ToolEnded(at, call, echo=x.tool_denial_kind == "interrupted"))
        if r.went_to_background(x):
            self._pending[session] = self._pending.get(session, 0) + 1
            signals.append(g.Background(at, self._pending[session]))
        return signals

    def _assistant(self, x: r.Record, body: r.Message, session: str, at: float) -> list[g.Signal]:
        if body.model == "<synthetic>":
            return self._synthetic(x, body, session, at) if x.is_api_error_message else []
        if x.is_aborted_mid_stream:
            return []  # the torn block of an interrupt: its echo, not work
        turn = self._stamp_id(at)
        signals: list[g.Signal] = [g.Progress(at, turn)]
        if body.usage is not None and body.id is not None and body.id not in self._messages:
            self._messages[body.id] = None
            if len(self._messages) > REMEMBERED:
                del self._messages[next(iter(self._messages))]
            signals.append(_used(at, body))
        calls = self._open.setdefault(session, set())
        for block in r.blocks(body) or ():
            if block.type == "tool_use" and block.id is not None:
                calls.add(block.id)
                tool = block.name or "unknown"
                signals.append(g.ToolStarted(at, block.id, tool, tool in DELEGATES, turn))
        if body.stop_reason not in (None, "tool_use", "pause_turn") and not calls:
            settle = SETTLE_TUI if x.entrypoint == "cli" and not x.is_sidechain else SETTLE
            signals.append(g.TurnEnded(at, "completed", settle))
        return signals

    def _synthetic(self, x: r.Record, body: r.Message, session: str, at: float) -> list[g.Signal]:
        """The harness's own last word: the request failed for good, or the usage limit is hit."""
        self._open.pop(session, None)
        text = r.text_prefix(body)
        settle = SETTLE_TUI if x.entrypoint == "cli" and not x.is_sidechain else SETTLE
        ended = g.TurnEnded(at, "failed", settle)
        reset = r.quota_reset(x)
        if x.api_error != "usage_limit_reached" and reset is None and not LIMIT_TEXT.search(text):
            return [ended]
        written = LIMIT_EPOCH.search(text)
        if reset is None and written is not None:
            reset = float(written.group(1))
        return [g.Limited(at, None if reset is None else self._clock.core(reset)), ended]

    def _stamp_id(self, at: float) -> str:
        """A turn id for work without an opening record: the record's own stamp."""
        return iso(self._clock.wall(at) if self.stamp is None else self.stamp)


def _works(signal: g.Signal) -> bool:
    return isinstance(signal, g.TurnStarted | g.Progress | g.ToolStarted | g.ToolEnded)


def _used(at: float, body: r.Message) -> g.Used:
    usage = body.usage or r.Usage()
    return g.Used(
        at,
        body.model or "unknown",
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
    )


def _is_uuid(stem: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", stem) is not None
