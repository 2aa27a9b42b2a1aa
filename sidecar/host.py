#!/usr/bin/env python3
"""Own an agent's standard streams, and offer the control API that the agent lacks.

    host.py --listen unix:/run/agent/{pid}.sock -- claude -p --input-format stream-json ...

No signal ends only a turn of such an agent: only who holds its stdin or its terminal can. So the host starts
the agent, passes every byte between it and the client, and listens on a socket for an interrupt or a reap.

One file, the standard library only, any python3 from 3.9 on Linux: copy it into the agent's image, or start
it as `agent-sidecar host`. Put it directly before the agent's binary; before a shell it can only reap.

What passes through
    Bytes are passed on as they come. The exceptions, all of them:
    - whole lines of ours go into the agent's stdin, only where the client's last line has ended (else: 503);
    - the agent's answers to those lines do not reach the client, nor do state events that we switched on;
    - a client's answer to what we have answered in its place (acp) does not reach the agent;
    - the end of the client's input is held back until the agent is idle: without stdin there is no interrupt.
    A line of the agent's is held back only while it may still turn out to be one of these, up to 64 KiB.

Modes
    stream-json  interrupt by a control request. Turns are known from the agent's state events, else from its
                 registration (`sessions/<pid>.json` in its configuration directory).
    pty          interrupt by Esc, only while the registration says busy or waiting, once a turn. If that puts
                 the prompt back into the input box, Ctrl-U empties it. The end of our input is not passed on.
    acp          the Agent Client Protocol, version 1. A turn is a prompt, from the client's request to the
                 agent's answer; what the client has not answered is a wait. Interrupt by `session/cancel`,
                 and what the session still asks the client is answered as cancelled.
    plain        no interrupt; ending the agent is a reap. Without a registration the whole run is one turn.

The control API (`turn` is opaque; a null or missing one means whatever runs)
    GET  /v1/sessions                  {"sessions": [{id, turn, status, waiting_for, ...}]}
    POST /v1/sessions/{id}/interrupt   {"turn": id|null, "reason": "..."}
    POST /v1/sessions/{id}/reap        {"turn": id|null, "force": bool, "reason": "..."}
    GET  /v1/events                    server-sent: the session as it changes, and {"id", "progress": true}
    There is one session. Until the agent has told its id it is listed as `host-<pid of the host>`, and that
    name stays valid. A turn that is named but does not run is a 409: no turn is ended that was not judged.
    With acp there are as many sessions as the client has opened, by the agent's names for them.
    A reap ends the agent with all of them: it is a 409 while another one works, or unforced has worked since.

A sidecar of another user
    Claude Code opens what it writes to nobody else. With --share-group what a sidecar reads is opened to a
    group as long as the agent runs, again and again, since every new file is closed: transcripts, those of
    subagents, registrations, and the directories on the way. Nothing else is, least of all the `.key` files
    beside them. No link is followed. The socket is opened to the group as with --group.

The exit status is the agent's own if its last turn ended by itself, and 75 if that turn was ended through the
API or by a signal, or died with the agent: to a Job, an interrupted agent must not look like success. A
later turn that completes clears it. A reason goes to stderr, and to the termination log, before its act.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import fcntl
import grp
import json
import os
import pwd
import re
import select
import signal
import socket
import stat
import struct
import sys
import termios
import threading
import time
import tty
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Json = dict[str, Any]

CHUNK = 256 * 1024
LINE_LIMIT = 64 * 1024  # how much of a line is looked at, and at most held back
RESULT_LIMIT = 64 * 1024 * 1024  # how long a result may be that --prompt prints
EX_TEMPFAIL = 75
EX_NOT_RUN, EX_NOT_FOUND = 126, 127
BY_SIGNAL = 128  # what a shell adds to the number of the signal that ended a program

POLL = 0.25  # how often the registration is read
ANSWER_DEADLINE = 5.0  # how long an interrupt waits for the agent's answer
PROVISIONAL = 60.0  # a prompt that the agent has not begun after this while it says idle: it never will
SETTLE = 0.5  # idle after a queued message: the next turn may be about to begin
RESULT_SETTLE = 2.0  # an agent that tells no states: a result and then silence is the end of its turn
SHARED_EVERY = 1.0  # how often files are opened to the group
SHARED_AT_MOST = 0.02  # of the time: sweeps that take longer are made less often
STATELESS = 3.0  # a program that reads its input and tells nothing of itself gets the end of it after this

STATE_SWITCH = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"
TERMINATION_LOG = "/dev/termination-log"
TERMINATION_LIMIT = 4096  # what Kubernetes reads of it
REASON_LIMIT = 500

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SI_KERNEL = 0x80  # a signal that the terminal sent: the whole foreground group has got it
SO_PEERGROUPS = 59
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
PASSED = (*ENDING, signal.SIGUSR1, signal.SIGUSR2)


class UsageError(Exception):
    """The command line asks for something that cannot be done; the text says what."""


# -------------------------------------------------------------------------------------------- bytes and lines


class Lines:
    """Cuts a stream into lines and keeps at most `limit` bytes of each, whatever their length."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._head = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the heads of the lines that end in this chunk."""
        first = chunk.find(b"\n")
        if first < 0:
            self._keep(chunk)
            return []
        self._keep(chunk[: min(first, self._limit)])
        ended = [bytes(self._head)]
        self._head.clear()
        last = chunk.rfind(b"\n")
        if last > first:
            ended += [line[: self._limit] for line in chunk[first + 1 : last].split(b"\n")]
        self._keep(chunk[last + 1 : last + 1 + self._limit])
        return ended

    def _keep(self, part: bytes) -> None:
        room = self._limit - len(self._head)
        if room > 0:
            self._head += part[:room]


class Sieve:
    """Passes a stream on as it comes and takes out the lines that are ours.

    `may_hold(data)` is a cheap no for data without such a line, `is_ours(line)` the exact answer, and
    `may_become(head)` tells whether an unfinished line has to be held back because it could still be ours.
    """

    def __init__(
        self,
        may_hold: Callable[[bytes], bool],
        is_ours: Callable[[bytes], bool],
        may_become: Callable[[bytes], bool],
    ) -> None:
        self._may_hold, self._is_ours, self._may_become = may_hold, is_ours, may_become
        self._held = bytearray()
        self._passing = False  # the unfinished line has been passed on so far, so the rest of it goes too

    def feed(self, chunk: bytes) -> bytes:
        """Return what may go on."""
        out = []
        start = 0
        if self._held or self._passing:
            start = chunk.find(b"\n") + 1
            if not start:
                return self._extend(chunk)
            out.append(self._finish(chunk[:start]))
        end = chunk.rfind(b"\n") + 1
        if end > start:
            out.append(self._whole(chunk[start:end]))
        tail = chunk[max(start, end) :]
        if tail:
            out.append(self._extend(tail))
        return b"".join(out)

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held = bytes(self._held)
        self._held.clear()
        return held

    def _whole(self, lines: bytes) -> bytes:
        if not self._may_hold(lines):
            return lines
        return b"".join(line + b"\n" for line in lines[:-1].split(b"\n") if not self._takes(line))

    def _extend(self, part: bytes) -> bytes:
        if self._passing:
            return part
        self._held += part
        if len(self._held) <= LINE_LIMIT and self._may_become(bytes(self._held[:128])):
            return b""
        self._passing = True
        return self.rest()

    def _finish(self, part: bytes) -> bytes:
        if self._passing:
            self._passing = False
            return part
        self._held += part
        line = self.rest()
        return b"" if self._takes(line) else line

    def _takes(self, line: bytes) -> bool:
        return len(line) <= LINE_LIMIT and self._is_ours(line)


KIND = re.compile(rb'\s*\{\s*"type"\s*:\s*"(\w+)"')
LATE_KIND = re.compile(rb'"type"\s*:\s*"(?:result|user|control_\w+|system)"')


def kind_of(line: bytes) -> bytes:
    """Tell a message's type; most lines begin with it, and only a few others are worth parsing."""
    match = KIND.match(line)
    if match:
        return match.group(1)
    if line[:1] == b"{" and LATE_KIND.search(line):
        kind = parsed(line).get("type")
        return kind.encode("utf-8", "replace") if isinstance(kind, str) else b""
    return b""


def parsed(line: bytes | str) -> Json:
    """Parse a JSON object; anything else is an empty one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def entry(message: Json, *path: str) -> Any:  # noqa: ANN401 - what a foreign message holds is anything
    """Look a nested entry up; whatever is missing or of another shape gives None."""
    value: Any = message
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# -------------------------------------------------------------------------------------------- raw descriptors


def read_some(descriptor: int) -> bytes:
    """Read what there is; an error, like a terminal whose other side has gone, is an end."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:  # somebody else made our stdin non-blocking
            ready(descriptor, select.POLLIN, 1.0)
        except OSError:
            return b""


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, however long the reader takes."""
    at = 0
    while at < len(data):
        try:
            at += os.write(descriptor, memoryview(data)[at : at + CHUNK])
        except BlockingIOError:
            ready(descriptor, select.POLLOUT, 1.0)


def ready(descriptor: int, event: int, seconds: float) -> bool:
    """Wait until a descriptor can be read or written, or has been closed."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def say(text: str) -> None:
    """Write a line to stderr; nothing depends on whether anybody reads it."""
    with suppress(OSError):
        write_all(2, f"agent-sidecar: {text}\n".encode("utf-8", "replace"))


# -------------------------------------------------------------------------------------------------- processes


class Process(NamedTuple):
    """A process as /proc shows it; pid and start time together are its identity."""

    pid: int
    parent: int
    started: str


def process(pid: int) -> Process | None:
    """Look a process up."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Process(pid, int(fields[1]), fields[19])


def family(root: int) -> list[Process]:
    """Find everything that descends from a process."""
    everyone = [process(int(name)) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only
    children: dict[int, list[Process]] = {}
    for one in everyone:
        if one:
            children.setdefault(one.parent, []).append(one)
    found: list[Process] = []
    generation = children.get(root, [])
    while generation:
        found += generation
        generation = [child for one in generation for child in children.get(one.pid, [])]
    return found


def signal_exactly(target: Process, number: int) -> None:
    """Signal a process unless its pid has passed to another one meanwhile."""
    try:
        handle = os.pidfd_open(target.pid)
    except OSError:
        return
    try:
        now = process(target.pid)
        if now and now.started == target.started:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)


class Child:
    """The agent's process: started once, signalled only while it is there."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.gone = threading.Event()
        self.ended_by_signal = False
        self.code = 0
        self._signalling = threading.Lock()
        found = process(pid)
        self.started = found.started if found else ""

    def signal(self, number: int) -> None:
        """Send a signal; while the lock is held nobody can bury the process and free its pid."""
        with self._signalling, suppress(ProcessLookupError):
            if not self.gone.is_set():
                os.kill(self.pid, number)

    def bury_all(self) -> None:
        """Collect every process that has ended: the agent, and those that were left to us."""
        with self._signalling:
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                if not pid:
                    return
                if pid == self.pid:
                    self._ended(status)

    def _ended(self, status: int) -> None:
        self.ended_by_signal = os.WIFSIGNALED(status)
        self.code = BY_SIGNAL + os.WTERMSIG(status) if self.ended_by_signal else os.WEXITSTATUS(status)
        self.gone.set()


LIBC = ctypes.CDLL(None, use_errno=True)


def spawn(command: list[str], wire: Callable[[], None], mask: set[signal.Signals]) -> Child:
    """Start the agent, which gets a SIGTERM if the host dies. Called before any thread is started."""
    report, failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(command, wire, mask, failure)
    os.close(failure)
    problem = read_some(report)
    os.close(report)
    if problem:
        os.waitpid(pid, 0)
        number = int(problem)
        raise OSError(number, os.strerror(number), command[0])
    return Child(pid)


def become(command: list[str], wire: Callable[[], None], mask: set[signal.Signals], failure: int) -> None:
    """Turn the forked process into the agent, with the signals it would have had without us."""
    try:
        wire()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        # Python ignores these, and the agent would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(command[0], command)  # noqa: S606 - starting this command is what a host is for
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(EX_NOT_FOUND)


