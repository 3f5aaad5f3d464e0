"""DynamicResources on the real API server: devices of ResourceSlices for the claims of pods, beside kube-scheduler too.

Slices, classes and drivers bear the world's name; the slices are those of its nodes, which no kubelet runs. Claims are
given up by Kubernetes' own controller, as in a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ConflictError, NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.errors import LockError
from berth_core.framework.binding import Binding
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_kube import config
from berth_kube.client import KubeClient
from berth_scheduler.cluster import Cluster
from berth_scheduler.devices import ResourceClaims
from tests.daemons.scheduler.world import until
from tests.support.watching import watching

pytestmark = pytest.mark.slow


class Devices:
    """What a driver and its users would make in a world."""

    def __init__(self, world: Any) -> None:
        self.world, self.api, self.driver = world, world.api, f"{world.name}.example.com"
        self._made: list[str] = []
        selector = {"cel": {"expression": f'device.driver == "{self.driver}"'}}
        self.api.create(kinds.DEVICE_CLASS, self._object(kinds.DEVICE_CLASS, world.name, {"selectors": [selector]}))

    @staticmethod
    def _object(kind: Any, name: str, spec: Any, **meta: Any) -> dict[str, Any]:
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **meta}, "spec": spec}

    def publish(self, node: str, *names: str) -> None:
        """A pool of devices on a node."""
        devices = [{"name": one} for one in names]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": self.driver, "pool": pool, "nodeName": node, "devices": devices}
        self.api.create(kinds.RESOURCE_SLICE, self._object(kinds.RESOURCE_SLICE, node, spec))
        self._made.append(node)

    def spec(self, **exactly: Any) -> dict[str, Any]:
        return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": self.world.name, **exactly}}]}}

    def claim(self, name: str, **exactly: Any) -> None:
        body = self._object(kinds.RESOURCE_CLAIM, name, self.spec(**exactly), namespace=self.world.name)
        self.api.create(kinds.RESOURCE_CLAIM, body)

    def template(self, name: str, **exactly: Any) -> None:
        spec = {"spec": self.spec(**exactly)}
        body = self._object(kinds.RESOURCE_CLAIM_TEMPLATE, name, spec, namespace=self.world.name)
        self.api.create(kinds.RESOURCE_CLAIM_TEMPLATE, body)

    def pod(self, name: str, claim: str = "", template: str = "", **spec: Any) -> None:
        source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
        self.world.pod(name, resourceClaims=[{"name": "c", **source}], **spec)

    def claims(self) -> list[dict[str, Any]]:
        return list(self.api.list(kinds.RESOURCE_CLAIM, self.world.name))

    def given(self) -> Counter[tuple[str, str]]:
        """How often each device is in a claim, by pool and name."""
        return Counter(
            (one["pool"], one["device"])
            for claim in self.claims()
            for one in ((claim.get("status") or {}).get("allocation") or {"devices": {"results": []}})["devices"][
                "results"
            ]
        )

    def of(self, claim: str) -> dict[str, Any]:
        return self.api.get(kinds.RESOURCE_CLAIM, claim, self.world.name).get("status") or {}

    def clear(self) -> None:
        for name in self._made:
            self.world.delete(kinds.RESOURCE_SLICE, name)
        self.world.delete(kinds.DEVICE_CLASS, self.world.name)
        for one in self.api.list(kinds.POD, self.world.name):
            self.world.delete(kinds.POD, one["metadata"]["name"])
        until(self._without_claims, "the resource claims do not go")

    def _without_claims(self) -> bool:
        """No driver is there to hold them: what is left after their pods is deleted without its finalizer."""
        for one in self.claims():
            self.world.delete(kinds.RESOURCE_CLAIM, one["metadata"]["name"])
            with contextlib.suppress(NotFoundError, ConflictError):
                self.api.patch(
                    kinds.RESOURCE_CLAIM, one["metadata"]["name"], self.world.name, {"metadata": {"finalizers": None}}
                )
        return not self.claims()


@pytest.fixture
def devices(world):
    made = Devices(world)
    try:
        yield made
    finally:
        made.clear()


@pytest.mark.promise
def test_one_device_for_two_pods(world, start, devices):
    """One is bound; the other waits with kube-scheduler's words, and comes when the first has gone."""
    world.node("without")
    devices.publish(world.node("with"), "g0")
    devices.template("t")
    start()
    devices.pod("first", template="t")
    assert world.placed("first") == [f"{world.name}-with"]
    devices.pod("second", template="t")
    world.refused("second", "0/")
    world.refused("second", "2 cannot allocate all claims")
    assert set(devices.given().values()) == {1}
    (claim,) = [one for one in devices.claims() if (one.get("status") or {}).get("allocation")]
    assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]
    assert [one["name"] for one in claim["status"]["reservedFor"]] == ["first"]
    assert claim["status"]["allocation"]["allocationTimestamp"]
    world.delete(kinds.POD, "first")
    world.placed("second")
    assert set(devices.given().values()) == {1}


