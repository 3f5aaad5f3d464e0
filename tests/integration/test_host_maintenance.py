"""Three hosts are worked on one after the other, one of them rebooted, under an app of three replicas with a budget.

The playbook is killed in the middle of the work on the second host, and run again. A PostgreSQL on that host is written
to all the time, and has every commit afterwards that it acknowledged.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.maintenance_mark import ANNOTATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import NODE, POD
from berth_dev.pytest_plugin import cluster_of_hosts
from tests.dev.hosts_help import eventually, get
from tests.integration.test_stateful_app_hosts import app_play, base, last, places, starts
from tests.integration.test_stateful_app_update import database, went_on
from tests.support import postgresql
from tests.support.hosts import kill_plays, run_plays
from tests.support.kube import client_for

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "journal", "namespace": "default"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"berth.dev/app": "journal"}}},
}
REBOOT = """
import sys, pathlib
from berth_dev.cluster import Cluster
hosts = Cluster(pathlib.Path(sys.argv[1])).hosts
hosts.power_off("h2")
hosts.power_on("h2")
"""


@pytest.fixture
def dev_cluster():
    """Its own: a host is rebooted."""
    with cluster_of_hosts() as cluster:
        yield cluster


def maintenance(cluster, folder):
    """The play, and the file of its tasks: what an upgrade of the kernel is, without the kernel."""
    tasks = [
        {
            "name": "Nothing of the application runs here",
            "ansible.builtin.shell": 'test -z "$(/opt/k/ctr -n k8s.io tasks ls -q)"',
            "changed_when": False,
        },
        {
            "name": "Work, for a long time where it is done for the first time",
            "ansible.builtin.shell": "test -e /root/begun || { touch /root/begun; sleep 100; }",
            "when": "inventory_hostname == 'h2'",
        },
        {
            "name": "Reboot",
            "ansible.builtin.command": {"argv": [sys.executable, "-c", REBOOT, str(cluster.folder.path)]},
            "delegate_to": "localhost",
            "when": "inventory_hostname == 'h2'",
        },
        {"name": "It is back", "ansible.builtin.wait_for_connection": {"timeout": 60}},
        {"name": "Done", "ansible.builtin.file": {"path": "/root/upgraded", "state": "touch"}},
    ]
    file = folder / "kernel.yml"
    file.write_text(yaml.safe_dump(tasks))
    values = {
        "host_maintenance_tasks": str(file),
        "host_maintenance_needed": "{{ not upgraded.stat.exists }}",
        "host_maintenance_kubeconfig": str(cluster.kubeconfig),
        "host_maintenance_wait_timeout": 90,
    }
    look = {"name": "Is it done", "ansible.builtin.stat": {"path": "/root/upgraded"}, "register": "upgraded"}
    role = {"ansible.builtin.include_role": {"name": "berth.stateful.host_maintenance"}}
    play = {"hosts": "berth_hosts", "gather_facts": False, "serial": 1, "vars": values, "tasks": [look, role]}
    return [play]


@contextlib.contextmanager
def least_ready(cluster) -> Iterator[list[int]]:
    """How many replicas were Ready at least, in the end."""
    client, least, over = client_for(cluster.kubeconfig), [3], threading.Event()

    def look():
        while not over.wait(0.1):
            found = client.list(POD, "default", labels="berth.dev/app=journal")
            least[0] = min(least[0], sum(ready(pod) for pod in found))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield least
    finally:
        over.set()
        watcher.join()


@pytest.fixture
def commits(dev_cluster, tmp_path):
    """Of the database on h2, as soon as its writer is started."""
    writer = postgresql.Commits(dev_cluster, "h2", tmp_path)
    try:
        yield writer
    finally:
        writer.stop_writer()


def test_three_hosts_one_after_the_other(dev_cluster, commits, tmp_path):
    kubeconfig, plays = str(dev_cluster.kubeconfig), maintenance(dev_cluster, tmp_path)
    ledger = app_play(kubeconfig, **database(dev_cluster, "h2"))
    setup = [*base(kubeconfig), ledger, app_play(kubeconfig)]
    before = places(last(run_plays(dev_cluster, setup, tmp_path).ok()))
    assert {node for node, _disk in before.values()} == {"h1", "h2", "h3"}
    dev_cluster.kubectl("apply", "-f", "-", stdin=json.dumps(BUDGET))

    def working():
        return eventually(
            lambda: dev_cluster.hosts.enter("h2", "ls", "/root/begun"), 120, "the work on the second host"
        )

    commits.start_writer()
    went_on(commits, connections=1)
    with least_ready(dev_cluster) as least:
        assert kill_plays(dev_cluster, plays, tmp_path, working)
        told = client_for(kubeconfig).get(NODE, "h2")
        assert told["spec"]["unschedulable"]
        assert json.loads(told["metadata"]["annotations"][ANNOTATION])["state"] == "begun"
        again = run_plays(dev_cluster, plays, tmp_path).ok()
    assert least == [2], "one replica at a time, and never two"
    went_on(commits, connections=2)
    assert not commits.missing()
    evicted = [task for task in again.tasks if task.name.endswith("begun") and task.result.get("changed")]
    assert [task.host for task in evicted] == ["h3"], "h1 was done, and h2 was empty"

    berths = {name: get(dev_cluster, "berths", name)["spec"] for name in before}
    after = {name: (spec["nodeName"], spec["disks"][0]["name"]) for name, spec in berths.items()}
    assert after == before, "each on its own node and disk"
    twice = dict.fromkeys(before, 2)
    eventually(
        lambda: {name: len(starts(dev_cluster, int(name[-1]))) for name in before} == twice, 60, "each anew, once"
    )
    for node in client_for(kubeconfig).list(NODE):
        assert not node["spec"].get("unschedulable")
        assert ANNOTATION not in node["metadata"].get("annotations", {})
    third = run_plays(dev_cluster, plays, tmp_path).ok()
    assert not any(task.result.get("changed") for task in third.tasks), third.output
