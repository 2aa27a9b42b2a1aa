"""What was listed so far and what changed since: the signals of a listing. No I/O.

A listing shows life and death, perhaps a word for the state, never a turn. What idles is counted
from its newest activity: where that moved, a busy period began and is over, and what was said of
the session may be said again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agents.http.entries import Entry, Listed, over

if TYPE_CHECKING:
    from sidecar.agents.http.settings import Settings
    from sidecar.clock import Clock

SOURCE: Final = "listing"

CLOSE: Final = "its close"
"""What an entry waits for whose session is dead."""

SLACK: Final = 2.0
"""Stamps are cut to whole seconds, and a listing is a moment old when it arrives."""

KEPT_GONE: Final = 1_000
"""Sessions that ended, remembered in case they are listed again."""

WORDS: Final[dict[str, g.Word]] = {
    "busy": "busy",
    "idle": "idle",
    "waiting": "waiting",
    "background": "background",
}


class Track:
    """The sessions of one server."""

    def __init__(self, settings: Settings, clock: Clock, *, attended: bool | None = None) -> None:
        self.settings = settings
        self.known: dict[str, Entry] = {}
        self.unseen: set[str] = set()
        """Those that are listed and whose own status could not be read."""
        self.behind = 0.0
        """Seconds that the server's clock is behind ours: its stamps look older than they are. One
        that is ahead needs nothing, for no stamp counts as later than now."""
        self._clock = clock
        self._attended = attended
        self._gone: dict[str, None] = {}
        self._read_at: float | None = None

    def feed(self, listed: Listed, failed: set[str], now: float) -> list[g.Observation]:
        """What changed. `failed` are those whose own status could not be read: blindness for them."""
        present = {name: e for name, e in listed.entries.items() if not over(self.settings, e)}
        lost, regained = failed & self.known.keys() - self.unseen, self.unseen & present.keys() - failed
        out = [g.Observation(name, g.SourceLost(now, SOURCE)) for name in sorted(lost)]
        out += [g.Observation(name, g.SourceUp(now, SOURCE)) for name in sorted(regained)]
        self.unseen = failed & self.known.keys()
        for name, entry in present.items():
            if name not in failed:
                out += [g.Observation(name, signal) for signal in self._seen(entry, now)]
        for name in [name for name in self.known if name not in present]:
            if listed.whole or name in listed.entries:
                out += self._ended(name, now)
        self._read_at = now
        return out

    def _ended(self, name: str, now: float) -> list[g.Observation]:
        del self.known[name]
        self._gone[name] = None
        if len(self._gone) > KEPT_GONE:
            del self._gone[next(iter(self._gone))]
        return [g.Observation(name, g.Unregistered(now))]

    def _seen(self, entry: Entry, now: float) -> list[g.Signal]:
        old = self.known.get(entry.id)
        self.known[entry.id] = entry
        return self._first(entry, now) if old is None else self._moved(old, entry, now)

    def _first(self, entry: Entry, now: float) -> list[g.Signal]:
        created = now if entry.created is None else self._when(entry.created, now)
        active = created if entry.active is None else self._when(entry.active, now)
        signals: list[g.Signal] = [g.Registered(created), g.SourceUp(created, SOURCE)]
        if entry.parent is not None or self._attended is not None:
            signals.append(g.Described(created, entry.parent, attended=self._attended))
        used = entry.active is not None and entry.active > (entry.created or 0.0)
        if used and self.settings.last_activity_is_progress:
            signals.append(g.Progress(active))
        if entry.id in self._gone:
            del self._gone[entry.id]
            signals += [_says("idle", active, now), *_again(active, now)]
        return [*signals, *self._status(entry, active, now)]

    def _moved(self, old: Entry, entry: Entry, now: float) -> list[g.Signal]:
        signals: list[g.Signal] = []
        moved = entry.active is not None and (old.active is None or entry.active > old.active)
        active = self._when(entry.active, now) if moved and entry.active is not None else now
        if moved and self.settings.last_activity_is_progress:
            signals.append(g.Progress(active))
        if _word(old) != _word(entry):
            signals += self._status(entry, active if moved else now, now)
        elif moved and _word(entry)[0] == "idle":
            signals += _again(active, now)
        return signals

    def _status(self, entry: Entry, active: float, now: float) -> list[g.Signal]:
        """Its word. Idleness is as old as the activity, everything else as our knowledge of it."""
        word, waits = _word(entry)
        return [_says(word, active if word == "idle" else now, now, waits)]

    def _when(self, stamp: float, now: float) -> float:
        """A stamp on the core's clock: no later than now, and never older than what was seen since.

        What changed between two looks did so then: a stamp that says otherwise is another clock's.
        """
        at = self._clock.core(stamp)
        if self.behind > SLACK:
            at += self.behind
        if self._read_at is not None and not self._read_at - SLACK <= at:
            return now
        return min(at, now)


def _word(entry: Entry) -> tuple[g.Word, str | None]:
    """What is reported: a listing that tells no state is one of sessions at rest, as far as it goes."""
    if entry.done:
        return "waiting", CLOSE
    return WORDS.get(entry.state or "idle", "busy"), entry.waits


def _says(word: g.Word, since: float, now: float, waits: str | None = None) -> g.Status:
    return g.Status(now, word, since, waits, source=SOURCE)


def _again(active: float, now: float) -> list[g.Signal]:
    """A busy period that is over: it stands for the turns that nobody sees."""
    return [_says("busy", active, now), _says("idle", active, now)]
