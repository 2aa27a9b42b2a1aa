"""A pod on one machine: containers with pid and mount namespaces of their own, one network, shared volumes.

What a kubelet does is done with the same kernel parts: each container has a root of its own that is read-only
but for its volumes and its termination log, and for an agent's /tmp; its processes are an unprivileged user
without capabilities; an emptyDir is a directory open to all, or with an fsGroup to that group by setgid. Making all
this takes root; what runs inside has none of it. (A little over the usual length: one place says what a
container is.)
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import shlex
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.e2e.claude import BINARY, STREAM
from tests.e2e.process import Json, Piped, until
from tests.e2e.sidecar import CONFIG, ROOT, Sidecar, merged

if TYPE_CHECKING:
    from tests.e2e.sandbox import Sandbox

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
VENV, CODE, AGENT = "/opt/venv", "/opt/checkout", "/opt/claude"
PYTHON = f"{VENV}/bin/python"
HOME, CONTROL, STATE, SETTINGS, TASK = (
    "/agent",
    "/run/agent",
    "/var/lib/agent-sidecar",
    "/etc/agent-sidecar",
    "/task",
)
PORT = 9475

ROOTFS = """
set -eu
mount -t tmpfs -o mode=755 tmpfs {root}
cd {root}
mkdir -p dev dev/shm etc proc root run tmp usr var
for link in bin lib lib64 sbin; do ln -s usr/$link $link; done
place() {{ mkdir -p ."$2"; mount --bind "$1" ."$2"; [ "$3" = rw ] || mount -o remount,bind,ro ."$2"; }}
place /usr /usr ro
{places}
printf 'root:x:0:0::/root:/bin/sh\\nagent:x:10001:10001::/agent:/bin/sh\\nother:x:10002:10002::/:/bin/sh\\n' >etc/passwd
for device in null zero full random urandom; do : >dev/$device; mount --bind /dev/$device dev/$device; done
: >dev/termination-log; mount --bind {log} dev/termination-log
{tmp}
mount -t proc proc proc
mount -o remount,ro .
exec /usr/sbin/chroot . setpriv --reuid={user} --regid={user} {groups} --no-new-privs --bounding-set=-all --inh-caps=-all \\
  -- {command}
"""


class Mount(NamedTuple):
    """A volume as a container sees it."""

    volume: str
    path: str
    writable: bool = False


class User(NamedTuple):
    """Who a container runs as."""

    uid: int
    group: int | None = None  # the pod's fsGroup

    @property
    def groups(self) -> str:
        return "--clear-groups" if self.group is None else f"--groups={self.group}"


class Pod:
    """The volumes of a pod whose network is a sandbox's, and the containers in it."""

    def __init__(self, sandbox: Sandbox, group: int | None = None) -> None:
        self.sandbox = sandbox
        self._group = group
        for name in ("home", "control", "state", "settings", "task"):
            self._empty_dir(self.volume(name))

    def volume(self, name: str) -> Path:
        return self.sandbox.root / "volumes" / name

    def told(self, name: str) -> Path:
        """A container's termination log, which becomes its message in the pod's status."""
        return self.sandbox.root / f"{name}.terminated"

    def _empty_dir(self, path: Path) -> None:
        path.mkdir(parents=True)
        path.chmod(0o777)
        if self._group is not None:
            os.chown(path, -1, self._group)
            path.chmod(0o2777)

    def container(self, name: str, user: User, mounts: list[Mount], command: list[str]) -> list[str]:
        """Spell a command that becomes process 1 of a container."""
        root = self.sandbox.root / "roots" / name
        root.mkdir(parents=True, exist_ok=True)
        places = [
            (sys.prefix, VENV, "ro"),
            (sys.base_prefix, sys.base_prefix, "ro"),
            (str(ROOT / "sidecar"), f"{CODE}/sidecar", "ro"),
            *((str(self.volume(m.volume)), m.path, "rw" if m.writable else "ro") for m in mounts),
        ]
        if name == "agent":
            places.append((str(BINARY.resolve().parent), AGENT, "ro"))
        self.told(name).touch()
        self.told(name).chmod(0o666)
        script = ROOTFS.format(
            root=shlex.quote(str(root)),
            log=shlex.quote(str(self.told(name))),
            tmp="mount -t tmpfs -o mode=1777,size=256m tmpfs tmp" if name == "agent" else "",
            places="\n".join(shlex.join(["place", *place]) for place in places),
            user=user.uid,
            groups=user.groups,
            command=shlex.join(command),
        )
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]


