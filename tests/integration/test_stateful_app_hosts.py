"""stateful_app as a user runs it: a playbook, ssh to three real hosts, real disks and pods, data that survives."""

from __future__ import annotations

import contextlib
import copy
import json
import threading

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ConflictError, NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.app.runner import run
from tests.dev.hosts_help import apply, eventually, get, node_ready, running
from tests.dev.hosts_help import pod as busybox
from tests.support.hosts import run_plays
from tests.support.kube import client_for

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

CONTAINER = {
    "name": "main",
    "image": "berth.local/busybox:1",
    "imagePullPolicy": "Never",
    "command": ["sh", "-c", "echo $HOSTNAME >> /data/starts; sync; exec sleep 1000000"],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
APP = {
    "stateful_app_name": "journal",
    "stateful_app_replicas": 3,
    "stateful_app_disks": [{"name": "data", "size": "200Mi", "storage_class": "berth-hosts"}],
    "stateful_app_template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [CONTAINER]}},
    "stateful_app_topology_spread_constraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"berth.dev/app": "journal"}},
        }
    ],
    "local_disks_become": False,
}


def base(kubeconfig):
    here = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    defaults = {"group/berth.stateful.k8s": {"kubeconfig": kubeconfig}}
    tasks = [
        {"name": "crds", "berth.stateful.crds": {}},
        {"name": "class", "berth.stateful.storage_class": {"name": "berth-hosts"}},
    ]
    disks = {
        "hosts": "berth_hosts",
        "gather_facts": False,
        "vars": {
            "local_disks_kubeconfig": kubeconfig,
            "local_disks_become": False,
            "berth_disk_selectors": [{"query": "[?usable]", "storage_class": "berth-hosts", "fs_type": "ext4"}],
        },
        "roles": ["berth.stateful.local_disks"],
    }
    return [{**here, "module_defaults": defaults, "tasks": tasks}, disks]


def app_play(kubeconfig, **changes):
    values = {**copy.deepcopy(APP), "stateful_app_kubeconfig": kubeconfig, **changes}
    return {"hosts": "berth_hosts", "gather_facts": False, "vars": values, "roles": ["berth.stateful.stateful_app"]}


def starts(cluster, ordinal):
    return cluster.kubectl("exec", f"journal-{ordinal}", "--", "cat", "/data/starts").split()


def last(run, module="Create the workload and wait until it is Ready, or take it away"):
    return next(task.result for task in reversed(run.tasks) if task.name.endswith(module))


def places(result):
    return {row["name"]: (row["node"], row["disks"][0]["name"]) for row in result["berths"]}


@pytest.fixture(scope="module")
def recorded(dev_cluster, tmp_path_factory):
    """The hosts' disks are LocalDisks."""
    run_plays(dev_cluster, base(str(dev_cluster.kubeconfig)), tmp_path_factory.mktemp("base")).ok()


def taken_away(cluster, **app):
    """By the module alone: no host has to be reached for that."""
    options = {key.removeprefix("stateful_app_"): value for key, value in app.items() if key.startswith("stateful_app")}
    here = {"kubeconfig": str(cluster.kubeconfig), "state": "absent", "wait": True, "wait_timeout": 90}
    done = run({**options, **here})
    assert not done.get("failed"), done


@pytest.mark.usefixtures("recorded")
def test_an_app_on_real_disks_from_first_run_to_return(dev_cluster, tmp_path):
    """That a second run changes nothing, the quickstart's commands show, and molecule's scenario of the role."""
    kubeconfig = str(dev_cluster.kubeconfig)
    seen = run_plays(dev_cluster, [app_play(kubeconfig)], tmp_path, "--check", "--diff").ok()
    assert "journal-2" in seen.output
    assert json.loads(dev_cluster.kubectl("get", "berths", "-o", "json"))["items"] == []
    first = last(run_plays(dev_cluster, [app_play(kubeconfig)], tmp_path).ok())
    assert {row["phase"] for row in first["berths"]} == {"Running"}
    assert {node for node, _disk in places(first).values()} == {"h1", "h2", "h3"}

    dev_cluster.kubectl("delete", "pod", "journal-1", "--wait=true")
    second = last(run_plays(dev_cluster, [app_play(kubeconfig)], tmp_path).ok())
    assert places(second) == places(first)
    assert starts(dev_cluster, 1) == ["journal-1", "journal-1"], "the data outlived the pod"

    run_plays(dev_cluster, [app_play(kubeconfig, stateful_app_state="absent")], tmp_path).ok()
    left = json.loads(dev_cluster.kubectl("get", "localdisks", "-o", "json"))["items"]
    kept = {disk["metadata"]["name"]: disk["spec"].get("retainedFor", {}).get("ordinal") for disk in left}
    assert {name: kept[disk] for name, (_node, disk) in places(first).items()} == {f"journal-{o}": o for o in range(3)}

    third = last(run_plays(dev_cluster, [app_play(kubeconfig)], tmp_path).ok())
    assert places(third) == places(first)
    assert starts(dev_cluster, 0) == ["journal-0", "journal-0"], "the data outlived the app"
    assert starts(dev_cluster, 1) == ["journal-1", "journal-1", "journal-1"]
    taken_away(dev_cluster, **APP)


