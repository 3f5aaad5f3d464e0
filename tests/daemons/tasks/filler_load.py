"""What nodes and filler pods use, as a metrics-server would tell it: metrics.k8s.io is a custom resource here."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import Resource
from tests.daemons.tasks.world import World, until
from tests.support.metrics_api import KINDS, definition


class Load:
    """A metrics-server for one node: `others` use so much of it beside filler pods, which use `each`; milli-cores."""

    def __init__(self, world: World, node: str) -> None:
        self.world, self.node, self.others, self.each = world, node, 1000, 0
        self.ahead, self._again, self._told = timedelta(), 0.0, set[str]()

    def serve(self) -> None:
        for kind in KINDS:
            self.world.api.create(kinds.CRD, definition(kind))

    def stop(self) -> None:
        for kind in KINDS:
            self.world.api.delete(kinds.CRD, kind.definition)

    def tell(self) -> None:
        """Once a second, as a metrics-server would if it were quick."""
        if time.monotonic() < self._again:
            return
        self._again = time.monotonic() + 1
        at = (datetime.now(UTC) + self.ahead).strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = {pod["metadata"]["name"]: pod for pod in fillers(self.world) if pod["status"].get("startTime")}
        for name in self._told - pods.keys():
            self.world.api.delete(kinds.POD_METRICS, name, self.world.name)
        self._told = {*pods}
        try:
            for name, pod in pods.items():
                metadata = {"name": name, "namespace": self.world.name, "labels": pod["metadata"]["labels"]}
                containers = [{"name": "main", "usage": usage(self.each)}]
                self._apply(kinds.POD_METRICS, metadata, timestamp=at, window="1s", containers=containers)
            total = usage(self.others + self.each * len(pods))
            self._apply(kinds.NODE_METRICS, {"name": self.node}, timestamp=at, window="1s", usage=total)
        except NotFoundError:  # the definition was made a moment ago
            self._again = 0.0

    def _apply(self, kind: Resource, metadata: dict[str, Any], **told: Any) -> None:
        self.world.api.apply(kind, {"metadata": metadata, **told})

    def until(self, reached: Callable[[], bool], what: Callable[[], Any]) -> None:
        def looked() -> bool:
            self.tell()
            return reached()

        until(looked, what)

    def runs(self, count: int) -> set[str]:
        """Wait until so many filler pods run; their uids."""
        self.until(lambda: len(running(self.world)) == count, lambda: [count, running(self.world)])
        return running(self.world)


def usage(cpu: int) -> dict[str, str]:
    return {"cpu": f"{cpu}m", "memory": "10Mi"}


def fillers(world: World) -> list[dict[str, Any]]:
    return list(world.api.list(kinds.POD, world.name, labels="berth.dev/filler"))


def running(world: World) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for pod in fillers(world)
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    }