# ---------------------------------------------------------------------------------------- what the agent says


class Registration(NamedTuple):
    """What Claude Code writes about itself beside its transcripts."""

    session: str
    status: str
    stamp: float
    waiting_for: str | None


class Registry:
    """The child's own registration file, believed only if it was written by this very process."""

    def __init__(self, child: Child) -> None:
        self.config = config_directory()
        self._file = self.config / "sessions" / f"{child.pid}.json"
        self._started, self._since = child.started, time.time() - 1

    def read(self) -> Registration | None:
        """Read the registration; half-written or somebody else's counts as not there."""
        try:
            with self._file.open("rb") as file:
                found, written = parsed(file.read(LINE_LIMIT)), os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        started = found.get("procStart")
        if str(started) != self._started if started is not None else written < self._since:
            return None
        status, waiting, stamp = found.get("status"), found.get("waitingFor"), found.get("statusUpdatedAt")
        return Registration(
            str(found.get("sessionId") or ""),
            status if isinstance(status, str) else "",
            stamp / 1000 if isinstance(stamp, (int, float)) else 0.0,
            clean(waiting, 100) if isinstance(waiting, str) else None,
        )

    def transcript(self, session: str) -> Path | None:
        """Find the session's transcript; its folder's name cannot be computed."""
        if not re.fullmatch(r"[\w-]+", session):
            return None
        return next(self.config.glob(f"projects/*/{session}.jsonl"), None)


def config_directory() -> Path:
    """Find where Claude Code keeps its files."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path(os.environ.get("HOME") or "/", ".claude"))


def clean(text: str, limit: int) -> str:
    """Make a foreign text fit for one line: no control or format characters, bounded."""
    return "".join(letter if letter.isprintable() else " " for letter in text[: 4 * limit]).strip()[:limit]


class Turns:
    """When a turn is open, by the agent's own word and never by counting results. Pure: time is an argument.

    A turn that a line on stdin has opened is provisional until the agent says that it runs: what it said
    before it has read that line does not end it. Where the agent tells states on stdout those decide, else
    its registration does; an agent that has neither ends its turn with a result and silence.
    """

    def __init__(self) -> None:
        self.current: str | None = None
        self.spoiled = False  # the last turn that ended did not end by itself
        self.told = ""  # the newest state event
        self.registration: Registration | None = None
        self.speaks = False  # it is an agent of the kind we know: it registers, or stdout carries messages
        self.background = 0  # tasks that outlive the turn
        self.opened_at = 0.0
        self.idle_at = 0.0
        self._number = 0
        self._confirmed = False
        self._queued = False
        self._completed: bool | None = None  # what the newest result of this turn says
        self._interrupted = ""
        self._ended_by_us = ""
        self._asked: dict[str, None] = {}  # permission requests without an answer
        self._heard_at = 0.0  # the last word on stdout
        self._evidence_at = 0.0  # the first word about states

    # what is seen

    def prompted(self, now: float) -> None:
        """Note that a user message goes to the agent."""
        if self.current is None:
            self._open(now, confirmed=False)
        else:
            self._queued = True

    def tell(self, state: str, now: float) -> None:
        """Note the state that the agent announces."""
        self.told = state
        self._evidence_at = self._evidence_at or now
        if state != "idle":
            self._run(now)
        elif self._confirmed:
            self._close(now)

    def register(self, registration: Registration | None, now: float) -> None:
        """Note what the registration says."""
        before, self.registration = self.registration, registration
        self.speaks = self.speaks or registration is not None
        if registration is None or not registration.status:
            return
        self._evidence_at = self._evidence_at or now
        if self.told:
            return
        if registration.status not in ("idle", "shell"):
            self._run(now)
        elif self._confirmed:
            self._close(now)
        elif before and before.status and registration.stamp > before.stamp:
            # A whole turn passed between two looks.
            unseen = self.current is None
            self._close(now)
            self.spoiled = self.spoiled and not unseen

    def begin(self, now: float) -> None:
        """Note that the agent starts on a prompt: a queued one, if this turn has had its result."""
        if self.current is not None and self._completed is not None:
            self._close(now)
            self._open(now, confirmed=True)

    def result(self, now: float, *, completed: bool) -> None:
        """Note how a prompt ended, by the agent's report."""
        self._heard_at = now
        if self.current is not None:
            self._completed = completed

    def heard(self, now: float) -> None:
        """Note that the agent says anything at all on stdout."""
        self.speaks = True
        self._heard_at = now

    def ask(self, request: str) -> None:
        """Note that the agent asks the client for a permission."""
        if len(self._asked) < 1000:  # noqa: PLR2004 - a bound, not a meaning
            self._asked[request] = None

    def answered(self, request: str) -> None:
        """Note that the client has answered, or the agent withdrawn its question."""
        self._asked.pop(request, None)

    def tick(self, now: float) -> None:
        """Note that time has passed."""
        if self.current is None or self._confirmed:
            return
        if self._evidence_at:
            says_idle = self.told == "idle" or (not self.told and self._registered_idle())
            if says_idle and now - max(self.opened_at, self._evidence_at) > PROVISIONAL:
                self._close(now)
        elif self._completed is not None and now - self._heard_at > RESULT_SETTLE:
            self._close(now)

    # what is done

    def run_for_life(self, now: float) -> None:
        """Take the whole run for one turn, until a registration knows better."""
        self._open(now, confirmed=False)

    def interrupting(self) -> None:
        """Note that the turn is ended by us; once a turn."""
        self._interrupted = self._ended_by_us = self.current or ""

    def ending(self) -> None:
        """Note that the turn is ended by us in another way: a reap, a signal."""
        self._ended_by_us = self.current or ""

    def spare(self) -> None:
        """Take it back: the agent has refused."""
        self._interrupted = self._ended_by_us = ""

    # what follows

    @property
    def interrupted(self) -> bool:
        """Whether this turn has had its one interrupt."""
        return self.current is not None and self._interrupted == self.current

    @property
    def touched(self) -> bool:
        """Whether this turn is being ended by us."""
        return self.current is not None and self._ended_by_us == self.current

    @property
    def waiting_for(self) -> str | None:
        """What the agent waits for, if it waits for a person."""
        if self.current is None:
            return None
        registration = self.registration
        registered = registration is not None and registration.status == "waiting"
        if registration and registered and registration.waiting_for:
            return registration.waiting_for
        if self._asked or self.told == "requires_action":
            return "permission prompt"
        return "input" if registered else None

    def works_behind(self, now: float, wall: float) -> bool:
        """Whether something of the agent's runs though no turn is open."""
        if self.current is not None:
            return False
        registration = self.registration
        if self.background or (registration and registration.status == "shell"):
            return True
        if not self.told or not registration or self._registered_idle() or not registration.status:
            return False
        # The file follows the state event by some milliseconds.
        return registration.stamp > wall - (now - self.idle_at) or now - self.idle_at > 1.0

    def may_end(self, now: float, since: float) -> bool:
        """Whether the end of input can be passed on that came at `since`."""
        if self.current is not None:
            told_nothing = not self._evidence_at and not self.speaks
            return told_nothing and now - max(since, self.opened_at) > STATELESS
        return not self.background and now - self.idle_at >= (SETTLE if self._queued else 0.0)

    def broken_off(self, child: Child, *, answered: bool) -> bool:
        """Whether the last turn did not end by itself, now that the agent has gone.

        A registration is read only so often: who has just `answered` and left may still look busy.
        """
        if self.current is None:
            return self.spoiled
        if self._completed is not None:
            return self.touched and not self._completed
        fatal = child.code in {BY_SIGNAL + number for number in (*ENDING, signal.SIGKILL)}
        if self.touched or child.ended_by_signal or fatal:
            return True
        if not self._evidence_at:
            return False
        if not self._confirmed:  # never begun: an error of the agent's own, or an end that it was given
            return child.code == 0
        return bool(self.told) or not answered

    def _registered_idle(self) -> bool:
        return self.registration is not None and self.registration.status in ("idle", "shell")

    def _run(self, now: float) -> None:
        if self.current is None:
            self._open(now, confirmed=True)
        self._confirmed = True

    def _open(self, now: float, *, confirmed: bool) -> None:
        self._number += 1
        self.current = f"t{self._number}-{os.urandom(4).hex()}"
        self.opened_at = now
        self._confirmed, self._queued, self._completed = confirmed, False, None

    def _close(self, now: float) -> None:
        if self.current is not None:
            self.spoiled = self.touched and not self._completed
        self.current = None
        self.idle_at = now
        self._confirmed = False
        self._asked.clear()


