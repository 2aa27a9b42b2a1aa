"""The whole configuration: file, environment, agents and rules, or every reason why not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct, field, structs

from sidecar.config.agents import AgentConfig, Entries, KindSpec, presets
from sidecar.config.bounds import Bounds
from sidecar.config.decode import Decoder
from sidecar.config.document import LARGEST, parse
from sidecar.config.environ import overlay
from sidecar.config.problems import ConfigError, Problem
from sidecar.config.rules import Layer, rules
from sidecar.config.settings import Settings
from sidecar.limits import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

HASH_LENGTH: Final = 12


class Config(Struct, frozen=True):
    """What the sidecar runs with. What `settings` has of bounds and agents is in force as below."""

    settings: Settings
    rules: Rules
    """The bounds for all agents; each agent's own are in its entry."""
    agents: tuple[AgentConfig, ...] | None
    """The configured agents; None: find those of this machine, each as in `found`."""
    found: dict[str, AgentConfig] = field(default_factory=dict)
    """For each kind that needs no settings: the entry that its kind alone would make."""
    presets: dict[str, Rules] = field(default_factory=dict)
    """The bounds that each preset gives where an entry sets none of its own."""
    config_hash: str = ""
    """Tells two configurations apart, environment and presets included."""


def load(source: Path | str | None, env: Mapping[str, str], kinds: Mapping[str, KindSpec]) -> Config:
    """Read a file (a Path), a text, or nothing but the environment; raises ConfigError."""
    text = text_of(source) if isinstance(source, Path) else source or ""
    tree = parse(text)
    decoder = Decoder(env.get("HOME") or "/")
    decoder.problems += overlay(tree, env, kinds)
    settings = decoder.struct(Settings, tree, ())
    bounds = Bounds() if settings is None else settings.bounds
    jitter = settings.actions.jitter if settings is not None and settings.mode == "enforce" else 0.0
    made = rules([Layer(("bounds",), bounds)], jitter, decoder.say)
    entries = tree.get("agents")
    agents = None
    if isinstance(entries, list):
        # The top-level bounds were judged above; what is wrong with them is said once.
        agents = Entries(kinds, decoder, bounds, jitter).read(entries)
    if settings is None or decoder.problems:
        raise ConfigError(decoder.problems)
    found = {} if agents is not None else _found(kinds, decoder, settings, jitter)
    given = Entries(kinds, decoder, bounds, jitter)
    by_preset = {
        name: given.rules(tree, Bounds(), ("presets", name))
        for spec in kinds.values()
        for name, tree in presets(spec).items()
    }
    config = Config(structs.replace(settings, agents=UNSET), made, agents, found, by_preset)
    text = json.dumps(effective(config), sort_keys=True)
    return structs.replace(config, config_hash=hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH])


def effective(config: Config) -> dict[str, Any]:
    """Return what is in force as plain values: environment and presets included, by setting."""
    plain: dict[str, Any] = msgspec.to_builtins(config.settings)
    plain["bounds"] = msgspec.to_builtins(config.rules)
    named = None if config.agents is None else {a.name: msgspec.to_builtins(a) for a in config.agents}
    return plain | {"agents": named}


def text_of(path: Path) -> str:
    """The text of a configuration file, read whole or not at all; raises ConfigError."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem(str(path), f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem(str(path), "is not UTF-8 text")]) from None


def _found(
    kinds: Mapping[str, KindSpec], decoder: Decoder, settings: Settings, jitter: float
) -> dict[str, AgentConfig]:
    """What each kind would be by its name alone; a kind that needs more than that is left out."""
    entries = Entries(kinds, decoder, settings.bounds, jitter)
    made = {kind: entries.entry({"kind": kind}, ("agents", kind)) for kind in kinds}
    return {kind: entry for kind, entry in made.items() if entry is not None}
