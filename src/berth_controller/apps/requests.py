"""The requests of one look at an app: counted, and each write preceded by the question whether it is still wanted.

The app's own objects (StatefulSet, Services, ConfigMaps) are applied in the module's name: a field that leaves the
template then leaves the object, too, where the other driver has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from berth_core.app.budgets import eviction, refusal
from berth_core.errors import UnavailableError
from berth_core.lifecycle.history import Actor
from berth_core.model.resources import POD, Resource
from berth_kube.client import KubeClient

Obj = dict[str, Any]
#: Also _glue.client.FIELD_MANAGER.
MANAGER = "berth"
#: Who changes berths here, in their history.
ACTOR = Actor("berth-controller")


class Requests:
    """``still`` raises where the StatefulApp says something else by now than it did when the look began."""

    def __init__(self, client: KubeClient, still: Callable[[], None]) -> None:
        self._client, self._still = client, still
        #: writes that were carried out
        self.wrote = 0

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Obj | None:
        return await self._client.find(resource, name, namespace)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj:
        return await self._client.get(resource, name, namespace)

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Obj]:
        return (await self._client.list(resource, namespace, labels=labels, fields=fields)).items

    async def create(self, resource: Resource, body: Mapping[str, Any], dry_run: bool = False) -> Obj:
        self._before(dry_run)
        return self._after(await self._client.create(resource, body, dry_run=dry_run), dry_run)

    async def replace(self, resource: Resource, body: Mapping[str, Any]) -> Obj:
        self._before()
        return self._after(await self._client.replace(resource, body))

    async def apply(self, resource: Resource, body: Mapping[str, Any], dry_run: bool = False) -> Obj:
        self._before(dry_run)
        return self._after(await self._client.apply(resource, body, dry_run=dry_run, manager=MANAGER), dry_run)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any],
        subresource: str | None = None,
    ) -> Obj:
        self._before()
        return self._after(await self._client.patch(resource, name, namespace, body, subresource=subresource))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        grace: int | None = None,
    ) -> bool:
        self._before()
        self.wrote += 1
        return await self._client.delete(resource, name, namespace, uid=uid, grace_seconds=grace)

    async def evict(self, pod: Mapping[str, Any]) -> str:
        """Evict this very pod. Returns why a budget forbids it now, or an empty text."""
        self._before()
        try:
            self._after(await self._client.create(POD, eviction(pod), subresource="eviction"))
        except UnavailableError as exc:
            return refusal(exc)
        return ""

    def _before(self, dry_run: bool = False) -> None:
        if not dry_run:
            self._still()

    def _after(self, answer: Obj, dry_run: bool = False) -> Obj:
        self.wrote += not dry_run
        return answer
