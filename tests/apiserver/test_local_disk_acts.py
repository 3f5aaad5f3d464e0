"""local_disk on a real API server: cordon, reserve, release, and the wipe that is asked for. The outcome of a wipe is
written here as the node agent writes it; that the agent does wipe is for the tests on real hosts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import local_disk
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import BERTH, LOCAL_DISK
from tests.apiserver.test_local_disk import Run, declared, runner
from tests.core.app.disk_samples import device, formatted, held, kept
from tests.support.kube import forget

pytestmark = pytest.mark.usefixtures("crds")
Act = Callable[..., dict[str, Any]]


@pytest.fixture
def disk(control_plane: Any) -> Run:
    return runner(local_disk.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def ld(name: str, api: ApiClient, disk: Run) -> Iterator[str]:
    """A LocalDisk that is there, blank and free."""
    made = disk(**declared(name, observed=device()))
    assert made["changed"], made
    yield f"{name}-sdb"
    for each in api.list(LOCAL_DISK, fields=f"spec.nodeName={name}"):
        forget(api, LOCAL_DISK, each["metadata"]["name"])


def spec(api: ApiClient, name: str) -> dict[str, Any]:
    return dict(api.get(LOCAL_DISK, name)["spec"])


def patch(api: ApiClient, name: str, **fields: Any) -> None:
    api.patch(LOCAL_DISK, name, None, {"spec": fields})


def test_cordon_outlives_what_the_inventory_declares(disk: Run, api: ApiClient, ld: str, name: str) -> None:
    assert disk(name=ld, cordon=True)["actions"] == {ld: "updated"}
    assert spec(api, ld)["unschedulable"] is True
    assert not disk(name=ld, cordon=True)["changed"]
    assert not disk(**declared(name, reserved=False))["changed"]
    assert spec(api, ld)["unschedulable"] is True
    assert disk(name=ld, cordon=False)["changed"]
    assert "unschedulable" not in spec(api, ld)


def test_reserved_and_released(disk: Run, api: ApiClient, ld: str) -> None:
    assert disk(check=True, name=ld, state="reserved")["changed"]
    assert spec(api, ld)["reserved"] is False
    assert disk(name=ld, state="reserved")["changed"]
    assert spec(api, ld)["reserved"] is True
    assert disk(name=ld, state="released")["changed"]
    assert not disk(name=ld, state="released")["changed"]
    assert spec(api, ld)["reserved"] is False
    assert "no such LocalDisk" in disk(name="not-there", state="released")["msg"]


@pytest.mark.promise
def test_release_gives_up_the_lock_of_a_berth_that_is_gone_alone(
    disk: Run, api: ApiClient, ld: str, name: str, namespace: str
) -> None:
    body = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Berth",
        "metadata": {"name": "db-0", "namespace": namespace},
        "spec": {"app": "db", "ordinal": 0, "nodeName": name},
    }
    uid = api.create(BERTH, body)["metadata"]["uid"]
    patch(api, ld, claimRef={**held(uid, uid), "namespace": namespace})
    before = api.get(LOCAL_DISK, ld)
    refused = disk(name=ld, state="released", force_retained=True)
    assert f"held by berth {namespace}/db-0, which is there" in refused["msg"]
    assert api.get(LOCAL_DISK, ld) == before
    api.delete(BERTH, "db-0", namespace)
    assert disk(name=ld, state="released")["changed"]
    assert spec(api, ld)["retainedFor"]["dataUID"] == uid
    assert "claimRef" not in spec(api, ld)
    assert disk(name=ld, state="released", force_retained=True)["changed"]
    assert "retainedFor" not in spec(api, ld)


@pytest.mark.promise
@pytest.mark.parametrize(
    ("there", "asked", "words"),
    [
        ({}, {"serial": "another"}, "is not that of the disk"),
        ({}, {"size": "4Gi"}, "name at least one of wwn, serial, by_path"),
        ({"claimRef": held()}, {"serial": "SERIAL-sdb"}, "berth default/db-0 holds the disk"),
        ({"retainedFor": kept()}, {"serial": "SERIAL-sdb"}, "set force_retained: true to destroy it"),
        ({"reserved": True}, {"serial": "SERIAL-sdb"}, "berth may not wipe it"),
    ],
)
def test_a_wipe_is_refused_before_it_is_asked_for(
    disk: Run, api: ApiClient, ld: str, there: dict[str, Any], asked: dict[str, Any], words: str
) -> None:
    if there:
        patch(api, ld, **there)
    before = api.get(LOCAL_DISK, ld)
    for check in (True, False):
        refused = disk(check=check, name=ld, wipe=wipe(**asked))
        assert refused["failed"], refused
        assert words in refused["msg"]
        assert api.get(LOCAL_DISK, ld) == before


@pytest.mark.promise
@pytest.mark.parametrize(
    ("seen", "words"),
    [({"mounts": ["/data"]}, "mounted at /data"), ({"holders": ["md0"]}, "md0"), (None, "not in it")],
)
def test_a_disk_in_use_is_not_asked_for(
    disk: Run, api: ApiClient, ld: str, name: str, seen: dict[str, Any] | None, words: str
) -> None:
    disk(**declared(name, observed=device(**seen) if seen else {}))
    assert words in disk(name=ld, wipe=wipe())["msg"]
    assert "wipe" not in spec(api, ld)


def wipe(**identity: str) -> dict[str, Any]:
    keys = dict.fromkeys(("wwn", "serial", "model", "size", "by_path"))
    return {
        "identity": {**keys, **(identity or {"serial": "SERIAL-sdb"})},
        "method": "zero",
        "request_id": None,
        "requested_by": "ann",
    }


def agent(api: ApiClient, name: str, result: str) -> threading.Thread:
    """What the agent of the node does with a request, without the disk."""

    def act() -> None:
        request = None
        while not request:
            request = spec(api, name).get("wipe")
            time.sleep(0.05)
        now = {"requestID": request["requestID"], "step": "Overwriting", "method": "zero", "offset": 1024, "size": 4096}
        api.patch(LOCAL_DISK, name, None, {"status": {"wipe": {**now, "bytesPerSecond": 100}}}, "status")
        last = {"requestID": request["requestID"], "result": result, "message": "bad block at 17", "method": "zero"}
        done = {**last, "requestedBy": request["requestedBy"], "bytes": 4096}
        api.patch(LOCAL_DISK, name, None, {"status": {"wipe": None, "lastWipe": done}}, "status")
        if result == "Succeeded":
            patch(api, name, wipe=None, retainedFor=None)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_a_wipe_is_asked_for_and_waited_for(disk: Run, api: ApiClient, ld: str, name: str) -> None:
    patch(api, ld, retainedFor=kept())
    disk(**declared(name, observed=formatted()))
    planned = disk(check=True, name=ld, force_retained=True, wipe=wipe())
    assert planned["changed"]
    assert planned["destroyed"]["filesystem"]["uuid"] == "1111-22"
    assert planned["destroyed"]["data_of"]["app"] == "db"
    assert "wipe" not in spec(api, ld)
    at_work = agent(api, ld, "Succeeded")
    done = disk(name=ld, force_retained=True, wipe=wipe())
    at_work.join(60)
    assert done["changed"], done
    assert (done["wipe"]["result"], done["wipe"]["requestedBy"]) == ("Succeeded", "ann")
    assert {"wipe", "retainedFor"}.isdisjoint(spec(api, ld))
    again = disk(name=ld, wipe={**wipe(), "request_id": done["wipe"]["requestID"]})
    assert (again["changed"], again["wipe"]["result"]) == (False, "Succeeded")


def test_a_request_that_was_carried_out_is_never_taken_for_the_wipe_of_other_data(
    disk: Run, api: ApiClient, ld: str
) -> None:
    last = {"requestID": "r1", "result": "Succeeded", "requestedBy": "ann"}
    api.patch(LOCAL_DISK, ld, None, {"status": {"lastWipe": last}}, "status")
    again = {"name": ld, "force_retained": True, "wait": False, "wipe": {**wipe(), "request_id": "r1"}}
    assert not disk(**again)["changed"]
    request = {"requestID": "r1", "identity": spec(api, ld)["identity"], "requestedBy": "ann"}
    held_since = {"lockUID": "u2"}
    for status, fields in (({}, {"retainedFor": kept()}), (held_since, {"retainedFor": None}), (held_since, {})):
        api.patch(LOCAL_DISK, ld, None, {"status": {"lastWipe": {**last, **status}}}, "status")
        patch(api, ld, **fields)
        for planned in (True, False):
            assert "has been held since" in disk(check=planned, **again)["msg"]
        with pytest.raises(InvalidError, match="carried out before, and the disk has been held since"):
            patch(api, ld, wipe=request)
    patch(api, ld, wipe={**request, "requestID": "r2"})


def test_a_wipe_that_failed_says_why_and_can_be_asked_for_again(disk: Run, api: ApiClient, ld: str) -> None:
    at_work = agent(api, ld, "Failed")
    assert "bad block at 17" in disk(name=ld, wipe=wipe())["msg"]
    at_work.join(60)
    first = spec(api, ld)["wipe"]["requestID"]
    asked = disk(name=ld, wait=False, wipe=wipe())
    assert asked["changed"], asked
    assert spec(api, ld)["wipe"]["requestID"] != first
    assert not disk(name=ld, wait=False, wipe=wipe())["changed"]  # one is under way


def test_a_wipe_that_nobody_carries_out_times_out_and_stays_asked_for(disk: Run, api: ApiClient, ld: str) -> None:
    late = disk(name=ld, wait_timeout=1, wipe=wipe())
    assert "asked for, not begun" in late["msg"]
    assert "is the agent of node" in late["msg"].lower()
    assert spec(api, ld)["wipe"]["identity"] == spec(api, ld)["identity"]
