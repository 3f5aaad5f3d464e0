"""From the kubelet's summary (stats/v1alpha1) to samples. Pure. Called by `sampler`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """What one container used. ``time``: seconds since the epoch; ``cpu``: cores; ``memory``: working set in bytes."""

    time: int
    namespace: str
    pod: str
    uid: str
    container: str
    cpu: float
    memory: int


def samples_of(summary: Mapping[str, Any], time: int) -> list[Sample]:
    """One sample for each container that reports both figures: one that has just started has none yet."""
    found = []
    for pod in summary.get("pods") or ():
        ref = pod.get("podRef") or {}
        for container in pod.get("containers") or ():
            cpu = (container.get("cpu") or {}).get("usageNanoCores")
            memory = (container.get("memory") or {}).get("workingSetBytes")
            if cpu is not None and memory is not None:
                found.append(
                    Sample(
                        time,
                        str(ref.get("namespace", "")),
                        str(ref.get("name", "")),
                        str(ref.get("uid", "")),
                        str(container.get("name", "")),
                        int(cpu) / 1e9,
                        int(memory),
                    )
                )
    return found
