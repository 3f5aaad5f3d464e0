"""The local_disk modules on a real API server: one LIST, no write without need, and what is refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import local_disk, local_disk_info, local_disk_plan
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, Operation, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LOCAL_DISK
from tests.core.app.disk_samples import device, formatted, held, kept, system_disk
from tests.support.kube import forget

Run = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("crds")


def runner(operation: Operation, kubeconfig: Any) -> Run:
    """The operation with its defaults, as both ways of running it call it."""

    def run(check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in operation.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(kubeconfig), **options}
        return execute(operation, Context(params, check, lambda text: None, environ={}))

    return run


@pytest.fixture
def disk(control_plane: Any) -> Run:
    return runner(local_disk.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def info(control_plane: Any) -> Run:
    return runner(local_disk_info.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def plan(control_plane: Any) -> Run:
    return runner(local_disk_plan.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def node(name: str, api: ApiClient) -> Iterator[str]:
    """A node's name of its own; its LocalDisks are gone at the end."""
    yield name
    for each in api.list(LOCAL_DISK, fields=f"spec.nodeName={name}"):
        forget(api, LOCAL_DISK, each["metadata"]["name"])


def declared(node: str, at: str = "sdb", **more: Any) -> dict[str, Any]:
    keys = {"serial": f"SERIAL-{at}", "size": "4Gi"}
    return {"name": f"{node}-{at}", "node_name": node, "identity": keys, "storage_class": "fast", **more}


def lock(api: ApiClient, name: str, **spec: Any) -> None:
    api.patch(LOCAL_DISK, name, None, {"spec": spec})


def test_create_rerun_change_delete(disk: Run, api: ApiClient, node: str) -> None:
    wanted = [declared(node, at, observed=device(at)) for at in ("sdb", "sdc")]
    made = disk(disks=wanted)
    assert made["changed"], made
    assert set(made["actions"].values()) == {"created"}
    assert made["requests"] == {"list": 2, "create": 2, "replace": 2}, "these names may be other nodes' already"
    stored = api.get(LOCAL_DISK, f"{node}-sdb")
    assert (stored["spec"]["volumeMode"], stored["status"]["phase"]) == ("Filesystem", "Available")
    again = disk(disks=wanted)
    assert (again["changed"], again["requests"], again["diff"]) == (False, {"list": 1}, [])
    changed = disk(disks=[{**wanted[0], "reserved": True}, wanted[1]])
    assert changed["actions"] == {f"{node}-sdb": "updated", f"{node}-sdc": "unchanged"}
    assert changed["requests"] == {"list": 1, "replace": 1}
    gone = disk(state="absent", disks=[{"name": f"{node}-sdb"}, {"name": f"{node}-sdc"}], node_name=node)
    assert (gone["changed"], gone["requests"]) == (True, {"list": 1, "delete": 2})
    assert disk(state="absent", name=f"{node}-sdb")["requests"] == {"list": 1}


def test_what_the_host_reports_goes_to_the_status_alone(disk: Run, api: ApiClient, node: str) -> None:
    disk(**declared(node, observed=device()))
    before = api.get(LOCAL_DISK, f"{node}-sdb")
    lost = disk(**declared(node, observed={}))
    assert lost["actions"] == {f"{node}-sdb": "observed"}
    after = api.get(LOCAL_DISK, f"{node}-sdb")
    assert (after["status"]["phase"], after["spec"]) == ("Missing", before["spec"])
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert not disk(**declared(node, observed={}))["changed"]
    assert disk(**declared(node, observed=device()))["local_disks"][0]["status"]["phase"] == "Available"


def test_what_an_agent_keeps_in_the_status_stays(disk: Run, api: ApiClient, node: str) -> None:
    """What it has begun on the disk: the same declaration changes nothing, another takes none of it away."""
    disk(**declared(node, observed=device()))
    name = f"{node}-sdb"
    theirs = {"journal": {"step": "Mounting", "lockUID": "u-1"}}
    prepared = {
        "type": "Prepared",
        "status": "False",
        "reason": "Mounting",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    seen = api.get(LOCAL_DISK, name)["status"]["conditions"]
    api.patch(LOCAL_DISK, name, None, {"status": {**theirs, "conditions": [prepared, *seen]}}, subresource="status")
    assert not disk(**declared(node, observed=device()))["changed"]
    assert disk(**declared(node, observed={}))["actions"] == {name: "observed"}
    status = api.get(LOCAL_DISK, name)["status"]
    assert (status["phase"], status["journal"]) == ("Missing", theirs["journal"])
    assert prepared in status["conditions"]


def test_check_mode_shows_the_same_and_writes_nothing(disk: Run, api: ApiClient, node: str) -> None:
    planned = disk(check=True, **declared(node, observed=device()))
    assert planned["requests"] == {"list": 1}
    assert api.find(LOCAL_DISK, f"{node}-sdb") is None
    assert planned["diff"][0]["before"] == {}
    assert planned["diff"][0]["after"]["spec"]["storageClassName"] == "fast"
    done = disk(**declared(node, observed=device()))
    assert planned["actions"] == done["actions"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"identity": {"serial": "other"}}, "an identity never changes"),
        ({"node_name": "elsewhere"}, "does not change its node"),
        ({"identity": {"size": "4 gigs"}}, "not a quantity"),
        ({"volume_mode": "Block", "fs_type": "ext4"}, "fs_type is for volume_mode Filesystem"),
        ({"mount_options": ["a,b"]}, "mount option 'a,b'"),
        ({"name": "Not_A_Name"}, "DNS-1123"),
    ],
)
def test_bad_input_changes_nothing(disk: Run, api: ApiClient, node: str, change: dict[str, Any], words: str) -> None:
    disk(**declared(node))
    before = api.get(LOCAL_DISK, f"{node}-sdb")
    refused = disk(disks=[declared(node, "sdc"), {**declared(node), **change}])
    assert refused["failed"]
    assert words in refused["msg"]
    assert "\n" not in refused["msg"]
    assert refused["changed"] is False
    assert api.get(LOCAL_DISK, f"{node}-sdb") == before
    assert api.find(LOCAL_DISK, f"{node}-sdc") is None


