"""`--share-group`: a sidecar of another user reads what Claude Code closes to everybody, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar.host import Sharing, main, shared_group_of
from tests.host.driver import until

if TYPE_CHECKING:
    from tests.host.conftest import Start

READ = ("projects/-work/s.jsonl", "projects/-work/s/subagents/agent-a.jsonl", "sessions/7.json")
LIST = (
    "projects",
    "projects/-work",
    "projects/-work/s",
    "projects/-work/s/subagents",
    "sessions",
)
CLOSED = (
    "sessions/7.key",
    "sessions/7.json.key",
    ".credentials.json",
    "settings.json",
    "history.jsonl",
    "projects/-work/memory.md",
    "projects/-work/s/tool-results/x.txt",
    "projects/-work/s/subagents/notes.jsonl",
    "todos/t.json",
)
GROUP = os.getegid()
OTHER = GROUP + 4242 if os.geteuid() == 0 else GROUP  # root may give files to any group


def close(path: Path) -> None:
    path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """What Claude Code leaves behind, closed as it closes it."""
    top = tmp_path / ".claude"
    for name in (*READ, *CLOSED):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    for path in (top, *top.rglob("*")):
        close(path)
    return top


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_what_a_sidecar_reads_is_opened_to_the_group_and_nothing_else(config: Path) -> None:
    Sharing(OTHER, config).sweep()
    assert {name: (mode(config / name), (config / name).stat().st_gid) for name in READ} == dict.fromkeys(
        READ, (0o640, OTHER)
    )
    assert {name: mode(config / name) for name in LIST} == dict.fromkeys(LIST, 0o750)
    assert mode(config) == 0o710, "entered, not listed"
    assert {name: mode(config / name) for name in CLOSED} == dict.fromkeys(CLOSED, 0o600)


def test_a_sweep_that_finds_all_done_changes_nothing(config: Path) -> None:
    Sharing(OTHER, config).sweep()
    before = {path: path.stat().st_ctime_ns for path in config.rglob("*")}
    Sharing(OTHER, config).sweep()
    assert {path: path.stat().st_ctime_ns for path in config.rglob("*")} == before


def test_no_link_is_followed(config: Path, tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.write_text("s3cret")
    (folder / "p").mkdir(parents=True)
    (folder / "p" / "s.jsonl").write_text("{}")
    for path in (secret, folder, folder / "p", folder / "p" / "s.jsonl"):
        close(path)
    (config / "projects" / "-work" / "link.jsonl").symlink_to(secret)
    (config / "projects" / "linked").symlink_to(folder / "p")
    os.mkfifo(config / "projects" / "-work" / "pipe.jsonl", 0o600)
    Sharing(OTHER, config).sweep()
    assert [mode(path) for path in (secret, folder / "p", folder / "p" / "s.jsonl")] == [0o600, 0o700, 0o600]
    assert mode(config / "projects" / "-work" / "pipe.jsonl") == 0o600


def test_a_place_that_is_not_there_yet_is_looked_for_again(tmp_path: Path) -> None:
    sharing = Sharing(GROUP, tmp_path / "later")
    sharing.sweep()
    (tmp_path / "later" / "sessions").mkdir(parents=True)
    close(tmp_path / "later" / "sessions")
    assert sharing.pause > 0
    sharing.sweep()
    assert mode(tmp_path / "later" / "sessions") == 0o750


def test_new_files_and_the_socket_are_shared_while_the_agent_runs(start: Start, home: Path) -> None:
    hosted = start("--share-group", str(GROUP))
    hosted.session()
    late = home / ".claude" / "projects" / "-work" / "late.jsonl"
    late.parent.mkdir(parents=True)
    late.write_text("{}\n")
    for path in (late, late.parent):
        close(path)
    until(lambda: mode(late) == 0o640, "the new transcript is shared")
    close(late)
    until(lambda: mode(late) == 0o640, "what was closed again is shared again")
    assert mode(Path(hosted.socket)) == 0o660


def test_what_the_agent_writes_last_is_shared_when_it_has_ended(start: Start, home: Path) -> None:
    writes = "umask 077; mkdir -p $HOME/.claude/sessions; echo {} >$HOME/.claude/sessions/7.json"
    hosted = start("--mode", "plain", "--share-group", str(GROUP), command=["sh", "-c", writes])
    assert hosted.wait() == 0
    assert mode(home / ".claude" / "sessions" / "7.json") == 0o640


def test_without_the_option_nothing_is_opened(start: Start, config: Path) -> None:
    hosted = start("--mode", "plain", command=["true"])
    assert hosted.wait() == 0
    assert {mode(config / name) for name in READ} == {0o600}
    assert mode(config) == 0o700


def test_what_cannot_be_shared_is_said_once_and_the_rest_is_shared(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    foreign = {(config / READ[0]).stat().st_ino, (config / READ[1]).stat().st_ino}
    give = os.fchown

    def not_ours(descriptor: int, user: int, group: int) -> None:
        if os.fstat(descriptor).st_ino in foreign:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        give(descriptor, user, group)

    monkeypatch.setattr(os, "fchown", not_ours)
    sharing = Sharing(OTHER, config)
    for _ in range(2):
        (config / READ[0]).chmod(0o600)
        sharing.sweep()
    assert mode(config / READ[2]) == 0o640
    assert capfd.readouterr().err.count("not everything below") == (1 if OTHER != GROUP else 0)


def test_a_group_of_somebody_else_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(os, "getegid", lambda: 4711)
    monkeypatch.setattr(os, "getgroups", lambda: [4711, 4712])
    assert main(["--listen", f"unix:{home}/c", "--share-group", "4242", "--", "true"]) == 2
    assert "not in group 4242 (in a pod: fsGroup)" in capfd.readouterr().err
    assert shared_group_of("4712") == 4712
