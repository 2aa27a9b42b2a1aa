"""What the kernel tells of an agent's process: whether it lives, what it is and takes; and signals to it.

A pid is a name that is given again, so every question takes the start time too: both together name one
process of a pid namespace. An answer may be None, "cannot tell", which must never be taken for "gone".
A little longer than most: whose pids these are is asked here as well.
"""

import os
import re
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
import psutil

# The inode number the kernel gives the first pid namespace: PROC_PID_INIT_INO in include/linux/proc_ns.h.
_FIRST_NAMESPACE: Final = "4026531836"
_NAMESPACE: Final = re.compile(r"pid:\[(\d+)\]$")
_MACHINE: Final = re.compile(r"linux:([0-9a-f]{32}):")
# Programs that run an agent given as a script. No shells: a script of theirs starts the agent, and is none.
_INTERPRETERS: Final = re.compile(r"(node|nodejs|bun|deno|python[\d.]*)$")
# Script names that say nothing: there the folder around them names the agent.
_ENTRIES: Final = frozenset({"cli", "index", "main", "bin", "__main__"})
_ENDED: Final = b"ZXx"  # states of a process that only waits to be collected


class Process(msgspec.Struct, frozen=True):
    """One process: its pid, and its start time in clock ticks since boot."""

    pid: int
    start: int


class Running(Process, frozen=True):
    """An agent's process; what may not be seen of it is None."""

    name: str  # which of the names asked for
    cwd: str | None
    exe: str | None


class Usage(msgspec.Struct, frozen=True):
    """What a process takes."""

    rss: int  # bytes
    cpu: float  # seconds so far, user and system


def start_ticks(pid: int) -> int | None:
    """Give the start time of the process that has this pid now."""
    with suppress(OSError, ValueError, IndexError):
        return _stat(pid)[1]
    return None


def alive(pid: int, start: int | None) -> bool | None:
    """Tell whether this very process still runs; without a start time, whether any has its pid."""
    if pid <= 0:
        return False  # what kill() takes for a group of processes
    try:
        state, now = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None if _hidden(pid) else False
    except (OSError, ValueError, IndexError):
        return None
    return state not in _ENDED and start in (None, now)


def _stat(pid: int) -> tuple[bytes, int]:
    """Read state and start time, fields 3 and 22; the command before them may hold spaces and brackets."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - often
        fields = file.read().rpartition(b")")[2].split()
    return fields[0], int(fields[19])


def _hidden(pid: int) -> bool:
    """Tell whether a pid is in use that /proc does not show, as when mounted with hidepid, or not at all."""
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True


def pid_namespace() -> str | None:
    """Name our own pid namespace, as in ``pid:[4026531836]``."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return None


def same_namespace(domain: str | None) -> bool | None:
    """Tell whether the pids of a domain such as ``linux:<id>:pid:[4026531836]`` mean the same to us.

    A registration without a domain gives no name to compare; only in the first namespace, where containers'
    processes are seen too, are its pids taken for ours.
    """
    ours = _NAMESPACE.search(pid_namespace() or "")
    if ours is None:
        return None
    if not domain:
        return True if ours[1] == _FIRST_NAMESPACE else None
    theirs = _NAMESPACE.search(domain)
    return None if theirs is None else ours[1] == theirs[1]


def other_machine(domain: str | None) -> bool:
    """Tell whether a domain may be another machine's: every machine's first namespace has the same number.

    Its id is `/etc/machine-id`, zeros where there is none. A container may have another one than its machine:
    so pids of such a domain may still be ours, and one that is seen alive proves it.
    """
    theirs = _MACHINE.match(domain or "")
    if theirs is None or _FIRST_NAMESPACE not in (domain or ""):
        return False
    ours = ""
    with suppress(OSError, ValueError):
        ours = Path("/etc/machine-id").read_text().strip()
    return theirs[1] != (ours or "0" * 32)


def usage(pid: int, start: int) -> Usage | None:
    """Give the memory and processor time of this very process."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            memory, times = process.memory_info().rss, process.cpu_times()
    except psutil.Error:
        return None
    return Usage(memory, times.user + times.system) if alive(pid, start) else None


def agents(names: Collection[str]) -> list[Running]:
    """Find the running programs of these names, by executable, by first word, or by the script they run."""
    running = []
    for process in psutil.process_iter(["exe", "cmdline"]):  # leaves out what ends meanwhile
        exe, words = process.info["exe"] or None, process.info["cmdline"] or []
        name = next((name for name in _names(exe, words) if name in names), None)
        if name is None or (start := start_ticks(process.pid)) is None:
            continue
        cwd = None
        with suppress(psutil.Error):
            cwd = process.cwd() or None
        if alive(process.pid, start):
            running.append(Running(process.pid, start, name, cwd, exe))
    return running


def _names(exe: str | None, words: list[str]) -> Iterator[str]:
    """Give the names a program may go by, the most certain one first."""
    yield from (PurePosixPath(path).name for path in (exe, *words[:1]) if path)
    script = next((word for word in words[1:] if word[:1] != "-"), None)  # or a module, behind -m
    if script and _INTERPRETERS.match(PurePosixPath(words[0]).name):
        path = PurePosixPath(script)
        yield from (path.name, path.stem)
        if path.stem in _ENTRIES:
            yield path.parent.name
        for package in script.split("/node_modules/")[1:]:
            yield package.split("/")[1 if package[:1] == "@" else 0]


def holds(pid: int, path: str) -> bool | None:
    """Tell whether the process has this file open; compared by inode, for its paths may not be ours."""
    try:
        wanted = Path(path).stat()
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):  # closed meanwhile
                    if os.path.samestat(entry.stat(), wanted):
                        return True
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return False


def descendants(pid: int) -> list[Process]:
    """Give the children of a process and theirs; those cut loose before are not among them."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    started = ((child.pid, start_ticks(child.pid)) for child in children)
    return [Process(pid, start) for pid, start in started if start is not None]


def signal_process(pid: int, start: int, number: signal.Signals) -> bool:
    """Send a signal to this very process, and to none that got its pid meanwhile; tell whether it was sent.

    A descriptor pins the process: once its start time was found right, the signal cannot reach another one.
    Kernels before 5.3 and some sandboxes have no descriptors; there the check is a moment old.
    """
    try:
        pinned = os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pinned = None
    try:
        if not alive(pid, start):
            return False
        if pinned is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(pinned, number)
    except OSError:
        return False
    finally:
        if pinned is not None:
            os.close(pinned)
    return True
