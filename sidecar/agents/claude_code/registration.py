"""The registrations that lie in a folder, as what they say: half-written and foreign files are met there."""

from __future__ import annotations

import os
import re
from typing import Final

import msgspec
from msgspec import Struct

from sidecar.agent import SourceDown

NAME: Final = re.compile(r"(?:pid-)?\d{1,10}\.json")
LARGEST: Final = 64 << 10
"""Bytes of one registration that are read; real ones have 700."""


class Registration(Struct, rename="camel", frozen=True):
    """The fields of a registration that matter here; `name` is content and not read."""

    pid: int
    session_id: str
    proc_start: str
    started_at: float = 0.0
    cwd: str | None = None
    version: str | None = None
    kind: str | None = None
    entrypoint: str | None = None
    pid_domain: str | None = None
    parked_job_id: object = None
    status: str | None = None
    status_updated_at: float | None = None
    waiting_for: str | None = None


class Folder:
    """The folder; remembers what it read, so that an unchanged file is not read again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._decode = msgspec.json.Decoder(Registration).decode
        self._stats: dict[str, tuple[int, int, int]] = {}
        self._last: dict[str, Registration] = {}

    def read(self) -> dict[str, Registration]:
        """All of them now, by the file's name. Raises SourceDown."""
        found: dict[str, Registration] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if NAME.fullmatch(entry.name):
                        registration = self._load(entry, self._last.get(entry.name))
                        if registration is not None:
                            found[entry.name] = registration
        except (FileNotFoundError, NotADirectoryError):
            self._last = {}
            return {}
        except OSError as error:
            raise SourceDown(f"{self.path}: {error.strerror}") from error
        self._last = found
        return found

    def _load(self, entry: os.DirEntry[str], before: Registration | None) -> Registration | None:
        """One file; a half-written or foreign one keeps what was read before."""
        try:
            stat = entry.stat(follow_symlinks=False)
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if before is not None and self._stats.get(entry.name) == stamp:
                return before
            with open(entry.path, "rb", opener=_no_wait) as file:
                read = self._decode(file.read(LARGEST))
        except (OSError, msgspec.MsgspecError):
            return before
        self._stats[entry.name] = stamp
        return None if read.parked_job_id else read


def _no_wait(path: str, flags: int) -> int:
    """A fifo planted under the name must not hang the reader."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
