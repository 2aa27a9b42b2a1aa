"""Whose turn it is to be read: what changed, then what grew lately, then what is far behind, one by one."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from sidecar.sources.tail import Read

T = TypeVar("T")


class Rota:
    """The paths to read, in order. Dicts serve as ordered sets: asked for first, read first."""

    __slots__ = ("_backlog", "_due", "_grew")

    def __init__(self) -> None:
        self._grew: dict[str, float] = {}  # hot: when each was last seen to grow
        self._due: dict[str, None] = {}
        self._backlog: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """Tell whether anything has more to bring already."""
        return bool(self._due or self._backlog)

    @property
    def hot(self) -> bool:
        """Tell whether anything grew lately and is looked at in every round."""
        return bool(self._grew)

    def soon(self, path: str) -> None:
        """Read this one before those far behind, unless it is one of them."""
        if path not in self._backlog:
            self._due[path] = None

    def later(self, path: str) -> None:
        """Read this one after all others."""
        self._due.pop(path, None)
        self._backlog[path] = None

    def __iter__(self) -> Iterator[str]:
        """Give the paths of one round; each leaves the queue as it is given, whoever is not given stays."""
        for path in self._grew:
            self.soon(path)
        for queue in (self._due, self._backlog):
            for _ in range(len(queue)):
                path = next(iter(queue))
                del queue[path]
                yield path

    def after(self, path: str, read: Read, now: float, hot: float) -> None:
        """Decide when to look again; a file that cannot be read waits for the next scan.

        ``hot``: for how many seconds after its growth it is looked at in every round: 0 where events tell.
        """
        if read.behind:
            self._backlog[path] = None
        else:
            self._backlog.pop(path, None)
        if read.grew and hot:
            self._grew[path] = now
        elif read.event in ("denied", "error") or not 0 <= now - self._grew.get(path, now) < hot:
            self._grew.pop(path, None)

    def rename(self, names: Mapping[str, str]) -> None:
        """Keep the places of files that moved, from old name to new; these may be each other's."""
        _rename(self._grew, names)
        _rename(self._due, names)
        _rename(self._backlog, names)

    def forget(self, path: str) -> None:
        """Drop a file that is gone."""
        self._grew.pop(path, None)
        self._due.pop(path, None)
        self._backlog.pop(path, None)


def _rename(queue: dict[str, T], names: Mapping[str, str]) -> None:
    moved = {new: queue.pop(old) for old, new in names.items() if old in queue}
    queue |= moved
