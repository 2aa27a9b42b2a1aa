"""Say of turns long over only what is still of use: that they were, when, and how they ended.

What happened before the sidecar began is told to nobody; it is folded so that the session stands where it
stands. A transcript of a gigabyte holds thousands of turns, of which the last one or two decide that, and
folding costs more than decoding. So of the earlier ones the single blocks, tools and tokens are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE: Final = 2
"""Turns at the end that are given whole: the open one and the last one, which is still shown."""


def condense(signals: list[g.Signal], before: float) -> list[g.Signal]:
    """Leave out what has no effect any more on the session that folds these; `before` is when we began.

    Of a session's signals in order of time, those of turns that two later ones follow are thinned: of signs
    of work in a row the first that may open a turn and the last one are enough. The turns' ids, times and
    outcomes come out the same; their tool calls, tokens and phases do not.
    """
    starts = [at for at, s in enumerate(signals) if type(s) is g.TurnStarted and s.at < before]
    if len(starts) <= WHOLE:
        return signals
    first, cut = starts[0], starts[-WHOLE]
    old = signals[first:cut]
    return [*signals[:first], *_thinned(old, _finished(old)), *signals[cut:]]


def _finished(signals: list[g.Signal]) -> set[str]:
    """Find the tool calls that begin and end here."""
    begun: set[str] = set()
    ended: set[str] = set()
    for signal in signals:
        if type(signal) is g.ToolStarted:
            begun.add(signal.call)
            ended.discard(signal.call)
        elif type(signal) is g.ToolEnded and signal.call in begun:
            ended.add(signal.call)
    return ended


def _thinned(signals: list[g.Signal], finished: set[str]) -> Iterator[g.Signal]:
    """Give the signals with each run of work reduced to its ends."""
    last: g.Signal | None = None  # the newest sign of work that is still to be said
    opened = False  # whether the run has said what opens a turn
    for signal in signals:
        if type(signal) is g.Used:
            continue
        if type(signal) is g.Progress or (type(signal) is g.ToolStarted and signal.call in finished):
            opens = signal.turn is not None
        elif type(signal) is g.ToolEnded and signal.call in finished and not signal.echo:
            opens = False
        else:  # this says more than that work was done
            if last is not None:
                yield _plain(last, finished)
            last, opened = None, False
            yield signal
            continue
        if opened:
            last = signal
        else:
            opened = opens
            yield _plain(signal, finished)
    if last is not None:
        yield _plain(last, finished)


def _plain(signal: g.Signal, finished: set[str]) -> g.Signal:
    """Give a finished call's beginning as work: its end may not be told."""
    if type(signal) is g.ToolStarted and signal.call in finished:
        return g.Progress(signal.at, signal.turn)
    return signal
