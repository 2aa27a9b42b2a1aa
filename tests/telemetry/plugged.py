"""Telemetry plugged into a world, sending to a collector."""

from io import StringIO

import msgspec

from sidecar.telemetry.targets import OtlpSettings, Protocol
from sidecar.telemetry.telemetry import Settings, Telemetry
from tests.telemetry.world import World


def plugged(url: str, protocol: Protocol = "http/protobuf", **more: bool) -> tuple[World, Telemetry]:
    world = World()
    otlp = msgspec.structs.replace(OtlpSettings(url, protocol), **more)
    telemetry = Telemetry(world, StringIO(), Settings(otlp))
    world.told.append(telemetry)
    return world, telemetry
