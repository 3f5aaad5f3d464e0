"""One disk in two nodes: which names tell it, who is refused, and what has only moved."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.agent_plan import agent_status, is_same_status
from berth_core.app.sharing import ALONE, Neighbour, check_alone, disk_id, neighbour_of, world_wide
from berth_core.errors import DataError
from berth_core.model.disk import Condition, LocalDisk, condition_of
from tests.core.app.disk_samples import device, held, kept, local_disk

NOW, NAME = "2026-01-01T00:00:00Z", "5002538f40e1b2c3"
SEEN = device(wwn=f"0x{NAME}", kernel={"wwid": f"naa.{NAME}"})


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (f"0x{NAME}", NAME),
        (f"naa.{NAME.upper()}", NAME),
        ("naa.600508b400105e210000900000490000", "600508b400105e210000900000490000"),
        ("eui.0025388a01b2c3d4", "0025388a01b2c3d4"),
        ("0x0025388a01b2c3d4", "0025388a01b2c3d4"),
        ("eui.36344730528000040025384500000001", "36344730528000040025384500000001"),
        ("uuid.0f3b4c1e-1111-4222-8333-0123456789ab", "0f3b4c1e-1111-4222-8333-0123456789ab"),
        ("eui.5254000000000001", ""),  # QEMU's, the same in every machine
        ("naa.3333333000000001", ""),  # locally assigned
        ("naa.60000000000000000e00000000010001", ""),  # tgt's: no vendor
        ("nvme.1b36-626572746830-51454d55204e564d65204374726c-00000001", ""),  # made of model and serial number
        ("t10.ATA     QEMU HARDDISK                           QM00001", ""),
        ("iqn.2003-01.org.example:lun0", ""),
        ("0x500", ""),
        ("", ""),
    ],
)
def test_a_name_counts_where_it_is_the_disk_s_own_in_all_the_world(name: str, found: str) -> None:
    assert world_wide(name) == found


def test_the_kernel_s_name_comes_before_udev_s_and_a_serial_number_is_none() -> None:
    assert disk_id(SEEN) == NAME
    assert disk_id({**SEEN, "kernel": {"wwid": "t10.ATA  x"}}) == NAME
    assert disk_id({**SEEN, "kernel": {"wwid": "naa.5002538f40e1b2c4"}}) == "5002538f40e1b2c4"
    assert disk_id({"serial": "S1", "by_path": ["pci-1"], "wwn": ""}) == ""


def status(disk: Any, there: bool = True, other: Neighbour | None = ALONE) -> dict[str, Any]:
    return agent_status(disk, SEEN if there else None, NOW, "", None, "", other)


def elsewhere(name: str, node: str, there: bool = True, **spec: Any) -> dict[str, Any]:
    disk = local_disk(name, SEEN, nodeName=node, **spec)
    disk["status"] = status(disk)
    return {**disk, "status": status(disk, there)}


def matched(found: dict[str, Any]) -> tuple[str, str, str]:
    (one,) = [each for each in found["conditions"] if each["type"] == "Matched"]
    return one["status"], one["reason"], one.get("message", "")


@pytest.mark.parametrize("spec", [{}, {"claimRef": held()}, {"retainedFor": kept()}])
def test_a_disk_that_two_nodes_see_is_given_to_nobody_by_whoever_asks(spec: dict[str, Any]) -> None:
    disk = local_disk(found=SEEN, **spec)
    other = neighbour_of(disk, [disk, elsewhere("h2-d0", "h2")])
    assert other == Neighbour("h2-d0", "h2", True)
    found = status(disk, other=other)
    assert matched(found)[:2] == ("False", "Shared")
    assert "node h2 sees the same disk" in matched(found)[2]
    assert (found["observed"]["sharedWith"], found["observed"]["diskID"]) == ("h2", NAME)
    assert found["phase"] == ("Locked" if "claimRef" in spec else "Released" if "retainedFor" in spec else "Pending")
    meta = {"name": "h1-d0", "uid": "u", "resourceVersion": "1"}
    judged = LocalDisk.from_object({**disk, "metadata": meta, "status": found})
    assert condition_of(judged) in (Condition.PENDING, Condition.UNHEALTHY)
    with pytest.raises(DataError, match=r"h1-d0: node h2 sees the same disk .* \(there LocalDisk h2-d0\)"):
        check_alone(disk, other, NAME)
    again = status({**disk, "status": found}, other=ALONE)
    assert (matched(again)[:2], "sharedWith" in again["observed"]) == (("True", "Found"), False)


def test_until_somebody_has_looked_a_new_disk_waits_and_one_in_use_goes_on() -> None:
    free, used = local_disk(found=SEEN), local_disk(found=SEEN, claimRef=held())
    assert status(free, other=None)["phase"] == "Pending"
    assert status(used, other=None)["phase"] == "Locked"
    assert matched(status(free, other=None))[:2] == ("Unknown", "NotCompared")
    assert status(free, other=None)["observed"]["diskID"] == NAME
    assert status(free)["phase"] == "Available"


def test_a_disk_that_moved_is_told_in_both_nodes_and_is_not_shared() -> None:
    old = elsewhere("h2-d0", "h2", there=False, claimRef=held())
    assert old["status"]["phase"] == "Missing"
    here = local_disk(found=SEEN)
    other = neighbour_of(here, [here, old])
    assert (other.sees_it, other.node) == (False, "h2")
    check_alone(here, other, NAME)
    said = matched(status(here, other=other))
    assert said[:2] == ("True", "Found")
    assert "it came from node h2, whose LocalDisk h2-d0 has the data of" in said[2]
    here["status"] = status(here)
    gone = status(old, False, neighbour_of(old, [here, old]))
    assert matched(gone) == ("False", "Moved", "the disk is in node h1 now, as LocalDisk h1-d0")
    assert gone["phase"] == "Missing"


def test_of_several_the_one_that_sees_it_counts() -> None:
    here, old, there = (
        local_disk(found=SEEN),
        elsewhere("h2-d0", "h2", there=False, claimRef=held()),
        elsewhere("h3-d0", "h3"),
    )
    assert neighbour_of(here, [old, there]).name == "h3-d0"
    assert neighbour_of(here, [here]) == ALONE


def test_who_does_not_look_for_others_keeps_what_the_agent_said() -> None:
    """A role that reports what its host sees knows nothing of other nodes."""
    from berth_core.app.disk_status import disk_status

    disk = local_disk(found=SEEN)
    disk["status"] = status(disk, other=Neighbour("h2-d0", "h2", True))
    found = disk_status(disk, SEEN, NOW)
    assert is_same_status(disk, found)
