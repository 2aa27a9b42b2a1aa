"""A place for a real agent where it can reach nothing but the scripted model.

One network namespace holds both: the agent has no other network, its environment is written from nothing and
its home is a scratch directory. Files and unix sockets are shared with the outside, so a sidecar or a test
reads transcripts and reaches control sockets as it would in a pod.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.e2e.process import Piped, Terminal, until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PORT = 8377  # the namespace is ours alone, so the port is always free
MODEL = Path(__file__).with_name("model.py")
UNSHARE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
ENTER = ["--net"] if os.geteuid() == 0 else ["--user", "--net", "--preserve-credentials"]


def namespace_of(pid: str) -> Path | None:
    """Name a process's network namespace; none where it has gone or is not ours to see."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:
        return None


class Sandbox:
    """The namespace, the model in it, and every process started there; leaving it ends them all."""

    def __init__(self) -> None:
        # Not below pytest's long directories: a unix socket's path has to fit in 108 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="e2e-"))
        self.home, self.work, self.tmp = (self.root / name for name in ("home", "work", "tmp"))
        for directory in (self.home, self.work, self.tmp):
            directory.mkdir()
        self.model_url = f"http://127.0.0.1:{PORT}"
        self._socket = self.root / "model.sock"
        self._started: list[Piped | Terminal] = []

    def __enter__(self) -> Self:
        model = [sys.executable, str(MODEL), "--port", str(PORT), "--socket", str(self._socket)]
        self._model = subprocess.Popen([*UNSHARE, "--", *model, "--raise-loopback"])
        try:
            until(self._answers, "the model listens")
            self._namespace = namespace_of(str(self._model.pid))
            # Leaving kills whatever lives in the namespace, so it had better not be the machine's.
            assert self._namespace
            assert self._namespace != namespace_of("self")
        except BaseException:
            self._model.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_everything()
        for process in self._started:
            process.close()
        self._model.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def holder(self) -> int:
        """The process that keeps the namespace."""
        return self._model.pid

    def inside(self, command: Sequence[str]) -> list[str]:
        """Spell a command so that it runs in the namespace; it keeps the pid it is started with."""
        return ["nsenter", f"--target={self._model.pid}", *ENTER, "--", *command]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Nothing of the caller's environment comes along, least of all a key or a proxy."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **(extra or {}),
        }

    def run(self, command: Sequence[str], env: Mapping[str, str], seconds: float = 60) -> tuple[int, str]:
        """Run to the end with an empty stdin: exit status and stdout."""
        process = self.start(command, env)
        process.close_stdin()
        status = process.wait(seconds)
        return status, "".join(process.lines)

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> Piped:
        """Start with pipes for stdin and stdout."""
        process = Piped(self.inside(command), self.environment(env), self.work, self.root / "stderr")
        self._started.append(process)
        return process

    def start_terminal(self, command: Sequence[str], env: Mapping[str, str]) -> Terminal:
        """Start with a terminal, as a person would."""
        process = Terminal(self.inside(command), self.environment(env), self.work)
        self._started.append(process)
        return process

    def stats(self) -> dict[str, int]:
        """Count the model's requests: all so far, and those still open."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(5)
            peer.connect(str(self._socket))
            connection = http.client.HTTPConnection("model")
            connection.sock = peer
            connection.request("GET", "/_stats", headers={"Connection": "close"})
            answer: dict[str, int] = json.loads(connection.getresponse().read())
            return answer

    def kill_everything(self) -> None:
        """Kill what lives in the namespace: all of it is ours, tools that lost their parent included."""
        until(self._killed_all, "everything in the namespace is gone")
        self._model.kill()

    def _killed_all(self) -> bool:
        others = self._others()
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not others

    def _others(self) -> list[int]:
        pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        ours = [int(pid) for pid in pids if namespace_of(pid) == self._namespace]
        return [pid for pid in ours if pid != self._model.pid]

    def _answers(self) -> bool:
        try:
            return "open" in self.stats()
        except OSError:
            return False
