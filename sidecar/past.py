"""What earlier runs told of turns, so that this one can say what it still owes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sidecar import changes as c
from sidecar import signals as g
from sidecar.journal import bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.clock import Clock
    from sidecar.session import Session, Turn

ROUNDED: Final = 0.001
"""Seconds that a stamp may be off after its way to core time and back."""

APART: Final = 1.0
"""Seconds by which two runs may date the same record differently: less than what any agent's turn is given to
go on after a provisional end."""

_OF_TURN: Final = (c.TurnOpened, c.TurnClosed, c.PhaseLeft, c.GapClosed, c.ToolClosed, c.TokensUsed)

Key = tuple[str, str, str]


class Told(Struct, array_like=True):
    """A turn that was told of. Times are epoch seconds; `ended` None: its end was not told yet."""

    agent: str
    session: str
    turn: str
    started: float
    ended: float | None = None
    outcome: g.Outcome = "completed"


class Past:
    """What earlier runs told, as it was when this one began."""

    def __init__(self, since: Mapping[str, float], turns: Mapping[Key, Told], clock: Clock) -> None:
        """`since`, by agent (core seconds): of a turn begun later, not among `turns`, nothing was told."""
        self._since = since
        self._ended = {
            key: None if told.ended is None else clock.core(told.ended) for key, told in turns.items()
        }
        self._ends = {
            key: (
                clock.core(told.started),
                g.TurnEnded(min(clock.now(), clock.core(told.ended)), told.outcome),
            )
            for key, told in turns.items()
            if told.ended is not None
        }
        self._asked: Turn | None = None
        self._end: g.TurnEnded | None = None

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
        if isinstance(change, c.TurnOpened | c.TurnClosed):  # each once, whatever the clocks say by now
            return ended is None and isinstance(change, c.TurnClosed)
        if ended is None:
            return None
        # It may go on after all: then what it does is new.
        goes_on = session.progress_at is not None and session.progress_at > ended + ROUNDED
        return None if goes_on else False

    def end(self, session: Session, signal: g.Signal | None, /) -> g.TurnEnded | None:
        """The end of the open turn, where it was told and nothing was done since; None: it is open.

        Before a `signal`, only if that shows work of another turn: where an agent writes no end, what it did
        after the end that was told was told of as the next turn, by a run that went on.
        """
        turn = session.turn
        if turn is not self._asked:  # most are asked about a thousand times
            self._asked, self._end = turn, None if turn is None else self._end_of(session, turn)
        end, progress = self._end, session.progress_at
        if turn is None or end is None or (progress is not None and progress > end.at + APART):
            return None
        if signal is None:  # whoever did anything since may hang by now: that turn is judged
            went_on = progress is not None and progress > end.at + ROUNDED
            return None if session.behind or went_on else end
        named: str | None = getattr(signal, "turn", None)
        return end if named not in (None, turn.id) and signal.at > end.at + APART else None

    def _end_of(self, session: Session, turn: Turn) -> g.TurnEnded | None:
        started, end = self._ends.get(key_of(session, turn), (0.0, None))
        return end if abs(turn.started_at - started) <= APART else None


def key_of(session: Session, turn: Turn) -> Key:
    """What a turn is known by; bounded, for agents choose their ids."""
    return bounded(session.agent), bounded(session.id), bounded(turn.id)
