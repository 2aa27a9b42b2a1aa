"""`python -m dashboards.stack` as a command: Ctrl-C ends all of it, a port that is taken is named."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dashboards.stack.stack import Ports
from tests.e2e.kit import processes_below, programs
from tests.e2e.sidecar import ROOT, free_port


def started(ports: list[int]) -> subprocess.Popen[str]:
    options = [f"--{name}={port}" for name, port in zip(Ports._fields, ports, strict=True)]
    where = ["--programs", str(programs("own"))]
    return subprocess.Popen(
        [sys.executable, "-m", "dashboards.stack", *where, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(60)
def test_ctrl_c_ends_every_process() -> None:
    ports = [free_port() for _ in Ports._fields]
    stack = started(ports)
    assert stack.stdout
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(stack.stdout.readline())
        assert lines[-1]
    for port in ports:
        assert any(f"http://127.0.0.1:{port}/" in line for line in lines)
    (root,) = Path("/proc", str(stack.pid), "task", str(stack.pid)).glob("children")
    children = root.read_text().split()
    assert len(children) == 6
    time.sleep(1)  # the agents are up too
    stack.send_signal(signal.SIGINT)
    out, errors = stack.communicate(timeout=30)
    assert (stack.returncode, errors) == (0, ""), out
    assert [pid for pid in children if Path("/proc", pid).exists()] == []
    assert not any("agent-sidecar-stack-" in line for line in processes_below(Path("agent-sidecar-stack-")))


@pytest.mark.timeout(60)
def test_a_port_that_is_taken_is_named_and_nothing_stays() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        stack = started([free_port(), port, free_port(), free_port()])
        out, errors = stack.communicate(timeout=30)
    assert (stack.returncode, out) == (1, "")
    assert errors == (
        f"stack: port {port} for Alertmanager: Address already in use; choose another with --alertmanager PORT\n"
    )
