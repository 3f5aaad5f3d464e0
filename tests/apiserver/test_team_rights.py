"""What a team's account may do with disks that all teams share: lock them for its own Berths, and nothing else.

Real RBAC and admission; the account has what docs/guides/security.md says to give to a team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.fsid import namespace_link
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ForbiddenError, InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.locks import BERTH_ANNOTATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.dev.hosts_help import eventually
from tests.support.kube import forget
from tests.support.team import binding, client_of, team

pytestmark = [pytest.mark.usefixtures("crds"), pytest.mark.promise]
UID = "0123abcd-0000-4000-8000-000000000000"


class Two(NamedTuple):
    """``mine``: the team's namespace; ``theirs``: another one."""

    admin: ApiClient
    team: ApiClient
    mine: str
    theirs: str


@pytest.fixture(scope="module")
def teams(control_plane: Any) -> Iterator[tuple[ApiClient, str, str]]:
    from tests.support.kube import install_crds

    install_crds(control_plane.kubeconfig)
    with team(control_plane.kubeconfig, "team-a") as client:
        yield client, "team-a", "team-b"


@pytest.fixture
def two(teams: tuple[ApiClient, str, str], api: ApiClient) -> Two:
    return Two(api, *teams)


@pytest.fixture
def disk(api: ApiClient, name: str) -> Iterator[str]:
    spec = {"nodeName": "n1", "identity": {"serial": name, "size": 4096}}
    whole = {"metadata": {"name": name}, "spec": spec}
    api.create(kinds.LOCAL_DISK, {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", **whole})
    yield name
    forget(api, kinds.LOCAL_DISK, name)


def lock(namespace: str, **more: Any) -> dict[str, Any]:
    held = {"namespace": namespace, "name": "db-0", "uid": UID, "app": "db", "ordinal": 0, "claim": "data"}
    return {**held, "dataUID": UID, **more}


def kept(namespace: str) -> dict[str, Any]:
    return {key: value for key, value in lock(namespace).items() if key not in ("name", "uid")}


def put(client: ApiClient, name: str, **spec: Any) -> dict[str, Any]:
    """The disk with those fields of its spec; None takes one out."""
    live = client.get(kinds.LOCAL_DISK, name)
    fields = {key: value for key, value in {**live["spec"], **spec}.items() if value is not None}
    return client.replace(kinds.LOCAL_DISK, {**live, "spec": fields})


def refused(act: Callable[[], Any], policy: str, words: str) -> None:
    with pytest.raises(ForbiddenError) as told:
        act()
    assert f"ValidatingAdmissionPolicy '{policy}'" in told.value.message, told.value.message
    assert words in told.value.message, told.value.message


def test_a_lock_is_taken_and_given_up_for_ones_own_berths_alone(two: Two, disk: str) -> None:
    put(two.team, disk, claimRef=lock(two.mine))
    put(two.team, disk, claimRef=None, retainedFor=kept(two.mine))
    put(two.team, disk, claimRef=lock(two.mine), retainedFor=None)
    put(two.team, disk, claimRef=None)
    refused(
        lambda: put(two.team, disk, claimRef=lock(two.theirs)), "berth-disks", "only by who may update Berths there"
    )
    another = lock(two.mine, dataUID="another")
    refused(lambda: put(two.team, disk, claimRef=another), "berth-disks", "another dataUID")
    put(two.admin, disk, claimRef=lock(two.theirs))
    for change in ({"claimRef": None}, {"claimRef": None, "retainedFor": kept(two.theirs)}):
        refused(
            lambda change=change: put(two.team, disk, **change), "berth-disks", f"a Berth of namespace {two.theirs}"
        )
    with pytest.raises((ForbiddenError, InvalidError)):
        put(two.team, disk, claimRef=lock(two.mine))
    assert two.admin.get(kinds.LOCAL_DISK, disk)["spec"]["claimRef"] == lock(two.theirs)
    put(two.admin, disk, claimRef=None)


def test_a_disk_is_left_to_a_volume_only_with_a_right_of_its_own(two: Two, disk: str) -> None:
    """It would stay mounted for a replica that no berth has any more."""
    put(two.team, disk, claimRef=lock(two.mine))
    left = {**kept(two.mine), "volume": f"{disk}-left"}
    refused(lambda: put(two.team, disk, claimRef=None, retainedFor=left), "berth-disks", "update localdisks/retained")
    put(two.admin, disk, claimRef=None, retainedFor=left)
    put(two.team, disk, retainedFor=None, claimRef=lock(two.mine))
    put(two.team, disk, claimRef=None)


def test_data_is_destroyed_and_given_up_only_with_a_right_of_its_own(two: Two, disk: str) -> None:
    identity = two.admin.get(kinds.LOCAL_DISK, disk)["spec"]["identity"]
    request = {"requestID": "r-1", "identity": identity, "requestedBy": "somebody"}
    refused(lambda: put(two.team, disk, wipe=request), "berth-disks", "the right to create localdisks/wipe")
    put(two.admin, disk, wipe=request)
    put(two.team, disk, wipe=None)
    refused(lambda: put(two.team, disk, retainedFor=kept(two.mine)), "berth-disks", "update localdisks/retained")
    put(two.admin, disk, retainedFor=kept(two.theirs))
    refused(lambda: put(two.team, disk, retainedFor=None), "berth-disks", "update localdisks/retained")
    two.admin.create(kinds.CLUSTER_ROLE_BINDING, binding("berth-disk-wiper", two.mine))
    try:
        eventually(lambda: _asks(two, disk, request), what="the right to wipe is in force")
        put(two.team, disk, wipe=None, retainedFor=None)
    finally:
        two.admin.delete(kinds.CLUSTER_ROLE_BINDING, f"{two.mine}-berth-disk-wiper")


def _asks(two: Two, disk: str, request: dict[str, Any]) -> bool:
    try:
        put(two.team, disk, wipe=request)
    except ForbiddenError:
        return False
    return True


def test_who_holds_a_disk_may_cordon_it_and_not_take_the_cordon_off(two: Two, disk: str) -> None:
    put(two.admin, disk, claimRef=lock(two.theirs))
    refused(lambda: put(two.team, disk, unschedulable=True), "berth-disks", "who may create LocalDisks")
    put(two.admin, disk, claimRef=None)
    put(two.team, disk, claimRef=lock(two.mine))
    refused(lambda: put(two.team, disk, unschedulable=True, reserved=True), "berth-disks", "who may create LocalDisks")
    refused(lambda: put(two.team, disk, unschedulable=True, claimRef=None), "berth-disks", "who may create LocalDisks")
    put(two.team, disk, unschedulable=True)
    for off in (False, None):
        refused(lambda off=off: put(two.team, disk, unschedulable=off), "berth-disks", "who may create LocalDisks")
    put(two.team, disk, claimRef=None, retainedFor=kept(two.mine))


def test_what_is_declared_and_what_was_seen_is_not_a_teams_to_say(two: Two, disk: str) -> None:
    for change in ({"reserved": True}, {"unschedulable": True}, {"reclaimPolicy": "Delete"}, {"fsType": "xfs"}):
        refused(lambda change=change: put(two.team, disk, **change), "berth-disks", "who may create LocalDisks")
    seen = {"status": {"lastWipe": {"requestID": "r", "result": "Succeeded", "requestedBy": "nobody"}}}
    forged = {
        "conditions": [
            {"type": "Healthy", "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]
    }
    for status in (seen, {"status": forged}, {"status": {"observed": {"devicePath": "/dev/sda"}}}):
        refused(
            lambda status=status: two.team.patch(kinds.LOCAL_DISK, disk, None, status, "status"),
            *("berth-disk-status", "only by its agent"),
        )
    two.team.patch(kinds.LOCAL_DISK, disk, None, {"status": {"phase": "Locked"}}, "status")
    with pytest.raises(ForbiddenError):
        two.team.delete(kinds.LOCAL_DISK, disk)


def test_shares_are_given_to_ones_own_berths_alone(two: Two, name: str) -> None:
    spec = {"nodeName": "n1", "deviceClass": "gpu", "uuid": name}
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDevice", "metadata": {"name": name}, "spec": spec}
    two.admin.create(kinds.LOCAL_DEVICE, body)

    def give(client: ApiClient, *shares: dict[str, Any], **more: Any) -> None:
        live = client.get(kinds.LOCAL_DEVICE, name)
        client.replace(kinds.LOCAL_DEVICE, {**live, "spec": {**live["spec"], "claimRefs": list(shares), **more}})

    def share(namespace: str) -> dict[str, Any]:
        return {"namespace": namespace, "name": "db-0", "uid": f"u-{namespace}", "claim": "gpu", "shares": 100}

    mine, theirs = share(two.mine), share(two.theirs)
    words = "only by who may update Berths there"
    give(two.team, mine)
    refused(lambda: give(two.team, mine, theirs), "berth-devices", words)
    give(two.admin, mine, theirs)
    refused(lambda: give(two.team, mine), "berth-devices", words)
    refused(lambda: give(two.team), "berth-devices", words)
    give(two.team, theirs)
    refused(lambda: give(two.team, theirs, reserved=True), "berth-devices", "who may create LocalDevices")
    give(two.admin)
    two.admin.delete(kinds.LOCAL_DEVICE, name)


def test_what_is_held_or_keeps_data_is_deleted_by_nobody(two: Two, control_plane: Any, disk: str) -> None:
    """Not by a slip of the administrator's either; the object is as it was, and its lock is the way to it."""
    spec = {"nodeName": "n1", "deviceClass": "gpu", "uuid": disk}
    body = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDevice", "metadata": {"name": disk}, "spec": spec}
    share = {"namespace": two.theirs, "name": "db-0", "uid": UID, "claim": "gpu", "shares": 100}
    two.admin.create(kinds.LOCAL_DEVICE, {**body, "spec": {**spec, "claimRefs": [share]}})
    for kind in (kinds.LOCAL_DISK, kinds.LOCAL_DEVICE):
        two.admin.patch(kind, disk, None, {"metadata": {"labels": {"of": disk}}})

    def slips(kind: str, *words: str) -> None:
        before = control_plane.kubectl("get", kind, disk, "-o", "yaml")
        for which in ((disk,), ("-l", f"of={disk}"), (disk, "--force", "--grace-period=0")):
            with pytest.raises(Exception, match="is deleted by nobody") as told:
                control_plane.kubectl("delete", kind, *which, "--wait=false")
            for word in (disk, *words):
                assert word in str(told.value)
        resource = kinds.LOCAL_DISK if kind == "ld" else kinds.LOCAL_DEVICE
        with pytest.raises(ForbiddenError, match="is deleted by nobody"):  # of all at once, which kubectl does not use
            two.admin._send("delete", resource, None, None, query={"labelSelector": f"of={disk}"})
        assert control_plane.kubectl("get", kind, disk, "-o", "yaml") == before

    put(two.admin, disk, claimRef=lock(two.theirs))
    slips("ld", f"is held by Berth {two.theirs}/db-0", "stateful_app - scale down", "state released")
    put(two.admin, disk, claimRef=None, retainedFor=kept(two.theirs))
    slips("ld", f"keeps the data of {two.theirs}/db-0 (claim data)", "force_retained")
    slips("ldev", f"is held by Berth {two.theirs}/db-0", "stateful_app - scale down")
    put(two.admin, disk, retainedFor=None)
    assert "deleted" in control_plane.kubectl("delete", "ld", disk)
    forget(two.admin, kinds.LOCAL_DEVICE, disk)


def volume(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """As berth makes it over LocalDisk ``name``; None takes a field out."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]
    whole: Mapping[str, Any] = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "berth",
        "local": {"path": namespace_link(name, namespace)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        "claimRef": {"namespace": namespace, "name": "data-db-0"},
        **spec,
    }
    labels = {"app.kubernetes.io/managed-by": "berth"}
    metadata = {"name": f"{name}-{UID[:8]}", "labels": labels, "annotations": {BERTH_ANNOTATION: UID}}
    return {"metadata": metadata, "spec": {key: value for key, value in whole.items() if value is not None}}


def test_a_team_makes_the_volumes_of_its_own_berths_alone(two: Two, disk: str) -> None:
    name = disk

    def make(*args: Any, **spec: Any) -> Callable[[], Any]:
        return lambda: two.team.create(kinds.PV, volume(name, *args, **spec))

    none, theirs = "is none that berth makes", "only by who may update Berths"
    refused(make(two.theirs), "berth-volumes", theirs)
    refused(make(two.mine, claimRef=None), "berth-volumes", theirs)
    for path in (
        "/",
        "/etc",
        f"/var/lib/berth/disks/{name}/data",
        namespace_link(name, two.theirs),
        namespace_link("another", two.mine),
        namespace_link(name, two.mine).rpartition("/")[0],
        f"{namespace_link(name, two.mine)}/x",
        namespace_link(name, two.mine, "/home"),
    ):
        refused(make(two.mine, local={"path": path}), "berth-volumes", none)
    refused(make(two.mine, local=None, nodeAffinity=None, hostPath={"path": "/"}), "berth-volumes", none)
    unmarked = volume(name, two.mine)
    del unmarked["metadata"]["annotations"]
    refused(lambda: two.team.create(kinds.PV, unmarked), "berth-volumes", none)
    hidden = volume(name, two.mine)
    del hidden["metadata"]["labels"]
    refused(lambda: two.team.create(kinds.PV, hidden), "berth-volumes", none)
    misled = volume(name, two.mine)
    misled["metadata"]["annotations"]["berth.dev/local-disk"] = "another"
    refused(lambda: two.team.create(kinds.PV, misled), "berth-volumes", none)
    link = {"path": "/dev/disk/by-id/wwn-0x1"}
    refused(make(two.mine, local=link, volumeMode="Block"), "berth-volumes", "the right to block localdisks/volumes")
    # Over a disk of the other team, with its own namespace in the path: on the node there is no such path
    # (tests/daemons/agent/test_disks_life.py).
    put(two.admin, name, claimRef=lock(two.theirs))
    made = make(two.mine)()
    assert made["spec"]["local"]["path"] == f"/var/lib/berth/disks/.namespaces/{name}/{two.mine}"
    put(two.admin, name, claimRef=None)
    two.team.delete(kinds.PV, made["metadata"]["name"])
    eventually(lambda: two.admin.find(kinds.PV, made["metadata"]["name"]) is None, what="the volume goes")
    other = two.admin.create(kinds.PV, volume(name, two.theirs))
    refused(lambda: two.team.delete(kinds.PV, other["metadata"]["name"]), "berth-volumes", "by who may update Berths")
    two.admin.delete(kinds.PV, other["metadata"]["name"])


def test_volumes_of_others_are_left_alone(two: Two, control_plane: Any, name: str) -> None:
    """Whoever may make volumes without berth's roles makes what they like, unless it looks like berth's."""
    control = {
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["create", "delete"]}],
    }
    two.admin.create(kinds.CLUSTER_ROLE, control)
    two.admin.create(kinds.CLUSTER_ROLE_BINDING, binding(name, name))
    try:
        provisioner = client_of(control_plane.kubeconfig, name)
        foreign = {
            "metadata": {"name": name},
            "spec": volume(name, two.theirs, local=None, nodeAffinity=None, hostPath={"path": "/x"})["spec"],
        }
        eventually(lambda: _makes(provisioner, foreign), what="the provisioner's right is in force")
        provisioner.delete(kinds.PV, name)
        refused(
            lambda: provisioner.create(kinds.PV, volume(name, two.theirs)), "berth-volumes", "only by who may update"
        )
        adopted = volume(name, two.theirs, local={"path": "/mnt/found"})
        two.admin.create(kinds.PV, adopted)
        two.admin.delete(kinds.PV, adopted["metadata"]["name"])
    finally:
        two.admin.delete(kinds.CLUSTER_ROLE_BINDING, f"{name}-{name}")
        two.admin.delete(kinds.CLUSTER_ROLE, name)


def _makes(client: ApiClient, body: dict[str, Any]) -> bool:
    try:
        client.create(kinds.PV, body)
    except ForbiddenError:
        return False
    return True