class Session:
    """A session, shared by all threads: what is known of it, and who waits for a change.

    Usually it is the only one. Where an agent has several (`Exchange`), this is what they have in common.
    """

    def __init__(self, name: str | None, *, attended: bool) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.turns = Turns()
        self.revision = 0
        self.progress = 0  # how often there was some
        self.resolution = "record"
        self.over = False
        self.placeholder = f"host-{os.getpid()}"
        self._name = name
        self._told_name = ""
        self.attended = attended
        self._created = self.progressed_at = time.time()
        self._verdict: Json | None = None
        self.child: Child | None = None
        self.registry: Registry | None = None

    def started(self, child: Child) -> None:
        """Note which process it is."""
        self.child = child
        self.registry = Registry(child)

    @property
    def id(self) -> str:
        """The session's id: the one given, the one the agent tells, or a name of ours."""
        registration = self.turns.registration
        return self._name or self._told_name or (registration and registration.session) or self.placeholder

    @property
    def busy(self) -> bool:
        """Whether anything would be lost by ending the session."""
        with self.changed:
            turns = self.turns
            return turns.current is not None or turns.works_behind(time.monotonic(), time.time())

    @property
    def turn(self) -> str | None:
        """The turn that runs."""
        return self.turns.current

    @contextmanager
    def update(self) -> Iterator[Turns]:
        """Change what is known; a new turn is progress, and whoever waits is woken."""
        with self.changed:
            before = self.turns.current
            yield self.turns
            if self.turns.current not in (None, before):
                self._note_progress()
            self.mark()
            self.changed.notify_all()

    def mark(self) -> None:
        """Note that there is something new to tell."""
        self.revision += 1

    def refresh(self) -> None:
        """Read the registration again, and let time pass."""
        registration = self.registry.read() if self.registry else None
        with self.update() as turns:
            turns.register(registration, time.monotonic())
            turns.tick(time.monotonic())

    def named(self, session: str) -> None:
        """Learn the session's id from the agent."""
        if session and session != self._told_name and len(session) <= 200:  # noqa: PLR2004 - a bound, not a meaning
            with self.update():
                self._told_name = session

    @property
    def unnamed(self) -> bool:
        """Whether the agent has not told its session's id on stdout yet."""
        return not self._told_name

    def progressed(self) -> None:
        """Note that the agent has done some work."""
        with self.changed:
            self._note_progress()
            self.changed.notify_all()

    def _note_progress(self) -> None:
        self.progressed_at = time.time()
        self.progress += 1
        self.mark()

    def sees_deltas(self) -> None:
        """Note that the agent streams partial messages: silence can be told finely."""
        if self.resolution != "delta":
            with self.update():
                self.resolution = "delta"

    def judged(self, action: str, reason: str) -> None:
        """Remember the last act."""
        with self.update():
            self._verdict = {"at": stamp(time.time()), "action": action, "reason": reason}

    def end(self) -> None:
        """Note that the agent has gone."""
        with self.update():
            self.over = True

    def wait_for(self, check: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so; it is checked every so often, since time alone may make it so."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not check():
                left = deadline - time.monotonic()
                if left <= 0 or self.over:
                    return check()
                self.changed.wait(min(left, POLL))
        return True

    def as_json(self, *, interruptible: bool) -> Json:
        """Describe the session as the control API does."""
        with self.changed:
            turns = self.turns
            waiting_for = turns.waiting_for
            return {
                "id": self.id,
                "turn": turns.current,
                "status": "waiting" if waiting_for else "busy" if self.busy else "idle",
                "waiting_for": waiting_for,
                "attended": self.attended,
                "resolution": self.resolution,
                "created_at": stamp(self._created),
                "last_activity_at": stamp(self.progressed_at),
                "pid": self.child.pid if self.child else None,
                "can": {"interrupt": interruptible, "reap": True},
                "last_verdict": self._verdict,
            }


def stamp(seconds: float) -> str:
    """Format a time as ISO 8601 in milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{milliseconds:03d}Z"


# --------------------------------------------------------------------------------- a sidecar of another user


SHARED_PATHS = tuple(
    tuple(re.compile(part) for part in path)
    for path in (
        ("projects", r".+", r".+\.jsonl"),
        ("projects", r".+", r".+", "subagents", r"agent-.+\.jsonl"),
        ("sessions", r"(?:pid-)?\d{1,10}\.json"),
    )
)
TO_ENTER, TO_LIST, TO_READ = stat.S_IXGRP, stat.S_IRGRP | stat.S_IXGRP, stat.S_IRGRP
AS_FOUND = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Sharing:
    """Opens what a sidecar reads of the agent's to a group, for reading, and nothing else."""

    def __init__(self, group: int, config: Path) -> None:
        self.pause = 0.0  # seconds until the next sweep
        self._group, self._config = group, config
        self._complained = False

    def sweep(self) -> None:
        """Open everything that is not open yet; what cannot be opened is said once."""
        started = time.monotonic()
        try:
            top = os.open(self._config, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # the agent has not made it yet
            self.pause = SHARED_EVERY
            return
        try:
            self._open(top, TO_ENTER)
            self._sweep(top, SHARED_PATHS)
        finally:
            os.close(top)
        self.pause = max(SHARED_EVERY, (time.monotonic() - started) / SHARED_AT_MOST)

    def _sweep(self, directory: int, paths: Sequence[tuple[re.Pattern[str], ...]]) -> None:
        for name in os.listdir(directory):
            rest = [path[1:] for path in paths if path[0].fullmatch(name)]
            if not rest:
                continue
            try:
                self._share(directory, name, rest)
            except FileNotFoundError:  # gone meanwhile
                continue
            except OSError as error:
                self._complain(error)

    def _share(self, directory: int, name: str, rest: Sequence[tuple[re.Pattern[str], ...]]) -> None:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        deeper = [path for path in rest if path]
        is_directory = stat.S_ISDIR(status.st_mode)
        if not (is_directory and deeper) and not (stat.S_ISREG(status.st_mode) and () in rest):
            return
        if not is_directory and self._is_open(status, TO_READ):
            return
        found = os.open(name, AS_FOUND, dir_fd=directory)
        try:
            self._open(found, TO_LIST if is_directory else TO_READ)
            if is_directory:
                self._sweep(found, deeper)
        finally:
            os.close(found)

    def _is_open(self, status: os.stat_result, bits: int) -> bool:
        return status.st_gid == self._group and status.st_mode & bits == bits

    def _open(self, descriptor: int, bits: int) -> None:
        """Add what is missing: the group first, so that the bits are given to no other."""
        try:
            status = os.fstat(descriptor)
            if self._is_open(status, bits):
                return
            os.fchown(descriptor, -1, self._group)
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | bits)
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            say(f"--share-group: not everything below {self._config} can be shared: {error.strerror}")


# ------------------------------------------------------------------------------------------------ stream-json


STATE_EVENT = b"session_state_changed"
STATE_HEAD = b'{"type":"system","subtype":"session_state_changed"'
ANSWER_HEAD = b'{"type":"control_response"'
TYPE_HEAD = b'{"type"'


class Answers:
    """The questions that we asked the agent, each with an id that nobody else can know."""

    def __init__(self, *, hide_states: bool) -> None:
        self._hide_states = hide_states
        self._awaited: dict[bytes, Answer] = {}

    def ask(self, subtype: str) -> tuple[bytes, Answer]:
        """Spell a control request, and return what its answer will be put into."""
        name = f"agent-sidecar-{os.urandom(16).hex()}"
        message = {"type": "control_request", "request_id": name, "request": {"subtype": subtype}}
        answer = self._awaited[name.encode()] = Answer(name.encode())
        return json.dumps(message, separators=(",", ":")).encode() + b"\n", answer

    def forget(self, answer: Answer) -> None:
        """Expect this answer no more: its question was not asked."""
        self._awaited.pop(answer.name, None)

    def settle(self, response: Json) -> None:
        """Take an answer, if it is one to us."""
        answer = self._awaited.pop(str(response.get("request_id")).encode("utf-8", "replace"), None)
        if answer:
            answer.accepted = response.get("subtype") != "error"
            answer.given.set()

    def may_hold(self, data: bytes) -> bool:
        """Whether data could contain a line of ours."""
        if self._hide_states and STATE_EVENT in data:
            return True
        return any(name in data for name in list(self._awaited))

    def is_ours(self, line: bytes) -> bool:
        """Whether a line is for us and not for the client."""
        if not self.may_hold(line):
            return False
        message = parsed(line)
        if message.get("type") == "control_response":
            return str(entry(message, "response", "request_id")).encode("utf-8", "replace") in self._awaited
        is_state = (message.get("type"), message.get("subtype")) == ("system", STATE_EVENT.decode())
        return self._hide_states and is_state

    def may_become(self, head: bytes) -> bool:
        """Whether a line that begins so could be for us."""
        start = b"".join(head.split())
        if not start:
            return False
        if self._hide_states and (STATE_HEAD.startswith(start) or start.startswith(STATE_HEAD)):
            return True
        if not self._awaited:
            return False
        its_type_comes_later = start.startswith(b'{"') and not TYPE_HEAD.startswith(start[: len(TYPE_HEAD)])
        return its_type_comes_later or ANSWER_HEAD.startswith(start) or start.startswith(ANSWER_HEAD)


class Answer:
    """An answer that may still come."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.given = threading.Event()
        self.accepted = True


EVENT = re.compile(rb'"event"\s*:\s*\{\s*"type"\s*:\s*"(\w+)"')
DELTA = re.compile(
    rb'"delta"\s*:\s*\{\s*"type"\s*:\s*"(?:text|thinking|input_json)_delta"\s*,'
    rb'\s*"\w+"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)"'
)
# Nearly every line is one of these, so they are read at a stroke.
USUAL_DELTA = re.compile(
    rb'\{"type":"stream_event","event":\{"type":"content_block_delta","index":\d+,'
    rb'"delta":\{"type":"(?:text|thinking|input_json)_delta","\w+":"([^"\\]*(?:\\.[^"\\]*)*)"\}\},'
    rb'(?:"session_id":"[^"\\]*",)?"parent_tool_use_id":null'
)
DELTA_TEXTS = ("text", "thinking", "partial_json")
PARENT = re.compile(rb'"parent_tool_use_id"\s*:\s*"([^"]*)"')


class Novelty:
    """Tells new text from text that is streamed again after a retry, for the agent and each subagent."""

    def __init__(self) -> None:
        self._streams: dict[bytes, list[int]] = {}  # length, greatest length, whether the message is complete

    def reset(self) -> None:
        """Forget everything: a new turn begins."""
        self._streams.clear()

    def complete(self, line: bytes) -> None:
        """Note that a whole message has come: the next one is new."""
        self._stream(line)[2] = 1

    def grows(self, line: bytes) -> bool:
        """Whether a stream event carries text that has not been there before."""
        usual = USUAL_DELTA.match(line)
        if usual:
            return self._extend(self._streams.setdefault(b"", [0, 0, 1]), len(usual.group(1)))
        match = EVENT.search(line)
        kind = match.group(1) if match else b""
        if kind == b"content_block_delta":
            return self._extend(self._stream(line), self._length(line))
        if kind == b"message_start":
            stream = self._stream(line)
            stream[:] = [0, 0 if stream[2] else stream[1], 0]
        elif kind == b"message_stop":
            self.complete(line)
        return False

    def _extend(self, stream: list[int], length: int) -> bool:
        before, length = stream[1], stream[0] + length
        stream[:] = [length, max(length, before), 0]
        return length > before

    def _stream(self, line: bytes) -> list[int]:
        match = PARENT.search(line)
        name = match.group(1) if match else b""
        if name not in self._streams and len(self._streams) >= 1000:  # noqa: PLR2004 - a bound, not a meaning
            self._streams.clear()
        return self._streams.setdefault(name, [0, 0, 1])

    def _length(self, line: bytes) -> int:
        match = DELTA.search(line)
        if match:
            return len(match.group(1))
        if len(line) >= LINE_LIMIT:  # too long to be read to its end, so it certainly says something
            return len(line)
        delta = entry(parsed(line), "event", "delta")
        texts = [entry({"delta": delta}, "delta", name) for name in DELTA_TEXTS]
        return sum(len(text) for text in texts if isinstance(text, str))


SYNTHETIC = re.compile(rb'"model"\s*:\s*"<synthetic>"')
NAMED = re.compile(rb'"session_id"\s*:\s*("(?:[^"\\]|\\.){1,200}")')
REQUEST = re.compile(rb'"request_id"\s*:\s*"([^"\\]{1,200})"')
MAY_ASK = re.compile(rb'"subtype"\s*:\s*"can_use_tool"')
SUBTYPE = re.compile(rb'"subtype"\s*:\s*"(\w+)"')


class Conversation:
    """Reads what client and agent say to each other as it passes. Its text is never kept."""

    def __init__(self, session: Session, answers: Answers) -> None:
        self._session, self._answers = session, answers
        self._novelty = Novelty()
        self._progressed = False
        self._read: dict[bytes, Callable[[bytes], None]] = {
            b"stream_event": self._partial,
            b"assistant": self._message,
            b"user": self._tool_result,
            b"system": self._system,
            b"result": self._result,
            b"control_request": self._question,
            b"control_response": self._answer,
            b"control_cancel_request": self._withdrawn,
        }

    def from_client(self, lines: Sequence[bytes]) -> None:
        """Read lines on their way to the agent."""
        for line in lines:
            kind = kind_of(line)
            if kind == b"user":
                with self._session.update() as turns:
                    turns.prompted(time.monotonic())
            elif kind == b"control_response":
                self._withdrawn(line)

    def from_agent(self, lines: Sequence[bytes]) -> None:
        """Read lines on their way to the client."""
        self._progressed = spoken = False
        for line in lines:
            kind = kind_of(line)
            read = self._read.get(kind)
            if read:
                spoken = spoken or kind != b"user"  # which may be an echo
                if self._session.unnamed:
                    self._name(line)
                read(line)
        if spoken:
            self._session.turns.heard(time.monotonic())
        if self._progressed:
            self._session.progressed()

    def _name(self, line: bytes) -> None:
        match = NAMED.search(line)
        if match:
            name = parsed(b'{"":' + match.group(1) + b"}").get("")
            self._session.named(name if isinstance(name, str) else "")

    def _partial(self, line: bytes) -> None:
        self._session.sees_deltas()
        if self._novelty.grows(line):
            self._progressed = True

    def _message(self, line: bytes) -> None:
        self._novelty.complete(line)
        if not SYNTHETIC.search(line):
            self._progressed = True

    def _tool_result(self, line: bytes) -> None:
        # A result that comes after our own act is that act's echo.
        if b'"tool_result"' in line and not self._session.turns.touched:
            self._progressed = True

    def _system(self, line: bytes) -> None:
        match = SUBTYPE.search(line)
        subtype = match.group(1) if match else b""
        if subtype == STATE_EVENT:
            state = parsed(line).get("state")
            if isinstance(state, str):
                with self._session.update() as turns:
                    turns.tell(state, time.monotonic())
        elif subtype == b"init":
            self._novelty.reset()
            self._name(line)
            with self._session.update() as turns:
                turns.begin(time.monotonic())
        elif subtype == b"background_tasks_changed":
            tasks = parsed(line).get("tasks")
            if isinstance(tasks, list):
                with self._session.update() as turns:
                    turns.background = len(tasks)

    def _result(self, line: bytes) -> None:
        message = parsed(line)
        failed = message.get("is_error") if message else b'"is_error":true' in line
        with self._session.update() as turns:
            turns.result(time.monotonic(), completed=not failed)

    def _question(self, line: bytes) -> None:
        request = REQUEST.search(line)
        if request and MAY_ASK.search(line):
            message = parsed(line)
            if not message or entry(message, "request", "subtype") == "can_use_tool":
                with self._session.update() as turns:
                    turns.ask(request.group(1).decode("utf-8", "replace"))

    def _answer(self, line: bytes) -> None:
        response = parsed(line).get("response")
        if isinstance(response, dict):
            self._answers.settle(response)

    def _withdrawn(self, line: bytes) -> None:
        message = parsed(line)
        name = entry(message, "response", "request_id") or message.get("request_id")
        if not message:  # too long to parse
            match = REQUEST.search(line)
            name = match.group(1).decode("utf-8", "replace") if match else None
        if isinstance(name, str):
            with self._session.update() as turns:
                turns.answered(name)


# -------------------------------------------------------------------------------------------------------- acp


ACP_LINE = 1024 * 1024  # how much of a line is read: prompts carry files, tool calls their output
MOST_ASKED, MOST_CALLS, MOST_SESSIONS = 1000, 100, 200  # bounds, not meanings
LONGEST_NAME, DEEPEST = 200, 100
STREAMED = 3  # so many pieces of one kind in a row are pieces, and no whole messages
PIECES = ("agent_message_chunk", "agent_thought_chunk")
PENDING, RUNNING = "pending", "in_progress"
KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
# What is a wait, how it is called, and how we answer it.
CANCELLED: dict[str, tuple[str, Json]] = {
    "session/request_permission": ("permission", {"outcome": {"outcome": "cancelled"}}),
    "elicitation/create": ("question", {"action": "cancel"}),
}
OPENS = ("session/new", "session/load", "session/resume", "session/fork")
ENDS = ("session/close", "session/delete")
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{},]', re.DOTALL)

Id = Any  # of a request: a number or a string, and one is not the other


def beginning(line: bytes) -> Json:
    """Parse a JSON object; of one that is cut off, what is whole."""
    if len(line) < ACP_LINE:
        return parsed(line)
    line = line[:LINE_LIMIT]
    closers, whole = b"", b""
    for token in TOKEN.finditer(line):
        mark = token.group()
        if len(closers) > DEEPEST:
            break
        if mark in b"{[":
            closers = (b"}" if mark == b"{" else b"]") + closers
        elif mark in b"}]":
            closers = closers[1:]
        elif mark == b",":
            whole = line[: token.start()] + closers
    return parsed(whole)


def id_of(message: Json, *path: str) -> Id:
    """Read a request's id; None where there is none."""
    value = entry(message, *(path or ("id",)))
    return value if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def name_of(value: object) -> str:
    """Take a name that can be one; "" for anything else."""
    return value if isinstance(value, str) and len(value) <= LONGEST_NAME else ""


def keep(collected: dict[Any, Any], key: object, value: object) -> None:
    """Add to what is awaited; what has been awaited for longest makes room."""
    if len(collected) >= MOST_ASKED:
        del collected[next(iter(collected))]
    collected[key] = value


class Prompts(Turns):
    """The turns of one session of several: prompts, each from the client's request to the agent's answer."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: dict[Id, str] = {}  # what the agent asks the client, and how that is called
        self.calls: dict[str, str] = {}  # open tool calls, each with the kind of the tool
        self.streams = False
        self._states: dict[str, str] = {}  # the state of each call of this turn
        self._tells_begin = False  # it says when a call begins to run: a pending one is still being written
        self._prompts: dict[Id, bool] = {}  # those without an answer, and whether we have ended them
        self._pieces = ("", 0)  # the kind of the newest pieces, and how many there are in a row

    def ask_agent(self, request: Id, now: float) -> None:
        """Note a prompt; one that comes in mid-turn has its turn when the first is answered."""
        keep(self._prompts, request, value=False)
        if self.current is None:
            self._open(now, confirmed=True)

    def agent_answers(self, request: Id, now: float, *, completed: bool) -> None:
        """Note the answer to a prompt."""
        first = next(iter(self._prompts), None)
        self._prompts.pop(request, None)
        if request != first or self.current is None:
            return
        self._completed = completed
        self._close(now)
        for collected in (self.waits, self.calls, self._states):
            collected.clear()
        if self._prompts:
            self._open(now, confirmed=True)
            if next(iter(self._prompts.values())):
                self.interrupting()

    def interrupting(self) -> None:
        """Note that the turn is ended by us, and with it whatever else has been asked."""
        super().interrupting()
        self._prompts = dict.fromkeys(self._prompts, True)

    @property
    def waiting_for(self) -> str | None:
        """What the agent waits for."""
        return next(iter(self.waits.values()), None) if self.current is not None else None

    def advance(self, update: Json) -> bool:
        """Read an update of the session; whether it is progress."""
        kind = update.get("sessionUpdate")
        in_a_row = self._pieces[1] + 1 if kind == self._pieces[0] else 1
        self._pieces = (str(kind)[:LONGEST_NAME], in_a_row)
        if kind in PIECES:
            self.streams = self.streams or in_a_row >= STREAMED
            return bool(entry(update, "content", "text") != "")
        if kind not in ("tool_call", "tool_call_update"):
            return False
        before = self._states.get(name_of(update.get("toolCallId")))
        state = update.get("status")
        if not isinstance(state, str):
            state = PENDING if before is None and kind == "tool_call" else before
        if state is None:
            return False
        self._tells_begin = self._tells_begin or (before, state) == (PENDING, RUNNING)
        return state != before and self.call(update, state)

    def call(self, update: Json, state: str) -> bool:
        """Note the state of a tool call; whether it is one. Its title is content, its kind is not."""
        name, kind = name_of(update.get("toolCallId")), name_of(update.get("kind"))
        if not name:
            return False
        keep(self._states, name, state[:LONGEST_NAME])
        written = self._tells_begin or entry(update, "_meta", "phase") == "preparing"
        if state != RUNNING and (state != PENDING or written):
            self.calls.pop(name, None)
        elif name in self.calls or len(self.calls) < MOST_CALLS:
            self.calls[name] = kind if kind in KINDS else self.calls.get(name, "other")
        return True


class Exchange(Session):
    """One of the sessions that an agent has with its client."""

    turns: Prompts

    def __init__(self, name: str, all_of_them: Session) -> None:
        super().__init__(name, attended=all_of_them.attended)
        self.changed = all_of_them.changed
        self.turns = Prompts()
        self._all_of_them = all_of_them

    def mark(self) -> None:
        """Note that there is something new to tell, of this session and so of all."""
        super().mark()
        self._all_of_them.mark()

    def as_json(self, *, interruptible: bool) -> Json:
        """Describe the session with its open tools."""
        with self.changed:
            self.child = self._all_of_them.child
            return {**super().as_json(interruptible=interruptible), "tools": dict(self.turns.calls)}


class Ask(NamedTuple):
    """What the agent asks the client."""

    session: Exchange | None
    answer: Json | None  # by which it is cancelled; None for what is no wait
    call: Json  # the id and the kind of the tool call that a permission is for
    allowing: list[str]  # the options that let it run


class Dialogue:
    """What client and agent ask of each other, read as it passes. Its text is never kept."""

    def __init__(self, all_of_them: Session) -> None:
        self.sessions: dict[str, Exchange] = {}
        self.spoiled = False  # the turn that ended last did not end by itself
        self._all_of_them = all_of_them
        self._of_agent: dict[Id, tuple[str, str]] = {}  # what the client asks: the method, and the session
        self._of_client: dict[Id, Ask] = {}
        self._late: dict[Id, None] = {}  # answered by us, so the client's own answer is too late

    def from_client(self, lines: Sequence[bytes]) -> None:
        """Read lines on their way to the agent."""
        for line in lines:
            message = beginning(line)
            method, request = message.get("method"), id_of(message)
            with self._all_of_them.changed:
                if request is None:
                    continue
                if method is None:
                    self._client_answers(request, message)
                elif isinstance(method, str):
                    self._ask_agent(method, request, entry(message, "params", "sessionId"))

    def from_agent(self, lines: Sequence[bytes]) -> None:
        """Read lines on their way to the client."""
        for line in lines:
            message = beginning(line)
            method, request = message.get("method"), id_of(message)
            with self._all_of_them.changed:
                if method == "session/update":
                    self._update(message)
                elif method == "$/cancel_request":
                    self._client_answers(id_of(message, "params", "requestId"), {})
                elif method is None and request is not None:
                    self._agent_answers(request, message)
                elif isinstance(method, str) and request is not None:
                    self._ask_client(method, request, message)

    def may_end(self) -> bool:
        """Whether the end of the client's input can be passed on: nothing runs that could go on so."""
        stuck = {id(ask.session) for ask in self._of_client.values()}
        return all(one.turn is None or id(one) in stuck for one in self.sessions.values())

    def waits_of(self, session: Session) -> list[tuple[Id, bytes]]:
        """Spell the answers by which everything is cancelled that the session asks the client."""
        with self._all_of_them.changed:
            return [
                (request, spelt({"id": request, "result": ask.answer}))
                for request, ask in self._of_client.items()
                if ask.session is session
                and ask.answer
                and (not isinstance(request, str) or name_of(request))
            ]

    def answer(self, request: Id) -> bool:
        """Take a question from the client, at the moment it is answered by us; whether it is still open."""
        with self._all_of_them.changed:
            if request not in self._of_client:
                return False
            self._client_answers(request, {})
            keep(self._late, request, None)
            return True

    def may_be_late(self, _data: bytes) -> bool:
        """Whether any line of the client's could be too late."""
        return bool(self._late)

    def may_become_late(self, head: bytes) -> bool:
        """Whether a line that begins so could be an answer that is too late."""
        return bool(self._late) and head.lstrip()[:1] in (b"", b"{") and b'"method"' not in head

    def is_late(self, line: bytes) -> bool:
        """Whether a line is an answer that is too late; it is so once."""
        message = parsed(line)
        request = id_of(message)
        if request is None or "method" in message or request not in self._late:
            return False
        del self._late[request]
        return True

    def _named(self, name: object) -> Exchange | None:
        """Find a session; where a line was too long to tell, it is the only one."""
        if name is None and len(self.sessions) == 1:
            return next(iter(self.sessions.values()))
        return self.sessions.get(name_of(name))

    def _begin(self, name: str) -> Exchange | None:
        """Take a session up; where there are too many, the one that rests longest is not shown any more."""
        if name and name not in self.sessions:
            if len(self.sessions) >= MOST_SESSIONS:
                resting = [one for one in self.sessions.values() if not one.busy]
                if not resting:
                    return None
                self._forget(min(resting, key=lambda one: one.progressed_at).id)
            with self._all_of_them.update():
                self.sessions[name] = Exchange(name, self._all_of_them)
        return self.sessions.get(name)

    def _forget(self, name: str) -> None:
        ended = self.sessions.pop(name, None)
        if ended:
            ended.end()

    def _ask_agent(self, method: str, request: Id, named: object) -> None:
        prompted = self._named(named) or self._begin(name_of(named)) if method == "session/prompt" else None
        keep(self._of_agent, request, (name_of(method), prompted.id if prompted else name_of(named)))
        if prompted:
            with prompted.update():
                prompted.turns.ask_agent(request, time.monotonic())

    def _agent_answers(self, request: Id, message: Json) -> None:
        method, name = self._of_agent.pop(request, ("", ""))
        session, failed = self.sessions.get(name), "error" in message
        if method == "session/prompt" and session:
            completed = not failed and entry(message, "result", "stopReason") != "cancelled"
            turn = session.turn
            with session.update():
                session.turns.agent_answers(request, time.monotonic(), completed=completed)
            if session.turn == turn:
                return
            self.spoiled = session.turns.spoiled
            # What it has not been told by now it does not wait for.
            kept = [(key, ask) for key, ask in self._of_client.items() if ask.session is not session]
            self._of_client = dict(kept)
        elif method in OPENS and not failed:
            told = name_of(entry(message, "result", "sessionId"))
            self._begin(told or ("" if method == "session/fork" else name))
        elif method in ENDS and not failed:
            self._forget(name)

    def _update(self, message: Json) -> None:
        session = self._named(entry(message, "params", "sessionId"))
        update = entry(message, "params", "update")
        if session is None or session.turn is None or not isinstance(update, dict):
            return  # without a turn it is history that is told again, or news of settings
        if ("session/load", session.id) in self._of_agent.values():
            return
        # A tool that ends after our own act is that act's echo.
        echo = session.turns.touched and update.get("sessionUpdate") == "tool_call_update"
        if session.turns.advance(update) and not echo:
            session.progressed()
        if session.turns.streams:
            session.sees_deltas()

    def _ask_client(self, method: str, request: Id, message: Json) -> None:
        params = message.get("params")
        asked = params if isinstance(params, dict) else {}
        within = self._of_agent.get(id_of(asked, "requestId"))  # an elicitation may name a request instead
        session = self._named(asked.get("sessionId", within and within[1]))
        word, answer = CANCELLED.get(method, (None, None))
        call = {key: name_of(entry(asked, "toolCall", key)) for key in ("toolCallId", "kind")}
        options = asked.get("options")
        allowing = [
            name_of(option.get("optionId"))
            for option in (options if isinstance(options, list) else [])
            if isinstance(option, dict) and name_of(option.get("kind")).startswith("allow")
        ]
        keep(self._of_client, request, Ask(session, answer, call, allowing))
        self._late.pop(request, None)  # the id is used again: an answer to it is one to this
        if session and word:
            with session.update():
                keep(session.turns.waits, request, word)

    def _client_answers(self, request: Id, message: Json) -> None:
        ask = self._of_client.pop(request, None)
        if ask is None or ask.session is None or not ask.answer:
            return
        with ask.session.update():
            turns = ask.session.turns
            turns.waits.pop(request, None)
            # Some agents tell of a tool that was allowed only when it has ended.
            if turns.current and entry(message, "result", "outcome", "optionId") in ask.allowing:
                turns.call(ask.call, RUNNING)


def spelt(message: Json) -> bytes:
    """Spell a message of ours as a line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


# ------------------------------------------------------------------------------------------ the agent's input


class Outcome(Enum):
    """How an interrupt went."""

    DONE = "accepted"
    LATE = "the client is in the middle of a line, or the agent does not read its input"
    REFUSED = "the agent refused"
    SUPERSEDED = "another turn runs now"
    CLOSED = "the agent's input has ended"


class InletClosedError(Exception):
    """The agent's input has ended."""


class Inlet:
    """The agent's input: what the client sends, and between its lines what we insert."""

    def __init__(self, descriptor: int, *, whole_lines: bool) -> None:
        os.set_blocking(descriptor, False)
        self.closed = False
        self._descriptor = descriptor
        self._whole_lines = whole_lines
        self._between_lines = True
        self._inserting = 0
        self._turn = threading.Condition()

    def relay(self, data: bytes, note: Callable[[bytes], bytes]) -> None:
        """Pass the client's bytes on, however long the agent takes; insertions go first where a line ends.

        `note` is told of them when nothing can come in between any more: what an insertion is judged by has
        then either reached the agent or is not known of yet. It returns what may go on.
        """
        at, noted = 0, False
        while at < len(data):
            with self._turn:
                while self._inserting and self._between_lines and not self.closed:
                    self._turn.wait(POLL)
                if self.closed:
                    raise InletClosedError
                if not noted:
                    data, noted = note(data), True
                    if not data:
                        return
                end = len(data)
                if self._inserting:
                    end = data.find(b"\n", at) + 1 or end
                sent = self._write(memoryview(data)[at:end])
                at += sent
                if sent:
                    self._between_lines = not self._whole_lines or data[at - 1] == ord("\n")
                    self._turn.notify_all()
            if not sent:
                ready(self._descriptor, select.POLLOUT, POLL)

    @property
    def drained(self) -> bool:
        """Whether the agent has read everything so far."""
        with self._turn:
            if self.closed:
                return True
            return not struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, b"\0" * 4))[0]

    def insert(self, line: bytes, seconds: float, go: Callable[[], bool], hush: float = 0.0) -> Outcome:
        """Insert a line of ours once the client's line has ended, within a deadline.

        `go` has the last word when the line can be written. Afterwards the client is kept quiet for `hush`
        seconds.
        """
        deadline = time.monotonic() + seconds
        with self._turn:
            self._inserting += 1
            try:
                while not (self._between_lines and self._writable()):
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return Outcome.LATE
                    self._turn.wait(min(left, 0.02))
                if not go():
                    return Outcome.SUPERSEDED
                self._write(memoryview(line))  # shorter than PIPE_BUF, so it goes whole
                time.sleep(hush)
            except InletClosedError:
                return Outcome.CLOSED
            finally:
                self._inserting -= 1
                self._turn.notify_all()
        return Outcome.DONE

    def close(self, go: Callable[[], bool]) -> bool:
        """End the agent's input if `go` still says so."""
        with self._turn:
            if not go():
                return False
            if not self.closed:
                self.closed = True
                os.close(self._descriptor)
            self._turn.notify_all()
            return True

    def _writable(self) -> bool:
        if self.closed:
            raise InletClosedError
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        events = poll.poll(0)
        if events and events[0][1] & select.POLLERR:  # the agent has closed its end
            raise InletClosedError
        return bool(events)

    def _write(self, data: memoryview) -> int:
        if self.closed:
            raise InletClosedError
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:  # the agent has closed its end
            self.closed = True
            os.close(self._descriptor)
            raise InletClosedError from error


