"""Who speaks of a session: its sources, its registration, its process, and the agent's own word.

A part of the fold: called by nothing else. A word is believed as long as the source that heard it
can be read; what a lost one said last is kept, for when it is read again.
"""

from __future__ import annotations

from sidecar import changes as c
from sidecar import deeds
from sidecar import signals as g
from sidecar.session import INHERITED, Process, Report, Session
from sidecar.turns import Out, close_turn, idle_from, settle


def source_up(s: Session, x: g.SourceUp, out: Out) -> None:
    """A source sees the session, for the first time or again."""
    known, lost = bool(s.sources), s.sources.get(x.source) is False
    blind, alone = s.blind, not any(s.sources.values())
    s.sources[x.source] = True
    if x.resolution is not None:
        s.resolutions[x.source] = x.resolution
    # What happened while nobody saw it may have been work. A first sight excuses nothing.
    if known and (alone or (blind and not s.blind)):
        s.floor = max(s.floor, x.at)
    if lost:
        out.append(c.SourceChanged(x.at, x.source, up=True))
    _hear(s, x.at, out)


def source_lost(s: Session, x: g.SourceLost, out: Out) -> None:
    """Blindness: what the source said last is not believed until it is read again."""
    if s.sources.get(x.source):
        s.sources[x.source] = False
        out.append(c.SourceChanged(x.at, x.source, up=False))
        _hear(s, x.at, out)


def registered(s: Session, x: g.Registered, _: Out) -> None:
    """The session exists."""
    if s.registered_at is None:
        s.registered_at = x.at
        s.gone_at = None if s.turn is None else s.gone_at


def unregistered(s: Session, x: g.Unregistered, out: Out) -> None:
    """The session ended, or died."""
    s.registered_at = None
    _ended(s, x.at, "unregistered", out)


def process_seen(s: Session, x: g.ProcessSeen, _: Out) -> None:
    """A live process holds the session."""
    s.process = Process(x.pid, x.started)
    s.gone_at = None if s.turn is None else s.gone_at


def process_gone(s: Session, x: g.ProcessGone, out: Out) -> None:
    """What registered the session died with the process."""
    s.process = s.rss = s.cpu = s.registered_at = None
    _ended(s, x.at, "process ended", out)


def _ended(s: Session, at: float, why: str, out: Out) -> None:
    """Whatever held the session is gone. A pending end wins; an open turn died; else it closes."""
    settle(s, out)
    if s.turn is None:
        if s.gone_at is None:
            deeds.closed(s, g.Closed(at, why), out)
    elif s.turn.ending:
        close_turn(s, s.turn, at, "stalled", out)
        deeds.closed(s, g.Closed(at, why), out)
    elif s.gone_at is None:
        s.gone_at = at


def process_used(s: Session, x: g.ProcessUsed, _: Out) -> None:
    """What the process uses."""
    s.rss, s.cpu = x.rss, x.cpu


def status(s: Session, x: g.Status, out: Out) -> None:
    """A source's word, or a parent's; None takes back what it said."""
    name = INHERITED if x.inherited else x.source
    s.heard.pop(name, None)
    if x.word is not None:
        s.heard[name] = Report(x.word, x.since, x.waiting_for, x.inherited)
    _hear(s, x.at, out)


def _believed(s: Session) -> Report | None:
    """The newest word of a source that is not lost; a parent's only where there is no other."""
    words = [word for name, word in s.heard.items() if s.sources.get(name) is not False]
    own = [word for word in words if not word.inherited]
    return next(reversed(own or words), None)


def _hear(s: Session, at: float, out: Out) -> None:
    """Believe what is to be believed now, and say what is different."""
    old, new = s.status, _believed(s)
    s.status = new
    _rest(s, new)
    if (old and (old.word, old.waiting_for)) == (new and (new.word, new.waiting_for)):
        return
    if new is not None and new.word == "idle":
        if s.turn is None:  # else the end of the turn that was left takes the stamp
            idle_from(s, new.since)
    elif old is not None and old.word != "idle":
        idle_from(s, at)  # the work that it spoke of is over
    if old is not None and old.word == "waiting":
        s.floor = max(s.floor, at)
    word, waits = (None, None) if new is None else (new.word, new.waiting_for)
    out.append(c.StatusChanged(at, word, waits))


def _rest(s: Session, new: Report | None) -> None:
    """Where no turn is visible, what follows a rest stands for one, even if its end went unheard."""
    if new is None:
        return
    if s.rested and s.turn is None and new.word in ("busy", "waiting"):
        s.judged.clear()
        s.warned.clear()
        s.interrupted = False
    s.rested = new.word in ("idle", "background")
