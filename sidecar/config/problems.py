"""What is wrong with a configuration: every finding, each with its path and one sentence."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

Path = tuple[str | int, ...]
Tree = dict[str, Any]
"""A configuration as written: maps, lists and scalars."""

LONGEST_SHOWN: Final = 60
_SECRET: Final = re.compile(r"(?i)pass|secret|token|credential|authorization|api_?key|private")


class FromEnv(str):
    """A value from the environment: text whatever its type, and it knows which variable it was."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, text: str, name: str) -> FromEnv:  # noqa: PYI034 - typing.Self needs no other class here
        """Keep the variable's name beside its text."""
        new = super().__new__(cls, text)
        new.name = name
        return new


class Problem(Struct, frozen=True):
    """One finding. `path` is dotted, empty where it is about the file as a whole."""

    path: str
    text: str

    def __str__(self) -> str:
        """Show it as it is printed, one line."""
        return f"{self.path}: {self.text}" if self.path else self.text


class ConfigError(Exception):
    """The configuration cannot be used; `problems` has every reason, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def dotted(path: Path) -> str:
    """A path as it is shown: `agents.0.url`. Odd keys are quoted and cut."""
    return ".".join(_key(part) for part in path)


def _key(part: str | int) -> str:
    text = str(part)
    plain = re.fullmatch(r"[\w*?@/:+-]{1,60}", text, re.ASCII)
    return text if plain else repr(text[:LONGEST_SHOWN])


def shown(value: object) -> str:
    """A value as a sentence quotes it: as YAML has it, short, on one line."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "off"}[value]
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def secret(key: str) -> bool:
    """Whether a key's name says that its value must not be repeated in a message."""
    return _SECRET.search(key) is not None
