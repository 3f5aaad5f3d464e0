"""What the node agent makes of its configuration, and which status it applies."""

from __future__ import annotations

from typing import Any

import jmespath

from berth_core.app.agent_plan import agent_status, is_same_status, plan_declarations
from berth_core.app.identity import disk_name, observed_identity

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
GIB = 1 << 30


def device(name: str, serial: str = "", **facts: Any) -> dict[str, Any]:
    record: dict[str, Any] = {"name": name, "path": f"/dev/{name}", "type": "disk", "parent": "", "size": GIB}
    record.update(dict.fromkeys(("wwn", "model", "fstype", "fsuuid", "label", "pttype", "problem"), ""))
    record.update({key: [] for key in ("by_id", "by_path", "partitions", "mounts", "holders", "refusals")})
    record.update({"serial": serial, "rotational": False, "read_only": False, "is_system": False, "swap": False})
    return {**record, "health": "Healthy", **facts}


def plan(devices: list[Any], existing: list[Any], entries: Any = (), selectors: Any = ()) -> Any:
    return plan_declarations("h1", entries, selectors, devices, existing, jmespath.search)


def made(devices: list[Any], **declared: Any) -> dict[str, Any]:
    (disk,) = plan(devices, [], [declared]).create
    return disk


ALL = [{"query": "[?type == 'disk']", "storage_class": "fast"}]


def test_declared_and_selected_disks_are_created_under_the_names_of_the_role() -> None:
    devices = [device("sda", "S1"), device("sdb", "S2")]
    found = plan(devices, [], [{"serial": "S1", "fs_type": "xfs"}], ALL)
    first, second = found.create
    assert {each["metadata"]["name"] for each in found.create} == {
        disk_name("h1", observed_identity(each)) for each in devices
    }
    by_serial = {each["spec"]["identity"]["serial"]: each["spec"] for each in (first, second)}
    assert by_serial["S1"]["fsType"] == "xfs"
    assert by_serial["S2"]["storageClassName"] == "fast"
    assert all("claimRef" not in each["spec"] and "status" not in each for each in found.create)
    assert found.refused == []


def test_what_is_there_is_never_changed_and_says_how_it_stands() -> None:
    devices = [device("sda", "S1"), device("sdb", "S2")]
    disk = made(devices, serial="S1", storage_class="fast")
    name = disk["metadata"]["name"]
    same = plan(devices, [disk], [{"serial": "S1", "storage_class": "fast"}])
    assert (same.create, same.standing) == ([], {name: ("True", "AsDeclared", "")})
    other = plan(devices, [disk], [{"serial": "S1", "storage_class": "slow"}])
    assert other.create == []
    assert other.standing[name] == ("False", "Drift", "storage_class is fast, declared slow")
    extra = plan(devices, [disk], [{"serial": "S2"}])
    assert extra.standing[name][:2] == ("False", "Undeclared")
    assert [each["spec"]["identity"]["serial"] for each in extra.create] == ["S2"]
    gone = plan([devices[1]], [disk], (), ALL)
    assert gone.standing[name][:2] == ("Unknown", "NotFound")
    assert plan(devices, [disk]).standing == {}  # a configuration that declares nothing has no opinion


def test_one_refused_entry_keeps_every_disk_from_being_created() -> None:
    devices = [device("sda", "S1"), device("sdb", "S2")]
    found = plan(devices, [], [{"serial": "S9"}], ALL)
    assert found.create == []
    assert "disks[0]: no disk of this host is serial S9" in found.refused[0]


def test_duplicate_and_missing_serials_are_refused_and_named() -> None:
    twins = plan([device("sda", "S1"), device("sdb", "S1"), device("sdc", "S3")], [], (), ALL)
    assert [each["spec"]["identity"]["serial"] for each in twins.create] == ["S3"]
    assert len(twins.refused) == 2
    assert all("/dev/sda" in text and "/dev/sdb" in text and "2 disks carry it" in text for text in twins.refused)
    none = plan([device("sda")], [], (), ALL)
    assert none.create == []
    assert "disk_selectors[0]: /dev/sda: " in none.refused[0]
    assert "too weak to name one disk" in none.refused[0]


def test_a_used_disk_that_a_selector_finds_is_no_refusal_of_the_configuration() -> None:
    found = plan([device("sda", "S1", refusals=["it is mounted at /data"])], [], (), ALL)
    assert (found.create, found.refused) == ([], [])


def status(disk: Any, seen: Any, now: str = NOW, ambiguous: str = "", standing: Any = None) -> Any:
    return agent_status(disk, seen, now, ambiguous, standing)


def conditions(found: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


def test_the_same_look_gives_the_same_status_at_any_time() -> None:
    seen = device("sda", "S1")
    disk = made([seen], serial="S1")
    first = status(disk, seen, standing=("True", "AsDeclared", ""))
    assert first["phase"] == "Available"
    assert set(conditions(first)) == {"Matched", "Healthy", "Ready", "Declared"}
    disk["status"] = {**first, "conditions": [*first["conditions"], {"type": "Prepared", "status": "True"}]}
    again = status(disk, seen, LATER, standing=("True", "AsDeclared", ""))
    assert again == first
    assert is_same_status(disk, again)


def test_another_kernel_name_changes_the_device_path_alone() -> None:
    seen = device("sda", "S1")
    disk = made([seen], serial="S1")
    disk["status"] = status(disk, seen)
    moved = status(disk, {**seen, "name": "sdb", "path": "/dev/sdb"}, LATER)
    assert not is_same_status(disk, moved)
    assert moved["observed"].pop("devicePath") == "/dev/sdb"
    assert disk["status"]["observed"].pop("devicePath") == "/dev/sda"
    assert moved == disk["status"]


def test_an_identity_that_several_carry_is_said_with_its_reason_and_the_disk_is_given_to_nobody() -> None:
    seen = device("sda", "S1")
    disk = made([seen], serial="S1")
    disk["status"] = status(disk, seen)
    found = status(disk, None, LATER, "2 disks carry it")
    assert found["phase"] == "Missing"
    assert conditions(found)["Matched"] == ("False", "Ambiguous")
    assert "2 disks carry it" in found["conditions"][0]["message"]
    assert "devicePath" not in found["observed"]


def test_a_condition_of_ours_that_is_over_is_a_change() -> None:
    seen = device("sda", "S1")
    disk = made([seen], serial="S1")
    disk["status"] = status(disk, seen, standing=("False", "Drift", "why"))
    assert not is_same_status(disk, status(disk, seen))
