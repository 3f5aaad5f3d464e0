"""Who carries a berth's steps out, on the real API server, with a cache that lags behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from berth_core.lifecycle.step import REMOVE, Write
from berth_core.lifecycle.view import View
from berth_core.model.resources import BERTH, LOCAL_DISK, Resource
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.lifecycle import Driver


class Lagging:
    """A cache that has not heard of the lock yet."""

    def __init__(self, **known: Any) -> None:
        self.known = known

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Any:
        return self.known.get(name)

    def wrote(self, resource: Resource, answer: dict[str, Any]) -> None:
        self.known[answer["metadata"]["name"]] = answer

    def heard(self, resource: Resource, before: Any, found: Any) -> None:
        if found is not None:
            self.known[found["metadata"]["name"]] = found


@pytest.mark.promise
def test_a_berth_goes_only_when_nothing_is_locked_for_it(control_plane: Any, run: Callable[..., Any]) -> None:
    """The lock was written, its answer was lost, and the cache lags: a Berth that went now would leave it behind."""
    definitions = ("-f", str(Path(__file__).parents[3] / "deploy/crds"))
    control_plane.kubectl("apply", "--server-side", *definitions)
    control_plane.kubectl("wait", "--for=condition=Established", *definitions)
    name = f"left-{uuid4().hex[:6]}"
    spec = {"nodeName": name, "identity": {"serial": name.upper(), "size": 1 << 20}}
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": name}, "spec": spec}
    berth = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Berth",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"app": "db", "ordinal": 0, "nodeName": name, "disks": [{"claim": "data", "name": name, "size": 1}]},
    }

    async def story() -> tuple[bool, Any, bool, Any]:
        access = config.load(str(control_plane.kubeconfig))
        async with KubeClient(access, user_agent="test", field_manager="test") as client:
            free, record = await client.create(LOCAL_DISK, body), await client.create(BERTH, berth)
            lock = {"namespace": "default", "name": name, "app": "db", "ordinal": 0, "claim": "data"}
            uids = dict.fromkeys(("uid", "dataUID"), record["metadata"]["uid"])
            locked = {**free, "spec": {**free["spec"], "claimRef": {**lock, **uids}}}
            locked = await client.replace(LOCAL_DISK, locked)
            cache = Lagging(**{name: free})
            driver = Driver(client, cache, "test")
            view, step = View("default/data", None, record), Write(REMOVE, BERTH, record, "given up")
            refused = await driver.write(view, step)
            heard = cache.known[name]["spec"].get("claimRef")
            freed = {**locked, "spec": {key: value for key, value in locked["spec"].items() if key != "claimRef"}}
            await client.replace(LOCAL_DISK, freed)
            gone = await driver.write(view, step)
            left = await client.find(BERTH, name, "default")
            await client.delete(LOCAL_DISK, name)
            return refused, heard, gone, left

    refused, heard, gone, left = run(story())
    assert not refused
    assert heard["name"] == name, "the next step gives the lock up"
    assert gone
    assert left is None
