"""The fields of Claude Code's transcript records that say what it does; nothing else is decoded.

Content is never materialised: texts stay undecoded bytes, of which at most a known prefix is
compared. Fields are declared as loosely as they are written: their types differ by version.

Lines are decoded many at a time, each into a `Usual`, in which the blocks are typed. What does not
fit that, and a prompt that is plain text, is decoded again as a `Record`, which leaves the message
for later. A line that is `Usual` means the same as a `Record`: only the cost differs. Fields stand in
the order in which they are written, in which decoding is fastest, and nothing here refers back to its
whole, so the collector of cycles need not know of it. Longer than most modules: it is one table of
fields, in two forms.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sidecar.sources.records import DAMAGE

NOTHING: Final = Raw(b"")

PRESENCE: Final = frozenset(
    (
        "agent-name",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attachment",
        "bridge-session",
        "cost-state",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "relocated",
        "summary",
        "tag",
        "tools-used",
        "worktree-state",
    )
)
SYSTEM_PRESENCE: Final = frozenset(
    (
        "informational",
        "local_command",
        "microcompact_boundary",
        "stop_hook_summary",
    )
)


class Usage(Struct, gc=False):
    """Tokens of one message; every line of the message repeats the full figures."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class Block(Struct, gc=False):
    """One content block."""

    tool_use_id: str | None = None
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: Raw = NOTHING


class Message(Struct, gc=False):
    """The model's or the user's message around the blocks."""

    model: str | None = None
    id: str | None = None
    content: Raw = NOTHING
    stop_reason: str | None = None
    usage: Usage | None = None


class Text(Enum):
    """Stands for any text, of which nothing is kept: all strings decode into the one member."""

    ANY = "any"

    @classmethod
    def _missing_(cls, _: object) -> Text:
        return cls.ANY


class Spoken(Struct, gc=False):
    """A message whose content is a list of blocks, as nearly all are; a text is looked at again."""

    model: str | None = None
    id: str | None = None
    content: list[Block] | Text = []
    stop_reason: str | None = None
    usage: Usage | None = None


class ToolUseResult(Struct, rename="camel", gc=False):
    """What tells a tool that went to the background from one that ended."""

    is_async: bool | None = None
    status: str | None = None


class Envelope(Struct, rename="camel", gc=False):
    """One transcript line without the fields that hold content."""

    is_sidechain: bool | None = None
    agent_id: str | None = None
    prompt_id: str | None = None
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    timestamp: str | float | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    retry_in_ms: float | None = None
    pending_background_agent_count: int | None = None
    error: Raw = NOTHING
    api_error: str | None = None
    quota_limits: Raw = NOTHING
    is_aborted_mid_stream: bool | None = None
    tool_denial_kind: str | None = None


class Record(Envelope, rename="camel", gc=False):
    """A line of whatever shape: what holds content is looked at later."""

    message: Raw = NOTHING
    tool_use_result: Raw = NOTHING


class Usual(Envelope, rename="camel", gc=False):
    """A line in which all has its usual shape."""

    message: Spoken | None = None
    tool_use_result: ToolUseResult | list[Raw] | Text | None = None


Body = Message | Spoken


class Quota(Struct, rename="camel"):
    """When a reached usage limit resets, in epoch seconds."""

    resets_at: float | None = None


class ErrorDetail(Struct):
    """Why a request is retried."""

    status: int | None = None
    connection: Raw = NOTHING


_messages = msgspec.json.Decoder(Message)
_blocks = msgspec.json.Decoder(list[Block])
_results = msgspec.json.Decoder(ToolUseResult)
_quotas = msgspec.json.Decoder(Quota)
_errors = msgspec.json.Decoder(ErrorDetail)


def message(record: Record | Usual) -> Body | None:
    """The message; None where there is none or its shape is broken."""
    body = record.message
    if not isinstance(body, Raw):
        return body
    try:
        return _messages.decode(body)
    except DAMAGE:
        return None


def blocks(body: Body) -> list[Block]:
    """The content blocks; none where the content is a text or broken."""
    content = body.content
    if not isinstance(content, Raw):
        return content if isinstance(content, list) else []
    try:
        return _blocks.decode(content)
    except DAMAGE:
        return []


def text_prefix(body: Body) -> bytes:
    """The first bytes of the first text, as written in the file (JSON-escaped)."""
    if isinstance(body.content, Raw):
        raw = bytes(memoryview(body.content)[:400])
        if raw.startswith(b'"'):
            return raw[1:]
    first = next((b for b in blocks(body) if b.type == "text"), None)
    return b"" if first is None else bytes(memoryview(first.text)[1:400])


def went_to_background(record: Record | Usual) -> bool:
    """Whether a tool result only says that an agent was launched."""
    result = record.tool_use_result
    if isinstance(result, Raw):
        if bytes(memoryview(result)[:1]) != b"{":
            return False
        try:
            result = _results.decode(result)
        except DAMAGE:
            return False
    if not isinstance(result, ToolUseResult):
        return False
    return bool(result.is_async) or result.status == "async_launched"


def quota_reset(record: Envelope) -> float | None:
    """The reset of the usage limit, where the record tells it as a number."""
    try:
        return _quotas.decode(record.quota_limits).resets_at
    except DAMAGE:
        return None


def retry_cause(record: Envelope) -> str:
    """A closed set of words for why the provider's answer failed."""
    try:
        detail = _errors.decode(record.error)
    except DAMAGE:
        return "other"
    if bytes(memoryview(detail.connection)[:1]) == b"{":
        return "connection"
    return {429: "rate_limit", 529: "overloaded"}.get(
        detail.status or 0,
        "server_error" if (detail.status or 0) >= 500 else "other",  # noqa: PLR2004
    )
