"""Single values: what the file (or the environment, where all is text) may say for each type.

Every function returns the value or raises ValueError with the rest of a sentence that begins with
the value as written.
"""

from __future__ import annotations

import math
import re
from typing import Final

from msgspec import NODEFAULT
from msgspec import inspect as i

from sidecar import config_units as units
from sidecar.config.problems import FromEnv

TRUE: Final = ("true", "yes", "on")
FALSE: Final = ("false", "no", "off")


def is_off(value: object) -> bool:
    """Whether a value disables an optional setting: `off`, which YAML reads as false, or null."""
    return value is None or value is False or value in ("off", "null")


def unit_of(kind: i.Type) -> str | None:
    """The mark of a type, through an optional one."""
    if isinstance(kind, i.UnionType):
        return next((unit for member in kind.types if (unit := unit_of(member))), None)
    unit = (kind.extra or {}).get("unit") if isinstance(kind, i.Metadata) else None
    return None if unit is None else str(unit)


def duration(value: object, *, optional: bool) -> float:
    """Seconds of a duration. Bare numbers and zero are refused: both were meant in two ways."""
    disable = "use off to disable it" if optional else "it cannot be disabled"
    if value is False or value == "off":
        raise ValueError(f"is not possible here; write a duration such as {units.EXAMPLES}")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"is not a duration; write one such as {units.EXAMPLES}")  # noqa: TRY004
    if value in (0, "0"):
        raise ValueError(f"could mean at once or never; {disable}")
    seconds = units.seconds(str(value))
    if seconds == 0:
        raise ValueError(f"could mean at once or never; {disable}")
    return seconds


def text_of(unit: str, value: object, home: str) -> str:
    """A path, URL or address; `~` stands for `home`."""
    if not isinstance(value, str):
        raise ValueError("is not text; put it in quotes")  # noqa: TRY004
    text = units.TEXTS[unit](str(value))
    return home.rstrip("/") + text[1:] if unit == "path" and text.startswith("~/") else text


def literal(kind: i.LiteralType, value: object) -> object:
    """One of a closed set of words."""
    word = "off" if value is False else value
    for allowed in kind.values:
        if isinstance(word, str) and word == allowed:
            return allowed
    raise ValueError(f"is not one of: {', '.join(map(str, kind.values))}")


def boolean(value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, FromEnv) and value.lower() in TRUE + FALSE:
        return value.lower() in TRUE
    raise ValueError("is not true or false")


def number(kind: i.IntType | i.FloatType, value: object) -> float:
    """A number within its range."""
    whole = isinstance(kind, i.IntType)
    given: object = value
    if isinstance(value, FromEnv):
        plain = re.fullmatch(r"-?\d+" if whole else r"-?\d+(\.\d+)?", value)
        given = None if plain is None else (int(value) if whole else float(value))
    right = int if whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, right) or not math.isfinite(given):
        raise ValueError(f"is not a {'whole ' if whole else ''}number")
    low, high = kind.ge, kind.le
    if (low is not None and given < low) or (high is not None and given > high):
        raise ValueError(f"is out of range; allowed: {_range(low, high)}")
    return int(given) if whole else float(given)


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"{low} or more"
    return f"{high} or less" if low is None else f"{low} to {high}"


def string(kind: i.StrType, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError("is not text; put it in quotes")  # noqa: TRY004
    text = str(value)
    if not text:
        raise ValueError("is empty; leave the setting out instead")
    if kind.pattern is not None and not re.search(kind.pattern, text):
        raise ValueError(f"does not match {kind.pattern}")
    return text


def scalar(kind: i.Type, value: object, home: str, *, optional: bool = False) -> object:
    """A single value of the declared type."""
    if isinstance(kind, i.Metadata):
        unit = unit_of(kind)
        if unit is None:
            return scalar(kind.type, value, home, optional=optional)
        return duration(value, optional=optional) if unit == "duration" else text_of(unit, value, home)
    if isinstance(kind, i.LiteralType):
        return literal(kind, value)
    if isinstance(kind, i.BoolType):
        return boolean(value)
    if isinstance(kind, i.IntType | i.FloatType):
        return number(kind, value)
    if isinstance(kind, i.StrType):
        return string(kind, value)
    raise TypeError(f"a setting cannot be a {type(kind).__name__}")


def default_path(field: i.Field) -> str | None:
    """A default that names a path, which still has to find the home directory."""
    if unit_of(field.type) != "path" or field.default is NODEFAULT:
        return None
    return field.default if isinstance(field.default, str) else None
