"""A changed file: taken when it is good and settled, else the old one stays in force."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sidecar.config import ConfigError, Problem
from sidecar.config.reload import Changed, Reload, decide
from tests.test_config import HOME, KINDS, read

if TYPE_CHECKING:
    from pathlib import Path


def mounted(root: Path, text: str, version: int) -> Path:
    """Mount a ConfigMap as the kubelet does: a new directory, and one link that is swapped."""
    data = root / f"..2026_{version}"
    data.mkdir(parents=True)
    (data / "config.yaml").write_text(text, "utf-8")
    fresh = root / "..data_tmp"
    fresh.symlink_to(data.name)
    fresh.rename(root / "..data")
    path = root / "config.yaml"
    if not path.is_symlink():
        path.symlink_to("..data/config.yaml")
    return path


def follow(path: Path) -> Reload:
    return Reload(path, HOME, KINDS)


def test_a_swapped_config_map_is_taken_once_it_has_settled(tmp_path: Path) -> None:
    path = mounted(tmp_path, "bounds: {waiting: 5m}", 1)
    reload = follow(path)
    assert reload.poll() is None
    before = os.lstat(path)
    mounted(tmp_path, "bounds: {waiting: 6m}", 2)
    assert os.lstat(path) == before  # the path itself never changes
    assert reload.poll() is None  # seen once
    taken = reload.poll()  # and twice
    assert taken is not None
    assert taken.problems == ()
    assert taken.changed == (Changed("bounds.waiting.limit", 300.0, 360.0),)
    assert reload.config.rules.waiting.limit == 360.0
    assert reload.poll() is None


def test_the_same_content_in_new_files_is_no_change(tmp_path: Path) -> None:
    path = mounted(tmp_path, "mode: observe", 1)
    reload = follow(path)
    mounted(tmp_path, "mode: observe", 2)
    assert [reload.poll() for _ in range(3)] == [None, None, None]


def test_half_of_a_file_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("mode: observe\nactions: {max: 3}\n", "utf-8")
    reload = follow(path)
    path.write_text("mode: enforce\n", "utf-8")  # all that is written so far, and valid
    assert reload.poll() is None
    path.write_text("mode: enforce\nactions: {max: 3}\n", "utf-8")
    assert reload.poll() is None
    taken = reload.poll()
    assert taken is not None
    assert [change.path for change in taken.changed] == ["bounds.jitter", "mode"]


def test_a_bad_file_keeps_the_old_one_and_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("bounds: {waiting: 5m}", "utf-8")
    reload = follow(path)
    path.write_text("bounds: {waiting: 0}", "utf-8")
    assert reload.poll() is None
    told = reload.poll()
    assert told is not None
    assert [str(problem) for problem in told.problems] == [
        "bounds.waiting: 0 could mean at once or never; use off to disable it"
    ]
    assert told.changed == ()
    assert told.config is reload.config
    assert reload.config.rules.waiting.limit == 300.0
    assert reload.poll() is None
    path.write_text("bounds: {waiting: 7m}", "utf-8")
    assert reload.poll() is None
    mended = reload.poll()
    assert mended is not None
    assert mended.problems == ()


def test_a_file_that_is_gone_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("mode: enforce", "utf-8")
    reload = follow(path)
    path.unlink()
    assert reload.poll() is None
    told = reload.poll()
    assert told is not None
    assert told.problems == (Problem(str(path), "cannot be read: No such file or directory"),)
    assert reload.config.settings.mode == "enforce"
    assert reload.poll() is None
    path.write_text("mode: enforce", "utf-8")
    assert reload.poll() is None
    back = reload.poll()
    assert back is not None
    assert (back.problems, back.changed) == ((), ())


def test_a_signal_takes_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("mode: observe", "utf-8")
    reload = follow(path)
    path.write_text("mode: enforce", "utf-8")
    assert [change.path for change in reload.reload().changed] == ["bounds.jitter", "mode"]
    assert reload.poll() is None
    path.write_text("mode: [", "utf-8")
    assert reload.reload().problems
    assert reload.config.settings.mode == "enforce"


def test_the_first_reading_has_to_be_good(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        follow(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    bad.write_text("mode: kill", "utf-8")
    with pytest.raises(ConfigError):
        follow(bad)


def test_the_environment_is_that_of_the_start(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("mode: observe", "utf-8")
    env = HOME | {"AGENT_SIDECAR__MODE": "enforce"}
    reload = Reload(path, env, KINDS)
    env["AGENT_SIDECAR__MODE"] = "observe"
    assert reload.reload().changed == ()
    assert reload.config.settings.mode == "enforce"


def test_what_counts_from_the_next_start_is_said() -> None:
    old = read("")
    taken = decide(old, "{listen: '127.0.0.1:1', state_dir: /x, mode: enforce}", HOME, KINDS)
    assert taken.waiting == ("listen", "state_dir")
    assert "mode" in {change.path for change in taken.changed}


def test_changes_of_agents_are_named_by_agent() -> None:
    old = read("agents: [{kind: claude-code}, {kind: redcode}]")
    new = "agents: [{kind: redcode}, {kind: claude-code, attended: true, bounds: {idle: 1h}}]"
    changed = decide(old, new, HOME, KINDS).changed
    assert [change.path for change in changed] == [
        "agents.claude-code.attended",
        "agents.claude-code.rules.idle.limit",
    ]


def test_an_agent_that_comes_or_goes_is_a_change() -> None:
    changed = decide(read("agents: [{kind: claude-code}]"), "agents: [{kind: redcode}]", HOME, KINDS).changed
    assert {change.path.split(".")[1] for change in changed} == {"claude-code", "redcode"}
    begun = decide(read(""), "agents: [{kind: redcode}]", HOME, KINDS).changed
    assert Changed("agents.redcode.kind", None, "redcode") in begun