def test_a_claim_that_two_pods_share_one_that_is_not_understood_and_one_that_comes_later(world, start, devices):
    node = world.node()
    devices.publish(node, "small", "large")
    start()
    devices.claim("shared")
    devices.pod("first", claim="shared")
    devices.pod("second", claim="shared")
    world.placed("first", "second")
    assert {one["name"] for one in devices.of("shared")["reservedFor"]} == {"first", "second"}
    devices.claim("odd", selectors=[{"cel": {"expression": "device.driver.size() > 1"}}])
    devices.pod("third", claim="odd")
    world.refused("third", "the method size() with 0 arguments is not understood by this scheduler")
    devices.pod("fourth", claim="later")
    devices.claim("later")
    world.placed("fourth")
    assert devices.given() == {(node, "small"): 1, (node, "large"): 1}


@pytest.mark.promise
def test_beside_kube_scheduler_no_device_is_given_twice(world, start, devices):
    """Pods of both schedulers, one after the other in pairs, until all devices are given; then both say no."""
    names = [f"g{number}" for number in range(4)]
    node = world.node()
    devices.publish(node, *names)
    devices.template("t")
    start()
    for number in range(2):
        devices.pod(f"ours-{number}", template="t")
        world.placed(f"ours-{number}")
        devices.pod(f"theirs-{number}", template="t", schedulerName="default-scheduler")
        world.placed(f"theirs-{number}")
    assert devices.given() == {(node, name): 1 for name in names}
    devices.pod("ours", template="t")
    devices.pod("theirs", template="t", schedulerName="default-scheduler")
    for name in ("ours", "theirs"):
        world.refused(name, " 1 cannot allocate all claims")


@pytest.mark.promise
def test_two_of_ours_at_once_give_no_device_twice(world, start, devices, tmp_path):
    """Schedulers that do not know of each other and one burst: who sees a device twice gives it back."""
    names = [f"g{number}" for number in range(8)]
    node = world.node()
    devices.publish(node, *names)
    devices.template("t")
    start()
    other = f"{world.name}-other"
    start(config=world.configuration(tmp_path / "other.yaml", {"schedulerName": other}))
    pods = [f"p{number}" for number in range(len(names))]
    for number, name in enumerate(pods):
        devices.pod(name, template="t", **({"schedulerName": other} if number % 2 else {}))
    world.placed(*pods)
    assert devices.given() == {(node, name): 1 for name in names}


def test_a_choice_that_was_written_and_not_carried_out_does_not_hold_its_pod(world, start, devices):
    """As if a scheduler had died between the claim and the bind, and the node had filled up since."""
    full, free = world.node("full"), world.node("free")
    devices.publish(full, "g0")
    devices.publish(free, "g0")
    devices.claim("c")
    devices.pod("p", claim="c", cpu="1500m")
    world.pod("filler", cpu="1500m", nodeName=full)
    claim = world.api.get(kinds.RESOURCE_CLAIM, "c", world.name)
    fields = [{"key": "metadata.name", "operator": "In", "values": [full]}]
    result = {"request": "r", "driver": devices.driver, "pool": full, "device": "g0"}
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": world.get_pod("p")["metadata"]["uid"]}],
    }
    world.api.replace(kinds.RESOURCE_CLAIM, claim, subresource="status")
    start()
    assert world.placed("p") == [free]
    assert devices.given() == {(free, "g0"): 1}


@pytest.mark.promise
def test_a_device_that_another_claim_has_as_well_is_given_back(world, plane, devices):
    """What the other one wrote came too late for the choice, and in time for the look before the bind."""
    node = world.node()
    devices.publish(node, "g0")
    devices.claim("theirs")
    devices.claim("ours")
    devices.pod("p", claim="ours")
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    allocation = {
        "devices": {"results": [{"request": "r", "driver": devices.driver, "pool": node, "device": "g0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    other = world.api.get(kinds.RESOURCE_CLAIM, "theirs", world.name)
    other["status"] = {"allocation": allocation}
    world.api.replace(kinds.RESOURCE_CLAIM, other, subresource="status")
    uid = world.api.get(kinds.RESOURCE_CLAIM, "ours", world.name)["metadata"]["uid"]
    pod = world.get_pod("p")

    async def story() -> None:
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster = Cluster(client)
            async with watching(cluster):
                acting = ResourceClaims(cluster)
                placement = Placement(node, allocations={uid: allocation})
                binding = Binding(pod, PlacementRequest(PodInfo.from_manifest(pod)), placement, client)
                with pytest.raises(LockError, match=r"device .*/g0 was given to another claim as well"):
                    await acting.pre_bind(binding)
                assert "allocation" in devices.of("ours")
                await acting.release(binding)
                await acting.release(binding)

    asyncio.run(story())
    assert not {"allocation", "reservedFor"} & set(devices.of("ours"))
    assert devices.given() == {(node, "g0"): 1}
