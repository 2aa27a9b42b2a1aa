"""What the records of a conversation say: prompts, blocks, tools, retries, ends.

What was learned from real files, and why this is not simpler:

- A line per finished block; nothing while the model writes it. A stream, a stall and a black hole
  look the same, so only blocks, tool results and prompts are progress.
- `-p`, stream-json and the SDK write no end of a turn: the last block of a message that calls no
  tool is a provisional one. The TUI writes `turn_duration`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from sidecar import signals as g
from sidecar.agent import tool_name
from sidecar.agents.claude_code import records as r
from sidecar.agents.claude_code.remembered import Remembered

if TYPE_CHECKING:
    from sidecar.agents.claude_code.times import Times

SETTLE: Final = 1.5
"""Seconds after the last block before a turn counts as ended: blocks come ~100 ms apart."""

SETTLE_TUI: Final = 60.0
"""The TUI writes `turn_duration` when its stop hooks are done; without it the turn ends here."""

REMEMBERED: Final = 65_536
"""Message ids kept per file, so that the usage that every line of a message repeats counts once."""

GOES_ON: Final = frozenset((None, "tool_use", "pause_turn"))
"""Reasons for which a message stops without ending the turn."""

DELEGATES: Final = frozenset(("Agent", "Task"))

MARKER: Final = "[Request interrupted by user"
NOT_PROMPTS: Final = ("<command-", "<local-command-", "<bash-", "Caveat: ")
LIMIT_TEXT: Final = re.compile(r"(?ai)limit reached|hit your [\w\s-]{0,40}limit|out of extra usage")
LIMIT_EPOCH: Final = re.compile(r"(?a)\|(\d{9,11})\b")

Kind = Literal["progress", "presence", "unknown"]


class Conversation:
    """One session's prompts, blocks and tools as signals. Keeps ids, never content."""

    def __init__(self, times: Times) -> None:
        """`times` knows when the record at hand was written."""
        self._times = times
        self._signals: list[g.Signal] = []
        self._messages = Remembered[str](REMEMBERED)
        self._open: set[str] = set()
        self._pending = 0
        self._prompts: set[str] = set()
        self._sources_named = False
        self._worked: float | None = None

    def told(self) -> list[g.Signal]:
        """What was said since this was last asked."""
        signals, self._signals = self._signals, []
        self._worked = None  # what else will be folded before the next record is not known here
        return signals

    def tell(self, x: r.Line, at: float) -> Kind:
        """Take a record that counts at `at`, and say what kind it is."""
        if x.type == "system":
            return self._system(x, at)
        message = x.message
        if message is None:
            return "unknown"
        if x.is_sidechain and not x.agent_id:
            self._signals.append(g.Progress(at))
            return "progress"
        if x.type == "assistant":
            return self._assistant(x, message, at)
        blocks = r.blocks(message)
        for block in blocks:
            if block.type == "tool_result":
                return self._tool_results(x, blocks, at)
        return self._text(x, r.text_prefix(message), at)

    def _ends(self, *signals: g.Signal) -> None:
        """End whatever is open."""
        self._open.clear()
        self._says(*signals)

    def _says(self, *signals: g.Signal) -> None:
        """Say what is no work, after which any block counts again."""
        self._worked = None
        self._signals += signals

    def _system(self, x: r.Envelope, at: float) -> Kind:
        if x.subtype == "turn_duration":
            self._pending = x.pending_background_agent_count or 0
            self._ends(g.TurnEnded(at, "completed"), g.Background(at, self._pending))
        elif x.subtype == "api_error":
            due = None if x.retry_in_ms is None else at + x.retry_in_ms / 1000
            self._says(g.Retrying(at, r.retry_cause(x), due))
        elif x.subtype == "compact_boundary":
            self._says(g.CompactionEnded(at))
        elif x.subtype not in r.SYSTEM_PRESENCE:
            return "unknown"
        return "presence"

    def _text(self, x: r.Envelope, text: str, at: float) -> Kind:
        """Take what a user said, or what was said in the user's name."""
        if text.startswith(MARKER):
            self._ends(g.TurnEnded(at, "interrupted"))
        if text.startswith(MARKER) or not self._is_prompt(x, text):
            return "presence"
        if x.turn_origin == "task_notification" and self._pending:
            self._pending -= 1
            self._says(g.Background(at, self._pending))
        times = self._times
        turn = x.prompt_id
        if not turn or (x.is_sidechain and turn in self._prompts):
            turn = times.name(at)
        self._prompts.add(turn)
        began = at if times.wall is None else min(at, times.core(times.wall))
        self._ends(g.TurnStarted(at, turn, began))
        return "progress"

    def _is_prompt(self, x: r.Envelope, text: str) -> bool:
        """Whether a user line opens a turn: it names its source, in files that name sources."""
        if x.is_meta or x.is_compact_summary or text.startswith(NOT_PROMPTS):
            return False
        self._sources_named = self._sources_named or x.prompt_source is not None
        return bool(x.prompt_source or x.is_sidechain or not self._sources_named)

    def _tool_results(self, x: r.Line, blocks: list[r.Block], at: float) -> Kind:
        # A resume writes the results that a killed process could not: nothing worked.
        echo = x.tool_denial_kind == "interrupted"
        for block in blocks:
            if block.type == "tool_result":
                call = block.tool_use_id or ""
                self._open.discard(call)
                self._signals.append(g.ToolEnded(at, call, echo))
        if r.went_to_background(x):
            self._pending += 1
            self._says(g.Background(at, self._pending))
        return "progress"

    def _assistant(self, x: r.Envelope, message: r.Message, at: float) -> Kind:
        if message.model == "<synthetic>":
            if x.is_api_error_message:
                self._synthetic(x, message, at)
            return "presence"
        if x.is_aborted_mid_stream:
            return "presence"  # the torn block of an interrupt: its echo, not work
        signals, name = self._signals, self._times.name(at)
        # Of several blocks that count at the same moment, one is enough to say that work was done.
        if self._worked != at:
            self._worked = at
            signals.append(g.Progress(at, name))
        if message.usage is not None and message.id is not None and not self._messages.seen(message.id):
            signals.append(_used(at, message.model, message.usage))
        for block in r.blocks(message):
            if block.type == "tool_use" and block.id is not None:
                self._open.add(block.id)
                tool = tool_name(block.name)
                signals.append(g.ToolStarted(at, block.id, tool, tool in DELEGATES, name))
        if message.stop_reason not in GOES_ON and not self._open:
            self._says(g.TurnEnded(at, "completed", _settle(x)))
        return "progress"

    def _synthetic(self, x: r.Envelope, message: r.Message, at: float) -> None:
        """The harness's own last word: the request failed for good, or the usage limit is hit."""
        text, reset = r.text_prefix(message), r.quota_reset(x)
        if x.api_error == "usage_limit_reached" or reset is not None or LIMIT_TEXT.search(text):
            written = LIMIT_EPOCH.search(text)
            if reset is None and written is not None:
                reset = float(written.group(1))
            self._says(g.Limited(at, None if reset is None else self._times.core(reset)))
        self._ends(g.TurnEnded(at, "failed", _settle(x)))


def _settle(x: r.Envelope) -> float:
    return SETTLE_TUI if x.entrypoint == "cli" and not x.is_sidechain else SETTLE


def _used(at: float, model: str | None, usage: r.Usage) -> g.Used:
    return g.Used(
        at,
        model or "unknown",
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
    )
