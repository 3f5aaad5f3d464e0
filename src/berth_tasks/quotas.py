"""Quotas: the ResourceQuotas of all namespaces, and the pods of tasks that none of them counts yet.

The API server adds a pod to a quota's status before it makes the pod, and the watch tells of that later. Until then the
pod is subtracted here: from when it is given until the watch has come to the pod's version, or for GRACE seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from berth_core.app.quota import Demand, leaves_more
from berth_core.model.resources import RESOURCE_QUOTA
from berth_core.tasks.account import Charge
from berth_kube.client import KubeClient
from berth_kube.clocks import boot_clock
from berth_kube.informer import Informer

Obj = dict[str, Any]
#: So many seconds after its pod was made every quota's status is known to count it.
GRACE = 1.0
_BY_NAMESPACE = "namespace"


class Pending(NamedTuple):
    """``version``: of the pod, once it is made, and ``until`` when it counts at the longest."""

    namespace: str
    demand: Demand
    version: int | None = None
    until: float = 0.0


class Quotas:
    """Made inside a running loop. ``changed`` is called when there may be more room than before."""

    def __init__(
        self, client: KubeClient, changed: Callable[[], None], clock: Callable[[], float] = boot_clock
    ) -> None:
        by_namespace = {_BY_NAMESPACE: lambda obj: [str(obj["metadata"]["namespace"])]}
        self._informer = Informer(client, RESOURCE_QUOTA, transform=_reduced, indexers=by_namespace)
        self._clock = clock
        self._pending: dict[Charge, Pending] = {}

        def differs(old: Obj, new: Obj) -> None:
            if leaves_more(old, new):
                changed()

        self._informer.on(None, differs, lambda _old: changed())

    async def run(self) -> None:
        """Until cancelled."""
        await self._informer.run()

    async def wait_synced(self) -> None:
        """Until they were listed."""
        await self._informer.wait_synced()

    def bound(self, namespace: str) -> bool:
        """Whether there is a quota."""
        return bool(self._informer.by_index(_BY_NAMESPACE, namespace))

    def now(self) -> tuple[Mapping[str, list[Obj]], list[tuple[str, Demand]]]:
        """The quotas by namespace, and what they do not count yet."""
        found: dict[str, list[Obj]] = {}
        for obj in self._informer.all():
            found.setdefault(str(obj["metadata"]["namespace"]), []).append(obj)
        self._settle()
        return found, [(one.namespace, one.demand) for one in self._pending.values()]

    @property
    def unsettled(self) -> bool:
        """Whether pods are made that some quota perhaps does not count yet: GRACE later all do."""
        return any(one.version is not None for one in self._pending.values())

    def ask(self, charge: Charge, namespace: str, demand: Demand) -> None:
        """It is given, and its pod is not made."""
        self._pending[charge] = Pending(namespace, demand)

    def made(self, charge: Charge, version: int) -> None:
        """Its pod is made."""
        one = self._pending.get(charge)
        if one is not None:
            self._pending[charge] = one._replace(version=version, until=self._clock() + GRACE)

    def drop(self, charge: Charge) -> None:
        """It has no pod, and is to have none."""
        self._pending.pop(charge, None)

    def _settle(self) -> None:
        seen, now = int(self._informer.version or 0), self._clock()
        counted = [
            charge
            for charge, one in self._pending.items()
            if one.version is not None and (one.version <= seen or one.until <= now)
        ]
        for charge in counted:
            del self._pending[charge]


def _reduced(obj: Obj) -> Obj:
    meta = {key: obj["metadata"].get(key) for key in ("name", "namespace", "uid", "resourceVersion")}
    return {"metadata": meta, "spec": obj.get("spec") or {}, "status": obj.get("status") or {}}