def ignore(data: bytes) -> bytes:
    """Take no notice."""
    return data


# ------------------------------------------------------------------------------------------------------ modes


class Mode:
    """How an agent is connected, and what can be done with it through that. This much is common to all."""

    interrupts = True
    patience = True  # whether the end of input may be enough to end the agent

    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        self.session, self.options = session, options
        self.reading = True  # whether the output is waited for, not a slow client
        self.heard = False
        self.output_ended = threading.Event()
        self.inlet: Inlet | None = None

    def start(self, mask: set[signal.Signals]) -> Child:
        """Start the agent and the threads that pass its bytes."""
        raise NotImplementedError

    @property
    def sessions(self) -> list[Session]:
        """What the control API lists."""
        return [self.session]

    def called(self, name: str) -> Session | None:
        """Find the session that is meant by a name."""
        return self.session if name in (self.session.id, self.session.placeholder) else None

    def interrupt(self, session: Session, go: Callable[[], bool]) -> Outcome:
        """End the turn and keep the session; `go` is asked at the last moment."""
        raise NotImplementedError

    def broken_off(self, child: Child) -> bool:
        """Whether the last turn did not end by itself, now that the agent has gone."""
        return self.session.turns.broken_off(child, answered=self.has_answered())

    @property
    def can_interrupt(self) -> bool:
        """Whether an interrupt is possible at all, and still."""
        return self.interrupts and self.inlet is not None and not self.inlet.closed

    def end_input(self, go: Callable[[], bool]) -> bool:
        """End the agent's input if `go` says so at the last moment."""
        return self.inlet.close(go) if self.inlet else go()

    def has_answered(self) -> bool:
        """Whether the agent may have answered in its last turn though nothing says that it has ended."""
        return self.heard

    def resize(self) -> None:
        """Follow the size of our terminal."""

    def restore(self) -> None:
        """Leave our own streams as they were found."""

    def _read_output(self, descriptor: int, take: Callable[[bytes], bytes]) -> None:
        """Pass the agent's output on; if the client goes, the agent finds its output closed."""
        try:
            while True:
                data = read_some(descriptor)
                self.heard = self.heard or bool(data)
                self.reading = False
                write_all(1, take(data) if data else self._rest())
                self.reading = True
                if not data:
                    return
        except OSError:
            pass
        finally:
            os.close(descriptor)
            self.reading = True
            self.output_ended.set()

    def _rest(self) -> bytes:
        """Return what was held back, at the end of the output."""
        return b""


