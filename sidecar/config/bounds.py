"""The bounds as they are written: which exist, and what each may say.

A lone value is short for its limit: `waiting: 5m` is `waiting: {limit: 5m}`. The numbers that hold
where nothing is said, and where they come from, are `sidecar.limits`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from sidecar.config_units import Seconds


class Span(Struct, frozen=True, kw_only=True):
    """How long a state may last."""

    SHORT: ClassVar[tuple[str, ...]] = ("limit",)

    limit: Seconds | UnsetType | None = UNSET
    """The limit. Off: no bound."""


class WarnedSpan(Span, frozen=True, kw_only=True):
    """A span that is spoken of before it is over."""

    warn: Seconds | UnsetType | None = UNSET
    """When to warn, once a turn. Default: half of the limit. Off: never."""


class Ceiling(Span, frozen=True, kw_only=True):
    """A bound that interrupts, with nothing to warn of before."""

    action: Literal["report", "interrupt"] | UnsetType = UNSET
    """What follows."""


class TurnBound(WarnedSpan, frozen=True, kw_only=True):
    """A bound that can end the turn."""

    action: Literal["report", "interrupt"] | UnsetType = UNSET
    """What follows."""


class ReportedBound(WarnedSpan, frozen=True, kw_only=True):
    """A bound without a turn to end."""

    action: Literal["report"] | UnsetType = UNSET
    """Only `report`: there is no turn to end."""


class LimitedBound(Span, frozen=True, kw_only=True):
    """How long a usage limit is believed."""

    action: Literal["report"] | UnsetType = UNSET
    """Only `report`: waiting for a reset is no fault of the turn."""


class IdleBound(WarnedSpan, frozen=True, kw_only=True):
    """How long a session may be without a turn."""

    action: Literal["report", "reap"] | UnsetType = UNSET
    """What follows; there is no turn to interrupt."""

    unprompted: bool | UnsetType = UNSET
    """Whether the bound holds before the first turn too. Default false: a session that was made
    and not yet used is waiting for its user."""


class ModelBound(Struct, frozen=True, kw_only=True):
    """Silence of the model, by how finely its progress can be seen. A lone value sets both."""

    SHORT: ClassVar[tuple[str, ...]] = ("record", "delta")

    record: TurnBound | UnsetType = UNSET
    """Where progress shows once a block is finished, as in transcripts."""

    delta: TurnBound | UnsetType = UNSET
    """Where every streamed piece shows, as in event streams."""


class DelegatedBound(Struct, frozen=True, kw_only=True):
    """A turn that waits for a subagent which is stuck and cannot be ended alone."""

    action: Literal["report", "interrupt"] | UnsetType = UNSET
    """What happens to the waiting turn. The wait itself has no limit."""


class Bounds(Struct, frozen=True, kw_only=True):
    """How long each state may last, by its phase."""

    PIECEWISE: ClassVar[bool] = True

    waiting: TurnBound | UnsetType = UNSET
    """A permission, question or dialog is pending. 5m: nobody who sits there takes longer, and a
    turn that nobody answers holds everything behind it."""

    compacting: TurnBound | UnsetType = UNSET
    """The context is being compacted. 30m: minutes are normal, and an early interrupt makes the
    next prompt compact again."""

    idle_in_turn: TurnBound | UnsetType = UNSET
    """The agent reports idle with a turn open. 90s: the record of the turn's end may be late by
    seconds, not by minutes; the turn is then counted as abandoned."""

    delegated: DelegatedBound | UnsetType = UNSET
    """Subagents work that the turn waits for. No limit: each has bounds of its own."""

    tool: dict[str, TurnBound] | UnsetType = UNSET
    """By tool name or pattern (`mcp__*`), laid over the defaults: no limit, since tools may run
    for hours; those that are instant have 15m and are reported, perhaps waiting for a permission."""

    retrying: Ceiling | UnsetType = UNSET
    """Provider errors are being retried. 35m after the last progress, or the model's limit after
    the announced attempt, whichever is earlier."""

    model: ModelBound | UnsetType = UNSET
    """The turn waits for the model. Record 45m, warned of after 20m: one block can take 35m to
    write. Delta 15m, warned of after 6m: agents give up and retry by themselves at 5 to 10m."""

    starting: ReportedBound | UnsetType = UNSET
    """A process or registration shows no status and no turn. 10m: slow starts exist, and a trust
    dialog that nobody sees lasts for ever."""

    idle: IdleBound | UnsetType = UNSET
    """No turn is open and nothing runs in the background. 30m, reported; `reap` tears it down."""

    limited: LimitedBound | UnsetType = UNSET
    """The usage limit is reached. 6h where no reset time was told, else that plus 5m."""

    turn: TurnBound | UnsetType = UNSET
    """The turn as a whole, however busy. Off: the job's own deadline is the ceiling."""

    busy: TurnBound | UnsetType = UNSET
    """The agent says busy and no turn can be seen. Off: busy proves neither work nor a stall."""

    unsafe: bool | UnsetType = UNSET
    """Lifts the floors: model record 60s, delta 5s, starting 10s, idle 60s. Default false: a limit
    below what can be seen ends healthy turns. For tests and demonstrations."""
