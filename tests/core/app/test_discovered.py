"""From what a host reports to its host_vars: what becomes an entry, what a comment; a file keeps what it says."""

from __future__ import annotations

import pytest
import yaml

from berth_core.app.discovered import host_vars
from berth_core.app.disk_plan import plan_disks
from berth_core.errors import InputError
from tests.core.app.disk_samples import device, formatted, system_disk


def load(text):
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise InputError(str(exc)) from exc


def made(devices, before="", known=(), storage_class=""):
    return host_vars("h1", devices, before, known, storage_class, load)


def test_blank_disks_are_entries_that_the_role_takes():
    devices = [system_disk(), device("sdb"), device("sdc"), formatted("sdd")]
    found = made(devices, storage_class="fast")
    entries = yaml.safe_load(found.text)["berth_disks"]
    assert entries == found.added
    assert [entry["serial"] for entry in entries] == ["SERIAL-sdb", "SERIAL-sdc"]
    assert entries[0] == {"wwn": "0x5000sdb", "serial": "SERIAL-sdb", "size": 4 << 30, "storage_class": "fast"}
    plan = plan_disks("h1", entries, [], devices, [], lambda *_: [])
    assert [disk["identity"]["serial"] for disk in plan.disks] == ["SERIAL-sdb", "SERIAL-sdc"]


def test_what_is_used_is_a_comment_and_the_system_is_not_written():
    mounted = device("sdc", mounts=["/srv\nx"], usable=False, refusals=["it is mounted at /srv\nx"])
    found = made([system_disk(), device("sdb"), mounted])
    assert "SERIAL-sda" not in found.text
    assert "  # Not offered: it is mounted at /srv\\nx. Disk, 4Gi, ssd, /dev/sdc when it was found\n" in found.text
    assert '  # - wwn: "0x5000sdc"\n  #   serial: "SERIAL-sdc"\n' in found.text
    assert [(one.disk, one.why[:21]) for one in found.left] == [
        ("/dev/sda", "it carries the runnin"),
        ("/dev/sdc", "it is mounted at /srv"),
    ]


def test_images_partitions_and_volumes_are_no_disks():
    image = device("loop0", type="loop", wwn="", serial="", by_path=[])
    others = [image, device("sdb1", type="part", parent="sdb"), device("dm-0", type="lvm"), device("sdz", size=0)]
    found = made([*others, device("loop1", type="loop")])
    assert [entry["serial"] for entry in found.added] == ["SERIAL-loop1"]
    assert found.left == []


def test_without_a_disk_to_offer_there_is_no_file():
    assert made([system_disk(), formatted()]).text == ""


def test_another_run_adds_what_is_new_and_keeps_every_line():
    first = made([device("sdb"), formatted("sdd")]).text
    assert made([device("sdb"), formatted("sdd")], first).text == first
    edited = first.replace("  # Disk", "  # keep: Disk").replace("size: 4294967296\n", "size: 4Gi  # as sold\n", 1)
    again = made([device("sdb"), device("sdbc"), formatted("sdd"), device("sde")], edited)
    assert again.text.startswith(edited)
    assert [entry["serial"] for entry in again.added] == ["SERIAL-sdbc", "SERIAL-sde"]
    assert len(yaml.safe_load(again.text)["berth_disks"]) == 3
    taken_out = "".join(f"# {line}" if "sdb" in line or "size" in line else line for line in first.splitlines(True))
    assert made([device("sdb")], taken_out + "  - serial: other\n").added == [], "a comment is a decision"


@pytest.mark.parametrize("style", ["- ", "  - ", "    - "])
def test_entries_are_added_as_the_file_is_indented(style):
    before = f"other: 1\nberth_disks:\n  # mine\n\n{style}serial: A"
    assert yaml.safe_load(made([device()], before).text)["berth_disks"][1]["serial"] == "SERIAL-sdb"


@pytest.mark.parametrize(
    "before",
    [
        "berth_disks: []\n",
        "berth_disks: [{serial: A}]\n",
        "other: 1\n",
        "- serial: A\n",
        "berth_disks:\n  - serial: A\nother: 1\n",
        "berth_disks:\n  - serial: A\nother:\n  - serial: B\n",
        "$ANSIBLE_VAULT;1.1;AES256\n3132\n",
    ],
)
def test_a_file_that_nothing_can_be_added_to_is_refused_with_the_entries(before):
    with pytest.raises(InputError, match=r"nothing was changed\. Add them by hand: .*SERIAL-sdb"):
        made([device()], before)
    assert made([formatted()], before).text == before, "nothing to add, nothing to refuse"


def test_a_file_that_cannot_be_read_is_refused():
    with pytest.raises(InputError, match="undefined alias"):
        made([device()], "berth_disks: *x\n")


def test_what_the_inventory_has_elsewhere_is_left_alone():
    known = [{"wwn": "naa.5000SDB"}, {"serial": "SERIAL-sdc", "size": "4Gi"}, {"model": "Disk"}]
    assert [entry["serial"] for entry in made([device("sdb"), device("sdc"), device("sdd")], "", known).added] == [
        "SERIAL-sdd"
    ]


def test_disks_that_cannot_be_told_apart_are_comments():
    twins = [device("sdb", wwn="", serial="S"), device("sdc", wwn="", serial="S"), device("sdd")]
    found = made(twins)
    assert [entry["serial"] for entry in found.added] == ["SERIAL-sdd"]
    assert all("2 disks carry it" in one.why for one in found.left)


def test_without_wwn_and_serial_it_is_the_slot():
    (entry,) = made([device(wwn="", serial="")]).added
    assert entry == {"by_path": "pci-0000:00:1f.2-sdb", "size": 4 << 30}


@pytest.mark.parametrize("serial", ["{{ lookup('pipe', 'reboot') }}", 'S"\n- x: 1', "S#{%", "\u202eS"])
def test_what_a_disk_calls_itself_is_never_a_template(serial):
    found = made([device(serial=serial, model=serial)])
    assert found.added == [{"wwn": "0x5000sdb", "size": 4 << 30}]
    assert yaml.safe_load(found.text) == {"berth_disks": found.added}
    assert made([device(serial=serial, wwn="", by_path=[])]).added == []


def test_a_class_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="storage_class is 'Fast!'"):
        made([device()], storage_class="Fast!")
