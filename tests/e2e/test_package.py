"""The package as a user gets it: a wheel in an environment of its own, started in an empty home."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.process import until
from tests.e2e.sidecar import ROOT, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.process import Json

pytestmark = pytest.mark.timeout(300)  # an installation fetches what the package depends on

MEMORY = 60.0  # MB of a sidecar that is only scraped
STARTED = 10.0  # seconds to the first scrape; an idle machine takes a tenth of that
DEMO = 60.0  # seconds


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed command."""
    place = tmp_path_factory.mktemp("package")
    python = place / "venv" / "bin" / "python"
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", str(place), str(ROOT)], check=True
    )
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    (wheel,) = place.glob("agent_sidecar-*.whl")
    subprocess.run([str(python), *pip, "install", str(wheel)], check=True)
    return python.with_name("agent-sidecar")


def environment(home: Path, **extra: str) -> dict[str, str]:
    """Nothing of the checkout, nothing of the caller's."""
    return {"PATH": os.defpath, "HOME": str(home), **extra}


@contextmanager
def running(command: Path, home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`agent-sidecar run` without a configuration file; only the port is chosen, so that it is free."""
    env = environment(home, AGENT_SIDECAR__LISTEN=f"127.0.0.1:{port}")
    with (home / "stderr").open("wb") as errors:
        child = subprocess.Popen([command, "run"], env=env, cwd=home, stdout=subprocess.PIPE, stderr=errors)
    with child:
        try:
            yield child
        finally:
            child.terminate()


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def scrape(port: int) -> str:
    try:
        return get(port, "/metrics")
    except OSError:
        return ""


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds."""
    (line,) = re.findall(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(line) / 1000


def test_it_runs_without_a_configuration_small_and_soon(
    command: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    started = time.monotonic()
    with running(command, tmp_path, port) as sidecar:
        text = until(lambda: scrape(port), "a scrape")
        took = time.monotonic() - started
        until(lambda: json.loads(get(port, "/readyz"))["ready"], "ready")
        for path in ("/", "/api/sessions", "/healthz", "/metrics", "/metrics"):
            get(port, path)
        memory = resident(sidecar.pid)
        sidecar.terminate()
        assert sidecar.wait(5) == 0
        assert sidecar.stdout is not None
        assert sidecar.stdout.read() == b"", "no agents, no news"
    assert 'ai_agent_sessions{agent="claude-code",attended="false",phase="idle"} 0.0' in text
    assert f'mode="observe",version="{version(command)}"' in text
    with capsys.disabled():
        print(f"\nidle sidecar: {memory:.1f} MB resident, first scrape after {took:.2f} s")  # noqa: T201
    assert memory <= MEMORY
    assert took <= STARTED


def version(command: Path) -> str:
    asks = "from importlib.metadata import version; print(version('agent-sidecar'))"
    python = command.with_name("python")
    return subprocess.run([python, "-c", asks], check=True, capture_output=True, text=True).stdout.strip()


def test_the_agents_of_this_machine_are_found(command: Path, tmp_path: Path) -> None:
    transcript = tmp_path / ".claude" / "projects" / "-work" / "5f3c1f0e-0000-4000-8000-000000000001.jsonl"
    transcript.parent.mkdir(parents=True)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    message = {"role": "user", "content": "hello"}
    record: Json = {"type": "user", "uuid": "u1", "timestamp": stamp, "sessionId": transcript.stem}
    record |= {"promptId": "p1", "promptSource": "sdk", "entrypoint": "sdk-cli", "message": message}
    transcript.write_text(json.dumps(record) + "\n")
    port = free_port()
    with running(command, tmp_path, port):
        until(lambda: scrape(port), "a scrape")
        until(lambda: json.loads(get(port, "/readyz"))["ready"], "ready")
        (session,) = json.loads(get(port, "/api/sessions"))["sessions"]
    assert (session["session"], session["phase"], session["turn"]["id"]) == (transcript.stem, "model", "p1")


def test_the_demonstration_shows_a_turn_that_is_ended_and_a_session_that_goes_on(
    command: Path, tmp_path: Path
) -> None:
    port = free_port()
    started = time.monotonic()
    shown = subprocess.run(
        [command, "demo", "--listen", f"127.0.0.1:{port}"],
        env=environment(tmp_path, TMPDIR=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.monotonic() - started
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert took < DEMO
    stalled, effective = r"turn      stalled", r"outcome   interrupt: effective"
    expected = [
        rf"http://127\.0\.0\.1:{port}/ ",
        r"The metric to look at: \w+, at http://",
        r"turn      completed",
        r"turn      completed",
        r"verdict   interrupt: no progress for 4\S*s while waiting for the model, limit 4s",
        r"intent    interrupt",
        f"(?:{stalled}.*?{effective}|{effective}.*?{stalled})",
        r"turn      completed",
        r"verdict   reap: idle for 6",
        r"outcome   reap: effective",
        r"exit      0",
    ]
    assert re.search(".*?".join(expected), shown.stdout, re.DOTALL), shown.stdout
    assert "agent-sidecar: interrupt: no progress for 4" in shown.stderr, "the host says why"
    (metric,) = re.findall(r"The metric to look at: (\w+)", shown.stdout)
    assert metric == "ai_agent_sessions_overdue"
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
