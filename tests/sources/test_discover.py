"""Finding files below a root."""

import errno
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sidecar.sources.discover import Scan, Shapes, look

Unprivileged = Callable[[], AbstractContextManager[None]]

SHAPES = Shapes(["projects/*/*.jsonl", "projects/*/*/subagents/agent-*.jsonl"])


def put(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(scan: Scan, root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in scan.found}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "config"


def test_every_shape_is_found_and_nothing_else(root: Path) -> None:
    wanted = ["projects/-a/1.jsonl", "projects/-b_c/2.jsonl", "projects/-a/1/subagents/agent-x.jsonl"]
    others = [
        "1.jsonl",
        "projects/1.jsonl",
        "projects/-a/1.json",
        "projects/-a/.1.jsonl.swp",
        "projects/-a/.hidden.jsonl",
        "projects/.hidden/1.jsonl",
        "projects/-a/1/2.jsonl",
        "projects/-a/1/subagents/agent-x.meta.json",
        "projects/-a/1/subagents/other.jsonl",
        "projects/-a/1/tools/agent-x.jsonl",
    ]
    for name in wanted + others:
        put(root / name)
    assert names(SHAPES.scan(str(root)), root) == set(wanted)


def test_found_says_what_stat_says(root: Path) -> None:
    path = put(root / "projects/-a/1.jsonl", b"12345")
    found = SHAPES.scan(str(root)).found[str(path)]
    st = path.stat()
    assert (found.dev, found.ino, found.size, found.mtime_ns) == (st.st_dev, st.st_ino, 5, st.st_mtime_ns)
    assert look(str(path)) == found


def test_fixed_names_and_deep_shapes(root: Path) -> None:
    put(root / "sessions/2026/11/30/rollout-1.jsonl")
    put(root / "history.jsonl")
    put(root / ".state/log.jsonl")
    shapes = Shapes(["sessions/*/*/*/rollout-*.jsonl", "history.jsonl", ".state/*.jsonl", ".s*/[kl]o?.jsonl"])
    assert len(shapes.scan(str(root)).found) == 3


@pytest.mark.parametrize(
    ("shapes", "depth"), [(["a.jsonl", "b/c.jsonl"], 0), (["b/c.jsonl", "*/*/*"], 1), (["*/*/*"], 2), ([], 0)]
)
def test_how_far_down_the_nearest_files_lie(shapes: list[str], depth: int) -> None:
    assert Shapes(shapes).depth == depth


def test_a_folder_that_may_be_entered_but_not_listed(open_folder: Path, unprivileged: Unprivileged) -> None:
    path = put(open_folder / "a/b/history.jsonl")
    path.parent.chmod(0o711)
    path.parent.parent.chmod(0o711)
    with unprivileged():
        assert list(Shapes(["a/b/history.jsonl"]).scan(str(open_folder)).found) == [str(path)]


def test_an_absent_root_is_no_error_and_may_appear(root: Path) -> None:
    scan = SHAPES.scan(str(root))
    assert (scan.found, scan.unreadable) == ({}, {})
    put(root / "projects/-a/1.jsonl")
    assert len(SHAPES.scan(str(root)).found) == 1


def test_a_root_that_is_a_file(root: Path) -> None:
    root.write_bytes(b"")
    assert SHAPES.scan(str(root)) == Scan({}, [], {})


def test_the_directories_looked_into_are_told(root: Path) -> None:
    put(root / "projects/-a/1/subagents/agent-x.jsonl")
    (root / "projects/-b").mkdir()
    told = {os.path.relpath(path, root) for path in SHAPES.scan(str(root)).directories}
    assert told == {".", "projects", "projects/-a", "projects/-a/1", "projects/-a/1/subagents", "projects/-b"}


def test_permission_denied_is_told_and_the_rest_found(open_folder: Path, unprivileged: Unprivileged) -> None:
    put(open_folder / "projects/-a/1.jsonl")
    closed = put(open_folder / "projects/-b/2.jsonl").parent
    closed.chmod(0o000)
    with unprivileged():
        scan = SHAPES.scan(str(open_folder))
    assert names(scan, open_folder) == {"projects/-a/1.jsonl"}
    assert scan.unreadable == {str(closed): "EACCES"}
    closed.chmod(0o755)
    with unprivileged():
        assert len(SHAPES.scan(str(open_folder)).found) == 2


def test_names_may_be_readable_where_files_are_not(open_folder: Path, unprivileged: Unprivileged) -> None:
    path = put(open_folder / "projects/-a/1.jsonl")
    path.parent.chmod(0o444)
    with unprivileged():
        scan = SHAPES.scan(str(open_folder))
    path.parent.chmod(0o755)
    assert scan.unreadable == {str(path): "EACCES"}


def test_one_file_in_trouble_does_not_hide_the_others(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = put(root / "projects/-a/1.jsonl"), put(root / "projects/-a/2.jsonl")
    real = os.stat

    def broken(path: str) -> os.stat_result:
        if path == str(bad):
            raise OSError(errno.EIO, "")
        return real(path)

    monkeypatch.setattr(os, "stat", broken)
    scan = SHAPES.scan(str(root))
    monkeypatch.undo()
    assert (list(scan.found), scan.unreadable) == ([str(good)], {str(bad): "EIO"})


def test_only_regular_files_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root / "projects/-a/1.jsonl")
    monkeypatch.chdir(root / "projects/-a")
    Path("folder.jsonl").mkdir()
    os.mkfifo("fifo.jsonl")
    Path("dangling.jsonl").symlink_to("nowhere")
    Path("loop.jsonl").symlink_to("loop.jsonl")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.jsonl")
        scan = SHAPES.scan(str(root))
    assert (names(scan, root), scan.unreadable) == ({"projects/-a/1.jsonl"}, {})


def test_links_are_followed_and_each_file_counts_once(root: Path, tmp_path: Path) -> None:
    elsewhere = put(tmp_path / "elsewhere/9.jsonl")
    own = put(root / "projects/-a/1.jsonl")
    (root / "projects/-z").symlink_to(elsewhere.parent)  # a linked directory
    (root / "projects/-0").symlink_to(root / "projects/-a")  # another name for a directory that counts
    (root / "projects/-a/0.jsonl").symlink_to(own)  # another name for a file that counts
    os.link(own, root / "projects/-a/2.jsonl")
    found = SHAPES.scan(str(root)).found
    assert {os.path.relpath(path, root): found[path].linked for path in found} == {
        "projects/-a/1.jsonl": False,
        "projects/-z/9.jsonl": True,
    }


def test_a_loop_of_links_ends(root: Path) -> None:
    put(root / "projects/-a/1.jsonl")
    (root / "projects/-a/up").symlink_to(root)
    (root / "projects/self").symlink_to("self")
    (root / "projects/back").symlink_to(root / "projects")
    (root / "projects/-a/s").mkdir()
    (root / "projects/-a/s/subagents").symlink_to(root / "projects/-a/s")
    scan = SHAPES.scan(str(root))
    assert (names(scan, root), scan.unreadable) == ({"projects/-a/1.jsonl"}, {})


@pytest.mark.parametrize(
    ("relative", "fits", "leads"),
    [
        ("projects", False, True),
        ("projects/-a", False, True),
        ("projects/-a/1.jsonl", True, True),
        ("projects/-a/1", False, True),
        ("projects/-a/1/subagents", False, True),
        ("projects/-a/1/subagents/agent-x.jsonl", True, False),
        ("projects/-a/1/tools", False, False),
        ("projects/-a/1/subagents/agent-x.meta.json", False, False),
        ("projects/-a/1/subagents/agent-x.jsonl/more", False, False),
        ("sessions", False, False),
    ],
)
def test_paths_that_fit_and_paths_that_lead_on(relative: str, *, fits: bool, leads: bool) -> None:
    assert (SHAPES.fit(relative), SHAPES.lead(relative)) == (fits, leads)
