"""Settings from the environment: `AGENT_SIDECAR__BOUNDS__WAITING=10m` is `bounds.waiting: 10m`.

Names are the settings' own, in capitals, joined by two underscores; list entries by their number.
They are laid over the tree of the file before anything is decoded, so one set of rules holds for
both. A name that is no setting is an error: a typo must not pass for a setting that is on.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec import inspect as i

from sidecar.config.decode import fields, plain, short_form
from sidecar.config.problems import FromEnv, Problem, Tree, shown
from sidecar.config.settings import Common, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.config.agents import KindSpec

PREFIX: Final = "AGENT_SIDECAR__"

Node = i.Type | dict[str, Any]
"""What may stand at a place: a type, or a map of names to nodes."""


class _Wrong(ValueError):  # noqa: N818 - its text is the rest of a sentence
    pass


def overlay(tree: Tree, env: Mapping[str, str], kinds: Mapping[str, KindSpec]) -> list[Problem]:
    """Lay the variables over a tree, in place; returns what is wrong with any of them."""
    problems = []
    names = [name for name in env if name.startswith(PREFIX)]
    # A kind decides what its entry may say, and a short form what its map contains: those first.
    for name in sorted(names, key=lambda n: (not n.endswith("__KIND"), n.count("__"), n)):
        made: list[tuple[Any, Any]] = []
        try:
            _set(tree, FromEnv(env[name], name), kinds, made)
        except _Wrong as wrong:
            problems.append(Problem(name, str(wrong)))
            for here, key in reversed(made):  # half a path would be a second, odd problem
                here.pop(key)
    return problems


def _set(tree: Tree, value: FromEnv, kinds: Mapping[str, KindSpec], made: list[tuple[Any, Any]]) -> None:
    """Put a value in its place, and note every container that had to be made for that."""
    if not value:
        raise _Wrong("is empty; unset it, or write off to disable the setting")
    node: Node = _of(Settings)
    here: Any = tree
    tokens = value.name.removeprefix(PREFIX).lower().split("__")
    for depth, token in enumerate(tokens):
        where = ".".join(tokens[:depth])
        key = _key(node, token, here, where)
        entry = here[key] if where == "agents" and key < len(here) else {}
        node = _entry(entry, kinds) if where == "agents" else _below(node, key)
        if depth == len(tokens) - 1:
            _put(here, key, node, value)
        else:
            missing = key >= len(here) if isinstance(here, list) else key not in here
            here, above = _enter(here, key, node), here
            made += [(above, key)] if missing else []


def _of(*structs: type[Struct]) -> dict[str, Any]:
    return {name: field.type for cls in structs for name, field in fields(cls).items()}


def _entry(raw: object, kinds: Mapping[str, KindSpec]) -> Node:
    """What an entry of `agents` may say, by the kind it has in the tree."""
    raw = raw if isinstance(raw, dict) else {}
    spec = kinds.get(str(raw.get("kind")))
    if spec is None:
        return _of(Common)
    control = raw.get("control")
    chosen = spec.control_kinds.get(str(control.get("kind"))) if isinstance(control, dict) else None
    named = {"kind": fields(Common)["kind"].type}
    return _of(Common, spec.settings) | {"control": named | (_of(chosen) if chosen else {})}


def _names(node: Node) -> dict[str, Any] | None:
    node = node if isinstance(node, dict) else plain(node)
    if isinstance(node, i.StructType):
        return _of(node.cls)
    return node if isinstance(node, dict) else None


def _below(node: Node, key: str | int) -> Node:
    names = _names(node)
    if names is not None:
        below: Node = names[str(key)]
        return below
    inner = plain(node) if isinstance(node, i.Type) else node
    assert isinstance(inner, i.ListType | i.VarTupleType)  # noqa: S101 - `_key` refused the rest
    return inner.item_type


def _key(node: Node, token: str, here: Any, where: str) -> Any:  # noqa: ANN401 - a tree's place
    """The key or index that a part of a name means at this place."""
    names = _names(node)
    if names is not None:
        if token in names:
            return token
        near = get_close_matches(token, names, n=1)
        hint = f"; did you mean {near[0].upper()}?" if near else ""
        raise _Wrong(f"{where or 'the configuration'} has no setting '{token}'{hint}")
    inner = plain(node) if isinstance(node, i.Type) else node
    if isinstance(inner, i.ListType | i.VarTupleType):
        if token.isascii() and token.isdigit() and int(token) <= len(here):
            return int(token)
        raise _Wrong(f"{where} has {len(here)} entries; the next one is number {len(here)}")
    if isinstance(inner, i.DictType):
        raise _Wrong(f"the keys of {where} are your own; set them in the file")
    raise _Wrong(f"{where} is a single value")


def _put(here: Any, key: Any, node: Node, value: FromEnv) -> None:  # noqa: ANN401 - a tree's place
    inner = node if isinstance(node, dict) else plain(node)
    short = short_form(inner.cls) if isinstance(inner, i.StructType) else ()
    if isinstance(here, list) and key == len(here):
        here.append(None)
    if short:
        place = _enter(here, key, inner)
        for name in short:
            _put(place, name, _below(inner, name), value)
    elif isinstance(inner, dict | i.StructType):
        if value not in ("off", "null"):
            raise _Wrong(f"names a map; go on with one of: {', '.join(sorted(_names(inner) or {})).upper()}")
        here[key] = None
    elif isinstance(inner, i.DictType | i.ListType | i.VarTupleType):
        raise _Wrong("names a list or a map of your own keys; set it in the file")
    else:
        here[key] = value


def _enter(here: Any, key: Any, node: Node) -> Any:  # noqa: ANN401 - a tree's place
    """The container at a place, made where it is missing; a short form is written out."""
    inner = node if isinstance(node, dict) else plain(node)
    wanted: type = list if isinstance(inner, i.ListType | i.VarTupleType) else dict
    if isinstance(here, list) and key == len(here):
        here.append(None)
    found = here[key] if isinstance(here, list) else here.get(key)
    short = short_form(inner.cls) if isinstance(inner, i.StructType) else ()
    if short and found is not None and not isinstance(found, dict):
        found = here[key] = dict.fromkeys(short, found)
    elif found is None or found is False:
        found = here[key] = wanted()
    if not isinstance(found, wanted):
        raise _Wrong(f"the file has {shown(found)} in its place")
    return found
