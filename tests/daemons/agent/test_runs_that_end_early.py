"""Runs of stateful_app that die or fail beside a living agent: what it has formatted keeps its data, the rest is free.

Reserved is recorded when all replicas of a run have their locks, and agents touch nothing before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.fsid import filesystem_uuid
from tests.apiserver.app.runner import run
from tests.apiserver.app.world import STORAGE_CLASS, params
from tests.dev.hosts_help import eventually
from tests.support.agent import conditions_of, install_rights
from tests.support.local_node import LocalNode

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.slow,
    pytest.mark.promise,
]
NODE = "early"
DISKS = {name: {"storage_class": "berth-test"} for name in "abcdefgh"}
DISK = 24 << 20
Obj = dict[str, Any]


@pytest.fixture
def node(control_plane: Any, tmp_path: Path) -> Iterator[LocalNode]:
    install_rights(control_plane)
    made = LocalNode(control_plane, tmp_path / NODE, NODE, DISKS, DISK)
    made.api.apply(kinds.STORAGE_CLASS, STORAGE_CLASS)
    try:
        with made:
            made.start()
            eventually(lambda: {phase(each) for each in made.objects().values()} == {"Available"}, 60, "free disks")
            yield made
            print(made.log.read_text()[-8000:])
    finally:
        made.forget()


def phase(disk: Obj) -> str:
    return str((disk.get("status") or {}).get("phase") or "")


def options(node: LocalNode, app: str, **values: Any) -> dict[str, Any]:
    """Two replicas with a disk each, on that node; nobody runs their pods."""
    made = params(app, node.cluster.kubeconfig, wait=False, wait_timeout=20, **values)
    made["disks"] = [{"name": "data", "size": "16Mi", "storage_class": "berth-test"}]
    pinned = {"nodeSelector": {"kubernetes.io/hostname": NODE}, "tolerations": [{"operator": "Exists"}]}
    made["template"]["spec"].update(pinned, schedulerName="nobody")
    return made


def locked(node: LocalNode, app: str) -> dict[str, Obj]:
    """Short names of the disks that are locked for that app."""
    return {
        name: disk for name, disk in node.objects().items() if (disk["spec"].get("claimRef") or {}).get("app") == app
    }


def berths(node: LocalNode, app: str) -> dict[str, str]:
    """Phases of the app's Berths by uid."""
    return {
        one["metadata"]["uid"]: (one.get("status") or {}).get("phase", "Selected")
        for one in node.api.list(kinds.BERTH)
        if one["spec"]["app"] == app
    }


def mounted(node: LocalNode, app: str, uids: set[str]) -> set[str]:
    """The app's disks that are mounted, once all of these Berths are; of the others the agent says that it waits."""

    def said() -> dict[str, tuple[str, str]]:
        return {name: conditions_of(disk).get("Prepared", ("", "")) for name, disk in locked(node, app).items()}

    def right() -> bool:
        found, holders = said(), {name: disk["spec"]["claimRef"]["uid"] for name, disk in locked(node, app).items()}
        words = {True: ("True", "Mounted"), False: ("False", "Waiting")}
        return found == {name: words[uid in uids] for name, uid in holders.items()}

    try:
        eventually(right, 60, "the agent's words")
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {said()}, {berths(node, app)}\n{node.log.read_text()[-4000:]}") from None
    return {name for name, words in said().items() if words[1] == "Mounted"}


def blank(node: LocalNode, name: str) -> bool:
    return not node.file(name).read_bytes().strip(b"\0")


def uuid_on(node: LocalNode, name: str) -> str:
    return node.here("blkid", "-p", "-o", "value", "-s", "UUID", node.devices[name])


