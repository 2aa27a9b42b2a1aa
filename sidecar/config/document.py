"""A YAML text as a plain tree: safe tags only, no duplicate keys, and bounded in every direction.

PyYAML alone takes the last of two equal keys, follows aliases without end and recurses as deep as
a text says. So the events are counted first (they need no recursion), then the composed nodes are
checked, and only then anything is constructed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import yaml

from sidecar.config.problems import ConfigError, Path, Problem, Tree, dotted

LARGEST: Final = 1 << 20
"""Bytes of a configuration file; a ConfigMap cannot be larger."""

DEEPEST: Final = 32
MOST_VALUES: Final = 20_000
"""Values in a file, each alias counted as all that it stands for."""

_STR: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"


def parse(text: str) -> Tree:
    """The one document of a text as a map; raises ConfigError."""
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise _error(f"is larger than {LARGEST} bytes")
    try:
        _count(text)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            _check(node)
            tree = {} if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _error(f"is not valid YAML: {error.problem}{_where(error.problem_mark)}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _error(f"is not valid YAML: {' '.join(str(error).split())}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise _error("is not a map of settings")
    return {key: _unshared(value) for key, value in tree.items()}


def _unshared(value: object) -> object:
    """A copy in which aliases have a value each, so that an override changes one place only."""
    if isinstance(value, dict):
        return {key: _unshared(each) for key, each in value.items()}
    return [_unshared(each) for each in value] if isinstance(value, list) else value


def _error(text: str) -> ConfigError:
    return ConfigError([Problem("", f"the configuration {text}")])


def _where(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"


def _count(text: str) -> None:
    """Depth and size by events alone, which PyYAML yields without recursion."""
    depth = values = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _error(f"is nested deeper than {DEEPEST} levels")
        if values > MOST_VALUES:
            raise _error(f"has more than {MOST_VALUES} values")


class _Extent(NamedTuple):
    values: int
    height: int


_Known = dict[int, _Extent | None]


def _check(root: yaml.Node | None) -> None:
    problems: list[Problem] = []
    extent = _Extent(0, 0) if root is None else _extent(root, (), {}, problems)
    if extent.values > MOST_VALUES:
        raise _error(f"has more than {MOST_VALUES} values, aliases counted as what they stand for")
    if extent.height > DEEPEST:
        raise _error(f"is nested deeper than {DEEPEST} levels, aliases counted as what they stand for")
    if problems:
        raise ConfigError(problems)


def _extent(node: yaml.Node, path: Path, known: _Known, out: list[Problem]) -> _Extent:
    """How much a node stands for, each alias in full; notes bad keys on the way."""
    if id(node) in known:
        extent = known[id(node)]
        if extent is None:
            raise _error(f"contains itself{_where(node.start_mark)}")
        return extent
    known[id(node)] = None
    parts: list[_Extent] = []
    if isinstance(node, yaml.SequenceNode):
        parts = [_extent(item, (*path, i), known, out) for i, item in enumerate(node.value)]
    elif isinstance(node, yaml.MappingNode):
        named = _named(node, path, out)
        parts = [_extent(value, (*path, name), known, out) for name, value in named.items()]
    values = 1 + sum(part.values for part in parts)
    extent = known[id(node)] = _Extent(values, 1 + max((part.height for part in parts), default=0))
    return extent


def _named(node: yaml.MappingNode, path: Path, out: list[Problem]) -> dict[str, yaml.Node]:
    """The values of a map by key; notes keys that are no texts or come twice."""
    named: dict[str, yaml.Node] = {}
    lines: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag not in (_STR, _MERGE):
            out.append(Problem(dotted(path), f"has a key that is not text (line {line}); put it in quotes"))
            continue
        name = str(key.value)
        if name in named:
            out.append(Problem(dotted((*path, name)), f"is set twice (lines {lines[name]} and {line})"))
        named[name], lines[name] = value, line
    return named
