"""Every setting as a row: what the README's table is compared with.

The words are the docstrings that stand below the attributes. Python drops those, so they are read
from the source: this is for tests and documentation, not for a running sidecar.
"""

from __future__ import annotations

import ast
import inspect as source
import textwrap
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import NODEFAULT, Struct
from msgspec import inspect as i

from sidecar.config.bounds import Span
from sidecar.config.decode import fields, is_optional, plain
from sidecar.config.rules import FLOORS
from sidecar.config.scalars import unit_of
from sidecar.config.settings import Common, Settings
from sidecar.config_units import written
from sidecar.limits import Limit, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sidecar.config.agents import KindSpec


class Setting(Struct, frozen=True):
    """One row. `path` is dotted; `agents[].x` is any agent's, `agents[kind].x` one kind's."""

    path: str
    type: str
    default: str
    allowed: str
    doc: str


_PLAIN: Final[dict[type[i.Type], str]] = {
    i.BoolType: "true or false",
    i.IntType: "number",
    i.FloatType: "number",
    i.StrType: "text",
    i.LiteralType: "word",
    i.ListType: "list",
    i.VarTupleType: "list",
    i.DictType: "map",
    i.AnyType: "anything",
}


def describe_settings(kinds: Mapping[str, KindSpec]) -> list[Setting]:
    """Every setting there is, in the order of the file."""
    rows = list(_rows(Settings, ""))
    rows += _rows(Common, "agents[].")
    for kind, spec in kinds.items():
        rows += _rows(spec.settings, f"agents[{kind}].")
        for control, settings in spec.control_kinds.items():
            rows += _rows(settings, f"agents[{kind}].control[{control}].")
    return rows


def _rows(cls: type[Struct], prefix: str) -> Iterator[Setting]:
    for name, field in fields(cls).items():
        path, inner = prefix + name, plain(field.type)
        bound = _bound_default(path)
        group = inner.cls if isinstance(inner, i.StructType) and not issubclass(inner.cls, Span) else None
        if group is not None and path != "agents[].bounds":  # those are as the top-level ones, row by row
            if is_optional(field.type):
                yield Setting(path, "map or off", "off", "", docs(cls)[field.name])
            yield from _rows(group, f"{path}.")
            continue
        kind = "bound" if bound is not None else _type(field.type)
        default = _default(field) if bound is None else bound
        yield Setting(path, kind, default, _allowed(inner, path), docs(cls)[field.name])


def _type(kind: i.Type) -> str:
    inner = plain(kind)
    word = unit_of(inner) or _PLAIN.get(type(inner), "map")
    off = "null" if isinstance(inner, i.BoolType) else "off"
    return f"{word} or {off}" if is_optional(kind) else word


def _default(field: i.Field) -> str:
    if field.required:
        return "required"
    made = field.default_factory is not NODEFAULT
    value = field.default_factory() if made else field.default
    if value is None:
        return "off" if unit_of(field.type) else ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return (
            written(value) if unit_of(field.type) == "duration" and not isinstance(value, str) else str(value)
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return ""  # empty maps, and what is left to the adapter


def _bound_default(path: str) -> str | None:
    """The default of a bound, from the rules that hold where nothing is said."""
    name = path.removeprefix("bounds.").replace(".", "_")
    default = getattr(Rules(), name, None) if path.startswith("bounds.") else None
    if isinstance(default, Limit):
        return _limit(default)
    if isinstance(default, dict):
        return "; ".join(f"{pattern}: {_limit(limit)}" for pattern, limit in default.items())
    return None


def _limit(limit: Limit) -> str:
    if not limit.limit:
        return "off" if limit.limit is None else limit.action
    warn = "" if limit.warn is None else f", warn {written(limit.warn)}"
    return f"{written(limit.limit)}{warn}, {limit.action}"


def _allowed(kind: i.Type, path: str) -> str:
    kind = plain(kind)
    if isinstance(kind, i.StructType):
        floor = FLOORS.get(path.removeprefix("bounds.").replace(".", "_"))
        least = "" if floor is None else f"; at least {written(floor[0])}"
        return ", ".join(f"{n}{_words(f.type)}" for n, f in fields(kind.cls).items()) + least
    if isinstance(kind, i.DictType):
        return f"your own keys, each: {_allowed(kind.value_type, '') or _type(kind.value_type)}"
    if isinstance(kind, i.IntType | i.FloatType):
        return f"{kind.ge} to {kind.le}" if kind.ge is not None else ""
    return _words(kind).strip(" ()")


def _words(kind: i.Type) -> str:
    kind = plain(kind)
    return f" ({' | '.join(map(str, kind.values))})" if isinstance(kind, i.LiteralType) else ""


@lru_cache
def docs(cls: type[Struct]) -> dict[str, str]:
    """The docstring below each attribute, on one line; KeyError says which one has none."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("msgspec") or not issubclass(each, Struct):
            continue
        tree = ast.parse(textwrap.dedent(source.getsource(each))).body[0]
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for node, below in pairwise(body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[node.target.id] = " ".join(text.value.split())
    return found
