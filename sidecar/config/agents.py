"""The entries of `agents`: the common part, the kind's own settings, its preset and its control.

Nothing here knows an agent. What a kind declares beside its adapter is read through `KindSpec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from sidecar.config.bounds import Bounds
from sidecar.config.decode import Decoder, fields
from sidecar.config.presets import PRESETS
from sidecar.config.problems import Path, Tree, shown
from sidecar.config.rules import Layer, rules
from sidecar.config.scalars import is_off
from sidecar.config.settings import Common
from sidecar.limits import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping


class KindSpec(Protocol):
    """What the configuration has to know of an agent kind."""

    @property
    def settings(self) -> type[Struct]:
        """Its own settings, beside the common ones in the same map."""

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Its presets: entries as they could be written. The one named like the kind always holds."""

    @property
    def control_kinds(self) -> Mapping[str, type[Struct]]:
        """What `control.kind` may be, and the settings of each."""


class Control(Struct, frozen=True):
    """How this agent's turns are ended, where that is not the adapter's own way."""

    kind: str
    settings: Struct


class AgentConfig(Struct, frozen=True):
    """One agent to watch."""

    kind: str
    name: str
    settings: Struct
    rules: Rules
    preset: str | None = None
    attended: bool | None = None
    control: Control | None = None


class Entries:
    """Reads entries; what is wrong goes to the decoder's problems."""

    def __init__(
        self, kinds: Mapping[str, KindSpec], decoder: Decoder, bounds: Bounds, jitter: float
    ) -> None:
        """`bounds` are the top-level ones, which every agent's own are laid over."""
        self._kinds = kinds
        self._decoder = decoder
        self._bounds = bounds
        self._jitter = jitter

    def read(self, entries: list[Any]) -> tuple[AgentConfig, ...]:
        """All entries; their names and what they watch have to differ."""
        made, names, places = list[AgentConfig](), dict[str, int](), dict[tuple[str, str], int]()
        if not entries:
            self._decoder.say(("agents",), "is empty; leave it out to find the agents of this machine")
        for n, raw in enumerate(entries):
            agent = self.entry(raw, ("agents", n))
            if agent is None:
                continue
            first = names.setdefault(agent.name, n)
            # The same sessions twice would be counted twice, and ended by both.
            twin = places.setdefault((agent.kind, repr(agent.settings)), n)
            if first != n:
                taken = f"'{agent.name}' is the name of agents.{first} already; give each its own"
                self._decoder.say(("agents", n, "name"), taken)
            elif twin != n:
                self._decoder.say(("agents", n), f"watches the very same as agents.{twin}; leave one out")
            made.append(agent)
        return tuple(made)

    def entry(self, raw: object, path: Path) -> AgentConfig | None:
        """One entry; None when something in it is wrong."""
        if not isinstance(raw, dict):
            self._decoder.say(path, f"{shown(raw)} is not a map; an agent needs at least its kind")
            return None
        kind = self._chosen(raw.get("kind"), self._kinds, (*path, "kind"), "supported kinds")
        if kind is None:
            self._decoder.build(Common, raw | {"kind": "?"}, path)
            return None
        spec = self._kinds[kind]
        known = presets(spec)
        preset = raw.get("preset")
        if preset is not None:
            preset = self._chosen(preset, known, (*path, "preset"), f"presets of {kind}")
        by_default = preset is None and kind in known
        base = known.get(kind if by_default else preset or "", {})
        tree = laid({k: v for k, v in base.items() if k != "bounds"}, raw)
        self._decoder.unknown(raw, (*fields(Common), *fields(spec.settings), "control"), path)
        common = self._decoder.build(Common, tree, path)
        settings = self._decoder.build(spec.settings, tree, path)
        control = self._control(tree.get("control"), spec, kind, path)
        if common is None or settings is None:
            return None
        made = self.rules(base, common.bounds, path, by_default=by_default)
        name = common.name or preset or kind
        return AgentConfig(kind, name, settings, made, preset, common.attended, control)

    def rules(self, base: Mapping[str, Any], own: Bounds, path: Path, *, by_default: bool = False) -> Rules:
        """The limits of an entry: its own, its preset's, the top-level ones; the nearest wins."""
        below = self._decoder.struct(Bounds, base.get("bounds"), (*path, "preset")) or Bounds()
        layers = [Layer(("bounds",), self._bounds), Layer((*path, "preset"), below)]
        layers = [*(reversed(layers) if by_default else layers), Layer((*path, "bounds"), own)]
        return rules(layers, self._jitter, self._decoder.say)

    def _chosen(self, name: object, among: Mapping[str, object], path: Path, what: str) -> str | None:
        """A name that has to be one of those built so far."""
        if isinstance(name, str) and name in among:
            return str(name)
        listed = ", ".join(sorted(among)) or "none"
        wrong = "is required" if name is None else f"{shown(name)} is not supported"
        self._decoder.say(path, f"{wrong}; {what}: {listed}", name)
        return None

    def _control(self, raw: object, spec: KindSpec, kind: str, path: Path) -> Control | None:
        path = (*path, "control")
        if is_off(raw):
            return None
        if not isinstance(raw, dict):
            self._decoder.say(path, f"{shown(raw)} is not a map; it needs at least its kind", raw)
            return None
        known = spec.control_kinds
        chosen = self._chosen(raw.get("kind"), known, (*path, "kind"), f"controls of {kind}")
        if chosen is None:
            return None
        self._decoder.unknown(raw, (*fields(known[chosen]), "kind"), path)
        settings = self._decoder.build(known[chosen], raw, path)
        return None if settings is None else Control(chosen, settings)


def presets(spec: KindSpec) -> dict[str, Tree]:
    """The presets of a kind: its own words laid over the documented bounds of that name."""
    return {name: laid(PRESETS.get(name, {}), given) for name, given in spec.presets.items()}


def laid(base: Mapping[str, Any], top: Mapping[str, Any]) -> Tree:
    """One map over another, map by map; a map of another kind replaces the one below."""
    both: Tree = dict(base)
    for key, value in top.items():
        below = base.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            kinds = {each["kind"] for each in (below, value) if "kind" in each}
            both[key] = value if len(kinds) > 1 else laid(below, value)
        else:
            both[key] = value
    return both