def run_aside(work: Callable[..., None], *arguments: object) -> None:
    """Do some work in a thread that does not keep the host alive."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


class Plain(Mode):
    """Pipes, and no knowledge of what goes through them: the agent can be ended, not interrupted."""

    interrupts = False

    def start(self, mask: set[signal.Signals]) -> Child:
        """Start the agent with pipes for stdin and stdout; stderr stays the client's."""
        its_input, our_output = os.pipe()
        our_input, its_output = os.pipe()

        def wire() -> None:
            os.dup2(its_input, 0)
            os.dup2(its_output, 1)

        child = spawn(self.options.command, wire, mask)
        os.close(its_input)
        os.close(its_output)
        self.inlet = Inlet(our_output, whole_lines=self.interrupts)
        if not self.interrupts:
            with self.session.update() as turns:
                turns.run_for_life(time.monotonic())
        run_aside(self._read_input, self.inlet)
        run_aside(self._read_output, our_input, self._take)
        return child

    def _take(self, data: bytes) -> bytes:
        """Look at what the agent says; return what may go on."""
        self.session.progressed()
        return data

    def _read_input(self, inlet: Inlet) -> None:
        with suppress(InletClosedError):
            while True:
                data = read_some(0)
                if not data:
                    break
                inlet.relay(data, self._note_input)
            self._withhold()
            inlet.close(lambda: True)
            self.patience = self.interrupts  # without knowledge of turns, nothing more is to be hoped for

    def _note_input(self, data: bytes) -> bytes:
        """Look at what the client sends; return what may go on."""
        return data

    def _withhold(self) -> None:
        """Wait until the end of input may be passed on."""


class StreamJson(Plain):
    """Messages in lines of JSON: the conversation is read as it passes, and an interrupt is a line in it."""

    interrupts = True

    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        super().__init__(session, options)
        switched_on_by_us = STATE_SWITCH not in os.environ
        if switched_on_by_us:
            os.environ[STATE_SWITCH] = "1"
        self._answers = Answers(hide_states=switched_on_by_us)
        self._conversation = Conversation(session, self._answers)
        self._sieve = Sieve(self._answers.may_hold, self._answers.is_ours, self._answers.may_become)
        self._sent, self._said = Lines(), Lines()

    def interrupt(self, _session: Session, go: Callable[[], bool]) -> Outcome:
        """Insert the request and wait a while for its answer; without one the caller has to verify."""
        if self.inlet is None:
            return Outcome.CLOSED
        line, answer = self._answers.ask("interrupt")
        inserted = self.inlet.insert(line, self.options.line_deadline, go)
        if inserted is not Outcome.DONE:
            self._answers.forget(answer)
            return inserted
        answer.given.wait(ANSWER_DEADLINE)
        return Outcome.DONE if answer.accepted else Outcome.REFUSED

    def _rest(self) -> bytes:
        return self._sieve.rest()

    def _take(self, data: bytes) -> bytes:
        passed = self._sieve.feed(data)  # first: an answer that has been read is not known as ours any more
        self._listen(data)
        return passed

    def _listen(self, data: bytes) -> None:
        self._conversation.from_agent(self._said.feed(data))

    def _note_input(self, data: bytes) -> bytes:
        self._conversation.from_client(self._sent.feed(data))
        return data

    def _withhold(self) -> None:
        since = time.monotonic()

        def may_end() -> bool:
            return self.session.turns.may_end(time.monotonic(), since)

        while not self.session.wait_for(may_end, POLL):
            if self.session.over:
                return
            # Never while the session is held: who inserts a line holds the inlet, and then the session.
            if self.inlet and not self.inlet.drained:
                since = time.monotonic()


