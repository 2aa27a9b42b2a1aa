"""Real files beside the transcripts: registrations as written, and what is no transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from sidecar.agents.claude_code.recording import Recording
from sidecar.agents.claude_code.registration import Registration
from sidecar.agents.claude_code.registrations import WAITS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def files(recordings: Path) -> Path:
    return recordings / "claude-code-files" / "2.1.332"


@pytest.mark.parametrize(
    ("name", "status", "waiting_for", "entrypoint"),
    [
        ("sessions_pid.busy_or_idle.json", "idle", None, "sdk-cli"),
        ("sessions_pid.waiting.json", "waiting", "permission prompt", "cli"),
    ],
)
def test_a_registration_as_the_agent_writes_it(
    files: Path, name: str, status: str, waiting_for: str | None, entrypoint: str
) -> None:
    read = msgspec.json.decode((files / name).read_bytes(), type=Registration)
    assert (read.status, read.waiting_for, read.entrypoint) == (status, waiting_for, entrypoint)
    assert read.proc_start.isdecimal()
    assert read.pid_domain is not None
    assert read.pid_domain.endswith("pid:[4026531836]")
    assert waiting_for is None or waiting_for in WAITS


@pytest.mark.parametrize(
    "name", ["stdout_stream_json.bash.jsonl", "stdout_stream_json.o529.jsonl", "hooks_stdin.jsonl"]
)
def test_what_is_no_transcript_gives_no_turn_and_no_error(files: Path, name: str) -> None:
    assert Recording([files / name]).observations() == []
