"""The image: its file is sound, and its steps, done without an engine, give something that runs as it will have to."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.process import until
from tests.e2e.sidecar import free_port
from tests.k8s.containerfile import Build, ignored, steps
from tests.k8s.rendering import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = ROOT / "k8s" / "image" / "Containerfile"
SIZE = 200  # MB that may lie above the base
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")


def test_the_file_is_sound() -> None:
    found = steps(FILE.read_text())
    words = [step.word for step in found]
    stages = [step for step in found if step.word == "FROM"]
    assert len(stages) > 1, "what builds is not what runs"
    last = found[found.index(stages[-1]) + 1 :]
    assert [step.rest for step in last if step.word == "USER"] == ["10001:10001"], "a number, and not root"
    assert {step.word for step in last} & {"RUN", "ADD"} == set(), "nothing runs in what is shipped"
    assert all(step.rest.startswith("--from=build /opt/") for step in last if step.word == "COPY")
    assert "ADD" not in words
    assert all(json.loads(step.rest) for step in found if step.word in ("ENTRYPOINT", "CMD")), "no shell"
    for stage in stages:
        image = stage.rest.partition(" AS ")[0]
        assert re.fullmatch(r"docker\.io/library/python:\d+\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", image)
    for step in found:
        if step.word == "RUN" and "pip" in step.rest:
            assert "--no-cache-dir" in step.rest or "venv" in step.rest
        assert not re.search(r"(?i)password|token|secret|curl|wget|apt", step.rest), step.rest
    assert not any(machine in FILE.read_text() for machine in ("x86_64-linux", "aarch64-linux")), (
        "any machine"
    )


def test_only_what_is_needed_is_sent_to_the_build() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    sent = ("pyproject.toml", "sidecar", "sidecar/cli.py", "k8s/image/runtime.py", "LICENSE")
    kept = (
        ".git",
        ".e2e/claude",
        "tests",
        "k8s/README.md",
        "sidecar/__pycache__/x.pyc",
        "sidecar/a/__pycache__",
    )
    assert [path for path in sent if ignored(path, rules)] == []
    assert [path for path in kept if not ignored(path, rules)] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    place = tmp_path_factory.mktemp("image")
    build = Build(ROOT, place)
    build.perform(steps(FILE.read_text()))
    yield build
    shutil.rmtree(place)


@needs_root
@pytest.mark.timeout(300)  # the build fetches what the package depends on
def test_what_it_builds_runs_read_only_and_unprivileged(built: Build) -> None:
    port = free_port()
    env = {
        "AGENT_SIDECAR__LISTEN": f"127.0.0.1:{port}",
        "AGENT_SIDECAR__STATE_DIR": "/tmp",  # noqa: S108 - the container's own
        "HOME": "/",
    }
    with subprocess.Popen(built.run(built.command, **env)) as running:
        try:
            text = until(lambda: scrape(port), "a scrape")
        finally:
            end(running.pid)
    assert 'agent_sidecar_info{config_hash="' in text
    files = [path for path in built.root.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    sys.stderr.write(f"\nimage: {size:.0f} MB above its base, {len(files)} files\n")
    assert size < SIZE
    names = {str(path.relative_to(built.root)) for path in files}
    assert not [name for name in names if "/site-packages/pip/" in name or name.startswith("src")]
    probe = ["python", "-c", "import os; print(os.getuid(), os.access('/opt/agent-sidecar', os.W_OK))"]
    told = subprocess.run(built.run(probe), capture_output=True, text=True, check=True).stdout
    assert told == "10001 False\n"


def end(parent: int) -> None:
    """End the first process of the container, and all others with it: what changes its user outlives its parent."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)


def scrape(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@needs_root
@pytest.mark.timeout(300)
def test_the_host_it_carries_runs_where_there_is_no_python_and_no_c_library(
    built: Build, tmp_path: Path
) -> None:
    # Copied there as the init container does it. The agent is a program that needs nothing: a loader, asked for
    # its version.
    root = tmp_path / "root"
    for folder in ("opt", "run", "dev", "proc"):
        (root / folder).mkdir(parents=True)
    (root / "run").chmod(0o777)
    (root / "dev" / "null").touch()
    subprocess.run(["cp", "-R", f"{built.root}/opt/agent-host/.", f"{root}/opt/agent-host"], check=True)
    loader = "/opt/agent-host/lib/loader"
    python = [loader, "--library-path", "/opt/agent-host/lib", "/opt/agent-host/bin/python3", "-IS"]
    host = [*python, "/opt/agent-host/host.py", "--mode", "plain", "--listen", "unix:/run/c.sock", "--"]
    user = ["/usr/sbin/chroot", "--userspec=10001:10001", str(root)]
    ran = subprocess.run(
        [*user, *host, loader, "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("ld.so ")


@needs_root
def test_the_launcher_finds_the_python_beside_it_and_leaves_the_agent_as_it_was(built: Build) -> None:
    command = ["/opt/agent-host/host", "--mode", "plain", "--listen", "unix:/tmp/c.sock", "--"]
    told = subprocess.run(
        built.run([*command, "sh", "-c", "env; exit 5"]), capture_output=True, text=True, check=False
    )
    assert told.returncode == 5, told.stderr
    names = {line.partition("=")[0] for line in told.stdout.splitlines()}
    assert not names & {"PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD"}
