"""Starts hosts and ends them."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.host.driver import FAKE, Hosted, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


NUMBERS = itertools.count(1)


class Start(Protocol):
    def __call__(self, *options: str, command: Sequence[str] = (), **env: str) -> Hosted: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the agent a home of its own, so that registrations do not meet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start a host in front of a command, by default the fake agent."""
    with ExitStack() as stack:

        def begin(*options: str, command: Sequence[str] = (), **env: str) -> Hosted:
            hosted = Hosted(home / f"{next(NUMBERS)}.sock", options, command or FAKE, **env)
            stack.callback(hosted.close)
            return hosted

        yield begin


@pytest.fixture
def start_terminal(home: Path) -> Iterator[Start]:
    """Start a host on a terminal of its client's."""
    with ExitStack() as stack:

        def begin(*options: str, command: Sequence[str] = (), **env: str) -> Hosted:
            path = home / f"{next(NUMBERS)}.sock"
            hosted = Terminal(path, ("--mode", "pty", *options), command or FAKE, **env)
            stack.callback(hosted.close)
            return hosted

        yield begin
