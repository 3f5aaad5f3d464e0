"""kwok as a kubelet: it starts a container anew whose image has changed, obeys readiness gates, and takes its time.

Its own stages do none of that: a pod keeps the status that it was made with. Whoever is compared has the same kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from berth_dev.cluster import Cluster

STAGES = Path(__file__).with_name("kubelet_stages.yaml")
Stages = list[dict[str, Any]]


def rewrite(cluster: Cluster, change: Callable[[Stages], Stages]) -> None:
    """kwok goes on with other stages, and cares for every node that is there."""
    file = cluster.folder.path / "data" / "kwok.yaml"
    file.write_text(yaml.safe_dump_all(change(list(yaml.safe_load_all(file.read_text())))))
    cluster.stop_component("kwok")
    cluster.add_nodes(0)


def play(cluster: Cluster, stop: float = 0.0, start: float = 0.0) -> None:
    """A container takes ``stop`` seconds to end, and ``start`` to be Ready; with its pod, or in it."""
    own: Stages = yaml.safe_load(STAGES.read_text())
    times = {"pod-delete": stop, "pod-ready": start, "container-starts": stop + start}
    rewrite(cluster, lambda stages: timed(replaced(stages, own), times))


def replaced(stages: Stages, own: Stages) -> Stages:
    """``own`` in the place of those of their names."""
    names = {_name(one) for one in own}
    return [*(one for one in stages if _name(one) not in names), *own]


def timed(stages: Stages, times: Mapping[str, float]) -> Stages:
    """Those that ``times`` names wait for so many seconds before they are played."""
    assert set(times) <= {_name(one) for one in stages}, f"no such stages: {times}"
    return [{**one, "spec": _delayed(one["spec"], times[_name(one)])} if _name(one) in times else one for one in stages]


def _delayed(spec: dict[str, Any], seconds: float) -> dict[str, Any]:
    return {**spec, "delay": {"durationMilliseconds": round(1000 * seconds)}}


def _name(stage: Mapping[str, Any]) -> str:
    """Empty for kwok's own configuration, which is the first document."""
    return str(stage.get("metadata", {}).get("name", ""))