def test_all_refusals_are_told_at_once(disk: Run, node: str) -> None:
    refused = disk(disks=[declared(node, at, identity={"serial": at}) for at in ("sdb", "sdc")])
    assert len(refused["refusals"]) == 2
    assert all(f"{node}-{at}" in refused["msg"] for at in ("sdb", "sdc"))


def test_one_name_twice_is_refused_before_anybody_is_asked(disk: Run, node: str) -> None:
    refused = disk(disks=[declared(node), declared(node)])
    assert "declared twice" in refused["msg"]
    assert refused["requests"] == {}


@pytest.mark.promise
def test_a_held_disk_keeps_its_lock_and_stays(disk: Run, api: ApiClient, node: str) -> None:
    name = f"{node}-sdb"
    disk(**declared(node, fs_type="ext4", observed=device()))
    lock(api, name, claimRef=held())
    for options, words in (
        ({"state": "absent", "name": name}, "held by berth default/db-0"),
        ({"state": "absent", "name": name, "force_retained": True}, "held by berth default/db-0"),
        (declared(node, fs_type="xfs"), "cannot change while the disk is held (by default/db-0)"),
    ):
        refused = disk(**options)
        assert refused["failed"]
        assert words in refused["msg"]
        assert refused["requests"] == {"list": 1}
    relabelled = disk(**declared(node, reserved=True, labels={"rack": "a"}, observed=device()))
    assert relabelled["local_disks"][0]["status"]["phase"] == "Locked"
    stored = api.get(LOCAL_DISK, name)
    assert (stored["spec"]["claimRef"], stored["spec"]["reserved"]) == (held(), True)


@pytest.mark.promise
def test_kept_data_is_forgotten_only_when_asked_for(disk: Run, api: ApiClient, node: str) -> None:
    name = f"{node}-sdb"
    disk(**declared(node, observed=device()))
    lock(api, name, claimRef=held())
    lock(api, name, claimRef=None, retainedFor=kept())
    refused = disk(state="absent", name=name)
    assert "force_retained" in refused["msg"]
    assert api.get(LOCAL_DISK, name)["spec"]["retainedFor"] == kept()
    assert disk(check=True, state="absent", name=name, force_retained=True)["changed"]
    assert api.find(LOCAL_DISK, name)
    assert disk(state="absent", name=name, force_retained=True)["changed"]
    assert api.find(LOCAL_DISK, name) is None


