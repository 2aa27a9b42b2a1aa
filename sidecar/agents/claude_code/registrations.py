"""`sessions/<pid>.json`: what each Claude Code process says of itself.

Written in place, only at transitions: its age proves nothing. It stays behind, still `busy`, when
the process is killed, and survives in a shared volume when a container restarts. The `.key` files
beside it hold secrets and are never opened.

A little longer than most: what is written, whether it still holds, and what that tells are one thing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agent import Finding
from sidecar.agents.claude_code.registration import Folder, Registration
from sidecar.sources import process

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from sidecar.clock import Clock

EVERY: Final = 0.25

End = type[g.ProcessGone] | type[g.Unregistered]

WORDS: Final[dict[str, g.Word]] = {
    "busy": "busy",
    "idle": "idle",
    "waiting": "waiting",
    "shell": "background",
}


WAITS: Final = frozenset(
    (
        *("permission prompt", "input needed", "plan approval", "sandbox request"),
        *("worker request", "dialog open", "trust dialog", "question", "elicitation"),
    )
)
"""What it may be said to wait for. Any other text could be content, and is `something else`."""


class Registrations:
    """The source `registry`: registrations, and the processes they name."""

    name = "registry"
    patience = 20.0
    wake: asyncio.Event | None = None

    def __init__(self, folder: str, clock: Clock, ends: Callable[[str], Sequence[g.Observation]]) -> None:
        """`ends` reads a session's transcript to its end, before the session is called gone."""
        self.folder = folder
        self.attended: bool | None = None
        self.wants: Callable[[str], None] = _unwanted
        """Told of every session that lives, whatever the age of its transcript."""
        self.unread: Callable[[str], bool] = _all_read
        """Whether there is more of a transcript than was read of it at once."""
        self._clock = clock
        self._ends = ends
        self._files = Folder(folder)
        self._read: dict[str, Registration] = {}
        self._alive: dict[str, Registration] = {}
        self._strange = 0
        self._newest: dict[str, Registration] = {}
        self._seen: set[str | None] = set()
        self._held: set[str] = set()
        self._leaving: dict[str, tuple[End, float]] = {}
        """How sessions ended of which there is more to read first, and when, as far as was read."""

    @property
    def every(self) -> float:
        """At once while the last of a session is to be read."""
        return 0.0 if self._leaving else EVERY

    @property
    def sessions(self) -> dict[str, Registration]:
        """The registrations that stand for a session that may live, by session."""
        return {r.session_id: r for r in self._alive.values()}

    def process(self, session: str) -> Registration | None:
        """The registration of a session whose process is seen here and alive."""
        found = self.sessions.get(session)
        return found if found is not None and self._lives(found) else None

    async def read(self) -> Sequence[g.Observation]:
        """What changed in the folder and among the processes it names."""
        return self.scan()

    def scan(self) -> list[g.Observation]:
        """The same, at once."""
        now = self._clock.now()
        found = self._files.read()
        self._newest = _newest(found.values())
        # A session that another process holds by now has not ended with the one before.
        self._held = {r.session_id for r in found.values() if self._holds(r)}
        out: list[g.Observation] = []
        for session, (end, _) in list(self._leaving.items()):
            out += self._left(session, now, end)
        for name in [n for n in self._alive if n not in found]:
            out += self._left(self._alive.pop(name).session_id, now, g.Unregistered)
        for name, new in found.items():
            out += self._compare(name, new, now)
        self._read = found
        if out and self._strange:
            out.append(g.Observation(out[0].session, g.Records(now, unknown=self._strange)))
            self._strange = 0
        return out

    def living(self) -> list[str]:
        """The sessions whose process is seen alive, asked anew."""
        return [r.session_id for r in self._files.read().values() if self._lives(r)]

    def probe(self) -> list[Finding]:
        """What `check` says: are the processes visible, does one run without a transcript."""
        found = []
        for registered in self._files.read().values():
            lives = self._lives(registered)
            seen = {True: "alive", False: "gone", None: "its processes are not visible from here"}[lives]
            what = f"session {registered.session_id}"
            found.append(Finding(what, ok=lives is not False, detail=f"pid {registered.pid}: {seen}"))
        return found

    def _lives(self, r: Registration) -> bool | None:
        """Whether its process runs; None where its pids cannot be seen from here."""
        if not process.same_namespace(r.pid_domain) or not r.proc_start.isdecimal():
            return None
        lives = process.alive(r.pid, int(r.proc_start))
        if lives:
            self._seen.add(r.pid_domain)
        elif r.pid_domain not in self._seen and process.other_machine(r.pid_domain):
            return None  # a folder that machines share
        return lives

    def _holds(self, r: Registration) -> bool:
        lives = self._lives(r)
        return not self._stale(r) if lives is None else lives

    def _stale(self, r: Registration) -> bool:
        """Left behind: its machine's newest one has another pid namespace, or its session another process.

        The numbers of namespaces are given again too: a container that starts anew may get the one it had.
        """
        newest = self._newest.get(_machine(r), r)
        return r.pid_domain not in (None, newest.pid_domain) or self._newest.get(r.session_id, r) != r

    def _compare(self, name: str, new: Registration, now: float) -> list[g.Observation]:
        old, lives = self._alive.get(name), self._lives(new)
        out: list[g.Observation] = []
        if old is not None and old.session_id != new.session_id:
            out += self._left(self._alive.pop(name).session_id, now, g.Unregistered)
            old = None
        if not self._holds(new):
            first = name not in self._read
            if old is not None or (first and lives is False):
                self._alive.pop(name, None)
                out += self._left(new.session_id, now, g.ProcessGone)
            return out
        if old is None:
            out += self._arrived(new, now, lives=bool(lives))
        if old is None or (old.status, old.status_updated_at) != (new.status, new.status_updated_at):
            out += self._status(new, now)
        self._alive[name] = new
        return out

    def _arrived(self, r: Registration, now: float, *, lives: bool) -> list[g.Observation]:
        started = min(now, self._clock.core(r.started_at / 1000)) if r.started_at else now
        self.wants(r.session_id)
        attended = self.attended
        if attended is None:
            attended = r.entrypoint == "cli" and r.kind != "bg"
        signals: list[g.Signal] = [
            g.SourceUp(started, "registry"),
            g.Registered(started),
            g.Described(started, None, r.version, attended),
        ]
        if lives:
            signals.append(g.ProcessSeen(started, r.pid, started))
        return [g.Observation(r.session_id, signal) for signal in signals]

    def _status(self, r: Registration, now: float) -> list[g.Observation]:
        if r.status is None:
            return []
        word = WORDS.get(r.status)
        if word is None:
            self._strange += 1
            word = "busy"
        since = now
        if r.status_updated_at:
            since = min(now, self._clock.core(r.status_updated_at / 1000))
        waiting = None
        if word == "waiting" and r.waiting_for is not None:
            waiting = r.waiting_for if r.waiting_for in WAITS else "something else"
        said = g.Status(since, word, since, waiting, source="registry")
        return [g.Observation(r.session_id, said)]

    def _left(self, session: str, now: float, end: End) -> list[g.Observation]:
        """The process or its registration is gone; what it wrote last is read before that counts."""
        last = list(self._ends(session))
        _, before = self._leaving.pop(session, (end, now))
        at = max([now, before, *(o.signal.at for o in last)])  # the end comes after all that came before it
        if self.unread(session):
            self._leaving[session] = end, at
            return last
        return last if session in self._held else [*last, g.Observation(session, end(at))]


def _all_read(_: str) -> bool:
    """Nobody leaves anything."""
    return False


def _unwanted(_: str) -> None:
    """Nobody asks."""


def _newest(found: Iterable[Registration]) -> dict[str, Registration]:
    """The registration that started last, of each session and of each machine."""
    newest: dict[str, Registration] = {}
    for r in sorted(found, key=lambda r: r.started_at):
        newest |= {r.session_id: r, _machine(r): r}
    return newest


def _machine(r: Registration) -> str:
    return (r.pid_domain or "").partition(":pid:")[0]
