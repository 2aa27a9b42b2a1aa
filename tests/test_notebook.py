"""A small file of lines, written by one process and read by the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sidecar.notebook import Notebook

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def test_lines_are_added_to_what_was_written_as_a_whole(path: Path) -> None:
    book = Notebook(path, 100)
    assert book.read() == []
    book.add(b"lost\n")  # before there is a file
    assert (book.writable, book.added) == (False, 0)
    book.write(b"one\n")
    book.add(b"two\n")
    assert (book.writable, book.added) == (True, 4)
    assert Notebook(path, 100).read() == [b"one", b"two", b""]
    book.write(b"three\n")
    assert book.added == 0
    book.close()
    book.close()
    assert Notebook(path, 100).read() == [b"three", b""]


def test_one_that_is_too_large_is_not_read(path: Path) -> None:
    path.write_bytes(b"x" * 101)
    assert Notebook(path, 100).read() == [b""]
    assert Notebook(path, 101).read() == [b"x" * 101]


def test_a_leftover_of_a_killed_process_is_replaced_and_no_link_followed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("untouched")
    path.with_name("lines.new").symlink_to(other)
    Notebook(path, 100).write(b"mine")
    assert other.read_text() == "untouched"
    assert not path.is_symlink()
