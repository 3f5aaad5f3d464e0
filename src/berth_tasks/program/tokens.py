"""The tokens of an executor's Tasks, in one Secret: each pod is given that of its own Task, and reads no other.

Many changes at one moment are one write. The Tasks belong to the Secret: whoever deletes it has deleted them all.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from berth_core.errors import ConflictError, StateError
from berth_core.model.resources import SECRET
from berth_kube.client import KubeClient


class Tokens:
    """Made inside a running loop; `begin` creates the Secret, and `end` deletes it."""

    def __init__(self, client: KubeClient, namespace: str, name: str, labels: Mapping[str, str]) -> None:
        self._client, self._namespace, self._name, self._labels = client, namespace, name, dict(labels)
        self._uid = ""
        self._pending: dict[str, str | None] = {}
        self._lock = asyncio.Lock()

    async def begin(self) -> None:
        """Create it, empty. Raises StateError where another program has that name, or has died."""
        meta = {"name": self._name, "namespace": self._namespace, "labels": self._labels}
        try:
            made = await self._client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        except ConflictError as exc:
            raise StateError(
                f"Secret {self._namespace}/{self._name} is there: another executor has this name, or a program of that"
                " name has died; delete it, with its Tasks, or give another name"
            ) from exc
        self._uid = str(made["metadata"]["uid"])

    async def end(self) -> None:
        """Delete it, with every Task that is left."""
        await self._client.delete(SECRET, self._name, self._namespace, uid=self._uid)

    @property
    def owner(self) -> dict[str, Any]:
        """What a Task of it belongs to."""
        return {"apiVersion": "v1", "kind": "Secret", "name": self._name, "uid": self._uid}

    def source(self, task: str) -> dict[str, Any]:
        """Where a pod takes the token of its Task from."""
        return {"secretKeyRef": {"name": self._name, "key": task}}

    async def put(self, task: str, token: str) -> None:
        """The token is there when this returns, and those of others that were asked for meanwhile."""
        self._pending[task] = base64.b64encode(token.encode("ascii")).decode("ascii")
        async with self._lock:
            if task not in self._pending:
                return
            changes, self._pending = self._pending, {}
            try:
                await self._client.patch(SECRET, self._name, self._namespace, {"data": changes})
            except BaseException:
                self._pending = {**changes, **self._pending}
                raise

    def drop(self, task: str) -> None:
        """Nobody needs it any more: it goes with the next write."""
        self._pending[task] = None
