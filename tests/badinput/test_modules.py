"""Bad input to modules is refused clearly, before anybody is asked: which options, and what the message must name."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.badinput import cases
from tests.badinput.asking import refusal

COLLECTION = "ansible_collections.berth.stateful.plugins"
ROOT = Path(__file__).resolve().parents[2]
LONG = "x" * 300


def disk(at: str = "b", **more: Any) -> dict[str, Any]:
    return {"name": f"h1-{at}", "node_name": "h1", "identity": {"serial": f"S{at}", "size": "4Gi"}, **more}


def second(**more: Any) -> dict[str, Any]:
    """A list whose first disk is as it should be."""
    return {"disks": [disk("a"), disk("b", **more)]}


def sized(size: Any) -> dict[str, Any]:
    return second(identity={"serial": "Sb", "size": size})


LOCAL_DISK: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (second(identity={"serial": LONG, "size": "4Gi"}), ("h1-b", "serial", "300 characters", "at most 256")),
    (second(identity={"wwn": LONG, "size": "4Gi"}), ("h1-b", "wwn", "300 characters", "at most 256")),
    (second(identity={"serial": "S", "model": LONG, "size": "4Gi"}), ("h1-b", "model", "at most 256")),
    (second(identity={"by_path": "x" * 600, "size": "4Gi"}), ("h1-b", "by_path", "600 characters", "at most 512")),
    (second(identity={"by_path": "a/b", "size": "4Gi"}), ("h1-b", "by_path", "'a/b'")),
    (sized("1e400"), ("h1-b", "size", "'1e400'", "whole number of bytes")),
    (sized("1.5"), ("h1-b", "size", "'1.5'", "whole number of bytes")),
    (sized("0"), ("h1-b", "size", "'0'", "1 or more")),
    (sized("-1"), ("h1-b", "size", "'-1'", "1 or more")),
    (sized(""), ("h1-b", "size", "''", "not a quantity")),
    (sized("big"), ("h1-b", "size", "'big'", "not a quantity")),
    (second(node_name="node 1"), ("h1-b", "node_name", "'node 1'", "DNS-1123")),
    (second(node_name=LONG), ("h1-b", "node_name", "300 characters", "at most 253")),
    (second(storage_class="Fast Disks"), ("h1-b", "storage_class", "'Fast Disks'", "DNS-1123")),
    (second(name="H1_b"), ("disks[1]", "name", "'H1_b'", "DNS-1123")),
    (second(mount_options=["noatime"] * 33), ("h1-b", "mount_options", "33", "at most 32")),
    (second(mount_options=["x" * 129]), ("h1-b", "mount option", "129 characters", "128")),
    (second(mount_options=["a,b"]), ("h1-b", "mount option", "'a,b'")),
    (second(volume_mode="Raw"), ("volume_mode", "Filesystem, Block", "Raw")),
    (second(fs_type="zfs"), ("fs_type", "ext4, xfs", "zfs")),
    (second(reclaim_policy="Recycle"), ("reclaim_policy", "Retain, Delete", "Recycle")),
    (second(wipe_method="quick"), ("wipe_method", "auto, signatures, discard, zero, random", "quick")),
    (second(labels={"a b": "c"}), ("h1-b", "labels", "'a b'", "key")),
    (second(labels={"rack": "row 1"}), ("h1-b", "labels", "rack", "'row 1'", "63")),
    (second(observed={"foo": 1}), ("h1-b", "observed", "path", "block_device_info")),
    (second(observed={"path": "/dev/sdb", "size": "big"}), ("h1-b", "observed", "size", "'big'")),
    ({"state": "reserved", **second(reserved=False)}, ("h1-b", "reserved is false", "state is reserved")),
    ({"state": "released", **second(reserved=True)}, ("h1-b", "reserved is true", "state is released")),
    (second(identity={"serial": "Sa", "size": "4Gi"}), ("h1-b", "h1-a", "serial Sa", "one LocalDisk for each disk")),
    (
        {"disks": [disk("a", identity={"wwn": "0xAB", "size": "1Gi"}), disk("b", identity={"wwn": "naa.ab"})]},
        ("h1-b", "h1-a", "wwn naa.ab"),
    ),
    ({"name": "h1-a", "wipe": {"identity": {"model": "M"}}}, ("h1-a", "wipe", "model M", "wwn, serial, by_path")),
    ({"name": "h1-a", "wipe": {"identity": {"serial": "S"}, "request_id": "x" * 65}}, ("request_id", "at most 64")),
    ({"name": "h1-a", "wipe": {"identity": {"serial": "S"}}, "wait_timeout": -1}, ("wait_timeout", "-1", "0 or more")),
]
PLAN = {"node_name": "h1", "block_devices": []}
LOCAL_DISK_PLAN: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({**PLAN, "block_devices": [{"foo": 1}]}, ("block_devices[0]", "name", "missing", "block_device_info")),
    (
        {**PLAN, "block_devices": [{"name": "sdb", "path": "/dev/sdb", "size": "big"}]},
        ("block_devices[0]", "size", "'big'", "an integer"),
    ),
    (
        {**PLAN, "block_devices": [{"name": "sdb", "path": "/dev/sdb", "mounts": "/srv"}]},
        ("block_devices[0]", "mounts", "a list of strings", "'/srv'"),
    ),
    ({**PLAN, "block_devices": [{"name": "sdb", "path": "/dev/sdb"}] * 2}, ("block_devices[1]", "'sdb'", "twice")),
    ({**PLAN, "node_name": "node 1"}, ("node_name", "'node 1'", "DNS-1123")),
]
LOCAL_DISK_INFO: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"node_name": "node 1"}, ("node_name", "'node 1'", "DNS-1123")),
    ({"names": ["a,b"]}, ("names", "'a,b'", "DNS-1123")),
    ({"storage_class": "Fast Disks"}, ("storage_class", "'Fast Disks'", "DNS-1123")),
    ({"declared": [{"name": "A"}]}, ("declared[0]", "name", "'A'")),
    ({"declared": [{"name": "a", "identity": {"size": "big"}}]}, ("declared[0]", "size", "'big'")),
]
DISK_REPLACE: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"name": "A b", "new": {"identity": {"serial": "S", "size": "1Gi"}}}, ("name", "'A b'", "DNS-1123")),
    ({"name": "a", "new": {"identity": {"serial": LONG, "size": "1Gi"}}}, ("new", "serial", "at most 256")),
    ({"name": "a", "new": {"identity": {"serial": "S"}}}, ("new", "serial S", "expected size")),
    (
        {"name": "a", "new": {"identity": {"serial": "S", "size": "1Gi"}}, "mount_root": "rel"},
        ("mount root", "'rel'", "absolute"),
    ),
]
CASES = [
    pytest.param(module, options, words, id=f"{module}-{index}")
    for module, table in (
        ("local_disk", LOCAL_DISK),
        ("local_disk_plan", LOCAL_DISK_PLAN),
        ("local_disk_info", LOCAL_DISK_INFO),
        ("disk_replace", DISK_REPLACE),
    )
    for index, (options, words) in enumerate(table)
] + [pytest.param(*case, id=f"{case[0]}-{index}-beside-disks") for index, case in enumerate(cases.CASES)]


@pytest.mark.parametrize(("module", "options", "words"), CASES)
def test_bad_input_is_refused_by_name_before_anybody_is_asked(
    module: str, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    told = refusal(module, options)
    assert "\n" not in told
    for word in words:
        assert word in told


def test_the_bounds_are_those_of_the_schema() -> None:
    bounds = importlib.import_module(f"{COLLECTION}.module_utils.berth_core.app.disk_bounds")
    definition = yaml.safe_load((ROOT / "deploy/crds/localdisks.berth.dev.yaml").read_text(encoding="utf-8"))
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    keys = {"wwn": "wwn", "serial": "serial", "model": "model", "by_path": "byPath"}
    identity = spec["identity"]["properties"]
    assert {option: identity[field]["maxLength"] for option, field in keys.items()} == bounds.IDENTITY
    wipe = spec["wipe"]["properties"]
    lengths = {"request_id": wipe["requestID"]["maxLength"], "requested_by": wipe["requestedBy"]["maxLength"]}
    assert lengths == bounds.WIPE
    options = spec["mountOptions"]
    assert options["maxItems"] == bounds.MOUNT_OPTIONS
    assert bounds.is_mount_option("x" * options["items"]["maxLength"])
    assert not bounds.is_mount_option("x" * (options["items"]["maxLength"] + 1))
    assert (identity["size"]["minimum"], bounds.disk_size("1")) == (1, 1)


DISK_OBJECT = {"metadata": {"name": "h1-a"}, "spec": {"nodeName": "h1", "identity": {"serial": "S", "size": 1}}}
LOCK = {"namespace": "n", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "data", "dataUID": "u"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"disk": {}}, ("disk", "metadata", "local_disk_info")),
        ({"disk": {"metadata": {"name": "a"}}}, ("disk", "spec is 'missing'", "local_disk_info")),
        ({"disk": {**DISK_OBJECT, "metadata": {"name": "../etc"}}}, ("disk", "metadata.name", "'../etc'")),
        ({"disk": {**DISK_OBJECT, "spec": {"nodeName": "h1"}}}, ("disk", "spec.identity.size")),
        ({"disk": {**DISK_OBJECT, "spec": []}}, ("disk", "spec is '[]'")),
        (
            {"disk": {**DISK_OBJECT, "spec": {**DISK_OBJECT["spec"], "claimRef": {**LOCK, "uid": 7}}}},
            ("disk", "uid", "a string", "'7'"),
        ),
        (
            {"disk": {**DISK_OBJECT, "spec": {**DISK_OBJECT["spec"], "claimRef": {"ordinal": 0}}}},
            ("disk", "spec.claimRef.namespace is 'missing'"),
        ),
        (
            {"disk": {**DISK_OBJECT, "spec": {**DISK_OBJECT["spec"], "claimRef": {**LOCK, "namespace": "../etc"}}}},
            ("namespace", "'../etc'", "LocalDisk h1-a", "DNS-1123 label"),
        ),
        ({"disk": DISK_OBJECT, "mount_root": "/"}, ("mount root", "'/'")),
        ({"disk": DISK_OBJECT, "agent_state_directory": "x"}, ("agent_state_directory", "'x'", "absolute")),
    ],
)
@pytest.mark.parametrize("state", ["prepared", "unmounted"])
def test_disk_filesystem_refuses_what_is_no_localdisk(
    options: dict[str, Any], words: tuple[str, ...], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"{COLLECTION}.modules.disk_filesystem")
    monkeypatch.setattr(module, "Machine", lambda: pytest.fail("the host was looked at"))
    defaults = {"state": state, "mount_root": "/mnt/disks", "agent_state_directory": "/var/lib/agent"}
    with pytest.raises(module.BerthError) as refused:
        module.run({**defaults, **options}, True)
    for word in words:
        assert word in refused.value.message
