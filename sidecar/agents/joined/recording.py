"""A recorded server and the agents behind it: a folder with `listing.jsonl`, and what lies beside it.

Beside the listing there may be `transcripts/` and `sessions_files.jsonl`, every change of a
registration. Everything is told in the order in which it happened, as a running sidecar sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sidecar.agents.joined.join import Join
    from sidecar.signals import Observation

LISTING: Final = "listing.jsonl"
TRANSCRIPTS: Final = "transcripts"
REGISTRATIONS: Final = "sessions_files.jsonl"

Timed = list[tuple[float, list["Observation"]]]
"""What was seen, and when."""


class Read(Protocol):
    """How the parts of a recording are read."""

    def listing(self, file: Path) -> tuple[float, Timed]:
        """When the recording began, and what each answer said."""

    def transcripts(self, folder: Path) -> tuple[list[Observation], dict[str, str]]:
        """What was written, and every session's working directory."""

    def registrations(self, file: Path, start: float) -> tuple[Timed, dict[str, str]]:
        """What was registered, and every session's working directory."""


class Recording:
    """The recorded servers below some paths."""

    def __init__(
        self, paths: Sequence[Path], read: Read, join: Callable[[Callable[[str], str | None]], Join]
    ) -> None:
        """`join` makes one that knows a session's working directory."""
        self._paths = list(paths)
        self._read = read
        self._join = join

    def observations(self) -> list[Observation]:
        """Every server's signals, in the order of their time."""
        return [seen for listing, whole in self._listings() for seen in self._joined(listing, whole=whole)]

    def _listings(self) -> Iterator[tuple[Path, bool]]:
        """Every listing, and whether what lies beside it belongs to it: of a file, nothing does."""
        found: dict[Path, bool] = {}
        for path in self._paths:
            found |= dict.fromkeys(sorted(path.rglob(LISTING)), True) if path.is_dir() else {path: False}
        yield from found.items()

    def _joined(self, listing: Path, *, whole: bool) -> list[Observation]:
        start, told = self._read.listing(listing)
        cwds: dict[str, str] = {}
        join = self._join(cwds.get)
        events: list[tuple[float, Callable[..., list[Observation]], list[Observation]]] = []
        events += [(at, join.listed, seen) for at, seen in told]
        if whole and (file := listing.parent / REGISTRATIONS).is_file():
            registered, where = self._read.registrations(file, start)
            events += [(at, join.written, seen) for at, seen in registered]
            cwds |= where
        if whole and (folder := listing.parent / TRANSCRIPTS).is_dir():
            written, where = self._read.transcripts(folder)
            events += [(seen.signal.at, join.written, [seen]) for seen in written]
            cwds |= where | cwds  # where a session was started counts before where it went
        events.sort(key=lambda event: event[0])
        return [out for at, take, seen in events for out in take(seen, at)]
