"""A world whose spans are collected."""

from sidecar.limits import Limit, Rules
from sidecar.telemetry import names as n
from sidecar.telemetry.records import Span
from sidecar.telemetry.spans import Spans
from tests.telemetry.world import World


def watched() -> World:
    world = World()
    world.limits = Rules(model_record=Limit(60))
    world.told.append(Spans(world, world.spans.append))
    return world


def named(world: World, name: str) -> list[Span]:
    return [span for span in world.spans if span.name.split(" ")[0] == name]


def root_of(world: World) -> Span:
    (root,) = named(world, n.INVOKE_AGENT)
    return root