class Prompted(StreamJson):
    """A one-shot prompt and its follow-ups, asked in a conversation so that it can be interrupted."""

    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        super().__init__(session, options)
        self.failed = False
        self._results = Lines(RESULT_LIMIT)

    def _read_input(self, inlet: Inlet) -> None:
        with suppress(InletClosedError):
            for text in (self.options.prompt, *self.options.follow_up):
                message = {"type": "user", "message": {"role": "user", "content": text}}
                line = json.dumps(message | {"parent_tool_use_id": None}).encode() + b"\n"
                inlet.relay(line, self._note_input)
                self._withhold()
            inlet.close(lambda: True)

    def _take(self, data: bytes) -> bytes:
        out = []
        for line in self._results.feed(data):
            if kind_of(line) == b"result":
                out.append(self._print(parsed(line)))
            elif line and not line.startswith(b"{"):
                with suppress(OSError):  # not a message: whatever it is, it is no answer
                    write_all(2, line + b"\n")
        self._listen(data)
        return b"".join(out)

    def _print(self, result: Json) -> bytes:
        """Say what the agent's own text mode says."""
        self.failed = bool(result.get("is_error"))
        if self.failed and self.session.turns.touched:
            return b""  # why it ended stands on stderr
        text = result.get("result")
        if isinstance(text, str):
            return (text if text.endswith("\n") else text + "\n").encode("utf-8", "replace")
        if result.get("subtype") == "error_max_turns":
            limit = re.search(r"\((\d+)\)", str(result.get("errors")))
            return f"Error: Reached max turns ({limit.group(1) if limit else ''})".encode()
        return b"Execution error"


class Acp(Plain):
    """The Agent Client Protocol: sessions on one connection, each interrupted by a line of its own."""

    interrupts = True

    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        super().__init__(session, options)
        self._dialogue = talk = Dialogue(session)
        self._sieve = Sieve(talk.may_be_late, talk.is_late, talk.may_become_late)
        self._sent, self._said = Lines(ACP_LINE), Lines(ACP_LINE)

    @property
    def sessions(self) -> list[Session]:
        """Every session that the client has opened."""
        with self.session.changed:
            return list(self._dialogue.sessions.values())

    def called(self, name: str) -> Session | None:
        """Find a session by the agent's name for it."""
        return self._dialogue.sessions.get(name)

    def interrupt(self, session: Session, go: Callable[[], bool]) -> Outcome:
        """Cancel the turn and what it asks the client, and wait a while for its end."""
        if self.inlet is None:
            return Outcome.CLOSED
        turn, patience = session.turn, self.options.line_deadline
        if turn is None:
            return Outcome.DONE if go() else Outcome.SUPERSEDED
        cancel = spelt({"method": "session/cancel", "params": {"sessionId": session.id}})
        inserted = self.inlet.insert(cancel, patience, go)
        if inserted is not Outcome.DONE:
            return inserted
        for request, answer in self._dialogue.waits_of(session):
            self.inlet.insert(answer, patience, partial(self._dialogue.answer, request))
        session.wait_for(lambda: session.turn != turn, ANSWER_DEADLINE)
        return Outcome.DONE

    def broken_off(self, _child: Child) -> bool:
        """Whether a turn was open when the agent left, or the last was ended by us."""
        return self._dialogue.spoiled or any(session.turn for session in self.sessions)

    def _take(self, data: bytes) -> bytes:
        self._dialogue.from_agent(self._said.feed(data))
        return data

    def _note_input(self, data: bytes) -> bytes:
        self._dialogue.from_client(self._sent.feed(data))
        return self._sieve.feed(data)

    def _withhold(self) -> None:
        if self.inlet:
            self.inlet.relay(self._sieve.rest(), ignore)
        self.session.wait_for(self._dialogue.may_end, float("inf"))


class Pty(Mode):
    """A terminal of its own for the agent, which we show on ours: an interrupt is a key."""

    patience = False

    ESCAPE, CLEAR_LINE = b"\x1b", b"\x15"
    HUSH = 0.1  # what the client types right after an Esc must not read as one key with it
    REDRAW = 0.2  # how long a cleared line takes to be shown
    LINES = 100  # an input box is not higher

    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        super().__init__(session, options)
        self._master, self._slave = os.openpty()
        self._before: list[Any] | None = None
        self._typed_at = self._shown_at = 0.0

    def start(self, mask: set[signal.Signals]) -> Child:
        """Start the agent on its terminal, and make ours a mere channel."""
        if os.isatty(0):
            self._before = termios.tcgetattr(0)
            termios.tcsetattr(self._slave, termios.TCSANOW, self._before)
        self.resize()

        def wire() -> None:
            os.setsid()
            fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
            for number in (0, 1, 2):
                os.dup2(self._slave, number)

        child = spawn(self.options.command, wire, mask)
        os.close(self._slave)
        if self._before:
            tty.setraw(0, termios.TCSADRAIN)
        self.inlet = Inlet(os.dup(self._master), whole_lines=False)
        run_aside(self._read_keys, self.inlet)
        run_aside(self._read_screen, self.inlet)
        return child

    def _read_screen(self, inlet: Inlet) -> None:
        self._read_output(self._master, self._show)
        inlet.close(lambda: True)  # with its last end closed, a terminal hangs up on who is still there

    def has_answered(self) -> bool:
        """Believe it of a turn too new for the registration to be up to date: a screen tells nothing."""
        return time.monotonic() - self.session.turns.opened_at < 2 * POLL

    def resize(self) -> None:
        """Give the agent's terminal the size of ours."""
        for number in (1, 0, 2):
            with suppress(OSError):
                size = fcntl.ioctl(number, termios.TIOCGWINSZ, b"\0" * 8)
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
                return
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))

    def restore(self) -> None:
        """Leave raw mode."""
        if self._before:
            with suppress(OSError, termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._before)

    def interrupt(self, _session: Session, go: Callable[[], bool]) -> Outcome:
        """Press Esc if there is a turn to end: in an idle box it would open a dialog sooner or later."""
        if self.inlet is None:
            return Outcome.CLOSED
        opened = self.session.turns.opened_at
        if self.session.turn is None:
            return Outcome.DONE if go() else Outcome.SUPERSEDED
        transcript = self._transcript()
        length = size_of(transcript)
        pressed = self.inlet.insert(self.ESCAPE, self.options.line_deadline, go, self.HUSH)
        if pressed is Outcome.DONE:
            idle = self.session.wait_for(lambda: self.session.turn is None, ANSWER_DEADLINE)
            if idle and self._typed_at < opened and not self._has_answered(transcript, length, opened):
                self._empty_box(self.inlet)
        return pressed

    def end_input(self, go: Callable[[], bool]) -> bool:
        """Ask only: the end of a terminal is no way to end who sits on it."""
        return go()

    def _transcript(self) -> Path | None:
        return self.session.registry.transcript(self.session.id) if self.session.registry else None

    def _has_answered(self, transcript: Path | None, length: int, opened: float) -> bool:
        """Whether the turn has left anything: if not, the prompt has come back into the input box."""
        if transcript is None:
            return self._shown_at > opened
        deadline = time.monotonic() + 0.5  # records are written a little later
        while time.monotonic() < deadline:
            with suppress(OSError), transcript.open("rb") as file:
                file.seek(length)
                if re.search(rb'"type":\s*"(?:user|assistant)"', file.read(CHUNK)):
                    return True
            time.sleep(0.05)
        return False

    def _empty_box(self, inlet: Inlet) -> None:
        """Clear line after line until nothing is redrawn any more."""
        for _ in range(self.LINES):
            pressed = time.monotonic()
            idle = inlet.insert(self.CLEAR_LINE, self.REDRAW, lambda: self.session.turn is None)
            if idle is not Outcome.DONE:
                return
            time.sleep(self.REDRAW)
            if self._shown_at < pressed:
                return

    def _show(self, data: bytes) -> bytes:
        self._shown_at = time.monotonic()
        return data

    def _read_keys(self, inlet: Inlet) -> None:
        with suppress(InletClosedError):
            while True:
                data = read_some(0)
                if not data:
                    return
                self._typed_at = time.monotonic()
                inlet.relay(data, ignore)


def size_of(path: Path | None) -> int:
    """Tell a file's size; nothing there is 0."""
    try:
        return path.stat().st_size if path else 0
    except OSError:
        return 0


MODES = {"stream-json": StreamJson, "acp": Acp, "pty": Pty, "plain": Plain}


# ------------------------------------------------------------------------------------------------------- acts


class Order(NamedTuple):
    """What somebody asks for."""

    turn: str | None
    force: bool
    reason: str


class Reply(NamedTuple):
    """What they get for it."""

    status: int
    body: Json


def refusal(status: int, text: str) -> Reply:
    """Say no, and why."""
    return Reply(status, {"error": text})


REPLIES = {
    Outcome.LATE: 503,
    Outcome.REFUSED: 503,
    Outcome.SUPERSEDED: 409,
    Outcome.CLOSED: 501,
}


