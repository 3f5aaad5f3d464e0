"""From inventory and devices to LocalDisks: adopted, kept, refused; and nothing is adopted by mistake."""

from __future__ import annotations

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.disk_plan import plan_disks
from berth_core.app.fsid import filesystem_uuid
from berth_core.app.identity import Identity, disk_name
from berth_core.errors import InputError
from tests.core.app.disk_samples import device, formatted, held, kept, local_disk, system_disk

EVERY = [{"query": "[]"}]
FREE = [{"query": "[?usable]", "storage_class": "fast"}]


def plan(entries=(), selectors=(), devices=(), existing=()):
    return plan_disks("h1", entries, selectors, devices, existing, jmespath.search)


def actions(made):
    return {row.device or row.disk: row.action for row in made.rows}


def test_an_entry_adopts_its_disk_with_the_identity_that_was_seen():
    made = plan([{"serial": "SERIAL-sdb", "storage_class": "fast"}], devices=[system_disk(), device(), device("sdc")])
    (disk,) = made.disks
    assert disk["name"] == disk_name("h1", Identity(wwn="0x5000sdb"))
    assert disk["identity"] == {"wwn": "0x5000sdb", "serial": "SERIAL-sdb", "model": "Disk", "size": str(4 << 30)}
    assert (disk["storage_class"], disk["volume_mode"], disk["fs_type"]) == ("fast", "Filesystem", "ext4")
    assert disk["observed"]["path"] == "/dev/sdb"
    assert not made.errors


def test_a_block_disk_has_no_filesystem_to_name_and_nothing_is_null():
    (disk,) = plan([{"serial": "SERIAL-sdb", "volume_mode": "Block"}], devices=[device()]).disks
    assert "fs_type" not in disk
    assert None not in disk.values()


def test_a_slot_is_part_of_the_identity_only_where_it_was_declared():
    by_path = "pci-0000:00:1f.2-sdb"
    (disk,) = plan([{"by_path": by_path}], devices=[device()]).disks
    assert disk["identity"]["by_path"] == by_path


@pytest.mark.parametrize("entry", [{}, {"model": "Disk"}, {"size": "4Gi"}, {"model": "Disk", "size": "4Gi"}])
def test_a_weak_entry_is_refused_with_the_candidates(entry):
    made = plan([entry], devices=[device(), device("sdc")])
    assert made.disks == []
    assert "too weak" in made.errors[0]
    assert "SERIAL-sdb" in made.errors[0]


def test_an_entry_for_a_disk_that_is_not_there_is_refused_with_the_disks_that_are():
    made = plan([{"serial": "gone"}], devices=[device()])
    assert "no disk of this host is serial gone" in made.errors[0]
    assert "SERIAL-sdb" in made.errors[0]


def test_two_entries_for_one_disk_are_refused():
    made = plan([{"serial": "SERIAL-sdb"}, {"wwn": "0x5000sdb"}], devices=[device()])
    assert "the disk of berth_disks[0] already" in made.errors[0]


@pytest.mark.parametrize(
    "facts",
    [
        {"is_system": True},
        {"mounts": ["/srv"]},
        {"swap": True},
        {"holders": ["dm-0"]},
    ],
)
def test_a_disk_in_use_may_only_be_declared_as_reserved(facts):
    used = device(usable=False, refusals=["it is in use"], **facts)
    refused = plan([{"serial": "SERIAL-sdb"}], devices=[used])
    assert refused.disks == []
    assert "reserved: true" in refused.errors[0]
    (disk,) = plan([{"serial": "SERIAL-sdb", "reserved": True}], devices=[used]).disks
    assert disk["reserved"] is True
    for part in ("claimRef", "retainedFor"):
        there = local_disk(
            "h1-b",
            used,
            **{part: {"namespace": "shop", "name": "db", "app": "db", "ordinal": 0, "filesystemUUID": "fs"}},
        )
        (disk,) = plan([{"serial": "SERIAL-sdb", "reserved": True}], devices=[used], existing=[there]).disks
        assert disk["reserved"] is False, "it keeps what a replica had there before berth"


