"""What the sidecar tells of itself, summed up over the agents that it watches."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sidecar.telemetry.watched import ControlState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.agent import WatchLoss
    from sidecar.watch import Watch


def caps(watch: Watch) -> dict[str, int]:
    """How many sessions there may be, of the agents that tell it."""
    told = ((agent.name, getattr(agent, "sessions_limit", None)) for agent in watch.agents.values())
    return {name: limit for name, limit in told if limit is not None}


def reached(watch: Watch, controls: Mapping[str, str]) -> tuple[ControlState, ...]:
    """Whether the controls of agents (name to kind) can be reached, where that is a source of its own."""
    states = watch.states
    return tuple(
        ControlState(name, kind, states[name, kind].up if (name, kind) in states else True)
        for name, kind in controls.items()
    )


def unheard(watch: Watch) -> dict[WatchLoss, int]:
    """What kept the kernel from telling of changes of files, and how often."""
    lost: Counter[WatchLoss] = Counter()
    for agent in watch.agents.values():
        lost.update(getattr(agent, "watch_losses", {}))
    return lost


def watched_by(watch: Watch) -> str:
    """What changes of files are noticed by, over all agents that leave files."""
    told = (getattr(agent, "watch_mode", None) for agent in watch.agents.values())
    modes = {mode for mode in told if mode is not None}
    return "mixed" if len(modes) > 1 else next(iter(modes), "poll")