class Reasons:
    """Where it is written why a turn or the session was ended, before that happens."""

    def __init__(self, termination_log: str | None) -> None:
        self._log = Path(termination_log or TERMINATION_LOG)
        self._wanted = termination_log is not None

    def tell(self, action: str, reason: str) -> None:
        """Write a reason to stderr and to the termination log."""
        say(f"{action}: {reason}")
        if self._wanted or self._log.exists():
            try:
                self._append(f"agent-sidecar: {action}: {reason}\n".encode("utf-8", "replace"))
            except OSError as error:
                say(f"cannot write {self._log}: {error.strerror}")

    def _append(self, line: bytes) -> None:
        # In place: it is a mounted file. The newest lines are the ones that are read.
        descriptor = os.open(self._log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                file.write(line)
                return
            file.seek(max(0, os.fstat(descriptor).st_size - TERMINATION_LIMIT))
            kept = (file.read(TERMINATION_LIMIT) + line)[-TERMINATION_LIMIT:]
            file.seek(0)
            file.write(kept)
            file.truncate(len(kept))


class Acts:
    """Ends turns and sessions, one order at a time, each turn at most once."""

    def __init__(self, mode: Mode, child: Child, reasons: Reasons) -> None:
        self._mode, self._child, self._reasons = mode, child, reasons
        self._one_at_a_time = threading.Lock()
        self._reaping = False

    def sessions(self) -> list[Json]:
        """List the sessions as they are now."""
        if self._mode.session.over:
            return []
        for session in self._mode.sessions:
            session.refresh()
        return [told for _, told in self.described()]

    def described(self) -> list[tuple[int, Json]]:
        """Describe the sessions as last seen, each with the count of its progress."""
        able = self._mode.can_interrupt
        return [(one.progress, one.as_json(interruptible=able)) for one in self._mode.sessions]

    def called(self, name: str) -> Session | None:
        """Find a session by its name."""
        if self._mode.session.over:
            return None
        self._mode.session.refresh()
        return self._mode.called(name)

    def interrupt(self, session: Session, order: Order) -> Reply:
        """End the turn."""
        if not self._mode.can_interrupt:
            return refusal(
                501, Outcome.CLOSED.value if self._mode.interrupts else "this mode has no interrupt"
            )
        with self._one_at_a_time:
            turn, refused = self._look(session, order)
            if refused:
                return refused
            if session.turns.interrupted:
                return Reply(202, {"turn": turn, "note": "this turn has been interrupted already"})
            outcome = self._mode.interrupt(session, lambda: self._announce(session, "interrupt", order, turn))
            if outcome is Outcome.DONE:
                return Reply(202, {"turn": turn})
            if outcome in (Outcome.REFUSED, Outcome.CLOSED):
                with session.update() as turns:
                    turns.spare()
                say(f"interrupt: not done: {outcome.value}")
            return refusal(REPLIES[outcome], outcome.value)

    def reap(self, session: Session, order: Order) -> Reply:
        """End the session, which ends the agent: an idle one unless forced."""
        with self._one_at_a_time:
            turn, refused = self._look(session, order)
            if refused:
                return refused
            if self._reaping:
                return Reply(202, {"turn": turn, "note": "the session is being ended already"})
            busy = session.busy
            if busy and not order.force:
                return refusal(409, "busy, and not forced")
            if self._would_be_missed(session, order):
                return refusal(409, "another session of this agent works, or has worked since")
            if busy:
                self._announce(session, "reap", order, turn)
            elif not self._mode.end_input(lambda: self._announce_idle(session, order)):
                return refusal(409, "a turn has just begun")
            self._reaping = True
            run_aside(self._tear_down, session)
            return Reply(202, {"turn": turn})

    def _look(self, session: Session, order: Order) -> tuple[str | None, Reply | None]:
        session.refresh()
        turn = session.turn
        if order.turn is None or order.turn == turn:
            return turn, None
        return turn, refusal(409, "another turn runs now" if turn else "that turn is over")

    def _would_be_missed(self, session: Session, order: Order) -> bool:
        """Whether the agent has a session that nobody has judged: who judged this one judged what is older.

        A turn that had its interrupt and goes on was judged too. Who forces means the idle ones as well.
        """
        others = [one for one in self._mode.sessions if one is not session]
        return any(
            not one.turns.touched
            if one.busy
            else not order.force and one.progressed_at > session.progressed_at
            for one in others
        )

    def _announce_idle(self, session: Session, order: Order) -> bool:
        if session.busy or self._would_be_missed(session, order):
            return False
        return self._announce(session, "reap", order, None)

    def _announce(self, session: Session, action: str, order: Order, turn: str | None) -> bool:
        """Write the reason, unless the turn has changed since it was looked at."""
        with session.update() as turns:
            if turns.current != turn:
                return False
            if action == "interrupt":
                turns.interrupting()
            else:
                turns.ending()
        session.judged(action, order.reason)
        self._reasons.tell(action, order.reason)
        return True

    def _tear_down(self, session: Session) -> None:
        """Interrupt, close stdin, SIGTERM, SIGKILL: as little as is enough."""
        grace = self._mode.options.grace
        if session.turn is not None and self._mode.can_interrupt and not session.turns.interrupted:
            with session.update() as turns:
                turns.interrupting()
            if self._mode.interrupt(session, lambda: True) is Outcome.DONE:
                session.wait_for(lambda: session.turn is None, min(grace, ANSWER_DEADLINE))
        self._mode.end_input(lambda: True)
        patience = grace if self._mode.patience else 0.0
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.gone.wait(patience):
                return
            self._child.signal(number)
            patience = grace


# -------------------------------------------------------------------------------------------- who may connect


class Endpoint(NamedTuple):
    """Where the host listens, and for whom."""

    path: str  # of the unix socket, or
    host: str
    port: int
    group: int | None
    token_file: str | None

    def listen(self) -> socket.socket:
        """Open the socket."""
        return self._listen_unix() if self.path else self._listen_loopback()

    def _listen_loopback(self) -> socket.socket:
        listener = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            raise UsageError(f"--listen: {self.host}:{self.port}: {error.strerror}") from error
        listener.listen(128)
        if not self.port:
            say(f"listening on {self.host}:{listener.getsockname()[1]}")
        return listener

    def _listen_unix(self) -> socket.socket:
        clear_away(self.path)
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            listener.bind(self.path)
            if self.group is not None:
                os.chown(self.path, -1, self.group)
                Path(self.path).chmod(0o660)
        except OSError as error:
            listener.close()
            raise UsageError(f"--listen: cannot create {self.path}: {error.strerror or error}") from error
        finally:
            os.umask(mask)
        listener.listen(128)
        return listener

    def admits(self, connection: socket.socket) -> bool:
        """Whether the peer's user, or one of its groups, may use the unix socket."""
        if not self.path:
            return True
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, user, group = struct.unpack("3i", raw)
        if user in (0, os.geteuid()):
            return True
        return self.group is not None and self.group in {group, *groups_of(connection, user)}

    def knows(self, authorization: str) -> bool:
        """Whether a request carries the token, if one is asked for."""
        if self.token_file is None:
            return True
        from hmac import compare_digest  # noqa: PLC0415 - costs memory, and most hosts have no token

        scheme, _, given = authorization.partition(" ")
        token = read_token(self.token_file)
        proof = compare_digest(given.strip().encode("latin-1", "replace"), token)
        return bool(token) and scheme.lower() == "bearer" and proof


def clear_away(path: str) -> None:
    """Remove a socket that a host left behind, and nothing else."""
    try:
        kind = Path(path).stat().st_mode
    except FileNotFoundError:
        if not Path(path).parent.is_dir():
            raise UsageError(f"--listen: no such directory: {Path(path).parent}") from None
        return
    except OSError as error:
        raise UsageError(f"--listen: {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(kind):
        raise UsageError(f"--listen: {path} is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        failure = probe.connect_ex(path)
    if failure != errno.ECONNREFUSED:
        raise UsageError(f"--listen: somebody listens on {path} already")
    Path(path).unlink(missing_ok=True)


def groups_of(connection: socket.socket, user: int) -> set[int]:
    """Find the groups of a peer: as the kernel knows them, else as the user database does."""
    with suppress(OSError):
        raw = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 1024)
        return set(struct.unpack(f"{len(raw) // 4}I", raw))
    with suppress(KeyError, OSError):
        found = pwd.getpwuid(user)
        return set(os.getgrouplist(found.pw_name, found.pw_gid))
    return set()


def read_token(path: str) -> bytes:
    """Read the token, anew every time: it may be replaced while we run."""
    try:
        return Path(path).read_bytes()[:4096].strip()
    except OSError:
        return b""


# ------------------------------------------------------------------------------------------------------- HTTP


HEAD_LIMIT, BODY_LIMIT = 16 * 1024, 64 * 1024
REQUEST_DEADLINE = 5.0  # for a whole request, however slowly it comes
SEND_DEADLINE = 5.0
CONNECTIONS, STREAMS = 64, 16
PACE = 0.2  # seconds between two events of one stream
HEARTBEAT = 15.0

PHRASES = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class RequestError(Exception):
    """A request that is answered by an error status."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Request(NamedTuple):
    """A request, whole and bounded."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Incoming:
    """Reads one request from a connection within a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_DEADLINE
        self._buffer = bytearray()

    def head(self) -> Request:
        """Read the request line and the headers."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT:
                raise RequestError(431, "the headers are too large")
            self._more()
        if end > HEAD_LIMIT:
            raise RequestError(431, "the headers are too large")
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        method, _, rest = lines[0].partition(" ")
        target, _, version = rest.partition(" ")
        if (
            not (method.isascii() and method.isalpha())
            or not target.startswith("/")
            or version not in ("HTTP/1.1", "HTTP/1.0")
        ):
            raise RequestError(400, "not an HTTP/1.1 request")
        return Request(method.upper(), target.partition("?")[0], self._headers(lines[1:]), b"")

    def body(self, head: Request) -> Request:
        """Read the body, if it is one that we take."""
        if "transfer-encoding" in head.headers:
            raise RequestError(400, "send the body with a content-length")
        length = head.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise RequestError(400, "the content-length is not a number")
        if len(length) > 9 or int(length) > BODY_LIMIT:  # noqa: PLR2004 - no body is that long
            raise RequestError(413, f"the body is larger than {BODY_LIMIT} bytes")
        while len(self._buffer) < int(length):
            self._more()
        return head._replace(body=bytes(self._buffer[: int(length)]))

    def _headers(self, lines: Sequence[str]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            key = name.lower()
            if not colon or not name or name != name.strip() or (key == "content-length" and key in headers):
                raise RequestError(400, "malformed headers")
            headers[key] = value.strip()
        return headers

    def _more(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise RequestError(408, "the request took too long")
        self._connection.settimeout(left)
        try:
            data = self._connection.recv(16 * 1024)
        except OSError as error:
            raise RequestError(408, "the request took too long") from error
        if not data:
            raise ConnectionResetError
        self._buffer += data


ROUTE = re.compile(r"/v1/sessions/([^/]+)/(interrupt|reap)")


class Server:
    """The control API: a thread for each connection, a request each, and bounds on everything."""

    def __init__(self, endpoint: Endpoint, acts: Acts, session: Session) -> None:
        self._endpoint, self._acts, self._session = endpoint, acts, session
        self._guard = threading.Lock()
        self._answered = threading.Condition(self._guard)
        self._open: dict[socket.socket, bool] = {}  # oldest first; whether it is still silent
        self._streams = self._taken = 0

    def serve(self, listener: socket.socket) -> None:
        """Take connections until the listener is shut."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNABORTED):
                    return
                time.sleep(0.1)
                continue
            try:
                if self._make_room(connection):
                    run_aside(self._converse, connection)
                    continue
            except RuntimeError:  # no more threads
                self._leave(connection)
            connection.close()

    def finish(self, seconds: float) -> None:
        """Let what was taken be answered: it may be the very order that ended the agent."""
        with self._guard:
            self._answered.wait_for(lambda: not self._taken, seconds)

    def _make_room(self, newcomer: socket.socket) -> bool:
        """Register a connection; where there are too many, the oldest that has said nothing yet has to go."""
        with self._guard:
            if len(self._open) >= CONNECTIONS:
                silent = next((one for one, waiting in self._open.items() if waiting), None)
                if silent is None or len(self._open) >= 2 * CONNECTIONS:
                    return False
                self._open[silent] = False
                with suppress(OSError):
                    silent.shutdown(socket.SHUT_RDWR)
            self._open[newcomer] = True
            return True

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._answer(connection)
        except OSError:
            pass  # the client has gone
        finally:
            self._leave(connection)

    def _leave(self, connection: socket.socket) -> None:
        with self._guard:
            self._open.pop(connection, None)

    def _answer(self, connection: socket.socket) -> None:
        try:
            request = self._receive(connection)
            if request.path == "/v1/events" and request.method == "GET":
                self._stream(connection)
                return
        except RequestError as error:
            send(connection, refusal(error.status, str(error)), error.headers)
            return
        with self._guard:
            self._taken += 1
        try:
            send(connection, *self._replied(request))
        finally:
            with self._answered:
                self._taken -= 1
                self._answered.notify_all()

    def _replied(self, request: Request) -> tuple[Reply, Mapping[str, str]]:
        try:
            return self._route(request), {}
        except RequestError as error:
            return refusal(error.status, str(error)), error.headers

    def _receive(self, connection: socket.socket) -> Request:
        if not self._endpoint.admits(connection):
            raise RequestError(403, "this socket is not for you")
        incoming = Incoming(connection)
        head = incoming.head()
        if not self._endpoint.knows(head.headers.get("authorization", "")):
            raise RequestError(401, "a bearer token is needed", **{"WWW-Authenticate": "Bearer"})
        request = incoming.body(head)
        with self._guard:
            self._open[connection] = False
        return request

    def _route(self, request: Request) -> Reply:
        if request.path in ("/v1/sessions", "/v1/events"):
            if request.method != "GET":
                raise RequestError(405, "only GET", Allow="GET")
            return Reply(200, {"sessions": self._acts.sessions()})
        match = ROUTE.fullmatch(request.path)
        if not match:
            raise RequestError(404, "no such resource")
        if request.method != "POST":
            raise RequestError(405, "only POST", Allow="POST")
        order = order_of(request.body)
        session = self._acts.called(unquote(match.group(1)))
        if session is None:
            return refusal(404, "no such session")
        act = self._acts.interrupt if match.group(2) == "interrupt" else self._acts.reap
        return act(session, order)

    def _stream(self, connection: socket.socket) -> None:
        with self._guard:
            if self._streams >= STREAMS:
                raise RequestError(503, "too many event streams")
            self._streams += 1
        try:
            connection.settimeout(SEND_DEADLINE)
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
            connection.sendall((head + "Connection: close\r\n\r\n").encode())
            Stream(connection, self._session, self._acts.described).run()
        finally:
            with self._guard:
                self._streams -= 1


class Stream:
    """One reader of events: what is new is looked up when the last was sent, so a slow one costs nothing."""

    def __init__(
        self, connection: socket.socket, session: Session, describe: Callable[[], list[tuple[int, Json]]]
    ) -> None:
        self._connection, self._session, self._describe = connection, session, describe
        self._revision = -1
        self._told: dict[str, tuple[int, Json]] = {}

    def run(self) -> None:
        """Send events until the reader or the agent has gone."""
        beat = time.monotonic()
        while not self._session.over and not self._has_gone():
            if self._session.wait_for(lambda: self._session.revision != self._revision, 1.0):
                news = self._news()
                if news:
                    lines = (b"data: " + json.dumps(event).encode() + b"\n\n" for event in news)
                    self._connection.sendall(b"".join(lines))
                    beat = time.monotonic()
                    time.sleep(PACE)
            if time.monotonic() - beat > HEARTBEAT:
                self._connection.sendall(b": beat\n\n")
                beat = time.monotonic()

    def _news(self) -> list[Json]:
        with self._session.changed:
            self._revision = self._session.revision
            described = self._describe()
        told, self._told = self._told, {}
        news: list[Json] = []
        for progress, now in described:
            name = now["id"]
            shown = {key: value for key, value in now.items() if key != "last_activity_at"}
            before = told.get(name)
            self._told[name] = (progress, shown)
            if before is None or before[1] != shown:
                news.append(now)
            elif before[0] != progress:
                news.append({"id": name, "progress": True})
        return news

    def _has_gone(self) -> bool:
        return ready(self._connection.fileno(), select.POLLIN, 0) and not self._connection.recv(1024)


def order_of(body: bytes) -> Order:
    """Read what a body asks for."""
    order: Any = {}
    if body.strip():
        try:
            order = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, "the body is not JSON") from error
    if not isinstance(order, dict):
        raise RequestError(400, "the body is not an object")
    turn, force, reason = order.get("turn"), order.get("force", False), order.get("reason")
    if not (turn is None or isinstance(turn, str)):
        raise RequestError(400, "turn: a string or null")
    if not isinstance(force, bool):
        raise RequestError(400, "force: true or false")
    if not (reason is None or isinstance(reason, str)):
        raise RequestError(400, "reason: a string")
    return Order(turn, force, clean(reason or "", REASON_LIMIT) or "asked for through the control API")


def send(connection: socket.socket, reply: Reply, headers: Mapping[str, str]) -> None:
    """Answer, and let the client read it even if it is still sending."""
    body = json.dumps(reply.body).encode()
    lines = [f"HTTP/1.1 {reply.status} {PHRASES[reply.status]}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "Cache-Control: no-store", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    connection.settimeout(SEND_DEADLINE)
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(0.5)
    for _ in range(64):
        if not connection.recv(16 * 1024):
            return


# --------------------------------------------------------------------------------------------------- the host


class Host:
    """Starts the agent, does what a parent and PID 1 has to do, and ends as the agent did."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._session = Session(options.session, attended=options.attended)
        wanted = [number for number in PASSED if signal.getsignal(number) != signal.SIG_IGN]
        self._signals = {signal.SIGCHLD, signal.SIGWINCH, *wanted}

    def run(self) -> int:
        """Run the agent to its end."""
        endpoint: Endpoint = self._options.endpoint
        listener = endpoint.listen()
        mode: Mode = self._options.mode(self._session, self._options)
        try:
            return self._run(mode, listener)
        finally:
            mode.restore()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            if endpoint.path:
                Path(endpoint.path).unlink(missing_ok=True)

    def _run(self, mode: Mode, listener: socket.socket) -> int:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would bury the agent without its status
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        try:
            child = mode.start({signal.Signals(number) for number in mask})
        except OSError as error:
            say(f"cannot run {self._options.command[0]}: {error.strerror}")
            return EX_NOT_FOUND if error.errno == errno.ENOENT else EX_NOT_RUN
        self._session.started(child)
        acts = Acts(mode, child, Reasons(self._options.termination_log))
        server = Server(self._options.endpoint, acts, self._session)
        run_aside(server.serve, listener)
        run_aside(self._watch, child)
        if self._options.share_group is not None:
            run_aside(self._share, Sharing(self._options.share_group, config_directory()), child)
        while not child.gone.is_set():
            self._attend(mode, child, 5.0)
        status = self._wind_up(mode, child)
        server.finish(1.0)
        return status

    def _watch(self, child: Child) -> None:
        while not child.gone.wait(POLL):
            self._session.refresh()

    def _share(self, sharing: Sharing, child: Child) -> None:
        while not child.gone.wait(sharing.pause):
            sharing.sweep()

    def _attend(self, mode: Mode, child: Child, seconds: float) -> bool:
        """Wait for a signal and do what it asks for. Whether it asks us to end."""
        info = signal.sigtimedwait(self._signals, seconds)
        child.bury_all()
        if info is None or info.si_signo == signal.SIGCHLD:
            return False
        if info.si_signo == signal.SIGWINCH:
            mode.resize()
            return False
        ends = info.si_signo in ENDING
        if ends:
            self._session.refresh()
            for session in mode.sessions:
                with session.update() as turns:
                    turns.ending()
        if info.si_code != SI_KERNEL or isinstance(mode, Pty):
            child.signal(info.si_signo)
        return ends

    def _wind_up(self, mode: Mode, child: Child) -> int:
        """End what the agent left behind, let its last words through, and find the exit status."""
        self._end_family(mode, child)
        self._drain(mode, child)
        if self._options.share_group is not None:  # what the agent wrote last
            Sharing(self._options.share_group, config_directory()).sweep()
        with self._session.changed:
            broken_off = mode.broken_off(child)
        for session in (*mode.sessions, self._session):
            session.end()
        if broken_off:
            return EX_TEMPFAIL
        if isinstance(mode, Prompted) and mode.failed and not child.code:
            return 1
        return child.code

    def _end_family(self, mode: Mode, child: Child) -> None:
        """SIGTERM for everything that was left to us, SIGKILL for what is still there after the grace."""
        warned: set[Process] = set()
        kill_at = time.monotonic() + self._options.grace
        give_up_at = kill_at + self._options.grace
        while time.monotonic() < give_up_at:
            child.bury_all()
            left = family(os.getpid())
            if not left:
                return
            late = time.monotonic() > kill_at
            for one in left:
                if late or one not in warned:
                    signal_exactly(one, signal.SIGKILL if late else signal.SIGTERM)
            warned.update(left)
            if self._attend(mode, child, 0.05):
                kill_at = time.monotonic()

    def _drain(self, mode: Mode, child: Child) -> None:
        """Wait for the output's end: as long as the client reads, or until somebody wants us gone."""
        quiet_since = time.monotonic()
        while not mode.output_ended.wait(0.02):
            if not mode.reading:
                quiet_since = time.monotonic()
            if time.monotonic() - quiet_since > 1.0 or self._attend(mode, child, 0):
                return


# ------------------------------------------------------------------------------------------- the command line


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parse = argparse.ArgumentParser(
        prog="agent-sidecar host",
        usage="%(prog)s --listen ADDRESS [options] -- COMMAND ...",
        description="Run an agent, and offer a control API that can end its turn and keep its session.",
        allow_abbrev=False,
    )
    add = parse.add_argument
    add(
        "--listen",
        required=True,
        metavar="ADDRESS",
        help="unix:/PATH, where {pid} stands for the host's own pid so that many can share a directory, "
        "or 127.0.0.1:PORT, which needs --token-file",
    )
    add("--mode", default="stream-json", metavar="MODE", help="stream-json (default), acp, pty or plain")
    add("--token-file", metavar="FILE", help="ask for this bearer token")
    add("--group", metavar="GROUP", help="let this group use the socket too (mode 0660 instead of 0600)")
    add(
        "--share-group",
        metavar="GROUP",
        help="let a sidecar of this group read what Claude Code writes, and use the socket",
    )
    add("--session", metavar="ID", help="the session's id, instead of the one that the agent tells")
    add("--attended", action="store_true", help="somebody sits there: a sidecar then never ends it by policy")
    add(
        "--termination-log",
        metavar="FILE",
        help=f"write reasons there too (default: {TERMINATION_LOG} if there is one)",
    )
    add(
        "--grace",
        type=seconds,
        default=10.0,
        metavar="SECONDS",
        help="between the end of input, SIGTERM and SIGKILL (default 10)",
    )
    add(
        "--line-deadline",
        type=seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long an interrupt waits for the end of the client's line (default 5)",
    )
    add(
        "--prompt",
        metavar="TEXT|@FILE",
        help="ask this instead of passing stdin on, and print each answer's text as text mode does "
        "(@@ for a text that begins with @)",
    )
    add("--follow-up", action="append", default=[], metavar="TEXT|@FILE", help="ask next; may be repeated")
    return parse


def seconds(text: str) -> float:
    """Read a number of seconds."""
    value = float(text)
    if not 0 < value <= 86400:  # noqa: PLR2004 - a day
        raise argparse.ArgumentTypeError(f"{text}: more than 0 and at most 86400 seconds")
    return value


def options_from(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; what cannot be done is said before anything is started."""
    arguments = list(arguments)
    ours = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser().parse_args(arguments[:ours])
    options.command = arguments[ours + 1 :]
    if not options.command:
        raise UsageError("give the agent's command after `--`")
    if options.mode not in MODES:
        raise UsageError(f"--mode: {options.mode} is none of {', '.join(MODES)}")
    if options.prompt is None and options.follow_up:
        raise UsageError("--follow-up needs a --prompt")
    if options.prompt is not None and options.mode != "stream-json":
        raise UsageError("--prompt needs --mode stream-json")
    if options.session is not None and options.mode == "acp":
        raise UsageError("--session: with --mode acp the agent names its sessions")
    prompted = options.prompt is not None
    options.mode = Prompted if prompted else MODES[options.mode]
    if prompted:
        options.prompt = text_of(options.prompt)
        options.follow_up = [text_of(text) for text in options.follow_up]
    options.share_group = shared_group_of(options.share_group)
    options.endpoint = endpoint_of(options)
    return options


def text_of(given: str) -> str:
    """Take a text, or the file it names."""
    if given.startswith("@@") or not given.startswith("@"):
        return given[given.startswith("@@") :]
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot read {given[1:]}: {error}") from error


def endpoint_of(options: argparse.Namespace) -> Endpoint:
    """Read where to listen."""
    if options.token_file is not None and not read_token(options.token_file):
        raise UsageError(f"--token-file: no token in {options.token_file}")
    kind, _, rest = options.listen.partition(":")
    if kind == "unix":
        path = rest.replace("{pid}", str(os.getpid()))
        if not path or len(os.fsencode(path)) > 107:  # noqa: PLR2004 - the size of sun_path
            raise UsageError(f"--listen: a unix socket's path has 1 to 107 bytes: {path!r}")
        group = options.share_group if options.group is None else group_of(options.group, "--group")
        return Endpoint(path, "", 0, group, options.token_file)
    if options.group is not None:
        raise UsageError("--group is for unix sockets")
    host, _, port = options.listen.rpartition(":")
    host = {"localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:  # noqa: PLR2004 - the last port
        raise UsageError(f"--listen: {options.listen} is neither unix:/PATH nor 127.0.0.1:PORT")
    if not (host == "::1" or re.fullmatch(r"127(\.\d{1,3}){3}", host)):
        raise UsageError(f"--listen: {host or 'every address'} is not loopback, like 127.0.0.1")
    if options.token_file is None:
        raise UsageError("--listen: a port is open to every user of this machine, so it needs --token-file")
    return Endpoint("", host, int(port), None, options.token_file)


def shared_group_of(given: str | None) -> int | None:
    """Find the group to share with: one that we may give files to."""
    if given is None:
        return None
    group = group_of(given, "--share-group")
    if os.geteuid() and group not in (os.getegid(), *os.getgroups()):
        raise UsageError(f"--share-group: this user is not in group {given} (in a pod: fsGroup)")
    return group


def group_of(given: str, option: str) -> int:
    """Find a group by number or name."""
    if given.isascii() and given.isdigit():
        return int(given)
    try:
        return grp.getgrnam(given).gr_gid
    except KeyError:
        raise UsageError(f"{option}: no such group: {given}") from None


def main(argv: list[str] | None = None) -> int:
    """Run the host: the agent's exit status, or 2 if it cannot be started as asked."""
    if sys.platform != "linux":
        say("host: only Linux tells who connects to a socket and who has lost its parent")
        return 2
    for number in (0, 1, 2):  # a closed one would soon be something else
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    try:
        return Host(options_from(sys.argv[1:] if argv is None else argv)).run()
    except UsageError as error:
        say(f"host: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
