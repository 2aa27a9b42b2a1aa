"""A file to follow, a way to read it to its end, and a user without rights."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sidecar.sources.openfile import OpenFile
from sidecar.sources.tail import Read, Tail

ReadAll = Callable[..., list[Read]]
Unprivileged = Callable[[], AbstractContextManager[None]]

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    yield
    for file in list(OpenFile._kept):
        file.close()


@pytest.fixture
def read_all() -> ReadAll:
    def to_the_end(tail: Tail, budget: int = 1 << 20) -> list[Read]:
        reads = [tail.poll(budget)]
        while reads[-1].behind:
            reads.append(tail.poll(budget))
        return reads

    return to_the_end


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that everybody may enter: pytest's own are closed to all but their owner."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def unprivileged() -> Unprivileged:
    """Root may read everything, so become somebody else for a while."""

    @contextmanager
    def become_nobody() -> Iterator[None]:
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(user)

    return become_nobody