def test_who_only_compares_is_not_kept_from_a_localdisk_by_what_it_is_in_use_for():
    """Drift tells it; a disk that is no LocalDisk yet is refused as ever."""
    used = device(usable=False, refusals=["it is in use"], mounts=["/srv"])
    entry, mine = [{"serial": "SERIAL-sdb"}], local_disk()
    assert "is mounted at /srv" in plan(entry, devices=[used], existing=[mine]).errors[0]
    made = plan_disks("h1", entry, [], [used], [mine], jmespath.search, looking=True)
    assert (made.errors, [disk["observed"]["mounts"] for disk in made.disks]) == ([], [["/srv"]])
    assert plan_disks("h1", entry, [], [used], [], jmespath.search, looking=True).errors


def test_a_mounted_partition_counts_as_use():
    whole = device(partitions=["sdb1"], pttype="gpt", usable=False, refusals=["it carries a partition table (gpt)"])
    part = device("sdb1", type="part", parent="sdb", mounts=["/srv"], serial="", wwn="")
    made = plan([{"serial": "SERIAL-sdb"}], devices=[whole, part])
    assert "/dev/sdb1 is mounted at /srv" in made.errors[0]


def test_a_disk_with_a_signature_is_adopted_by_name_and_never_by_slot_or_selector():
    (disk,) = plan([{"serial": "SERIAL-sdb"}], devices=[formatted()]).disks
    assert disk["observed"]["fstype"] == "ext4"
    assert "names a slot" in plan([{"by_path": "pci-0000:00:1f.2-sdb"}], devices=[formatted()]).errors[0]
    made = plan(selectors=EVERY, devices=[formatted()])
    assert (made.disks, made.errors) == ([], [])
    assert actions(made) == {"/dev/sdb": "refuse"}


def test_a_selector_adopts_what_is_free_and_says_why_not_the_rest():
    part = device("sda1", type="part", parent="sda", usable=False, refusals=["it is a partition of sda"])
    nameless = device("sdd", serial="", wwn="")
    made = plan(selectors=EVERY, devices=[system_disk(), part, device(), nameless])
    assert actions(made) == {"/dev/sda": "refuse", "/dev/sda1": "refuse", "/dev/sdb": "adopt", "/dev/sdd": "refuse"}
    assert "too weak" in next(row.why for row in made.rows if row.device == "/dev/sdd")


def test_twins_are_refused_by_selectors_too():
    twins = [device("sdb", serial="S", wwn=""), device("sdc", serial="S", wwn="", model="Other")]
    twins[1]["model"] = twins[0]["model"]
    made = plan(selectors=FREE, devices=twins)
    assert made.disks == []
    assert all("2 disks carry it" in row.why for row in made.rows)


def test_an_entry_counts_before_a_selector_and_the_first_selector_before_the_second():
    selectors = [{"query": "[?name == 'sdc']", "storage_class": "one"}, {"query": "[]", "storage_class": "two"}]
    entries = [{"serial": "SERIAL-sdb", "storage_class": "mine"}]
    made = plan(entries, selectors, [device("sdb"), device("sdc"), device("sdd")])
    assert {disk["observed"]["name"]: disk["storage_class"] for disk in made.disks} == {
        "sdb": "mine",
        "sdc": "one",
        "sdd": "two",
    }


@pytest.mark.parametrize("query", ["[].name", "length(@)", "[0]"])
def test_a_query_that_gives_no_devices_is_refused_by_name(query):
    made = plan(selectors=[{"query": query}], devices=[device()])
    assert "does not give a list of block devices" in made.errors[0]
    assert query in made.errors[0]


def test_a_broken_query_is_an_error_and_adopts_nothing():
    def broken(expression, data):
        raise InputError(f"query {expression!r} is not a JMESPath expression")

    made = plan_disks("h1", [], [{"query": "[?"}], [device()], [], broken)
    assert made.disks == []
    assert "'[?'" in made.errors[0]


