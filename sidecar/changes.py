"""What the fold tells its listeners: the vocabulary of changes, as `signals` is that of causes.

Telemetry, the lifecycle lines and the acting side read these; none of them can write state.
Times are core seconds; nothing here carries content. Nothing that a change holds leads back
to it, so the collector of cycles need not look at them.
"""

from __future__ import annotations

from msgspec import Struct

from sidecar.session import Turn, Verdict


class Change(Struct, frozen=True, gc=False):
    """Something about a session is different since `at`."""

    at: float


class SessionOpened(Change, frozen=True, gc=False):
    """The session was seen for the first time."""


class SessionClosed(Change, frozen=True, gc=False):
    """The session ended or is no longer known."""

    why: str


class TurnOpened(Change, frozen=True, gc=False):
    """A turn began."""

    turn: Turn


class TurnClosed(Change, frozen=True, gc=False):
    """A turn ended; its outcome and end are in the record."""

    turn: Turn


class PhaseLeft(Change, frozen=True, gc=False):
    """The session was in `phase` from `since` to `at`; `turn` is the one it belonged to."""

    phase: str
    since: float
    into: str
    turn: Turn | None
    model: str | None
    waiting_for: str | None


class GapClosed(Change, frozen=True, gc=False):
    """Silence ended: `seconds` without progress, most recently in `phase`."""

    phase: str
    seconds: float
    since: float
    turn: Turn | None


class ToolClosed(Change, frozen=True, gc=False):
    """A tool call got its result (or its turn ended without one)."""

    call: str
    tool: str
    since: float
    turn: Turn | None
    unfinished: bool


class TokensUsed(Change, frozen=True, gc=False):
    """Tokens were spent on one message."""

    model: str
    types: dict[str, int]
    turn: Turn | None


class RetrySeen(Change, frozen=True, gc=False):
    """The agent retries a provider error."""

    cause: str


class RecordsRead(Change, frozen=True, gc=False):
    """Records were read, by kind."""

    kinds: dict[str, int]


class SourceChanged(Change, frozen=True, gc=False):
    """A source of the session was lost or regained."""

    source: str
    up: bool


class StatusChanged(Change, frozen=True, gc=False):
    """The agent reports another word for its state."""

    word: str | None
    waiting_for: str | None


class WarningGiven(Change, frozen=True, gc=False):
    """Half of a bound has gone by."""

    bound: str
    reason: str
    turn: Turn | None


class VerdictGiven(Change, frozen=True, gc=False):
    """A bound tripped."""

    verdict: Verdict
    turn: Turn | None


class ActIntended(Change, frozen=True, gc=False):
    """The reason is about to become an act; written before the call."""

    action: str
    reason: str
    bound: str | None
    turn: Turn | None


class ActEnded(Change, frozen=True, gc=False):
    """The outcome of a verdict or of a person's request."""

    action: str
    outcome: str
    bound: str | None
    turn: Turn | None


class Recovered(Change, frozen=True, gc=False):
    """A turn went on by itself after a verdict that observe mode did not carry out."""

    verdict: Verdict
    turn: Turn | None
