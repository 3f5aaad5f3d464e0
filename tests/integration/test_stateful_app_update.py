"""An app is updated on real kubelets: image and cpu of running pods, an image that nobody has, the way back."""

from __future__ import annotations

import copy

import pytest

from berth_dev.pytest_plugin import cluster_of_hosts
from tests.integration.test_stateful_app_hosts import APP, app_play, base, last, starts
from tests.support.hosts import run_plays

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

FIRST, SECOND, NOWHERE = "berth.local/busybox:1", "berth.local/busybox:2", "berth.local/nowhere:1"
LABEL = "berth.dev/app=journal"


@pytest.fixture
def dev_cluster():
    """Its own: other tests leave disks that keep data."""
    with cluster_of_hosts() as cluster:
        yield cluster


@pytest.fixture
def second_image(dev_cluster):
    """The first image by another name, on every host."""
    for host in ("h1", "h2", "h3"):
        dev_cluster.hosts.enter(host, "/opt/k/ctr", "-n", "k8s.io", "images", "tag", FIRST, SECOND)


def play(kubeconfig, **container):
    template = copy.deepcopy(APP["stateful_app_template"])
    template["spec"]["containers"][0].update(container)
    values = {"stateful_app_template": template, "stateful_app_update_strategy": "in_place_only"}
    return app_play(kubeconfig, stateful_app_wait_timeout=60, **values)


def pods(cluster, path):
    told = cluster.kubectl("get", "pods", "-l", LABEL, "-o", f"jsonpath={{range .items[*]}}{{{path}}}{{'\\n'}}{{end}}")
    return told.split()


def pull_pods(cluster):
    return cluster.kubectl("get", "pods", "-l", "berth.dev/app=journal.p", "-o", "name").split()


def test_images_and_cpu_change_in_running_pods_and_back(dev_cluster, tmp_path, second_image):
    kubeconfig = str(dev_cluster.kubeconfig)

    def run(**container):
        return run_plays(dev_cluster, [play(kubeconfig, **container)], tmp_path)

    small, large = {"requests": {"cpu": "10m"}}, {"requests": {"cpu": "20m"}}
    run_plays(dev_cluster, base(kubeconfig), tmp_path).ok()
    run(resources=small).ok()
    uids = pods(dev_cluster, ".metadata.uid")

    updated = last(run(image=SECOND, resources=large).ok())
    fields = ["spec.containers[main].image", "spec.containers[main].resources.requests.cpu"]
    assert [(row["pod"], row["in_place"], row["fields"]) for row in updated["updated"]] == [
        (f"journal-{ordinal}", True, fields) for ordinal in (2, 1, 0)
    ]
    assert not [row for row in updated["updated"] if None in (row["not_ready_seconds"], row["pull_seconds"])]
    assert [row["pulled"] for row in updated["updated"]] == [[SECOND]] * 3
    assert pull_pods(dev_cluster) == [], "containerd has started nothing of them, and they are gone"
    assert pods(dev_cluster, ".metadata.uid") == uids, "the same pods"
    assert set(pods(dev_cluster, ".status.containerStatuses[0].restartCount")) == {"1"}
    assert set(pods(dev_cluster, ".status.containerStatuses[0].resources.requests.cpu")) == {"20m"}
    assert starts(dev_cluster, 2) == ["journal-2"] * 2, "the container was started anew on the same disk"
    again = run(image=SECOND, resources=large).ok()
    assert not any(task.result.get("changed") for task in again.tasks), again.output

    stuck = run(image=NOWHERE, resources=large).failed()
    assert "pod journal-2 is not updated: node h" in stuck["msg"]
    assert "ErrImageNeverPull" in stuck["msg"]
    assert pods(dev_cluster, ".spec.containers[0].image") == [SECOND] * 3, "none was touched"
    assert set(pods(dev_cluster, ".status.containerStatuses[0].ready")) == {"true"}
    assert set(pods(dev_cluster, ".status.containerStatuses[0].restartCount")) == {"1"}
    assert len(pull_pods(dev_cluster)) == 1, "it can be looked at"
    run(image=FIRST, resources=large).ok()
    assert pull_pods(dev_cluster) == []
    assert set(pods(dev_cluster, ".spec.containers[0].image")) == {FIRST}
    assert pods(dev_cluster, ".metadata.uid") == uids
