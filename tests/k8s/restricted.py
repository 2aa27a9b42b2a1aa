"""The `restricted` Pod Security Standard, as far as a pod of containers can break it.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ is what this follows, control by control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}
SECCOMP = {"RuntimeDefault", "Localhost"}
SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
    *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
}


def violations(spec: Json) -> Iterator[str]:
    """What the standard forbids of this pod spec."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    for volume in spec.get("volumes", ()):
        for kind in volume.keys() - {"name"} - VOLUMES:
            yield f"volume {volume['name']}: {kind}"
    whole = spec.get("securityContext", {})
    for sysctl in whole.get("sysctls", ()):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    containers = [*spec.get("initContainers", ()), *spec["containers"], *spec.get("ephemeralContainers", ())]
    for container in containers:
        for what in _of_container(whole, container):
            yield f"container {container['name']}: {what}"


def _of_container(whole: Json, container: Json) -> Iterator[str]:
    own = container.get("securityContext", {})
    both = whole | own
    capabilities = own.get("capabilities", {})
    added = set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}
    probes = (container.get(probe, {}) for probe in ("livenessProbe", "readinessProbe", "startupProbe"))
    handlers = [handler for probe in probes for handler in probe.values() if isinstance(handler, dict)]
    forbidden = {
        "privileged": own.get("privileged"),
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
        "capabilities": "ALL" not in capabilities.get("drop", ()) or added,
        "runAsNonRoot": both.get("runAsNonRoot") is not True,
        "runAsUser": both.get("runAsUser") == 0,
        "seccompProfile": both.get("seccompProfile", {}).get("type") not in SECCOMP,
        "procMount": own.get("procMount", "Default") != "Default",
        "hostProcess": both.get("windowsOptions", {}).get("hostProcess"),
        "hostPort": any("hostPort" in port for port in container.get("ports", ())),
        "probe with a host": any(handler.get("host") for handler in handlers),
    }
    yield from (what for what, there in forbidden.items() if there)