@contextlib.contextmanager
def second_scheduler(cluster):
    """Binds each pod that names it to the one node that the pod allows. It looks at nobody else's pods, nor at room."""
    over, api = threading.Event(), client_for(cluster.kubeconfig)

    def bind():
        while not over.wait(0.2):
            for pod in api.list(kinds.POD, fields="spec.schedulerName=second,spec.nodeName="):
                node = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                target = {"kind": "Node", "name": node["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]}
                meta = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
                with contextlib.suppress(NotFoundError, ConflictError):  # it is gone by now
                    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
                    api.create(kinds.POD, body, subresource="binding")

    thread = threading.Thread(target=bind)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.usefixtures("recorded")
def test_bare_pods_that_end_come_back_in_their_berth(dev_cluster, tmp_path):
    """Evicted by the kubelet, refused by it where two schedulers overbook a node's cpu, stopped by a power cut."""
    kubeconfig = str(dev_cluster.kubeconfig)
    limits = {"requests": {"cpu": "1100m"}, "limits": {"ephemeral-storage": "2Mi"}}
    app = {
        "name": "bare",
        "workload": "Pod",
        "replicas": 1,
        "disks": APP["stateful_app_disks"],
        "template": {
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "schedulerName": "second",
                "containers": [{**CONTAINER, "resources": limits}],
            }
        },
    }
    options = {**app, "kubeconfig": kubeconfig, "wait": True, "wait_timeout": 90}
    values = {f"stateful_app_{key}": value for key, value in app.items()}
    play = app_play(kubeconfig, **values, stateful_app_topology_spread_constraints=[])
    with second_scheduler(dev_cluster):
        first = last(run_plays(dev_cluster, [play], tmp_path).ok())
        node = first["berths"][0]["node"]

        dev_cluster.kubectl("exec", "bare-0", "--", "dd", "if=/dev/zero", "of=/fill", "bs=1M", "count=8")
        ended(dev_cluster, "Evicted")
        squatter = busybox("squatter", node, "exec sleep 1000000")
        squatter["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1100m"}}
        apply(dev_cluster, squatter)
        running(dev_cluster, "squatter")
        second = run({**options, "wait": False})
        assert second["restarted"][0]["ended"].startswith("Failed (Evicted: "), second

        ended(dev_cluster, "OutOfcpu")
        refused = run({**options, "wait": False})
        (row,) = refused["backoff"]
        assert (refused["changed"], row["count"]) == (False, 2), refused
        assert row["ended"].startswith("Failed (OutOfcpu: "), row
        dev_cluster.kubectl("delete", "pod", "squatter", "--now")
        third = run(options)
        assert third["restarted"] == [{"pod": "bare-0", "ended": row["ended"]}], third
        assert (places(third), third["berths"][0]["phase"]) == (places(first), "Running")
        read = ("exec", "bare-0", "--", "cat", "/data/starts")
        assert dev_cluster.kubectl(*read).split() == ["bare-0"] * 2, "the disk and its data are those of the first pod"

        before = get(dev_cluster, "pod", "bare-0")["metadata"]["uid"]
        dev_cluster.hosts.power_off(node)
        dev_cluster.hosts.power_on(node)
        eventually(lambda: node_ready(dev_cluster, node) == "True", 60, f"node {node} Ready")
        eventually(lambda: len(dev_cluster.kubectl(*read).split()) == 3, 60, "the container after the power cut")
        fourth = run(options)
        assert (fourth["changed"], places(fourth)) == (False, places(first)), fourth
        assert get(dev_cluster, "pod", "bare-0")["metadata"]["uid"] == before, "its kubelet has started it again"
    assert not run({**options, "state": "absent"}).get("failed")


def ended(cluster, reason):
    """Wait until the kubelet has ended bare-0 for this reason."""
    eventually(lambda: get(cluster, "pod", "bare-0")["status"].get("reason") == reason, 90, f"bare-0 {reason}")


def test_bare_pods_on_raw_devices(dev_cluster, tmp_path):
    """volumeMode Block: the pod gets the locked device itself, and what it wrote is there for its successor.

    The last one here: it leaves a disk that keeps data and is not of the mode that the other tests declare.
    """
    kubeconfig = str(dev_cluster.kubeconfig)
    plays = base(kubeconfig)
    dev_cluster.hosts.disk_add("h2", "raw", "96Mi")
    serial = next(disk["serial"] for disk in dev_cluster.hosts.disks("h2") if disk["name"] == "raw")
    block = {"storage_class": "berth-hosts", "volume_mode": "Block"}
    plays[1]["vars"]["berth_disks"] = "{{ raw_disks.get(inventory_hostname, []) }}"
    plays[1]["vars"]["raw_disks"] = {"h2": [{"serial": serial, **block}]}
    run_plays(dev_cluster, plays, tmp_path).ok()
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": [
            "sh",
            "-c",
            "head -c 4 /dev/data; echo; printf raw1 | dd of=/dev/data conv=fsync 2>/dev/null; exec sleep 1000000",
        ],
        "volumeDevices": [{"name": "data", "devicePath": "/dev/data"}],
    }
    app = {
        "stateful_app_name": "raw",
        "stateful_app_workload": "Pod",
        "stateful_app_replicas": 1,
        "stateful_app_disks": [
            {"name": "data", "size": "64Mi", "storage_class": "berth-hosts", "volume_mode": "Block"}
        ],
        "stateful_app_template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}},
        "stateful_app_topology_spread_constraints": [],
    }
    first = last(run_plays(dev_cluster, [app_play(kubeconfig, **app)], tmp_path).ok())
    assert first["berths"][0]["node"] == "h2"
    run_plays(dev_cluster, [app_play(kubeconfig, stateful_app_state="absent", **app)], tmp_path).ok()
    second = last(run_plays(dev_cluster, [app_play(kubeconfig, **app)], tmp_path).ok())
    assert second["berths"][0]["disks"] == first["berths"][0]["disks"]
    read = eventually(lambda: dev_cluster.kubectl("logs", "raw-0").strip(), what="the successor's output")
    assert read == "raw1", "the successor read what the first pod wrote"
    taken_away(dev_cluster, **app)
