"""What pods of one template have in common is read once, and what is read so is what reading each would give."""

from __future__ import annotations

import asyncio
import copy
import json
from random import Random

import pytest

from berth_core.errors import BerthError
from berth_core.framework.events import Action
from berth_core.model.node import NodeInfo
from berth_core.model.pod import PodInfo
from berth_kube.client import KubeClient
from berth_kube.config import Config
from berth_kube.credentials import Static
from berth_kube.exchange import Endpoint
from berth_kube.json_fast import decoder
from berth_kube.watch import Event
from berth_scheduler import pods
from berth_scheduler.cluster import Cluster
from berth_scheduler.pods import PodEvent, PodList, Reader, alike, reducer
from tests.oracle.clusters import case
from tests.oracle.crowded import crowded

SEEDS = 40


def as_sent(pod, number):
    """As the API server has it."""
    pod = copy.deepcopy(pod)
    pod["metadata"].update({"uid": f"u{number}", "resourceVersion": str(number), "generation": 1})
    return pod


def variants(rng, pod):
    """The same pod under other names, on other nodes, with other labels, further on in its life; and changed ones."""
    for number in range(4):
        other = as_sent(pod, number)
        other["metadata"]["name"] += str(number)
        other["metadata"]["labels"] = {**(other["metadata"].get("labels") or {}), "index": str(number)}
        other["spec"]["nodeName"] = rng.choice(["", "n1"])
        status = other.setdefault("status", {})
        status["phase"] = rng.choice(["Pending", "Running"])
        status["nominatedNodeName"] = rng.choice(["", "n2"])
        yield other
    changed = as_sent(pod, 9)
    changed["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{rng.randrange(1, 900)}m"}}
    yield changed
    resized = as_sent(pod, 10)
    name = resized["spec"]["containers"][0].get("name")
    given = {"name": name, "allocatedResources": {"cpu": "7"}, "resources": {"requests": {"cpu": "7"}}}
    resized.setdefault("status", {})["containerStatuses"] = [given]
    yield resized


def plainly(pod):
    try:
        return PodInfo.from_manifest(pod)
    except BerthError as exc:
        return type(exc), exc.message


def read(reader, pod):
    try:
        return reader.read(pod)
    except BerthError as exc:
        return type(exc), exc.message


@pytest.mark.parametrize("make", [case, crowded])
def test_reading_once_is_reading_each(make):
    rng, reader, shared = Random(1), Reader(), 0
    for seed in range(SEEDS):
        found = make(seed)
        for pod in [found["pod"], *found["pods"]]:
            for one in variants(rng, pod):
                before = len(reader._one_of)
                assert read(reader, one) == plainly(one), f"seed {seed}"
                shared += len(reader._one_of) == before
    assert shared > SEEDS, "nothing was read once only"


def life(rng, pod):
    """What a watch tells of one pod, one after the other: each time another thing of it has changed, or nothing."""
    now = as_sent(pod, 1)
    now["spec"].pop("nodeName", None)
    now["status"] = {}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    ends = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    small = {"name": now["spec"]["containers"][0].get("name"), "allocatedResources": {"cpu": "7"}}
    steps = [
        lambda: now["status"].update(phase="Pending"),
        lambda: now["status"].update(conditions=[waits]),
        lambda: now["status"].update(nominatedNodeName="n2"),
        lambda: now["spec"].update(nodeName="n1"),
        lambda: now["status"].update(phase="Running", startTime="2026-01-01T00:00:00Z"),
        lambda: now["metadata"].update(labels={"step": str(rng.random())}),
        lambda: now["metadata"].update(
            ownerReferences=[{"apiVersion": "v1", "kind": "K", "name": "o", "controller": True}]
        ),
        lambda: now["status"].update(containerStatuses=[small]),
        lambda: now["status"].update(initContainerStatuses=[small]),
        lambda: now["status"].update(allocatedResources={"cpu": "9"}),
        lambda: now["status"].update(conditions=[{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]),
        lambda: now["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
        lambda: now["status"].update(conditions=[ends]),
        lambda: now["spec"]["containers"][0].update(resources={"requests": {"cpu": "3"}}),
    ]
    rng.shuffle(steps)
    for step in steps:
        before = copy.deepcopy(now["spec"]["containers"])
        step()
        now["metadata"]["generation"] += now["spec"]["containers"] != before
        yield copy.deepcopy(now)


def test_a_pod_that_goes_on_living_is_read_as_if_it_were_new():
    rng = Random(2)
    for seed in range(SEEDS):
        kept = {}
        reduce = reducer(lambda name, namespace, kept=kept: kept.get((namespace, name)))
        for one in life(rng, crowded(seed)["pod"]):
            meta = one["metadata"]
            meta.setdefault("namespace", "default")
            found = kept[meta["namespace"], meta["name"]] = reduce(copy.deepcopy(one))
            assert found["info"] == PodInfo.from_manifest(one), f"seed {seed}"


def test_the_echo_of_a_bind_is_not_read_as_a_new_pod(monkeypatch):
    """The API server gives a pod its node's zone as a label when it is bound: only constraints would look at it."""
    asked, kept = [], {}
    monkeypatch.setattr(pods, "alike", lambda pod: asked.append(pod["metadata"]["name"]) or alike(pod))
    reduce = reducer(lambda name, namespace: kept.get((namespace, name)))
    for name, spread in (
        ("plain", []),
        ("spread", [{"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": ["zone"]}]),
    ):
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            **({"topologySpreadConstraints": spread} if spread else {}),
        }
        meta = {"name": name, "namespace": "n", "uid": name, "generation": 1, "labels": {"app": "a"}}
        bound = {**meta, "labels": {"app": "a", "zone": "z"}}
        for one in (
            {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}},
            {"metadata": bound, "spec": {**spec, "nodeName": "n1"}, "status": {"phase": "Pending"}},
            {"metadata": bound, "spec": {**spec, "nodeName": "n1"}, "status": {"phase": "Running"}},
        ):
            found = kept["n", name] = reduce(copy.deepcopy(one))
            assert (found["problem"], found["info"]) == ("", PodInfo.from_manifest(one))
    assert asked == ["plain", "spread", "spread"]


