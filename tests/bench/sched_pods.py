"""The pods of the scheduler's benches: pure, a manifest for each number."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
#: Pods of one application.
APP = 50
#: Different pods of sched/shapes: so many requests of cpu by so many of memory.
CPUS, MEMORIES = 40, 50
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def pod(number: int, app: str = "plain", cpu: str = "100m", memory: str = "128Mi", **spec: Any) -> Obj:
    """Nothing but requests, and what ``spec`` adds."""
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": app}},
        "spec": {
            "containers": [container],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


def _app(number: int) -> str:
    return f"app-{number // APP}"


def spread(number: int) -> Obj:
    """Its application over zones as evenly as can be, and over nodes as well as it goes."""
    app = _app(number)
    wanted = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": otherwise,
            "labelSelector": {"matchLabels": {"app": app}},
        }
        for key, otherwise in ((ZONE, "DoNotSchedule"), (HOSTNAME, "ScheduleAnyway"))
    ]
    return pod(number, app, topologySpreadConstraints=wanted)


def apart(number: int) -> Obj:
    """On no node with another of its application."""
    app = _app(number)
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return pod(number, app, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def shaped(number: int) -> Obj:
    """One of CPUS * MEMORIES different pods; each fourth wants to be in one zone, each third tolerates a taint."""
    shape = number % (CPUS * MEMORIES)
    spec: Obj = {}
    if shape % 4 == 0:
        spec["nodeSelector"] = {ZONE: f"zone-{shape // 4 % 10}"}
    if shape % 3 == 0:
        spec["tolerations"] = [{"key": f"only-{shape % 7}", "operator": "Exists"}]
    cpu, memory = f"{100 + shape % CPUS}m", f"{128 + shape // CPUS}Mi"
    return pod(number, f"shape-{shape}", cpu, memory, **spec)


def with_claim(number: int) -> Obj:
    """With the claim of its number."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name(number)}}
    return pod(number, volumes=[volume])


def claim_name(number: int) -> str:
    return f"claim-{number}"
