"""The survey of a host's block devices, over the recorded trees of hardware that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_host.block_devices import survey
from ansible_collections.berth.stateful.plugins.module_utils.berth_host.machine import Machine
from tests.unit.host import trees

SATA = """S:disk/by-id/ata-Samsung_SSD_870_S5Y1
S:disk/by-id/wwn-0x5002538f4
S:disk/by-path/pci-0000:00:17.0-ata-1
I:1234567
E:ID_BUS=ata
E:ID_MODEL=Samsung_SSD_870
E:ID_MODEL_ENC=Samsung\\x20SSD\\x20870\\x20\\x20\\x20
E:ID_SERIAL=Samsung_SSD_870_S5Y1
E:ID_SERIAL_SHORT=S5Y1
E:ID_WWN=0x5002538f4
E:ID_WWN_WITH_EXTENSION=0x5002538f4"""
WITH_EXT4 = "\nE:ID_FS_TYPE=ext4\nE:ID_FS_UUID=aa-bb\nE:ID_FS_UUID_ENC=aa-bb\nE:ID_FS_LABEL_ENC=my\\x20data"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    trees.mounts(tmp_path, "0:21 / /proc - proc proc rw")
    return tmp_path


def look(root: Path) -> dict[str, dict[str, Any]]:
    return {record["name"]: record for record in survey(Machine(str(root)))}


def test_a_sata_disk_as_udev_knows_it(root: Path) -> None:
    trees.disk(root, "sdb", "8:16", size=1000, udev=SATA, queue__rotational="1", device__state="running")
    disk = look(root)["sdb"]
    assert disk["by_id"] == ["ata-Samsung_SSD_870_S5Y1", "wwn-0x5002538f4"]
    assert disk["by_path"] == ["pci-0000:00:17.0-ata-1"]
    assert (disk["wwn"], disk["serial"], disk["model"]) == ("0x5002538f4", "S5Y1", "Samsung SSD 870")
    assert (disk["size"], disk["rotational"], disk["transport"], disk["type"]) == (512000, True, "ata", "disk")
    assert (disk["health"], disk["usable"], disk["refusals"]) == ("Healthy", True, [])


def test_an_nvme_disk_by_the_kernels_words_alone_is_known_but_not_usable(root: Path) -> None:
    trees.disk(root, "nvme0n1", "259:0", wwid="eui.0025388", device__serial="S6 ", device__model="SSD 980  ")
    disk = look(root)["nvme0n1"]
    assert (disk["wwn"], disk["serial"], disk["model"]) == ("eui.0025388", "S6", "SSD 980")
    assert not disk["usable"]
    assert "nobody has looked for signatures" in disk["refusals"][0]


def test_partitions_make_their_disk_the_systems(root: Path) -> None:
    trees.disk(root, "sda", "8:0", udev=SATA + "\nE:ID_PART_TABLE_TYPE=gpt")
    for number in (10, 2):
        trees.partition(root, "sda", f"sda{number}", f"8:{number}", udev="E:ID_FS_TYPE=ext4" + WITH_EXT4)
    trees.mounts(root, "8:2 / / - ext4 /dev/sda2 rw")
    found = look(root)
    assert list(found) == ["sda", "sda2", "sda10"]
    assert found["sda"]["partitions"] == ["sda2", "sda10"]
    assert [found[name]["is_system"] for name in found] == [True, True, False]
    refusals = found["sda"]["refusals"]
    assert refusals[0] == "it carries the running system"
    assert "its partition sda2: it is mounted at /" in refusals
    assert "it carries a partition table (gpt) with sda2, sda10" in refusals
    assert "it is a partition of sda, not a whole disk" in found["sda10"]["refusals"]
    assert found["sda10"]["label"] == "my data"
    assert found["sda10"]["serial"] == ""


def test_a_root_on_lvm_on_raid_makes_every_disk_below_the_systems(root: Path) -> None:
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        trees.disk(root, name, number, udev=SATA + "\nE:ID_FS_TYPE=linux_raid_member")
    trees.disk(root, "md0", "9:0", udev="E:ID_FS_TYPE=LVM2_member", md__level="raid1")
    trees.disk(root, "dm-0", "253:0", udev="E:ID_FS_TYPE=ext4", dm__uuid="LVM-abc")
    for below, above in (("sda", "md0"), ("sdb", "md0"), ("md0", "dm-0")):
        trees.built_on(root, below, above)
    trees.mounts(root, "253:0 / / - ext4 /dev/mapper/vg-root rw")
    found = look(root)
    assert all(record["is_system"] for record in found.values())
    assert (found["md0"]["type"], found["dm-0"]["type"]) == ("raid1", "lvm")
    assert "it is held by md0" in found["sda"]["refusals"]
    assert "it is a device that the kernel builds on sda, sdb (type raid1)" in found["md0"]["refusals"]


def test_the_layers_of_an_overlay_root_are_the_systems(root: Path) -> None:
    for name, number in (("vda", "254:0"), ("vdb", "254:16"), ("vdc", "254:32")):
        trees.disk(root, name, number, udev=SATA + WITH_EXT4)
    trees.mounts(
        root,
        "254:0 / /layers - ext4 /dev/vda rw",
        "254:16 / /data - ext4 /dev/vdb rw",
        "0:40 / / - overlay overlay rw,lowerdir=/nowhere:/layers/base,upperdir=/layers/up,workdir=/layers/work",
    )
    found = look(root)
    assert [found[name]["is_system"] for name in ("vda", "vdb", "vdc")] == [True, False, False]


def test_swap_is_the_systems(root: Path, tmp_path: Path) -> None:
    trees.disk(root, "sdb", "8:16", udev=SATA)
    trees.mounts(root, "8:16 / /srv - ext4 /dev/sdb rw")
    trees.write(root, {"proc/swaps": "Filename Type Size Used Priority\n/srv/swapfile file 1 0 -2"})
    disk = look(root)["sdb"]
    assert (disk["swap"], disk["is_system"]) == (True, True)


def test_a_mount_with_a_blank_in_its_name_and_binds_of_its_folders(root: Path) -> None:
    trees.disk(root, "sdb", "8:16", udev=SATA + WITH_EXT4)
    bind = "8:16 /data /var/lib/kubelet/pods/1/volumes - ext4 /dev/sdb rw"
    trees.mounts(root, "8:16 / /my\\040disks - ext4 /dev/sdb rw", bind)
    assert look(root)["sdb"]["mounts"] == ["/my disks"]
    assert look(root)["sdb"]["partly_mounted"] is False
    trees.mounts(root, bind)
    assert look(root)["sdb"]["mounts"] == ["/var/lib/kubelet/pods/1/volumes"]
    assert look(root)["sdb"]["partly_mounted"] is True


def test_what_is_no_disk_is_not_listed(root: Path) -> None:
    for name in ("zram0", "ram1", "sr0", "fd0", "loop0"):
        trees.disk(root, name, "1:1")
    trees.disk(root, "loop1", "7:1", loop__backing_file="/disk.img")
    assert list(look(root)) == ["loop1"]


@pytest.mark.parametrize(
    ("attributes", "health", "reason"),
    [
        ({"device__state": "offline"}, "Faulted", "it is faulted: the kernel calls it offline"),
        ({"size": 0}, "Faulted", "it is faulted: it has no size"),
        ({"ro": "1"}, "Unknown", "it is read-only"),
        ({"removable": "1"}, "Unknown", "it is removable"),
    ],
)
def test_what_makes_a_disk_unfit(root: Path, attributes: dict[str, Any], health: str, reason: str) -> None:
    trees.disk(root, "sdb", "8:16", udev=SATA, **attributes)
    disk = look(root)["sdb"]
    assert (disk["health"], disk["usable"]) == (health, False)
    assert any(each.startswith(reason) for each in disk["refusals"])


def test_a_device_cannot_speak_to_the_terminal(root: Path) -> None:
    trees.disk(root, "sdb", "8:16", udev="E:ID_SERIAL_SHORT=a\\x1b[31mb\nE:ID_MODEL=x")
    assert look(root)["sdb"]["serial"] == "a [31mb"


def test_the_same_tree_gives_the_same_list(root: Path) -> None:
    for name, number in (("sdb", "8:16"), ("sda", "8:0"), ("sdaa", "65:160")):
        trees.disk(root, name, number, udev=SATA)
    assert list(look(root)) == ["sda", "sdaa", "sdb"]
    assert look(root) == look(root)
