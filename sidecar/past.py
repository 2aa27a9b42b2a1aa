"""What earlier runs told of turns, so that this one can say what it still owes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sidecar import changes as c
from sidecar.journal import bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.clock import Clock
    from sidecar.session import Session, Turn

ROUNDED: Final = 0.001
"""Seconds that a stamp may be off after its way to core time and back."""

_OF_TURN: Final = (c.TurnOpened, c.TurnClosed, c.PhaseLeft, c.GapClosed, c.ToolClosed, c.TokensUsed)

Key = tuple[str, str, str]


class Told(Struct, array_like=True):
    """A turn that was told of. Times are epoch seconds; `ended` None: its end was not told yet."""

    agent: str
    session: str
    turn: str
    started: float
    ended: float | None = None


class Past:
    """What earlier runs told, as it was when this one began."""

    def __init__(self, since: Mapping[str, float], turns: Mapping[Key, Told], clock: Clock) -> None:
        """`since`, by agent (core seconds): of a turn begun later, not among `turns`, nothing was told."""
        self._since = since
        self._ended = {
            key: None if told.ended is None else clock.core(told.ended) for key, told in turns.items()
        }

    def owes(self, session: Session, change: c.Change, /) -> bool | None:
        """Whether a change has yet to be told, however old it is; False: it was; None: not ours to say."""
        turn: Turn | None = change.turn if isinstance(change, _OF_TURN) else None
        if turn is None:
            return None
        key = key_of(session, turn)
        if key not in self._ended:
            since = self._since.get(key[0])
            return True if since is not None and turn.started_at > since else None
        ended = self._ended[key]
        if ended is None:
            return True if isinstance(change, c.TurnClosed) else None
        # It may go on after all: then what it does is new.
        goes_on = session.progress_at is not None and session.progress_at > ended + ROUNDED
        return None if goes_on else False


def key_of(session: Session, turn: Turn) -> Key:
    """What a turn is known by; bounded, for agents choose their ids."""
    return bounded(session.agent), bounded(session.id), bounded(turn.id)
