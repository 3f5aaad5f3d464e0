"""What the agent writes of a disk's life, on the real API server: a write that comes late takes nothing away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from berth_agent.agent import utc_now
from berth_agent.disks.record import Record
from berth_core.app.wipe import SUCCEEDED, WipePlan, ended, progress
from berth_core.errors import ConflictError, UnavailableError
from berth_core.model.resources import LOCAL_DISK
from berth_kube import config
from berth_kube.client import KubeClient
from tests.support.kube import client_for, forget_disks, install_crds

PLAN = WipePlan("d", "r1", "ann", "/dev/x", "7:1", 1 << 20, "zero", 0, False, "2026-01-01T00:00:00Z")
WIPING = progress(PLAN, "Overwriting", 4096, 1, "zero")
WIPED = ended(PLAN, SUCCEEDED, "", 1 << 20, "zero", "2026-01-01T00:01:00Z")


class LosesOne(KubeClient):
    """The first write does not come through: it is kept, and `arrive` sends it as it was."""

    kept: Any = None

    async def apply(self, *args: Any, **kwargs: Any) -> Any:
        if self.kept is None:
            self.kept = (args, kwargs)
            raise UnavailableError("no answer in time")
        return await super().apply(*args, **kwargs)

    async def arrive(self) -> None:
        args, kwargs = self.kept
        await super().apply(*args, **kwargs)


@pytest.fixture
def disk(control_plane: Any) -> Any:
    install_crds(control_plane.kubeconfig)
    name = f"record-{uuid4().hex[:6]}"
    spec = {"nodeName": name, "identity": {"serial": name.upper(), "size": 1 << 20}}
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": name}, "spec": spec}
    api = client_for(control_plane.kubeconfig)
    yield api.create(LOCAL_DISK, body)
    forget_disks(api, name)


def record_by(client: KubeClient) -> Record:
    return Record(cast(Any, SimpleNamespace(client=client, check=lambda: None, now=utc_now)))


def test_a_write_that_arrives_late_takes_nothing_away(control_plane: Any, disk: dict[str, Any]) -> None:
    async def story() -> dict[str, Any]:
        access = config.load(str(control_plane.kubeconfig))
        async with LosesOne(access, user_agent="test", field_manager="test") as client:
            record = record_by(client)
            with pytest.raises(UnavailableError):
                await record.write(disk, ("Wiped", "False", "Wiping", "wiping"), wipe=WIPING)
            await record.write(disk, ("Wiped", "True", SUCCEEDED, "wiped"), lastWipe=WIPED, wipe=None)
            with pytest.raises(ConflictError):
                await client.arrive()
            return cast(dict[str, Any], await client.get(LOCAL_DISK, disk["metadata"]["name"]))

    status = asyncio.run(story())["status"]
    assert status["lastWipe"] == WIPED
    assert "wipe" not in status


def test_writers_at_once_all_come_through(control_plane: Any, disk: dict[str, Any]) -> None:
    """The frame and others write to the same object: whoever loses reads again."""
    name = disk["metadata"]["name"]

    async def story() -> dict[str, Any]:
        access = config.load(str(control_plane.kubeconfig))
        async with KubeClient(access, user_agent="test", field_manager="test") as client:

            async def others() -> None:
                for number in range(5):
                    note = {"metadata": {"annotations": {"berth.dev/test": str(number)}}}
                    await client.patch(LOCAL_DISK, name, None, note, kind="merge")

            record = record_by(client)
            await asyncio.gather(
                others(),
                record.write(disk, ("Wiped", "True", SUCCEEDED, "wiped"), lastWipe=WIPED),
                record.write(disk, ("Prepared", "False", "Unmounted", "nobody holds it"), health={"state": "Healthy"}),
            )
            return cast(dict[str, Any], await client.get(LOCAL_DISK, name))

    status = asyncio.run(story())["status"]
    assert status["lastWipe"] == WIPED
    assert status["health"] == {"state": "Healthy"}
    assert sorted(each["type"] for each in status["conditions"]) == ["Prepared", "Wiped"]
