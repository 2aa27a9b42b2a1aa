"""How bounds as written become the rules that are judged by.

Layers are laid over the defaults one by one, the nearest last. A layer that gives a limit drops
the warning set before (half of the limit then); an action stays until a layer gives another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import UNSET, UnsetType, structs

from sidecar.config.bounds import Bounds, DelegatedBound, ModelBound, Span
from sidecar.config_units import written
from sidecar.limits import Limit, Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sidecar.config.problems import Path

FLOORS: Final[Mapping[str, tuple[float, str]]] = {
    "model_record": (60.0, "a transcript gains a line per finished block, and blocks take a minute"),
    "model_delta": (5.0, "pauses of seconds between two pieces of a stream are normal"),
    "starting": (10.0, "an agent takes seconds to start"),
    "idle": (60.0, "a person takes that long to write the next prompt"),
}
"""The shortest limits that the evidence can bear, and why."""

NEVER: Final = 2.0
"""A warning at this many limits never comes: jitter at most doubles a limit."""


class Say(Protocol):
    """Where problems go."""

    def __call__(self, path: Path, text: str, /) -> None:
        """Note one."""


class Layer(NamedTuple):
    """Bounds and where they stand."""

    path: Path
    bounds: Bounds


class _Laying(NamedTuple):
    """One layer being laid: whether floors hold, and where problems go."""

    unsafe: bool
    say: Say

    def over(self, base: Limit, setting: Span, path: Path, floor: str = "") -> Limit:
        """A limit with what this layer says of it."""
        limit = base.limit if isinstance(setting.limit, UnsetType) else setting.limit
        warn = base.warn if isinstance(setting.limit, UnsetType) else None
        told = getattr(setting, "warn", UNSET)
        if told is None:
            warn = None if limit is None else limit * NEVER
        elif told is not UNSET:
            warn = told
            self._check_warning(limit, told, path)
        if isinstance(setting.limit, float) and floor in FLOORS and not self.unsafe:
            least, why = FLOORS[floor]
            if setting.limit < least:
                low = f"{written(setting.limit)} is below the floor of {written(least)}"
                self.say(path, f"{low}: {why}; `unsafe: true` lifts it")
        action = getattr(setting, "action", UNSET)
        return Limit(limit, base.action if action is UNSET else action, warn)

    def _check_warning(self, limit: float | None, warn: float, path: Path) -> None:
        if limit is None:
            self.say((*path, "warn"), f"{written(warn)} has no limit to warn of")
        elif warn >= limit:
            self.say((*path, "warn"), f"{written(warn)} is not below the limit of {written(limit)}")


def _lay(base: Rules, layer: Layer, laying: _Laying) -> Rules:
    new: dict[str, object] = {}
    for name in structs.asdict(layer.bounds):
        setting, path = getattr(layer.bounds, name), (*layer.path, name)
        if isinstance(setting, Span):
            new[name] = laying.over(getattr(base, name), setting, path, name)
        elif isinstance(setting, ModelBound):
            for resolution in ("record", "delta"):
                part, field = getattr(setting, resolution), f"model_{resolution}"
                if part is not UNSET:
                    new[field] = laying.over(getattr(base, field), part, (*path, resolution), field)
        elif isinstance(setting, DelegatedBound) and setting.action is not UNSET:
            new[name] = Limit(base.delegated.limit, setting.action)
        elif isinstance(setting, dict):
            new[name] = base.tool | {
                pattern: laying.over(base.tool.get(pattern, Limit(None)), each, (*path, pattern))
                for pattern, each in setting.items()
            }
    idle = layer.bounds.idle
    if idle is not UNSET and idle.unprompted is not UNSET:
        new["unprompted"] = idle.unprompted
    return structs.replace(base, **new)


def rules(layers: Iterable[Layer], jitter: float, say: Say) -> Rules:
    """The rules that some layers make, the nearest last. Problems name the layer they are in."""
    made, unsafe = Rules(jitter=jitter), False
    for layer in layers:
        unsafe = unsafe if layer.bounds.unsafe is UNSET else layer.bounds.unsafe
        made = _lay(made, layer, _Laying(unsafe, say))
    return made
