"""A HorizontalPodAutoscaler scales a StatefulApp: kube-controller-manager's own, over the scale subresource.

metrics.k8s.io is a custom resource here, and what the pods use is what the test writes: no metrics-server is needed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import until
from tests.support.kube import AUTOSCALER
from tests.support.metrics_api import definition

pytestmark = pytest.mark.promise
#: What a pod asks for, of which the autoscaler wants 70 %; thousandths of a cpu.
ASKED, BUSY, IDLE = 100, 200, 5
#: The autoscaler looks every two seconds here, and reads anew twice a minute which kinds there are.
SCALED = 90.0


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    world.api.create(kinds.CRD, definition(kinds.POD_METRICS))
    try:
        with app_world(plane, world, nodes) as made:
            yield made
            made.api.delete(AUTOSCALER, "db", made.name)
    finally:
        world.api.delete(kinds.CRD, kinds.POD_METRICS.definition)


def autoscaler(lowest: int, highest: int) -> dict[str, Any]:
    """As docs/guides/stateful_app_kind.md has it, without the five minutes for which a smaller number is held back."""
    target = {"type": "Utilization", "averageUtilization": 70}
    return {
        "spec": {
            "scaleTargetRef": {"apiVersion": "berth.dev/v1alpha1", "kind": "StatefulApp", "name": "db"},
            "minReplicas": lowest,
            "maxReplicas": highest,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


class Load:
    """What a metrics-server says of the pods."""

    def __init__(self, apps: AppWorld) -> None:
        self.apps, self.millis, self._again = apps, BUSY, 0.0

    def becomes(self, millis: int) -> None:
        """From now on, and for who looks at once."""
        self.millis, self._again = millis, 0.0
        self.told()

    def told(self) -> None:
        """Once a second, as a metrics-server would if it were quick."""
        if time.monotonic() < self._again:
            return
        self._again = time.monotonic() + 1
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name, pod in self.apps.pods().items():
            usage = {"cpu": f"{self.millis}m", "memory": "10Mi"}
            metadata = {"name": name, "namespace": self.apps.name, "labels": pod["metadata"]["labels"]}
            body = {"timestamp": now, "window": "1s", "containers": [{"name": "main", "usage": usage}]}
            self.apps.api.apply(kinds.POD_METRICS, {"metadata": metadata, **body})

    def until_ready(self, replicas: int) -> None:
        """Tell it until the app has so many replicas, and all are Ready."""

        def scaled() -> bool:
            self.told()
            ready = self.apps.condition("Ready").get("status") == "True"
            return bool(ready and self.apps.status().get("readyReplicas") == replicas == len(self.apps.pods()))

        until(
            scaled, lambda: json.dumps([self.apps.api.get(AUTOSCALER, "db", self.apps.name), self.apps.live()]), SCALED
        )


@pytest.mark.timeout(900)
def test_an_autoscaler_scales_it_up_and_down_and_never_below_its_least(apps: AppWorld, start: Any) -> None:
    apps.disks(4)
    apps.allow()
    start("--no-leader-elect")
    template = apps.template()
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{ASKED}m"}}
    apps.apply(replicas=None, template=template)
    apps.ready(1)
    apps.api.apply(AUTOSCALER, {**autoscaler(2, 4), "metadata": {"name": "db", "namespace": apps.name}})
    load = Load(apps)
    load.until_ready(4)
    told = apps.api.get(AUTOSCALER, "db", apps.name)["status"]
    assert {one["type"]: one["status"] for one in told["conditions"]}["ScalingActive"] == "True"
    assert told["currentMetrics"][0]["resource"]["current"]["averageUtilization"] > 70
    disks = {name: one["spec"]["disks"][0]["name"] for name, one in apps.world.berths().items()}
    kept_pods = {name: uid for name, uid in apps.uids().items() if name in ("db-0", "db-1")}

    load.becomes(IDLE)
    load.until_ready(2)
    assert apps.live()["spec"]["replicas"] == 2, "minReplicas, although next to nothing is used"
    assert apps.uids() == kept_pods
    for name in ("db-2", "db-3"):
        spec = apps.world.disks()[disks[name]]["spec"]
        assert "claimRef" not in spec
        assert f"db-{spec['retainedFor']['ordinal']}" == name, "the disk keeps the data of its replica"
    apps.check()
    apps.apply(replicas=None, template=template)
    assert apps.live()["spec"]["replicas"] == 2, "who applies it anew without a number does not scale it"

    load.becomes(BUSY)
    apps.kubectl("scale", "sapp", "db", "--replicas=4")  # what the autoscaler would ask for at its next look
    load.until_ready(4)
    assert {name: one["spec"]["disks"][0]["name"] for name, one in apps.world.berths().items()} == disks
