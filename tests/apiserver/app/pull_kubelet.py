"""The kubelet of pull pods, on nodes that kwok lets go of when they lose its label."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from tests.apiserver.app.test_stateful_app import NODES
from tests.apiserver.app.test_update import pods
from tests.apiserver.app.world import local_disk

PULL_PODS = "berth.dev/app=db.p"
FIRST, SECOND = "berth.local/busybox:1", "berth.local/busybox:2"
PULL_TAKES = 0.2  # seconds; the result tells them to a tenth
STARTED = {"imageID": "sha256:1", "state": {"terminated": {"reason": "StartError", "exitCode": 128}}}
ABSENT = {"imageID": "", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "is not present"}}}


def label(world, value):
    for node in NODES:
        world.client.patch(world.kinds.NODE, node, None, {"metadata": {"labels": {"type": value}}})


def ground(app_world):
    """For a fixture: a disk on each node, and afterwards kwok has the nodes again."""
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    label(app_world, "kwok")
    app_world.clear()


def pull_pods(world):
    return world.client.list(world.kinds.POD, "default", labels=PULL_PODS)


def status_of(pod, told):
    """As a kubelet has it; ``told``: of each container."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    common = {"image": "", "ready": False, "restartCount": 0}
    told = [{"name": name, **common, **told} for name in names]
    phase = "Failed" if "terminated" in told[0]["state"] else "Pending"
    return {"metadata": {}, "status": {"phase": phase, "containerStatuses": told}}


@contextmanager
def kubelet(world, told):
    """Answers each pull pod. Yields, for each: its replica, and the replica's image and Ready at that moment."""
    seen, over = [], threading.Event()

    def answer():
        answered = set()
        while not over.wait(0.1):
            for pod in pull_pods(world):
                if pod["metadata"]["uid"] in answered:
                    continue
                answered.add(pod["metadata"]["uid"])
                over.wait(PULL_TAKES)
                (owner,) = pod["metadata"]["ownerReferences"]
                replica = pods(world)[owner["name"]]
                ready = {one["type"]: one["status"] for one in replica["status"]["conditions"]}["Ready"]
                assert pod["spec"]["nodeName"] == replica["spec"]["nodeName"]
                seen.append((owner["name"], replica["spec"]["containers"][0]["image"], ready))
                name, body = pod["metadata"]["name"], status_of(pod, told)
                world.client.patch(world.kinds.POD, name, "default", body, "status")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(10)
