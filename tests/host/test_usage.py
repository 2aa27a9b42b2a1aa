"""What is refused before anything is started, and how that is said."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sidecar.host import main
from tests.host.driver import HOST, PATIENCE, PYTHON

if TYPE_CHECKING:
    from pathlib import Path

OK = ["--listen", "unix:{home}/control.sock"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*OK], "command after `--`"),
        ([*OK, "--"], "command after `--`"),
        (["--", "true"], "--listen"),
        ([*OK, "true"], "true"),
        ([*OK, "--list", "x", "--", "true"], "unrecognized arguments: --list"),
        ([*OK, "--mode", "acp", "--session", "x", "--", "true"], "--session: with --mode acp"),
        ([*OK, "--mode", "tty", "--", "true"], "stream-json, acp, pty, plain"),
        (
            [*OK, "--share-group", "no-such-group", "--", "true"],
            "--share-group: no such group: no-such-group",
        ),
        ([*OK, "--group", "no-such-group", "--", "true"], "no such group: no-such-group"),
        ([*OK, "--grace", "0", "--", "true"], "86400"),
        ([*OK, "--grace", "-1", "--", "true"], "--grace"),
        ([*OK, "--grace", "nan", "--", "true"], "86400"),
        ([*OK, "--grace", "soon", "--", "true"], "soon"),
        ([*OK, "--line-deadline", "inf", "--", "true"], "86400"),
        ([*OK, "--follow-up", "x", "--", "true"], "--follow-up needs a --prompt"),
        ([*OK, "--prompt", "x", "--mode", "pty", "--", "true"], "--prompt needs --mode stream-json"),
        ([*OK, "--prompt", "@{home}/nothing", "--", "true"], "cannot read"),
        ([*OK, "--token-file", "{home}/nothing", "--", "true"], "no token in"),
        (["--listen", "unix:", "--", "true"], "1 to 107 bytes"),
        (["--listen", "unix:" + "x" * 108, "--", "true"], "1 to 107 bytes"),
        (["--listen", "unix:{home}/no/control.sock", "--", "true"], "no such directory: {home}/no"),
        (["--listen", "{home}/control.sock", "--", "true"], "neither unix:/PATH nor 127.0.0.1:PORT"),
        (["--listen", "127.0.0.1:0", "--", "true"], "--token-file"),
        (["--listen", "127.0.0.1:70000", "--token-file", "{home}/token", "--", "true"], "neither"),
        (
            ["--listen", "0.0.0.0:8000", "--token-file", "{home}/token", "--", "true"],
            "0.0.0.0 is not loopback",
        ),
        (
            ["--listen", ":8000", "--token-file", "{home}/token", "--", "true"],
            "every address is not loopback",
        ),
        (["--listen", "10.0.0.1:80", "--token-file", "{home}/token", "--", "true"], "not loopback"),
        (["--listen", "[::]:80", "--token-file", "{home}/token", "--", "true"], "not loopback"),
        (["--listen", "example.org:80", "--token-file", "{home}/token", "--", "true"], "not loopback"),
        (
            ["--listen", "127.0.0.1:0", "--token-file", "{home}/token", "--group", "0", "--", "true"],
            "--group is for unix",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_status_2_and_a_reason(
    home: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (home / "token").write_text("s3cret")
    with pytest.raises(SystemExit) as leaving:
        sys.exit(main([argument.replace("{home}", str(home)) for argument in arguments]))
    assert leaving.value.code == 2
    assert said.replace("{home}", str(home)) in capfd.readouterr().err
    assert not (home / "control.sock").exists()


def test_a_port_that_is_taken_is_told(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "token").write_text("s3cret")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--listen", f"127.0.0.1:{port}", "--token-file", f"{home}/token", "--", "true"]) == 2
    assert "in use" in capfd.readouterr().err


def test_options_of_the_command_are_never_read(home: Path) -> None:
    line = [
        PYTHON,
        str(HOST),
        "--listen",
        f"unix:{home}/c",
        "--",
        "printf",
        "%s|",
        "--mode",
        "acp",
        "--",
        "--help",
    ]
    ran = subprocess.run(line, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout) == (0, b"--mode|acp|--|--help|")


def test_help_names_every_option_and_leaves_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--help"])
    assert leaving.value.code == 0
    text = capsys.readouterr().out
    for option in (
        "--listen",
        "--mode",
        "--token-file",
        "--group",
        "--share-group",
        "--session",
        "--attended",
        "--grace",
        "{pid}",
    ):
        assert option in text


def test_a_copy_of_the_one_file_runs_anywhere(home: Path) -> None:
    copy = shutil.copy(HOST, home / "elsewhere.py")
    line = [PYTHON, "-I", str(copy), "--listen", f"unix:{home}/c", "--", "echo", "hello"]
    ran = subprocess.run(line, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"hello\n", b"")
