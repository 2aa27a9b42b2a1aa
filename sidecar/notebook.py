"""A small file of lines: added to one by one, and now and then written anew as a whole.

Nothing is synced: what is here is worth a first start, not a wait for the disk.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Notebook:
    """The file at a path, open for adding to once it was written by this process."""

    def __init__(self, path: Path, most: int) -> None:
        """`most`: bytes beyond which a file is none of ours, and is not read."""
        self.path = path
        self.added = 0
        """Bytes added since it was last written as a whole."""
        self._most = most
        self._fd: int | None = None

    @property
    def writable(self) -> bool:
        """Whether lines can be added."""
        return self._fd is not None

    def read(self) -> list[bytes]:
        """Every line of an earlier process; none without a file. Raises OSError where it cannot be read."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return []
        with os.fdopen(fd, "rb") as file:
            plain = stat.S_ISREG(os.fstat(fd).st_mode)
            data = file.read(self._most + 1) if plain else b""
        return [b""] if len(data) > self._most else data.split(b"\n")

    def add(self, line: bytes) -> None:
        """Add a line; without a file open it waits for the next `write`. Raises OSError."""
        if self._fd is not None:
            _write(self._fd, line)
            self.added += len(line)

    def write(self, data: bytes) -> None:
        """Write all of it anew: the file is the old one or the new one, whole. Raises OSError."""
        self.close()
        new = self.path.with_name(self.path.name + ".new")
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write(fd, data)
            new.rename(self.path)
        except OSError:
            os.close(fd)
            with suppress(OSError):
                new.unlink()
            raise
        self._fd, self.added = fd, 0

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _write(fd: int, data: bytes) -> None:
    """Write all of it, or raise OSError."""
    if os.write(fd, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