def test_a_disk_that_is_known_stays_although_it_carries_its_filesystem_now():
    disk = local_disk("h1-d0", claimRef=held())
    mounted = formatted(uuid=filesystem_uuid("u1", "h1-d0"), mounts=["/var/lib/berth/disks/h1-d0"])
    for made in (
        plan(selectors=FREE, devices=[mounted], existing=[disk]),
        plan([{"serial": "SERIAL-sdb"}], devices=[mounted], existing=[disk]),
    ):
        assert not made.errors
        assert [row.action for row in made.rows] == ["keep"]
        assert made.disks[0]["name"] == "h1-d0"
        assert made.extra == []


def test_the_system_disk_stays_refused_although_it_was_recorded_as_reserved():
    disk = local_disk("h1-sys", system_disk(), reserved=True)
    made = plan(selectors=EVERY, devices=[system_disk()], existing=[disk])
    assert [(row.action, row.disk) for row in made.rows] == [("refuse", ""), ("extra", "h1-sys")]
    assert all("reserved" not in each for each in made.disks)


def test_a_known_disk_keeps_its_name():
    disk = local_disk("mine")
    assert plan([{"serial": "SERIAL-sdb"}], devices=[device()], existing=[disk]).disks[0]["name"] == "mine"
    made = plan([{"serial": "SERIAL-sdb", "name": "other"}], devices=[device()], existing=[disk])
    assert "keeps its name" in made.errors[0]
    made = plan([{"serial": "SERIAL-sdc", "name": "mine"}], devices=[device("sdc")], existing=[disk])
    assert "is another disk" in made.errors[0]


def test_a_known_disk_that_is_gone_is_missing_and_not_an_error():
    made = plan([{"serial": "SERIAL-sdb"}], devices=[device("sdc")], existing=[local_disk()])
    assert not made.errors
    assert actions(made) == {"h1-d0": "missing"}
    assert made.disks[0]["observed"] == {}


def test_a_gone_disk_of_a_selector_is_missing_and_not_up_for_deletion():
    made = plan(selectors=FREE, devices=[], existing=[local_disk()])
    assert (actions(made), made.extra) == ({"h1-d0": "missing"}, [])


def test_a_disk_that_is_declared_no_more_is_extra_and_only_observed():
    disk = local_disk(retainedFor=kept())
    made = plan(devices=[device()], existing=[disk])
    assert made.extra == ["h1-d0"]
    assert made.disks == [{"name": "h1-d0", "node_name": "h1", "observed": device()}]
    assert "keeps the data of default/db-0" in made.rows[0].why


def test_two_localdisks_of_one_disk_are_an_error():
    made = plan(devices=[device()], existing=[local_disk("a"), local_disk("b")])
    assert "two LocalDisks, a and b" in made.errors[0]


FACTS = st.fixed_dictionaries(
    {},
    optional={
        "is_system": st.just(True),
        "mounts": st.just(["/srv"]),
        "holders": st.just(["dm-0"]),
        "swap": st.just(True),
        "fstype": st.just("xfs"),
        "pttype": st.just("gpt"),
        "serial": st.sampled_from(["", "S"]),
        "wwn": st.sampled_from(["", "0xaa"]),
        "read_only": st.just(True),
    },
)


@given(st.lists(FACTS, max_size=5))
def test_a_selector_never_adopts_anything_but_a_blank_unused_disk_with_an_identity_of_its_own(facts):
    devices = [device(f"sd{index}", **each) for index, each in enumerate(facts)]
    for each in devices:
        spoiled = {"is_system", "mounts", "holders", "swap", "fstype", "pttype", "read_only"}
        each["refusals"] = [key for key in spoiled if each[key]]
        each["usable"] = not each["refusals"]
    made = plan(selectors=EVERY, devices=devices)
    adopted = [disk["observed"] for disk in made.disks]
    assert all(each["usable"] and (each["serial"] or each["wwn"]) for each in adopted)
    assert len({disk["name"] for disk in made.disks}) == len(adopted)
    for each in adopted:
        keys = (each["serial"], each["wwn"], each["model"], each["size"])
        twins = [one for one in devices if (one["serial"], one["wwn"], one["model"], one["size"]) == keys]
        assert len(twins) == 1