def test_what_the_watch_reads_of_a_pod_is_all_that_is_kept_of_it():
    """The decoders of watch and lists leave out most of a pod; the reducer makes the same of what is left."""
    read, read_list = decoder(PodEvent), decoder(PodList)
    whole, rng, shorter = json.loads, Random(3), 0
    for seed in range(SEEDS):
        for one in life(rng, crowded(seed)["pod"]):
            one["metadata"].setdefault("namespace", "default")
            one["metadata"].update(annotations={"a": "b"}, managedFields=[{"manager": "m", "fieldsV1": {"f:spec": {}}}])
            one["status"] = {
                "phase": "Pending",
                "podIPs": [{"ip": "10.0.0.1"}],
                **one["status"],
            }  # it always has a phase
            line = json.dumps({"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **one}}).encode()
            part, every = read(line), whole(line)
            assert part["type"] == every["type"]
            shorter += len(json.dumps(part)) < len(line)
            reduce = reducer(lambda _name, _namespace: None)
            assert reduce(part["object"]) == reduce(every["object"]), f"seed {seed}"
            page = {
                "kind": "PodList",
                "metadata": {"continue": "c", "resourceVersion": "7"},
                "items": [every["object"]],
            }
            listed = read_list(json.dumps(page).encode())
            assert listed["metadata"] == page["metadata"]
            assert listed["items"] == [part["object"]]
    assert shorter > SEEDS


def test_a_node_is_read_once_each_time_it_is_told(monkeypatch):
    read, told, real = [], [], NodeInfo.from_object
    monkeypatch.setattr(NodeInfo, "from_object", lambda node: read.append(node["spec"]) or real(node))

    def node(version, **spec):
        meta = {"name": "n", "uid": "u", "resourceVersion": str(version)}
        return {"metadata": meta, "spec": spec, "status": {"allocatable": {"cpu": "1"}}}

    async def story():
        async with KubeClient(
            Config(Endpoint("127.0.0.1", 9, tls=False), None, Static({}), "test", "default")
        ) as client:
            cluster = Cluster(client)
            cluster.tell = lambda change: told.append((change.event.action, change.old and change.old.unschedulable))
            for kind, one in (("ADDED", node(1)), ("MODIFIED", node(2)), ("MODIFIED", node(3, unschedulable=True))):
                cluster.nodes._take(Event(kind, one))
            cluster.nodes._take(Event("MODIFIED", node(4, taints="none")))
            assert not cluster.snapshot.nodes.row_of
            cluster.nodes._take(Event("MODIFIED", node(5)))

    asyncio.run(story())
    assert told == [(Action.ADD, None), (Action.NODE_TAINT, False), (Action.DELETE, None), (Action.ADD, None)]
    assert len(read) == 5 + 1, "and once more for who is told that it is gone"


def test_a_volume_for_the_token_makes_no_other_kind():
    def pod(token):
        return {
            "metadata": {"name": token, "namespace": "n", "uid": token},
            "spec": {
                "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": token}]}],
                "volumes": [{"name": token, "projected": {"sources": []}}, {"name": "tmp", "emptyDir": {}}],
            },
        }

    assert alike(pod("kube-api-access-a")) == alike(pod("kube-api-access-b"))
    other = pod("x")
    other["spec"]["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    assert alike(other) != alike(pod("x"))
    other["spec"]["volumes"].append({"name": "own", "ephemeral": {}})
    assert alike(other) is None


def test_the_end_of_a_watch_is_read_as_it_is() -> None:
    """An API server that has forgotten what came since says so with a Status, whose status is a word."""
    status = {"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410}
    event = {"type": "ERROR", "object": {**status, "apiVersion": "v1", "metadata": {}}}
    assert decoder(PodEvent)(json.dumps(event).encode()) == event
