"""Reads a Containerfile and performs it in directories, for machines without a container engine.

Only what ours uses is known; anything else is an error, so the file cannot outgrow its test unseen. A base image
is stood in for by the machine's own system and the Python that runs the tests, read-only: the steps run as root in
a mount namespace of their own, as an engine's do.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

VARIABLE = re.compile(r"\$\{(\w+)\}")
BASE = """
set -eu
cd {root}
mkdir -p usr etc dev proc tmp opt var
for link in bin lib lib64 sbin; do [ -L $link ] || ln -s usr/$link $link; done
mount --rbind /usr usr && mount -o remount,bind,ro usr
mkdir -p .{python} && mount --bind {python} .{python} && mount -o remount,bind,ro .{python}
mount --rbind /dev dev
mount -t proc proc proc
mount --bind /etc etc && mount -o remount,bind,ro etc
{command}
"""

READ_ONLY = """\
mount --rbind . . && cd "$PWD" && mount -o remount,bind,ro .
mount -t tmpfs -o mode=1777 tmpfs tmp
"""
# How this machine reaches its package registry; a build elsewhere has none of these.
REGISTRY = re.compile(r"(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE$|https?_proxy$|no_proxy$)", re.IGNORECASE)


class Step(NamedTuple):
    """An instruction and what it is given."""

    word: str
    rest: str
    line: int


def steps(text: str) -> list[Step]:
    """The instructions, with their arguments filled in."""
    found: list[Step] = []
    defaults: dict[str, str] = {}
    joined = re.sub(r"\\\n\s*", lambda match: " " * len(match[0]), text)
    for number, line in enumerate(joined.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "ARG":
            name, _, default = rest.partition("=")
            defaults[name] = default
        found.append(Step(word, VARIABLE.sub(lambda match: defaults[match[1]], rest.strip()), number))
    return found


def ignored(path: str, rules: list[str]) -> bool:
    """What a .dockerignore leaves out: the last rule that matches decides, for a path or a folder of it."""
    out = False
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        parts = path.split("/")
        prefixes = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        names = parts if rule.startswith("**/") else prefixes
        if any(fnmatch(name, pattern) for name in names):
            out = not rule.startswith("!")
    return out


class Build:
    """The stages as directories."""

    def __init__(self, context: Path, place: Path) -> None:
        self._context, self._place = context, place
        rules = (context / ".dockerignore").read_text().splitlines()
        self._rules = [rule for rule in rules if rule and not rule.startswith("#")]
        self.root = place
        self.user = "0:0"
        self.env: dict[str, str] = {}
        self.command: list[str] = []
        self._entry: list[str] = []
        self._folder = "/"
        self._stages: dict[str, Path] = {}

    def perform(self, found: list[Step]) -> None:
        for step in found:
            getattr(self, f"_{step.word.lower()}")(step.rest)

    def run(self, command: list[str], **env: str) -> list[str]:
        """Spell a command that runs in the last stage, as its user."""
        user, group = self.user.split(":")
        drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
        limits = ["--bounding-set=-all", "--inh-caps=-all"] if user != "0" else []
        environment = ["env", "-i", *(f"{name}={value}" for name, value in (self.env | env).items())]
        inner = shlex.join(["/usr/sbin/chroot", ".", *drop, *limits, "--", *environment, *command])
        script = BASE.format(
            root=shlex.quote(str(self.root)),
            python=shlex.quote(sys.base_prefix),
            command=f"{READ_ONLY if user != '0' else ''}exec {inner}",
        )
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]

    def _arg(self, _rest: str) -> None:
        """Filled in already."""

    def _from(self, rest: str) -> None:
        image, _, name = rest.partition(" AS ")
        assert image.startswith("docker.io/library/python:"), image
        self.root = self._place / (name or "final")
        self.root.mkdir(parents=True)
        self._stages[name] = self.root
        self.user, self.env, self._folder = "0:0", {"PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"}, "/"

    def _workdir(self, rest: str) -> None:
        self._folder = rest
        self._inside(rest).mkdir(parents=True, exist_ok=True)

    def _copy(self, rest: str) -> None:
        *sources, target = rest.split()
        origin = self._context
        if sources[0].startswith("--from="):
            origin = self._stages[sources.pop(0).removeprefix("--from=")]
        place = self._inside(os.path.normpath(Path(self._folder, target)))
        for source in sources:
            path = origin / source.lstrip("/")
            ours = origin == self._context
            assert not (ours and ignored(source, self._rules)), f"{source} is not in the build's context"
            if path.is_dir():
                leave = self._left_out if ours else None
                shutil.copytree(path, place, symlinks=True, ignore=leave, dirs_exist_ok=True)
            else:
                to = place / path.name if target.endswith("/") else place
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)

    def _left_out(self, folder: str, names: list[str]) -> set[str]:
        inner = Path(folder).relative_to(self._context)
        return {name for name in names if ignored(str(inner / name), self._rules)}

    def _run(self, rest: str) -> None:
        env = {name: value for name, value in os.environ.items() if REGISTRY.match(name)}
        subprocess.run(self.run(["sh", "-ec", f"cd {self._folder} && {rest}"], **env), check=True)

    def _user(self, rest: str) -> None:
        self.user = rest

    def _env(self, rest: str) -> None:
        self.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))

    def _label(self, _rest: str) -> None:
        """Says nothing to a running container."""

    def _expose(self, _rest: str) -> None:
        """Nor does this."""

    def _entrypoint(self, rest: str) -> None:
        self._entry = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.command = [*self._entry, *json.loads(rest)]

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")
