"""Where declaration and cluster differ."""

from __future__ import annotations

import pytest

from berth_core.app.disk_status import disk_status
from berth_core.app.drift import find_drift, swapped_for
from tests.core.app.disk_samples import device, formatted, held, kept, local_disk

NOW = "2026-01-01T00:00:00Z"
DECLARED = {
    "name": "h1-d0",
    "node_name": "h1",
    "identity": {"serial": "SERIAL-sdb"},
    "storage_class": "",
    "fs_type": "ext4",
}


def seen(found=None, **spec):
    disk = local_disk(**spec)
    return {**disk, "status": disk_status(disk, device() if found is None else found, NOW)}


def what(drift, kind):
    return [sentence for finding in drift[kind] for sentence in finding["what"]]


def test_no_drift():
    drift = find_drift([DECLARED], [seen()])
    kinds = ("missing", "extra", "changed", "unexpected_filesystem", "held_elsewhere", "text", "diff")
    assert drift == {**{kind: [] for kind in kinds}, "any": False}


def test_a_declared_disk_without_a_localdisk_is_missing():
    drift = find_drift([DECLARED], [])
    assert (drift["any"], what(drift, "missing")) == (True, ["it is declared, and there is no such LocalDisk"])


@pytest.mark.parametrize("declared", [{**DECLARED, "observed": {}}, DECLARED])
def test_a_disk_that_is_not_in_its_node_is_missing(declared):
    drift = find_drift([declared], [seen({})])
    assert "is not in the node" in what(drift, "missing")[0]
    assert drift["text"][0].startswith("missing: LocalDisk h1-d0 (h1): its disk")


@pytest.mark.parametrize(
    ("spec", "word"),
    [({}, "free"), ({"claimRef": held()}, "held by default/db-0"), ({"retainedFor": kept()}, "keeps the data")],
)
def test_a_disk_that_nobody_declares_is_extra(spec, word):
    assert word in what(find_drift([], [seen(**spec)]), "extra")[0]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"storageClassName": "slow"}, "storage_class is slow, declared not set"),
        ({"fsType": "xfs"}, "fs_type is xfs, declared ext4"),
        ({"nodeName": "h2"}, "it is in node h2, declared in h1"),
        ({"identity": {"serial": "T", "size": 1}}, "its identity is serial T, size 1, declared serial SERIAL-sdb"),
    ],
)
def test_settings_that_differ(spec, sentence):
    assert sentence in what(find_drift([DECLARED], [seen(**spec)]), "changed")


def test_a_label_that_differs():
    drift = find_drift([{**DECLARED, "labels": {"rack": 1}}], [seen()])
    assert what(drift, "changed") == ["label rack is not set, declared 1"]


@pytest.mark.parametrize(
    ("found", "kind", "sentence"),
    [
        (formatted(uuid="77"), "unexpected_filesystem", "it carries ext4 77, expected nothing"),
        (device(health="Faulted", problem="no answer"), "changed", "it is faulted: no answer"),
        (device(holders=["dm-0"]), "held_elsewhere", "it is held on the host by dm-0"),
        (device(mounts=["/srv"]), "held_elsewhere", "it is mounted at /srv, and no berth holds it"),
    ],
)
def test_a_fresh_look_at_the_host_counts_before_the_status(found, kind, sentence):
    drift = find_drift([{**DECLARED, "observed": found}], [seen()])
    assert what(drift, kind) == [sentence]
    assert f"+  {sentence}" in drift["diff"]
    assert not find_drift([{**DECLARED, "observed": device()}], [seen(found)])["any"]


def test_the_diff_has_declared_on_one_side_and_observed_on_the_other():
    gone, other = {**DECLARED, "name": "h1-d1", "labels": {"rack": "r1"}}, {**seen(), "metadata": {"name": "h1-d9"}}
    diff = find_drift([{**DECLARED, "storage_class": "fast"}, gone], [seen(storageClassName="slow"), other])["diff"]
    assert diff[:2] == ["--- declared", "+++ observed"]
    assert [line for line in diff[3:] if line[0] in "+-"] == [
        "-  storage_class: fast",
        "+  storage_class: slow",
        "-LocalDisk h1-d1 (h1)",
        "-  storage_class: not set",
        "-  fs_type: ext4",
        "-  label rack: r1",
        "+LocalDisk h1-d9 (h1)",
    ]


def test_the_diff_compares_each_disk_with_itself():
    """A disk that is gone has the settings of its neighbour: they are not taken for the neighbour's."""
    gone = {**DECLARED, "name": "h1-a"}
    diff = find_drift([gone, {**DECLARED, "storage_class": "fast"}], [seen(storageClassName="slow")])["diff"]
    assert [line for line in diff if line[0] in "+-" and "storage_class" in line] == [
        "-  storage_class: not set",
        "-  storage_class: fast",
        "+  storage_class: slow",
    ]
    assert " LocalDisk h1-d0 (h1)" in diff, "it is there on both sides"
    assert diff.count("--- declared") == 1


def test_a_faulted_disk_is_drift_by_its_status_too():
    assert what(find_drift([DECLARED], [seen(device(health="Faulted"))]), "changed") == ["it is faulted"]


def test_a_held_disk_with_another_filesystem_says_which_belongs_there():
    drift = find_drift([DECLARED], [seen(formatted(uuid="77"), claimRef=held())])
    (sentence,) = what(drift, "unexpected_filesystem")
    assert sentence.startswith("it carries ext4 77, expected filesystem ")


def test_what_is_there_in_the_stead_of_a_disk():
    disk = local_disk()
    seen = {**disk, "status": {"observed": {"byPath": "pci-0000:00:1f.2-sdb"}}}
    assert swapped_for(disk, [device("sdc")]) == ""
    assert swapped_for(seen, [device("sdc")]) == ""
    other = {**device("sdc"), "by_path": ["pci-0000:00:1f.2-sdb"]}
    told = swapped_for(seen, [device("sdd"), other])
    assert "in its slot pci-0000:00:1f.2-sdb is now /dev/sdc" in told
    assert "expected wwn 0x5000sdb, serial SERIAL-sdb" in told
    grown = device("sdb", size=5)
    assert "has some of its keys and not all of them" in swapped_for(disk, [grown])
    assert swapped_for(disk, [device("sdb", size=0)]) == "", "one that is being pulled out has no bytes any more"


def test_a_disk_that_was_swapped_is_missing_and_says_for_which():
    status = disk_status({**local_disk(), "status": {}}, None, "now", swapped="in its slot x is now y")
    told = {each["type"]: (each["status"], each["reason"], each.get("message")) for each in status["conditions"]}
    assert status["phase"] == "Missing"
    assert told["Matched"] == ("False", "Drift", "in its slot x is now y")
    assert told["Ready"][:2] == ("False", "Missing")


def test_a_lock_without_its_datas_uid_does_not_end_the_look_at_the_others():
    """As an older schema could have let it in: no filesystem belongs there, so the one that is there does not."""
    nameless = {**held(), "dataUID": ""}
    drift = find_drift([DECLARED], [seen(formatted(), claimRef=nameless)])
    assert "ext4" in what(drift, "unexpected_filesystem")[0]