class Container:
    """Process 1 of a container, which the tests reach from outside of it."""

    def __init__(self, outer: int) -> None:
        self._children = Path(f"/proc/{outer}/task/{outer}/children")
        self.pid = until(self._first, "the container's first process")

    def _first(self) -> int:
        return int((self._children.read_text().split() or ["0"])[0])

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def namespaces(self) -> dict[str, str]:
        return {kind: str(Path(f"/proc/{self.pid}/ns/{kind}").readlink()) for kind in ("mnt", "net", "pid")}

    def root(self, path: str) -> Path:
        """A path as the container sees it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def status(self, field: str) -> str:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(field + ":"))


class Agent:
    """The container of Claude Code behind a host, which is its process 1."""

    def __init__(self, pod: Pod, user: User, *options: str, arguments: list[str] = STREAM) -> None:
        self._pod = pod
        config = pod.volume("home") / ".claude"
        if not config.exists():
            config.mkdir(mode=0o700)
            permissions = {"allow": ["Bash(*)"], "defaultMode": "default"}
            (config / "settings.json").write_text(json.dumps({"permissions": permissions}))
            for path in (config, config / "settings.json"):
                os.chown(path, user.uid, user.uid)
        self.config = config
        host = ["/usr/bin/env", "-C", HOME, PYTHON, "-IS", f"{CODE}/sidecar/host.py"]
        listen = ["--listen", f"unix:{CONTROL}/{{pid}}.sock", *options]
        command = [*host, *listen, "--", f"{AGENT}/{BINARY.resolve().name}", *arguments]
        mounts = [
            Mount("home", HOME, writable=True),
            Mount("control", CONTROL, writable=True),
            Mount("task", TASK),
        ]
        self.stream: Piped = pod.sandbox.start(
            pod.container("agent", user, mounts, command),
            {
                "ANTHROPIC_API_KEY": "sk-ant-nobody",
                "ANTHROPIC_BASE_URL": pod.sandbox.model_url,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "CLAUDE_CONFIG_DIR": f"{HOME}/.claude",
                "DISABLE_AUTOUPDATER": "1",
                "HOME": HOME,
                "TMPDIR": "/tmp",  # noqa: S108 - the container's own
            },
        )
        self.container = Container(self.stream.pid)

    def registrations(self) -> dict[str, Json]:
        """What is registered in the volume, by file name."""
        found: dict[str, Json] = {}
        for path in (self.config / "sessions").glob("*.json"):
            text = path.read_text()
            if text.endswith("}"):
                found[path.name] = json.loads(text)
        return found

    def kill(self) -> None:
        """End the container at once, as when its memory runs out."""
        self.container.signal(signal.SIGKILL)
        self.stream.wait()


class PodSidecar(Sidecar):
    """The sidecar's container; what it serves is asked for from within the pod's network."""

    def __init__(self, pod: Pod, user: User, **config: object) -> None:
        self._pod, self._user = pod, user
        self.root = pod.sandbox.root
        self.errors = self.root / "stderr"
        self.lines = []
        places: Json = {
            "listen": f"127.0.0.1:{PORT}",
            "scrape_listen": f"127.0.0.1:{PORT + 1}",
            "state_dir": STATE,
            "actions": {"hold_file": f"{SETTINGS}/hold"},
            "agents": [
                {
                    "kind": "claude-code",
                    "config_dir": f"{HOME}/.claude",
                    "control": {"kind": "host", "url": f"unix:{CONTROL}/*.sock"},
                }
            ],
        }
        self._generation = 0
        self.settings = merged(merged(CONFIG, places), dict(config))
        self.env = {}
        self.configure(json.dumps(self.settings))
        self._child = None

    def configure(self, text: str, hold: str = "0") -> None:
        """Swap both ConfigMaps as a kubelet does: a new directory, and a link that is renamed over the old one."""
        volume = self._pod.volume("settings")
        self._generation += 1
        fresh = volume / f"..2026_{self._generation}"
        fresh.mkdir()
        (fresh / "config.yaml").write_text(text)
        (fresh / "hold").write_text(hold)
        link = volume / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(volume / "..data")
        if self._generation == 1:
            for name in ("config.yaml", "hold"):
                (volume / name).symlink_to(f"..data/{name}")
        for old in volume.glob("..2026_*"):
            if old != fresh:
                shutil.rmtree(old)

    def start(self) -> None:
        mounts = [
            Mount("home", HOME),
            Mount("control", CONTROL),
            Mount("state", STATE, writable=True),
            Mount("settings", SETTINGS),
        ]
        run = [PYTHON, "-m", "sidecar.cli", "run", "--config", f"{SETTINGS}/config.yaml"]
        command = ["/usr/bin/env", f"PYTHONPATH={CODE}", "HOME=/", *run]
        piped = self._pod.sandbox.start(self._pod.container("sidecar", self._user, mounts, command), self.env)
        self.lines = piped.lines
        self._piped = piped
        self.container = Container(piped.pid)
        until(self._ready, "the sidecar is ready")

    def stop(self, number: signal.Signals) -> int:
        self.container.signal(number)
        return self._piped.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if Path(f"/proc/{self.container.pid}").exists():
            self.stop(signal.SIGTERM)

    def get(self, path: str) -> tuple[int, str]:
        return fetch(self.container.pid, PORT, path)

    def _ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False


def fetch(pid: int, port: int, path: str) -> tuple[int, str]:
    """Ask a server on the loopback of another process's network: from a thread that has moved there."""
    answers: list[tuple[int, str] | OSError] = []

    def ask() -> None:
        try:
            enter(pid)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", path)
            response = connection.getresponse()
            answers.append((response.status, response.read().decode()))
            connection.close()
        except OSError as error:
            answers.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    if isinstance(answers[0], OSError):
        raise answers[0]
    return answers[0]


def enter(pid: int) -> None:
    """Move this thread into the network of a process."""
    with Path(f"/proc/{pid}/ns/net").open() as namespace:
        if LIBC.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
