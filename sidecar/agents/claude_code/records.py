"""The fields of Claude Code's transcript records that say what it does; nothing else is decoded.

Content is not built, but for a text that is a whole message, which is gone with its record; of any text
at most a known prefix is compared. Fields are declared as loosely as they are written: their types differ
by version.

Lines are decoded many at a time, each into a `Line`, in which the blocks are typed. What does not fit
that is decoded again as a `Record`, which leaves the message for later, and `line` makes of it what it can.
Where a line fits, both ways come to the same `Line`: only the cost differs. Fields stand in the order in
which they are written, in which decoding is fastest, and nothing here refers back to its whole, so the
collector of cycles need not know of it. Longer than most modules: it is one table of fields, in two forms.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from sidecar.sources.records import DAMAGE

NOTHING: Final = Raw(b"")

PREFIX: Final = 400
"""Characters of a text that are looked at: longer than any notice of the harness."""

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
    """The model's or the user's message around the blocks, or around one text."""

    model: str | None = None
    id: str | None = None
    content: list[Block] | str = []
    stop_reason: str | None = None
    usage: Usage | None = None


class LooseMessage(Struct, gc=False):
    """A message around anything."""

    model: str | None = None
    id: str | None = None
    content: Raw = NOTHING
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


class Line(Envelope, rename="camel", gc=False):
    """A line in which all has its usual shape."""

    message: Message | None = None
    tool_use_result: ToolUseResult | list[Raw] | str | None = None


class Record(Envelope, rename="camel", gc=False):
    """A line of whatever shape: what holds content is looked at later."""

    message: Raw = NOTHING
    tool_use_result: Raw = NOTHING


class Quota(Struct, rename="camel"):
    """When a reached usage limit resets, in epoch seconds."""

    resets_at: float | None = None


class ErrorDetail(Struct):
    """Why a request is retried."""

    status: int | None = None
    connection: Raw = NOTHING


_messages = msgspec.json.Decoder(LooseMessage)
_contents = msgspec.json.Decoder(list[Block] | str)
_texts = msgspec.json.Decoder(str)
_results = msgspec.json.Decoder(ToolUseResult)
_quotas = msgspec.json.Decoder(Quota)
_errors = msgspec.json.Decoder(ErrorDetail)


def line(record: Record) -> Line:
    """What can be made of a line that is not as usual: what is broken in it is left out."""
    fields = msgspec.structs.asdict(record)
    fields |= {"message": _message(record.message), "tool_use_result": _result(record.tool_use_result)}
    return Line(**fields)


def blocks(message: Message) -> list[Block]:
    """The content blocks; none where the content is a text or broken."""
    return message.content if isinstance(message.content, list) else []


def text_prefix(message: Message) -> str:
    """The beginning of the first text."""
    content = message.content
    if isinstance(content, list):
        content = _text(next((block.text for block in content if block.type == "text"), NOTHING))
    return content[:PREFIX]


def went_to_background(x: Line) -> bool:
    """Whether a tool result only says that an agent was launched."""
    result = x.tool_use_result
    return isinstance(result, ToolUseResult) and (bool(result.is_async) or result.status == "async_launched")


def _message(raw: Raw) -> Message | None:
    """The message; None where there is none or its shape is broken."""
    try:
        x = _messages.decode(raw)
    except DAMAGE:
        return None
    try:
        content = _contents.decode(x.content)
    except DAMAGE:
        content = _text(x.content)
    return Message(x.model, x.id, content, x.stop_reason, x.usage)


def _result(raw: Raw) -> ToolUseResult | None:
    try:
        return _results.decode(raw)
    except DAMAGE:
        return None


def _text(raw: Raw) -> str:
    """A text; of one that holds what is no character the beginning as it is written."""
    try:
        return _texts.decode(raw)
    except DAMAGE:
        written = bytes(memoryview(raw)[: PREFIX + 1])
        return written[1:].decode("utf-8", "replace") if written.startswith(b'"') else ""


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
