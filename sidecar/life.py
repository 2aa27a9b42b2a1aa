"""Since when a session is silent or rests, and how long it is kept where nothing else makes it known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.limits import KNOWN_BY_GROWTH

if TYPE_CHECKING:
    from sidecar.limits import Rules
    from sidecar.session import Session


def by_growth(s: Session) -> bool:
    """Whether nothing but its growth makes the session known."""
    return s.registered_at is None and s.process is None


def silent_since(s: Session) -> float:
    """When the silence began that counts: at the last progress, or at the end of what excused it."""
    return max(s.first_seen if s.progress_at is None else s.progress_at, s.floor)


def rests_since(s: Session) -> float:
    """Since when a session without a turn rests.

    Of one that is known by its growth, growth after its last turn is all there is to see: its rest
    begins anew with it, so that it is dropped at its idle limit and never reaped before.
    """
    rested = s.first_seen if s.idle_since is None else s.idle_since
    if not by_growth(s):
        return rested
    return max(x for x in (rested, s.progress_at, s.gone_at) if x is not None)


def lapsed(s: Session, rules: Rules, now: float) -> bool:
    """Whether a session that nothing but its own growth makes known is to be dropped.

    Registered, listed and process-held sessions never lapse; an open turn is kept for a day after
    its last progress or what excused its silence, a usage limit for a day after its reset.
    """
    if not by_growth(s):
        return False
    if s.closed_at is not None and (s.progress_at is None or s.progress_at <= s.closed_at):
        return True
    if s.child_running:
        return False
    since = rests_since(s) if s.turn is None else silent_since(s)
    lasts = KNOWN_BY_GROWTH
    if s.limit is not None:
        since = max(since, s.limit.until or s.limit.since)
    elif s.turn is None and not s.in_background:
        lasts = rules.idle.limit or KNOWN_BY_GROWTH
    return now - since >= lasts
