"""From a tree as written to settings structs, with every problem found, not only the first.

What is allowed is read from the struct: its fields, their types, their marks (`config_units`). An
adapter's settings are decoded by the same rules as our own. A struct may have a short form: a
class variable SHORT names the fields that a lone value sets. A struct marked PIECEWISE is built
from its good fields even where others are bad, so that later checks find what is wrong with those.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct
from msgspec import inspect as i

from sidecar.config.problems import FromEnv, Path, Problem, Tree, dotted, secret, shown
from sidecar.config.scalars import default_path, is_off, scalar, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable

S = TypeVar("S", bound=Struct)

BAD: Final = object()
"""In place of a value that cannot be used; its problem is noted."""


@lru_cache
def fields(cls: type[Struct]) -> dict[str, i.Field]:
    """The settings of a struct, by the name that the file uses."""
    info = i.type_info(cls)
    return {field.encode_name: field for field in info.fields} if isinstance(info, i.StructType) else {}


def short_form(cls: type[Struct]) -> tuple[str, ...]:
    """The fields that a lone value in place of the map sets."""
    return tuple(getattr(cls, "SHORT", ()))


def plain(kind: i.Type) -> i.Type:
    """A type without the `| None` that makes it optional."""
    if isinstance(kind, i.UnionType):
        members = [member for member in kind.types if not isinstance(member, i.NoneType)]
        return members[0] if len(members) == 1 else kind
    return kind


def is_optional(kind: i.Type) -> bool:
    """Whether a setting may be off."""
    return isinstance(kind, i.UnionType) and any(isinstance(t, i.NoneType) for t in kind.types)


class Decoder:
    """Decodes trees and keeps what it found wrong."""

    def __init__(self, home: str) -> None:
        """`home` is what `~` stands for."""
        self.problems: list[Problem] = []
        self._home = home

    def say(self, path: Path, text: str, value: object = None) -> None:
        """Note a problem; a value from the environment names its variable."""
        whence = f" (from {value.name})" if isinstance(value, FromEnv) else ""
        self.problems.append(Problem(dotted(path), text + whence))

    def unknown(self, tree: Tree, allowed: Iterable[str], path: Path) -> None:
        """Note every key that is no setting here."""
        names = sorted(allowed)
        for key, value in tree.items():
            if key in names:
                continue
            given = "" if secret(key) else f" (given: {shown(value)})"
            near = get_close_matches(key, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            if f"{key}_file" in names:
                hint = f"; secrets are read from files: use {key}_file"
            self.say((*path, key), f"unknown setting{given}{hint}; allowed here: {', '.join(names)}")

    def struct(self, cls: type[S], tree: object, path: Path) -> S | None:
        """A struct from its map, or from its short form; None when something is wrong."""
        if tree is None:
            tree = {}
        if isinstance(tree, dict):
            self.unknown(tree, fields(cls), path)
            return self.build(cls, tree, path)
        if short_form(cls):
            return self.build(cls, dict.fromkeys(short_form(cls), tree), path, short=True)
        self.say(path, f"{shown(tree)} is not a map; allowed in it: {', '.join(sorted(fields(cls)))}", tree)
        return None

    def build(self, cls: type[S], tree: Tree, path: Path, *, short: bool = False) -> S | None:
        """A struct from those keys of a map that are its fields."""
        values: dict[str, Any] = {}
        for name, field in fields(cls).items():
            at = path if short else (*path, name)
            default = default_path(field)
            if name in tree:
                values[field.name] = self.value(field.type, tree[name], at)
            elif field.required:
                self.say(at, "is required")
                values[field.name] = BAD
            elif default is not None:
                values[field.name] = self.value(field.type, default, at)
        good = {name: value for name, value in values.items() if value is not BAD}
        if len(good) < len(values):
            return cls(**good) if getattr(cls, "PIECEWISE", False) else None
        try:
            return cls(**values)
        except ValueError as error:  # the struct's own check of its fields against each other
            self.say(path, str(error))
            return None

    def value(self, kind: i.Type, value: object, path: Path) -> object:
        """A value of the declared type, or BAD."""
        inner, optional = plain(kind), is_optional(kind)
        if optional and (value in (None, "null") if isinstance(inner, i.BoolType) else is_off(value)):
            return None
        if isinstance(inner, i.StructType):
            found = self.struct(inner.cls, value, path)
            return BAD if found is None else found
        if isinstance(inner, i.UnionType):
            return self._first(inner, value, path)
        if isinstance(inner, i.DictType | i.ListType | i.VarTupleType):
            return self._many(inner, value, path)
        if isinstance(inner, i.AnyType):
            return str(value) if isinstance(value, FromEnv) else value
        return self._scalar(inner, value, path, optional=optional)

    def _scalar(self, kind: i.Type, value: object, path: Path, *, optional: bool) -> object:
        try:
            return scalar(kind, value, self._home, optional=optional)
        except ValueError as error:
            hidden = unit_of(kind) == "url" and "@" in str(value)
            self.say(path, f"{'the URL' if hidden else shown(value)} {error}", value)
            return BAD

    def _first(self, kind: i.UnionType, value: object, path: Path) -> object:
        """The first member of a union that fits; else what the first found wrong."""
        before = len(self.problems)
        wrong: list[Problem] = []
        for member in kind.types:
            found = self.value(member, value, path)
            if found is not BAD:
                del self.problems[before:]
                return found
            wrong = wrong or self.problems[before:]
            del self.problems[before:]
        self.problems += wrong
        return BAD

    def _many(self, kind: i.DictType | i.ListType | i.VarTupleType, value: object, path: Path) -> object:
        if isinstance(kind, i.DictType):
            value = {} if value is None else value
            if not isinstance(value, dict):
                self.say(path, f"{shown(value)} is not a map", value)
                return BAD
            each = {key: self.value(kind.value_type, item, (*path, key)) for key, item in value.items()}
            return BAD if any(item is BAD for item in each.values()) else each
        if not isinstance(value, list):
            self.say(path, f"{shown(value)} is not a list", value)
            return BAD
        items = [self.value(kind.item_type, item, (*path, n)) for n, item in enumerate(value)]
        if any(item is BAD for item in items):
            return BAD
        return items if isinstance(kind, i.ListType) else tuple(items)