@pytest.mark.promise
def test_a_lost_compare_and_swap_is_decided_again(
    disk: Run, api: ApiClient, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody locks the disk between the module's LIST and its write: the lock stays, and the deletion is refused."""
    name = f"{node}-sdb"
    disk(**declared(node, observed=device()))
    read = local_disk.read_live

    def read_then_somebody_locks(*args: Any) -> Any:
        found = read(*args)
        lock(api, name, claimRef=held())
        return found

    monkeypatch.setattr(local_disk, "read_live", read_then_somebody_locks)
    refused = disk(state="absent", name=name)
    assert "held by berth default/db-0" in refused["msg"]
    assert api.get(LOCAL_DISK, name)["spec"]["claimRef"] == held()
    lock(api, name, claimRef=None)
    changed = disk(**declared(node, reserved=True, observed=device()))
    stored = api.get(LOCAL_DISK, name)
    assert (changed["changed"], stored["spec"]["claimRef"], stored["spec"]["reserved"]) == (True, held(), True)
    assert stored["status"]["phase"] == "Locked"


@pytest.mark.promise
def test_a_name_that_another_node_has_is_told(disk: Run, api: ApiClient, node: str) -> None:
    disk(**declared(node))
    refused = disk(**{**declared(node), "node_name": f"{node}-b"})
    assert "it is a disk of node" in refused["msg"]
    assert api.get(LOCAL_DISK, f"{node}-sdb")["spec"]["nodeName"] == node


def test_info_filters_queries_and_costs_one_request(disk: Run, info: Run, node: str) -> None:
    disk(
        disks=[declared(node, "sdb", observed=device("sdb")), declared(node, "sdc", observed={}, labels={"tier": node})]
    )
    names = "[].metadata.name"
    for options, expected in (
        ({"node_name": node}, ["sdb", "sdc"]),
        ({"node_name": node, "phase": "Missing"}, ["sdc"]),
        ({"names": [f"{node}-sdb"]}, ["sdb"]),
        ({"names": [f"{node}-sdb", f"{node}-sdc", "no-such"]}, ["sdb", "sdc"]),
        ({"label_selectors": [f"tier={node}"]}, ["sdc"]),
        ({"node_name": node, "storage_class": "slow"}, []),
    ):
        found = info(query=names, **options)
        assert found["result"] == [f"{node}-{at}" for at in expected], options
        assert found["requests"] == {"list": 1}
    assert "[?" in info(query="[?")["msg"]


def test_drift_is_told_and_can_fail(disk: Run, info: Run, node: str) -> None:
    disk(disks=[declared(node, "sdb", observed=device("sdb")), declared(node, "sdc", observed=device("sdc"))])
    same = [declared(node, at) for at in ("sdb", "sdc")]
    assert info(declared=same, fail_on_drift=True)["drift"]["any"] is False
    other = [declared(node, "sdb", storage_class="slow"), declared(node, "sdd")]
    drift = info(declared=other)
    assert [len(drift["drift"][kind]) for kind in ("missing", "extra", "changed")] == [1, 1, 1]
    failed = info(declared=other, fail_on_drift=True)
    assert failed["failed"]
    for words in (
        f"missing: LocalDisk {node}-sdd",
        f"extra: LocalDisk {node}-sdc",
        "storage_class is fast, declared slow",
    ):
        assert words in failed["msg"]
    assert info(declared=[], node_name=node)["drift"]["extra"] != []


def test_the_plan_of_a_host_can_be_applied_as_it_is(disk: Run, info: Run, plan: Run, node: str) -> None:
    devices = [system_disk(), device("sdb"), formatted("sdc")]
    options = {
        "node_name": node,
        "disks": [{"serial": "SERIAL-sdb", "storage_class": "fast"}],
        "selectors": [{"query": "[?type == 'disk']"}],
        "block_devices": devices,
    }
    made = plan(**options)
    assert made["requests"] == {"list": 1}
    assert [row["action"] for row in made["plan"]] == ["adopt", "refuse", "refuse"]
    assert made["table"][0].split() == ["ACTION", "LOCALDISK", "DEVICE", "SIZE", "FROM", "WHY"]
    assert disk(disks=made["disks"])["changed"]
    again = plan(**options)
    assert [row["action"] for row in again["plan"]] == ["keep", "refuse", "refuse"]
    assert not disk(disks=again["disks"])["changed"]
    assert info(declared=again["declared"], node_name=node, fail_on_drift=True)["drift"]["any"] is False
    less = plan(**{**options, "disks": [], "selectors": []})
    assert (less["free"], less["held"]) == ([{"name": each} for each in less["extra"]], [])
    assert disk(state="absent", node_name=node, disks=less["free"])["changed"]


def test_a_plan_with_a_refused_entry_fails_with_all_reasons_and_the_table(plan: Run, node: str) -> None:
    refused = plan(node_name=node, disks=[{"serial": "gone"}, {"model": "Disk"}], block_devices=[device()])
    assert refused["failed"]
    assert [text.split(":")[0] for text in refused["refusals"]] == ["berth_disks[0]", "berth_disks[1]"]
    assert "too weak" in refused["msg"]
    assert refused["table"]


def test_without_the_right_to_list_the_verb_and_the_resource_are_named(control_plane: Any) -> None:
    nobody = control_plane.user_kubeconfig("nobody-in-particular", [])
    refused = runner(local_disk.OPERATION, nobody)(name="x", state="absent")
    assert refused["status"] == 403
    assert "verb list on localdisks.berth.dev" in refused["msg"]


def test_in_a_playbook(playbook: Callable[..., Any], node: str) -> None:
    """As users run it: in the controller, and as an ordinary module in a process of its own."""
    task = {"berth.stateful.local_disk": {"disks": [declared(node, observed=device())]}}
    wrong = {"berth.stateful.local_disk": {"name": f"{node}-sdb", "disks": []}}
    run = playbook([task, task, {**task, "async": 60, "poll": 1}, wrong], "--diff")
    assert "mutually exclusive" in run.failed()["msg"]
    assert [each.result["changed"] for each in run.tasks][:2] == [True, False]
    assert run.tasks[-2].result["actions"] == {f"{node}-sdb": "unchanged"}
    assert '"storageClassName": "fast"' in run.output
