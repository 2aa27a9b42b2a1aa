"""Hear from the kernel when something below a directory changes, where it can tell.

Directories are watched, not files: one watch covers all that appears, grows and goes in it. Events are
hints, never the only way: a queue overflows, network file systems and links' targets send none, mapped
writes neither. So whoever uses this also scans now and then, and only looks sooner for hearing something.
"""

import ctypes
import enum
import errno
import os
import struct
from collections.abc import Iterable
from typing import Final, Literal

# From the kernel's include/uapi/linux/inotify.h.
_MODIFY: Final = 0x0002
_MOVED_FROM: Final = 0x0040
_MOVED_TO: Final = 0x0080
_CREATE: Final = 0x0100
_DELETE: Final = 0x0200
_DELETE_SELF: Final = 0x0400
_Q_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ONLYDIR: Final = 0x0100_0000
_MASK: Final = _MODIFY | _CREATE | _MOVED_TO | _MOVED_FROM | _DELETE | _DELETE_SELF | _ONLYDIR
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER: Final = 64 << 10
# Buffers taken per call: 16 hold more events than the kernel queues by default, and a flood cannot hold us.
_BUFFERS: Final = 16

# File systems whose files change without an event here: from include/uapi/linux/magic.h, and cifs' own.
_SILENT: Final = {
    0x6969: "nfs",
    0x517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x65735546: "fuse",
    0x01021997: "9p",
    0x00C36400: "ceph",
    0x5346414F: "afs",
}


class Lost(enum.Enum):
    """What a full queue leaves behind."""

    OVERFLOW = "overflow"


OVERFLOW: Final = Lost.OVERFLOW


class Inotify:
    """Watches on directories. ``reason`` says why events cannot be relied on; None while they can.

    When there is a reason, take ``fileno()`` out of the loop, close, and scan oftener; nothing else changes.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._paths: dict[int, str] = {}  # by watch descriptor
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            self.reason = errno.errorcode.get(ctypes.get_errno(), "unsupported")

    @property
    def mode(self) -> Literal["inotify", "polling"]:
        """Say what changes are found by."""
        return "polling" if self.reason else "inotify"

    @property
    def watched(self) -> set[str]:
        """Give the directories that are watched."""
        return set(self._paths.values())

    def fileno(self) -> int:
        """Give the descriptor that becomes readable; -1 where there is none."""
        return self._fd

    def cover(self, directories: Iterable[str]) -> bool:
        """Watch exactly these directories, as far as they exist; tell whether there are new ones among them.

        Then scan again: what was made in a new one before its watch sent no event. All are asked for each
        time, which costs a microsecond each and heals whatever was renamed, or deleted and made again.
        """
        paths: dict[int, str] = {}
        before = self.watched
        for directory in directories:
            if self.reason:
                return False
            watch = self._add(directory, known=directory in before)
            if watch >= 0:
                paths[watch] = directory
        for watch in self._paths.keys() - paths.keys():
            self._libc.inotify_rm_watch(self._fd, watch)
        new = bool(paths.keys() - self._paths.keys())
        self._paths = paths
        return new

    def drain(self) -> set[str] | Literal[Lost.OVERFLOW]:
        """Take all events that wait and give the paths they name; ``OVERFLOW`` when some were dropped."""
        changed: set[str] = set()
        overflow = False
        for _ in range(_BUFFERS):
            try:
                data = os.read(self._fd, _BUFFER) if self._fd >= 0 else b""
            except BlockingIOError:
                break
            if not data:
                break
            at = 0
            while at < len(data):
                watch, mask, _cookie, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
                at += length
                overflow = overflow or bool(mask & _Q_OVERFLOW)
                directory = self._paths.pop(watch, None) if mask & _IGNORED else self._paths.get(watch)
                if directory is not None:
                    changed.add(f"{directory}/{name}" if name else directory)
        return OVERFLOW if overflow else changed

    def close(self) -> None:
        """Give the descriptor back, and with it all watches."""
        fd, self._fd = self._fd, -1
        self._paths.clear()
        if fd >= 0:
            os.close(fd)

    def _add(self, directory: str, *, known: bool) -> int:
        """Watch one directory; one that is not there, or not ours to read, is left to the scans."""
        if not known and (silent := self._silent(directory)):
            self.reason = f"network file system: {silent} does not tell what other machines write"
            return -1
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), _MASK)
        if watch < 0 and ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
            self.reason = errno.errorcode[ctypes.get_errno()]
        return watch

    def _silent(self, directory: str) -> str | None:
        """Name the file system if it keeps its changes to itself."""
        buffer = ctypes.create_string_buffer(256)  # struct statfs takes 120 bytes and begins with the type
        if self._libc.statfs(os.fsencode(directory), buffer) != 0:
            return None
        return _SILENT.get(ctypes.c_ulong.from_buffer(buffer).value & 0xFFFF_FFFF)
