"""There is one task backend in a cluster: a second one, with a Lease in another namespace, does not work beside it.

Two would make the same pods and count each other's as their own. Each takes its Lease first and looks at the others'
then, so that of two that begin at one moment at least one sees the other. Who works already does not look again. One
without a Lease looks, too, and is seen by nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from berth_core.errors import StateError
from berth_core.model.resources import LEASE
from berth_kube.client import KubeClient
from berth_kube.clocks import boot_clock
from berth_kube.lease_record import Observed, holder_of

_log = logging.getLogger(__name__)

#: Seconds between two looks: a leader renews its Lease as often.
PAUSE = 2.0


async def refuse_second(
    client: KubeClient,
    name: str,
    namespace: str | None,
    clock: Callable[[], float] = boot_clock,
    pause: float = PAUSE,
) -> None:
    """Return once nobody holds a Lease of that name in another namespace, or those who do have died.

    ``namespace``: of the own Lease; None: there is none, and that of nobody is to be held.

    Raises StateError where one of them is renewed meanwhile, and ApiError's children.
    """
    seen: dict[str, Observed] = {}
    elect = "" if namespace is not None else " and --leader-elect"
    while True:
        listed = (await client.list(LEASE, fields=f"metadata.name={name}")).items
        others = {str(one["metadata"]["namespace"]): one for one in listed}
        if namespace is not None:
            others.pop(namespace, None)
        for where, lease in others.items():
            before = seen.get(where, Observed(lease, clock()))
            seen[where] = before.look(lease, clock())
            if seen[where].at != before.at and holder_of(lease):
                raise StateError(
                    f"Lease {where}/{name}: {holder_of(lease)} leads a task backend of this cluster, and there can be"
                    f" one: remove that one, or run this one with --namespace {where}{elect}"
                )
        held = {where: one for where, one in seen.items() if where in others and not one.free_for("", clock())}
        if not held:
            return
        for where, one in held.items():
            _log.info("Lease %s/%s: %s holds it: waiting whether that lives", where, name, holder_of(one.lease))
        await asyncio.sleep(pause)
