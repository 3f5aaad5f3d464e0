"""What a person is told of a disk that keeps data without a holder, and that what is to be copied is only a command."""

from __future__ import annotations

import shlex

import pytest

from berth_cli import tables
from berth_core.app import kept_data
from berth_core.app.html_report import render
from berth_core.app.overview import overview
from tests.core.app.report_world import cluster

OF_APP = {"namespace": "shop", "app": "db", "ordinal": 2, "claim": "data", "dataUID": "b-1", "namespaceUID": "ns-1"}
OF_POD = {"namespace": "shop", "app": "pvc.x-tmp", "ordinal": 0, "claim": "x-tmp", "dataUID": "b-2", "podUID": "p-1"}
RELEASED, LATER = "2026-01-05T06:07:08Z", "2026-02-01T00:00:00Z"


def found(kept=None, serial="S1", **spec):
    """The overview of a cluster with one more disk, which keeps data."""
    lists = cluster()
    disk = {**lists["LocalDisk"][0], "status": {"phase": "Released", "observed": {"devicePath": "/dev/sdb"}}}
    owned = {"f:spec": {"f:retainedFor": {".": {}, "f:app": {}}}}
    fields = [
        {"manager": "agent", "time": LATER, "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "module", "time": RELEASED, "fieldsV1": owned},
        {"manager": "kubectl", "time": LATER, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
    ]
    disk["metadata"] = {"name": "n1-kept", "uid": "k", "resourceVersion": "1", "managedFields": fields}
    identity = {"serial": serial, "size": 1 << 30}
    disk["spec"] = {"nodeName": "n1", "identity": identity, "retainedFor": kept or OF_APP, **spec}
    lists["LocalDisk"].append(disk)
    return overview(lists)


def entry(**more):
    (disk,) = kept_data.kept(found(**more)["disks"])
    return disk


def test_whose_it_is_by_names_and_uids():
    assert kept_data.whose(entry()["retained_for"]) == "app db, ordinal 2, claim data, in namespace shop (uid ns-1)"
    expected = "claim x-tmp (of the pod with uid p-1), in namespace shop"
    assert kept_data.whose(entry(kept=OF_POD)["retained_for"]) == expected


def test_since_when_is_what_the_api_server_remembers():
    assert entry()["retained_for"]["since"] == RELEASED
    assert kept_data.since({"metadata": {"name": "d"}}) is None, "the caches of daemons leave it out"


def test_the_commands_name_the_disk_and_its_identity():
    give_up, destroy = kept_data.ways(entry())
    assert "name=n1-kept state=released force_retained=true" in give_up.command
    assert '"wipe": {"identity": {"serial": "S1"}' in destroy.command
    assert '"force_retained": true' in destroy.command


@pytest.mark.parametrize(
    "serial", ["S'; reboot; '", "{{ lookup('pipe', 'reboot') }}", "S$(reboot)", "S\\", 'S"', "S\n"]
)
def test_what_a_disk_calls_itself_is_never_part_of_a_command(serial):
    disk = entry(serial=serial)
    assert [way.command for way in kept_data.ways(disk)][1] == ""
    assert shlex.split(kept_data.ways(disk)[0].command)[0] == "ansible"


def test_a_wipe_that_is_asked_for_needs_no_command():
    wipe = {"requestID": "1", "identity": {"serial": "S1", "size": 1 << 30}, "requestedBy": "ann"}
    answer = found(wipe=wipe)
    assert kept_data.ways(kept_data.kept(answer["disks"])[0]) == []
    assert "a wipe is asked for" in tables.kept(answer)


def test_a_disk_that_is_held_or_keeps_nothing_is_left_out():
    assert kept_data.kept(overview(cluster())["disks"]) == []
    assert tables.kept(overview(cluster())) == ""
    assert "Kept data" not in render(overview(cluster()), [], [], "berth", "now")


def test_command_line_and_page_say_all_of_it():
    answer = found()
    page = render(answer, [], [], "berth", "now").replace("&quot;", '"').replace("&#x27;", "'")
    for text in (tables.show(answer), page):
        assert "app db, ordinal 2, claim data, in namespace shop (uid ns-1)" in text
        assert RELEASED in text
        for way in kept_data.ways(entry()):
            assert way.command in text
