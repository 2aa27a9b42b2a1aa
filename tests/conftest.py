"""What every test shares: the recordings, and a home of its own."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: a machine busy with something else must not fail a property.
settings.register_profile("default", deadline=None)
settings.load_profile("default")

# A shell's background job ignores these, and so would every child that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def recordings() -> Path:
    """Sessions of real agents: `<agent>/<version>/<case>/`."""
    return HERE / "recordings"


@pytest.fixture(autouse=True)
def _home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests away from the agents and settings of whoever runs them."""
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name.startswith(("AGENT_SIDECAR__", "CLAUDE_", "CODEX_", "OPENCODE_", "OTEL_", "XDG_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _loop_that_nobody_runs() -> Iterator[None]:
    """What pytest-asyncio finds as the loop before its own, puts back, and would otherwise leave unclosed."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
