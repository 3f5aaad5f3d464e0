"""How many binds a second this API server gives when nobody has to decide anything: what sched/rate is near to.

The bench itself binds the same pods, node by node, by the same client in pieces of the same size, and writes no Events.
Nobody watches but it, so the API server does less for it than for a scheduler.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from berth_core.model.resources import POD
from berth_kube import config, http1_fast, json_fast
from berth_kube.client import KubeClient
from berth_scheduler.bundles import FEWEST, MOST

from .ground import Ground, say
from .sched_run import OTHERS, Workload, of_site, resting
from .sched_site import Binds, Site

NOBODY = "nobody"


def ceiling(ground: Ground, work: Workload) -> float:
    """Pods bound a second."""
    return asyncio.run(_ceiling(ground, work))


async def _ceiling(ground: Ground, work: Workload) -> float:
    fast = {"framing": http1_fast.framing(), "decode": json_fast.decoder(), "encode": json_fast.encoder()}
    async with KubeClient(config.load(str(ground.cluster.kubeconfig)), connections=32, timeout=120.0, **fast) as client:
        site = Site(ground.cluster, client, f"{work.name}-{NOBODY}", NOBODY, ground.folder)
        say(f"sched/{work.name}: {work.pods} pods on {work.nodes} nodes, bound without a decision")
        await site.make()
        made = [work.pod(number) for number in range(work.pods)]
        names = [pod["metadata"]["name"] for pod in made]
        await site.create(POD, [of_site(site, pod) for pod in made])
        with resting(ground.cluster, OTHERS):
            async with Binds(site, work.pods) as binds:
                began = time.monotonic()
                await asyncio.gather(*(_bind(site, work, names, first) for first in range(FEWEST)))
                seconds = await binds.all(lambda: None) - began
        await site.clear()
        return work.pods / seconds


async def _bind(site: Site, work: Workload, names: Sequence[str], first: int) -> None:
    """Every FEWEST-th piece, one after the other."""
    for start in range(first * MOST, len(names), FEWEST * MOST):
        some = [
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": site.namespace},
                "target": {"kind": "Node", "name": f"{work.shape.prefix}{(start + number) % work.nodes}"},
            }
            for number, name in enumerate(names[start : start + MOST])
        ]
        refused = [
            one for one in await site.client.create_all(POD, some, subresource="binding", look_after=0.05) if one
        ]
        assert not refused, refused[0]
