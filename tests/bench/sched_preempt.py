"""sched/preempt's ground: nodes that are full of pods without priority; each pod that counts ends one of them."""

from __future__ import annotations

from collections.abc import Sequence

from berth_core.model.resources import POD, PRIORITY_CLASS

from .sched_contenders import OURS
from .sched_pods import pod
from .sched_run import Workload
from .sched_site import Obj, Site

HIGH = "bench-high"
#: cpu of one pod: so many fill a node.
CPU, FILL = "8", 4


def urgent(number: int) -> Obj:
    """As large as one of those that fill the nodes, and more important."""
    return pod(number, "urgent", CPU, priorityClassName=HIGH)


async def fill(site: Site, work: Workload) -> None:
    """FILL pods on each node, which no scheduler has put there."""
    if await site.client.find(PRIORITY_CLASS, HIGH) is None:
        await site.client.create(PRIORITY_CLASS, {"metadata": {"name": HIGH}, "value": 1000})
    await site.create(POD, (_filler(site, work, number) for number in range(FILL * work.nodes)))


def _filler(site: Site, work: Workload, number: int) -> Obj:
    node = f"{work.shape.prefix}{number % work.nodes}"
    body = pod(number, "filler", CPU, nodeName=node)
    return {**body, "metadata": {**body["metadata"], "name": f"filler-{number}", "namespace": site.namespace}}


async def check(_site: Site, pods: Sequence[Obj], work: Workload) -> str:
    """Nobody important was ended; and by berth nobody without need, while the peer's number is told as it is."""
    left = sum(1 for one in pods if one["metadata"]["labels"]["app"] == "filler")
    victims = FILL * work.nodes - left
    assert len(pods) - left == work.pods, f"{len(pods) - left} of {work.pods} pods of high priority are there"
    schedulers = {one["spec"]["schedulerName"] for one in pods if one["metadata"]["labels"]["app"] != "filler"}
    enough = victims == work.pods if schedulers == {OURS.scheduler} else victims >= work.pods
    assert enough, f"{victims} pods were ended for {work.pods} that need the room of one each"
    return f"victims {victims}"
