"""What a changed file means: the new configuration, or the old one and why.

The caller schedules: `poll` every few seconds, `reload` on SIGHUP. The path is opened anew each
time, so the `..data` link that Kubernetes swaps below a mounted ConfigMap is followed, and only
content counts: times and inodes change without it. A change has to be read twice before it
counts, since half of a file that is being written can be a valid one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from sidecar.config.load import Config, effective, load, text_of
from sidecar.config.problems import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sidecar.config.agents import KindSpec

AT_START: Final = (
    *("listen", "scrape_listen", "allowed_hosts", "state_dir", "token_file"),
    *("telemetry", "metrics"),
)
"""Settings that count from the next start: they hold sockets, open files, routes and exporters."""


class Changed(Struct, frozen=True):
    """One setting that is different: its path, what it was and what it is."""

    path: str
    old: Any
    new: Any


class Reloaded(Struct, frozen=True):
    """What a reload came to. With problems the configuration is the old one."""

    config: Config
    problems: tuple[Problem, ...] = ()
    changed: tuple[Changed, ...] = ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The changed settings that count from the next start only."""
        return tuple(each.path for each in self.changed if each.path.split(".")[0] in AT_START)


def decide(
    old: Config, text: str | ConfigError, env: Mapping[str, str], kinds: Mapping[str, KindSpec]
) -> Reloaded:
    """What a text that was read (or could not be) makes of the configuration that runs."""
    if isinstance(text, ConfigError):
        return Reloaded(old, text.problems)
    try:
        new = load(text, env, kinds)
    except ConfigError as error:
        return Reloaded(old, error.problems)
    return Reloaded(new, (), difference(old, new))


def difference(old: Config, new: Config) -> tuple[Changed, ...]:
    """The effective settings that differ, presets and environment included, by path."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    _leaves(effective(old), "", before)
    _leaves(effective(new), "", after)
    paths = sorted(before.keys() | after.keys())
    pairs = [Changed(path, before.get(path), after.get(path)) for path in paths]
    return tuple(each for each in pairs if each.old != each.new)


def _leaves(tree: dict[str, Any], path: str, into: dict[str, Any]) -> None:
    for key, value in tree.items():
        at = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value:
            _leaves(value, at, into)
        else:
            into[at] = value


class Reload:
    """Follows one file. Holds the configuration that is in force."""

    def __init__(self, path: Path, env: Mapping[str, str], kinds: Mapping[str, KindSpec]) -> None:
        """Read the file for the first time; raises ConfigError."""
        self._path = path
        self._env = dict(env)
        self._kinds = kinds
        self._seen: str | ConfigError = text_of(path)
        self._settling: str | None = None
        self.config = load(self._seen, self._env, kinds)

    def poll(self) -> Reloaded | None:
        """What a changed content came to, once it is the same at two polls in a row."""
        found = self._read()
        if _same(found, self._seen):
            self._settling = None
            return None
        if self._settling != str(found):
            self._settling = str(found)
            return None
        return self._take(found)

    def reload(self) -> Reloaded:
        """Read it now and take it as it is: somebody asked."""
        return self._take(self._read())

    def _read(self) -> str | ConfigError:
        try:
            return text_of(self._path)
        except ConfigError as error:
            return error

    def _take(self, found: str | ConfigError) -> Reloaded:
        self._seen, self._settling = found, None
        reloaded = decide(self.config, found, self._env, self._kinds)
        self.config = reloaded.config
        return reloaded


def _same(one: str | ConfigError, other: str | ConfigError) -> bool:
    return type(one) is type(other) and str(one) == str(other)
