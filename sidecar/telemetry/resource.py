"""What this process says of itself with everything it exports: service, Kubernetes, container, process.

The standard variables win (`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`). What Kubernetes knows of
the pod comes by the downward API, in one variable for each attribute: `K8S_POD_NAME` is
`k8s.pod.name`. The command line is not told, for nobody knows what stands in it.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from sidecar.telemetry import names as n
from sidecar.telemetry.labels import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.telemetry.records import Value

PROC: Final = Path("/proc/self")

INSTANCE: Final = ("k8s.namespace.name", "k8s.pod.name", "k8s.container.name")
"""What together names one running service, as the conventions for Kubernetes join it."""
K8S: Final = (
    *INSTANCE,
    "k8s.pod.uid",
    "k8s.node.name",
    "k8s.deployment.name",
    "k8s.cluster.name",
)

_GROUP: Final = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?$", re.MULTILINE)
"""A cgroup named after its container: `/docker/ID`, `/POD/ID`, `/cri-containerd-ID.scope`."""
_MOUNT: Final = re.compile(r"/docker/containers/([0-9a-f]{64})/")
"""A file that Docker keeps for a container and mounts into it. In a pod the files come from its sandbox,
whose id is not the container's: those tell nothing."""


def resource(version: str, proc: Path = PROC) -> Resource:
    """Describe this sidecar; `proc` is where the kernel describes the process."""
    texts = {"service.name": n.SCOPE, "service.version": version}
    texts |= _kubernetes(os.environ) | _container(proc) | _process()
    ours: dict[str, Value] = {name: clean(text) for name, text in texts.items()}
    # What is said in the environment is in `create` too, and wins over ours only when it comes last.
    said = OTELResourceDetector().detect()
    return Resource.create().merge(Resource(ours | {"process.pid": os.getpid()})).merge(said)


def _process() -> dict[str, str]:
    return {
        "process.executable.name": Path(sys.executable).name,
        "process.runtime.name": sys.implementation.name,
        "process.runtime.version": ".".join(map(str, sys.version_info[:3])),
    }


def _kubernetes(environ: Mapping[str, str]) -> dict[str, str]:
    named = {name: environ.get(name.upper().replace(".", "_"), "") for name in K8S}
    known = {name: value for name, value in named.items() if value}
    service: dict[str, str] = {}
    if "k8s.namespace.name" in known:
        service["service.namespace"] = known["k8s.namespace.name"]
    if all(name in known for name in INSTANCE):
        service["service.instance.id"] = ".".join(known[name] for name in INSTANCE)
    return known | service


def _container(proc: Path) -> dict[str, str]:
    """Read the container's id, where the kernel shows it: a cgroup namespace hides it."""
    for name, pattern in (("cgroup", _GROUP), ("mountinfo", _MOUNT)):
        try:
            text = (proc / name).read_text(errors="replace")
        except OSError:
            continue
        found = pattern.search(text)
        if found is not None:
            return {"container.id": found[1]}
    return {}
