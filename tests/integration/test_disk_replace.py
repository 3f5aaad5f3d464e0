"""A failing disk of a real host is replaced under a replica that runs: by the role, over ssh, with the node's agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.dev.hosts_help import eventually, out
from tests.support.agent import AgentOnHost, install_rights
from tests.support.hosts import kill_plays, run_plays
from tests.support.kube import forget_disks, install_crds
from tests.support.playbook import Run

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]
HOST = "h3"
CONTAINER = {
    "name": "main",
    "image": "berth.local/busybox:1",
    "imagePullPolicy": "Never",
    "command": ["sh", "-c", "echo $HOSTNAME >> /data/starts; sync; exec sleep 1000000"],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}


def apply(cluster: Any, name: str, replicas: int, folder: Path, **more: Any) -> Run:
    app = {
        "name": name,
        "replicas": replicas,
        "disks": [{"name": "data", "size": "200Mi", "storage_class": name}],
        "template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [CONTAINER]}},
        "wait": True,
        "wait_timeout": 240,
        **more,
    }
    tasks = [
        {"name": "class", "berth.stateful.storage_class": {"name": name}},
        {"name": "app", "berth.stateful.stateful_app": app},
    ]
    defaults = {"group/berth.stateful.k8s": {"kubeconfig": str(cluster.kubeconfig)}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "module_defaults": defaults}
    return run_plays(cluster, [{**play, "tasks": tasks}], folder, timeout=600)


def replacing(cluster: Any, **values: Any) -> list[dict[str, Any]]:
    tasks = [{"name": "role", "ansible.builtin.include_role": {"name": "berth.stateful.disk_replace"}}]
    values = {"disk_replace_kubeconfig": str(cluster.kubeconfig), **values}
    return [{"hosts": HOST, "gather_facts": False, "vars": values, "tasks": tasks}]


def replace(cluster: Any, folder: Path, *args: str, **values: Any) -> Run:
    return run_plays(cluster, replacing(cluster, **values), folder, *args)


def locked_for(cluster: Any, uid: str, old: str) -> None:
    """Wait until the Berth of that uid holds another disk than the old one."""

    def holds() -> bool:
        found = json.loads(cluster.kubectl("get", "ld", "-o", "json"))["items"]
        return any(
            one["metadata"]["name"] != old and (one["spec"].get("claimRef") or {}).get("uid") == uid for one in found
        )

    eventually(holds, 240, "a lock on the new disk")


def disk(cluster: Any, name: str) -> dict[str, Any]:
    return dict(json.loads(cluster.kubectl("get", "ld", name, "-o", "json")))


def test_a_failing_disk_is_replaced(dev_cluster: Any, tmp_path: Path) -> None:
    install_crds(dev_cluster.kubeconfig)
    install_rights(dev_cluster)
    mark = f"r{uuid4().hex[:5]}"
    plugged = [f"{letter}{mark}" for letter in "abc"]
    for each in plugged[:2]:
        dev_cluster.hosts.disk_add(HOST, each, "320Mi")
    found = {each["name"]: each for each in dev_cluster.hosts.disks(HOST)}
    agent = AgentOnHost(dev_cluster, HOST)
    agent.install(disks=[{"serial": found[each]["serial"], "storage_class": mark} for each in plugged[:2]])
    agent.start()
    try:
        agent.wait_ready()
        apply(dev_cluster, mark, 2, tmp_path).ok()
        berth = json.loads(dev_cluster.kubectl("get", "berths", f"{mark}-0", "-o", "json"))
        old, uid = berth["spec"]["disks"][0]["name"], berth["metadata"]["uid"]
        other = dev_cluster.kubectl("get", "pod", f"{mark}-1", "-o", "jsonpath={.metadata.uid}")
        broken = next(each for each in plugged if found.get(each, {}).get("serial") == _serial(dev_cluster, old))

        # The replacement is in nobody's hands yet.
        new = {"identity": {"serial": f"{found[broken]['serial'][: -len(broken)]}{plugged[2]}", "size": "320Mi"}}
        values = {"disk_replace_disk": old, "disk_replace_new": new, "disk_replace_led": True}
        listed = replace(dev_cluster, tmp_path, "--check", **values).ok()
        assert "cordon - the old disk is given to nobody anew" in listed.output
        assert disk(dev_cluster, old)["spec"].get("unschedulable") is None

        # Killed as soon as it has given the old disk up: it waits for the new one then.
        def given_up() -> None:
            eventually(lambda: "retainedFor" in disk(dev_cluster, old)["spec"], 240, f"{old} to be given up")

        assert kill_plays(dev_cluster, replacing(dev_cluster, **values), tmp_path, given_up)

        # Everything up to the new disk is done, and the task says what is missing.
        late = replace(dev_cluster, tmp_path, disk_replace_disk_timeout=3, **values).failed()
        assert "Put it into node h3" in late["msg"]
        state = disk(dev_cluster, old)["spec"]
        assert (state["unschedulable"], state["retainedFor"]["app"], "claimRef" in state) == (True, mark, False)

        # It is put in, and the same task goes on; killed once more as soon as the new disk is locked.
        dev_cluster.hosts.disk_add(HOST, plugged[2], "320Mi")
        kill_plays(dev_cluster, replacing(dev_cluster, **values), tmp_path, lambda: locked_for(dev_cluster, uid, old))
        done = replace(dev_cluster, tmp_path, **values).ok()
        after = json.loads(dev_cluster.kubectl("get", "berths", f"{mark}-0", "-o", "json"))
        name = after["spec"]["disks"][0]["name"]
        assert (after["metadata"]["uid"], after["status"]["phase"]) == (uid, "Running"), done.output
        assert disk(dev_cluster, name)["spec"]["claimRef"]["uid"] == uid
        assert disk(dev_cluster, name)["spec"]["identity"]["serial"] == new["identity"]["serial"]
        starts = eventually(lambda: dev_cluster.kubectl("exec", f"{mark}-0", "--", "cat", "/data/starts").split())
        assert starts == [f"{mark}-0"], "the new disk came up empty"
        assert out(dev_cluster, HOST, f"cat /var/lib/berth/disks/{name}/data/starts") == f"{mark}-0"
        assert dev_cluster.kubectl("get", "pod", f"{mark}-1", "-o", "jsonpath={.metadata.uid}") == other
        again = replace(dev_cluster, tmp_path, **values).ok()
        assert not any(task.result.get("changed") for task in again.tasks)
        assert not apply(dev_cluster, mark, 2, tmp_path).ok().last["changed"]
    finally:
        apply(dev_cluster, mark, 2, tmp_path, state="absent", wait=False)
        eventually(lambda: f"/{mark}" not in out(dev_cluster, HOST, "cat /proc/mounts"), 60)
        agent.clean()
        dev_cluster.kubectl("delete", "storageclass", mark)
        for each in json.loads(dev_cluster.kubectl("get", "ld", "-o", "json"))["items"]:
            if each["spec"]["storageClassName"] == mark:
                forget_disks(agent.api, each["metadata"]["name"])
        for each in dev_cluster.hosts.disks(HOST):
            if each["name"] in plugged and each["plugged"]:
                dev_cluster.hosts.disk_remove(HOST, each["name"])


def _serial(cluster: Any, name: str) -> str:
    return str(disk(cluster, name)["spec"]["identity"]["serial"])