@pytest.mark.parametrize("then", ["absent", "present"])
def test_a_run_that_dies_around_reserved(node: LocalNode, then: str) -> None:
    """After the last lock, when one of two is Reserved, when both have their volumes: the agent does what it may."""
    record, service = "patch Berth status", "apply Service"
    for app, of, before, reserved in (("none", record, True, 0), ("one", record, False, 1), ("both", service, True, 2)):
        assert run(options(node, app), kill_at=1, of=of, before=before) is None
        phases, disks = berths(node, app), locked(node, app)
        on = {uid for uid, recorded in phases.items() if recorded != "Selected"}
        assert (len(phases), len(on), len(disks)) == (2, reserved, 2), phases
        made = mounted(node, app, on)
        assert all(blank(node, name) for name in set(disks) - made), "an agent has touched a disk before Reserved"
        if then == "present":
            assert not run(options(node, app)).get("failed")
            made = mounted(node, app, set(phases))
            assert made == set(disks) == set(locked(node, app))
        done = run(options(node, app, state="absent"))
        assert not done.get("failed"), done
        kept_or_as_before(node, app, disks, made)


def kept_or_as_before(node: LocalNode, app: str, disks: dict[str, Obj], made: set[str]) -> None:
    """Those of ``made`` carry the filesystem of their lock and are retained for it; the others are free and blank."""
    assert (berths(node, app), locked(node, app)) == ({}, {})
    wanted = {name: "Released" if name in made else "Available" for name in disks}
    eventually(lambda: {name: phase(node.objects()[name]) for name in disks} == wanted, 60, f"{wanted}")
    for name, disk in node.objects().items():
        if name not in disks:
            continue
        held = disks[name]["spec"]["claimRef"]
        if name in made:
            assert disk["spec"]["retainedFor"] == {
                key: held[key] for key in ("namespace", "namespaceUID", "app", "ordinal", "claim", "dataUID")
            }
            assert uuid_on(node, name) == filesystem_uuid(held["dataUID"], disk["metadata"]["name"])
        else:
            assert "retainedFor" not in disk["spec"]
            assert blank(node, name)


@contextmanager
def no_claims(node: LocalNode) -> Iterator[None]:
    """Admission refuses claims, and says nothing of it to a dry run."""
    match = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["persistentvolumeclaims"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [match]},
        "validations": [{"expression": "request.dryRun", "message": "no claims today"}],
    }
    node.api.create(kinds.VALIDATING_ADMISSION_POLICY, {"metadata": {"name": NODE}, "spec": spec})
    binding = {"policyName": NODE, "validationActions": ["Deny"]}
    node.api.create(kinds.VALIDATING_ADMISSION_POLICY_BINDING, {"metadata": {"name": NODE}, "spec": binding})
    try:
        eventually(lambda: refused(node), 30, "the policy is in force")
        yield
    finally:
        node.api.delete(kinds.VALIDATING_ADMISSION_POLICY_BINDING, NODE)
        node.api.delete(kinds.VALIDATING_ADMISSION_POLICY, NODE)


def refused(node: LocalNode) -> bool:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    try:
        node.api.create(kinds.PVC, {"metadata": {"name": "probe", "namespace": "default"}, "spec": spec})
    except InvalidError:
        return True
    node.api.delete(kinds.PVC, "probe", "default")
    return False


def test_a_run_that_fails_before_and_after_reserved(node: LocalNode) -> None:
    """Too many replicas: nothing is left of the run. Refused claims: its disks are formatted by then, and kept."""
    failed = run(options(node, "many", replicas=len(DISKS) + 1))
    assert "does not fit" in failed["msg"], failed
    assert (berths(node, "many"), locked(node, "many")) == ({}, {})
    assert all("retainedFor" not in disk["spec"] for disk in node.objects().values())
    assert all(blank(node, name) for name in DISKS)

    with no_claims(node):
        failed = run(options(node, "refused"))
        assert "no claims today" in failed["msg"], failed
        disks = locked(node, "refused")
        assert set(berths(node, "refused").values()) == {"Reserved"}
        assert mounted(node, "refused", set(berths(node, "refused"))) == set(disks)
    assert not run(options(node, "refused", state="absent")).get("failed")
    kept_or_as_before(node, "refused", disks, set(disks))
