"""A file opened for reading only as long as need be."""

import errno
import os
from stat import S_ISREG
from typing import ClassVar, Final

# Files kept open for the bytes left to read in them, over the whole process: a sixteenth of the usual limit
# on descriptors. The one kept longest gives way; it is opened again by name.
_KEPT: Final = 64
# Never wait in open() for a fifo's writer, never let a terminal become ours.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class OpenFile:
    """At most one open descriptor, which may outlive the file's name."""

    __slots__ = ("fd",)
    _kept: ClassVar[dict["OpenFile", None]] = {}  # oldest first

    def __init__(self) -> None:
        self.fd: int | None = None

    def open(self, path: str) -> int:
        """Open the regular file at ``path``; the one already open stays."""
        if self.fd is None:
            self.fd = os.open(path, _FLAGS)
        return self.fd

    def stat(self) -> os.stat_result:
        """Say what the open file is by now."""
        st = os.fstat(-1 if self.fd is None else self.fd)
        require_regular(st)
        return st

    def keep(self) -> None:
        """Stay open until closed, or until too many are."""
        self._kept.pop(self, None)
        self._kept[self] = None
        if len(self._kept) > _KEPT:
            next(iter(self._kept)).close()

    def close(self) -> None:
        """Give the descriptor back."""
        self._kept.pop(self, None)
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)


def reason(error: OSError) -> str:
    """Name an error as the system does, for metrics and messages."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def require_regular(st: os.stat_result) -> None:
    """Refuse whatever is not a plain file: reading it may wait for ever, or never end."""
    if not S_ISREG(st.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
