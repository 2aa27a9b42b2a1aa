"""Find the files below a root whose names have one of a few shapes.

Agents name the folders of their transcripts by rules that lose information and change, so nothing is
computed from a working directory: what is there is listed. Thousands of old files cost one stat each.
"""

import errno
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import translate
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final

import msgspec

from sidecar.sources.openfile import reason

_WILD: Final = re.compile(r"[*?\[]")
_NOTHING: Final = re.compile(r"(?!)")

Entry = tuple[str, bool, bool]  # a name; whether it may be a directory, as a link may; whether it is a link


class Found(msgspec.Struct, frozen=True, gc=False):
    """One file, as of the scan."""

    path: str
    dev: int
    ino: int
    size: int
    mtime_ns: int
    linked: bool = False  # reached through a symbolic link: no event of its directory tells of its growth


class Scan(msgspec.Struct, frozen=True):
    """What lies below a root. An absent root holds nothing, which is no error: it may appear later."""

    found: dict[str, Found]
    directories: list[str]  # the ones looked into
    unreadable: dict[str, str]  # what could not be looked at, and why: what lies there is unknown, not gone


class Shapes:
    """Where files are expected: paths relative to a root, with ``*``, ``?`` and ``[…]`` within single names.

    As in a shell, a pattern matches a leading dot only if it begins with one.
    """

    __slots__ = ("_below", "_folders", "_names", "depth", "file")

    def __init__(self, shapes: Iterable[str]) -> None:
        split = [shape.partition("/") for shape in shapes]
        files = [first for first, _, rest in split if not rest]
        # How far down the nearest files lie: any directory down to there may get a new one.
        self.depth = min((rest.count("/") + 1 if rest else 0 for _, _, rest in split), default=0)
        self.file = re.compile("|".join(map(_pattern, files))) if files else _NOTHING
        self._folders = [(re.compile(_pattern(first)), rest) for first, _, rest in split if rest]
        names = {first for first, _, _ in split}
        self._names = None if any(map(_WILD.search, names)) else names  # all known: no need to list
        self._below: dict[tuple[str, ...], Shapes] = {}

    def below(self, name: str) -> "Shapes | None":
        """Give what is expected in a directory of this name; None where nothing is."""
        rests = tuple(rest for pattern, rest in self._folders if pattern.match(name))
        if not rests:
            return None
        if rests not in self._below:
            self._below[rests] = Shapes(rests)
        return self._below[rests]

    def lead(self, relative: str) -> bool:
        """Tell whether a path, were it a directory, could lead to files of one of the shapes."""
        shapes: Shapes | None = self
        for name in relative.split("/"):
            shapes = shapes and shapes.below(name)
        return shapes is not None

    def fit(self, relative: str) -> bool:
        """Tell whether a path is of one of the shapes."""
        shapes: Shapes | None = self
        *folders, name = relative.split("/")
        for folder in folders:
            shapes = shapes and shapes.below(folder)
        return shapes is not None and shapes.file.match(name) is not None

    def scan(self, root: str) -> Scan:
        """List every regular file of the shapes, each inode once, by its own name rather than a link's.

        The shapes bound the depth, so a loop of links ends by itself, and what it shows again counts once.
        """
        inodes: dict[tuple[int, int], Found] = {}
        directories: list[str] = []
        unreadable: dict[str, str] = {}
        todo: list[tuple[str, Shapes, bool]] = [(root, self, False)]
        while todo:
            folder, shapes, linked = todo.pop()
            try:
                entries = shapes.entries(folder)
            except OSError as error:
                _excuse(error, folder, unreadable)
                continue
            directories.append(folder)
            for name, directory, link in entries:
                path, through = f"{folder}/{name}", linked or link
                if directory and (deeper := shapes.below(name)):
                    todo.append((path, deeper, through))
                if (link or not directory) and shapes.file.match(name):
                    try:
                        found = look(path, linked=through)
                    except OSError as error:
                        _excuse(error, path, unreadable)
                        continue
                    if found:
                        _keep(found, inodes)
        return Scan({found.path: found for found in inodes.values()}, directories, unreadable)

    def entries(self, folder: str) -> list[Entry]:
        """List a directory, or of the names known beforehand those that are there."""
        if self._names is None:
            with os.scandir(folder) as found:
                return [(e.name, (link := e.is_symlink()) or e.is_dir(), link) for e in found]
        entries = []
        for name in self._names:
            with suppress(FileNotFoundError):
                mode = os.lstat(f"{folder}/{name}").st_mode
                entries.append((name, S_ISLNK(mode) or S_ISDIR(mode), S_ISLNK(mode)))
        return entries


def worth_watching(scan: Scan, files: Iterable[str], depth: int) -> list[str]:
    """Give the directories down to a depth, where new files appear, and the ones leading to these files.

    What is left out are directories of sessions long ended; each would cost the kernel a kilobyte.
    """
    live: set[str] = set()
    for path in files:
        above = path.rpartition("/")[0]
        while above and above not in live:
            live.add(above)
            above = above.rpartition("/")[0]
    return [path for path in scan.directories if path in live or path.count("/") <= depth]


def look(path: str, *, linked: bool = False) -> Found | None:
    """Look at one file; anything but a regular one is none."""
    try:
        st = os.stat(path)  # noqa: PTH116 - once per file and scan
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not S_ISREG(st.st_mode):
        return None
    return Found(path, st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, linked)


def _pattern(text: str) -> str:
    pattern = translate(text)
    return pattern if text.startswith(".") else rf"(?!\.){pattern}"


def _keep(found: Found, inodes: dict[tuple[int, int], Found]) -> None:
    """Keep one of several names of a file."""
    other = inodes.setdefault((found.dev, found.ino), found)
    if (found.linked, found.path) < (other.linked, other.path):
        inodes[found.dev, found.ino] = found


def _excuse(error: OSError, path: str, unreadable: dict[str, str]) -> None:
    """Note what could not be looked at; absence needs no note, and neither does a loop of links."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        unreadable[path] = reason(error)
