"""The extender over the real API server: its verbs as kube-scheduler asks them, and behind a real kube-scheduler.

Fake nodes, real objects. Where no controller runs, the extender keeps its promises alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.config.stock import ExtenderAddress
from tests.badinput.extender_requests import ROWS
from tests.daemons.controller.prepared import started
from tests.daemons.controller.world import GI, ROOT
from tests.daemons.scheduler.world import until
from tests.support.certificates import authority, pem
from tests.support.tcp import free_port

pytestmark = pytest.mark.slow
NO_DISK = "node(s) didn't have a free local disk for v0"


def ground(world: Any, *disks_of_nodes: int) -> list[str]:
    """Nodes with so many disks of 2 GiB each, and a class of them."""
    world.storage_class(waits=True)
    nodes = [world.node(str(number)) for number in range(len(disks_of_nodes))]
    for node, count in zip(nodes, disks_of_nodes, strict=True):
        for index in range(count):
            world.disk(node, index)
    return nodes


def asking(world: Any, name: str, nodes: list[str]) -> dict[str, Any]:
    """ExtenderArgs for a pod as it is now."""
    return {"Pod": world.get_pod(name), "Nodes": None, "NodeNames": nodes}


def passes(extender: Any, document: dict[str, Any]) -> list[str]:
    status, answer = extender.ask("filter", document)
    assert (status, answer.get("Error")) == (200, ""), answer
    return list(answer["NodeNames"])


def settled(extender: Any, document: dict[str, Any], expected: list[str]) -> None:
    """Wait until the filter lets these nodes pass: its watches may be a moment behind."""

    def now() -> bool:
        status, answer = extender.ask("filter", document)
        return status == 200 and answer.get("NodeNames") == expected

    until(now, lambda: f"expected {expected}, got {extender.ask('filter', document)}")


def binding(pod: dict[str, Any], node: str) -> dict[str, str]:
    meta = pod["metadata"]
    return {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}


def test_the_verbs(world: Any, extend: Callable[..., Any]) -> None:
    nodes = ground(world, 0, 1, 1)
    world.disk(nodes[2], "large", size=8 * GI)
    world.claim("data")
    pod = world.pod("db", "data")
    world.claim("more")
    world.pod("other", "more")
    world.pod("plain")
    extender = extend()
    question = asking(world, "db", [*nodes, "elsewhere"])
    settled(extender, question, nodes[1:])

    _status, answer = extender.ask("filter", question)
    assert answer["FailedAndUnresolvableNodes"] == {
        nodes[0]: NO_DISK,
        "elsewhere": "node(s) were not known to the extender yet",
    }
    whole = {"Pod": question["Pod"], "Nodes": {"items": [world.api.get(kinds.NODE, node) for node in nodes]}}
    _status, answer = extender.ask("filter", whole)
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == nodes[1:]
    assert answer["NodeNames"] is None
    assert extender.ask("prioritize", question)[1] == [
        {"Host": nodes[0], "Score": 0},
        {"Host": nodes[1], "Score": 5},
        {"Host": nodes[2], "Score": 5},
        {"Host": "elsewhere", "Score": 0},
    ], "1 GiB of a disk of 2 GiB"
    victims = {node: {"Pods": [{"UID": "u"}], "NumPDBViolations": 1} for node in nodes}
    _status, answer = extender.ask("preempt", {"Pod": question["Pod"], "NodeNameToMetaVictims": victims})
    assert answer == {"NodeNameToMetaVictims": {node: victims[node] for node in nodes[1:]}}
    assert passes(extender, asking(world, "plain", ["elsewhere", *nodes])) == ["elsewhere", *nodes], "without a claim"

    assert extender.ask("bind", binding(pod, nodes[1])) == (200, {"Error": ""})
    assert world.where("db") == nodes[1]
    world.wait_bound("data")
    ((disk, lock),) = world.locks().items()
    assert (disk, lock["claim"]) == (f"{world.name}-{nodes[1]}-0", "data")
    assert lock["namespaceUID"] == world.api.get(kinds.NAMESPACE, world.name)["metadata"]["uid"]
    world.check()
    assert extender.ask("bind", binding(pod, nodes[1])) == (200, {"Error": ""}), "asked again"
    assert "is on node" in extender.ask("bind", binding(pod, nodes[2]))[1]["Error"]
    assert passes(extender, asking(world, "other", nodes)) == [nodes[2]], "the lock counts at once"


def test_what_cannot_be_answered(world: Any, extend: Callable[..., Any]) -> None:
    (node,) = ground(world, 1)
    world.pod("early", "missing")
    extender = extend()
    status, answer = extender.ask("filter", asking(world, "early", [node]))
    assert (status, answer["Error"]) == (200, 'persistentvolumeclaim "missing" is not known to the extender yet')
    world.claim("shared", accessModes=["ReadWriteMany"])
    world.pod("many", "shared")
    settled(extender, asking(world, "many", [node]), [])
    _status, answer = extender.ask("filter", asking(world, "many", [node]))
    assert "accessModes ReadWriteMany" in answer["FailedAndUnresolvableNodes"][node]
    gone = {"PodName": "gone", "PodNamespace": world.name, "PodUID": "u", "Node": node}
    assert "is gone" in extender.ask("bind", gone)[1]["Error"]
    broken = {"metadata": {"name": "p", "namespace": world.name}, "spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}}  # fmt: skip # noqa: E501
    status, answer = extender.ask("filter", {"Pod": broken, "NodeNames": [node]})
    assert (status, "much" in answer["Error"]) == (200, True)
    assert extender.ask("prioritize", {"Pod": broken, "NodeNames": [node]})[0] == 422
    assert world.locks() == {}


def test_requests_that_kube_scheduler_never_sends(world: Any, extend: Callable[..., Any]) -> None:
    """Each is answered in one line that says why, nobody else notices, and none leaves a trace of a fault."""
    nodes = ground(world, 1)
    world.claim("data")
    world.pod("db", "data")
    extender = extend()
    question = asking(world, "db", nodes)
    settled(extender, question, nodes)
    wrong = []
    for row in ROWS:
        status, answer = extender.send(row.sent)
        told = answer.get("Error", "") if isinstance(answer, dict) else ""
        if status != row.status or "\n" in told or not all(word in told for word in row.words):
            wrong.append((row.name, status, str(answer)[:300]))
        if row.status != 200:
            assert list(answer) == ["Error"], row.name
    assert not wrong
    assert passes(extender, question) == nodes
    text = extender.text()
    assert "Traceback" not in text
    assert " failed" not in text
    assert world.locks() == {}


@pytest.mark.promise
def test_a_claim_that_was_given_a_node_has_its_disk_there(world: Any, extend: Callable[..., Any]) -> None:
    """What kube-scheduler writes on a claim holds a disk before its lock is there, and until it is taken back."""
    nodes = ground(world, 1, 1)
    for name in ("first", "second"):
        world.claim(name)
        world.pod(name, name)
    extender = extend()
    settled(extender, asking(world, "second", nodes), nodes)
    chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": nodes[0]}}}
    world.api.patch(kinds.PVC, "first", world.name, chosen)
    settled(extender, asking(world, "second", nodes), [nodes[1]])
    settled(extender, asking(world, "first", nodes), nodes)
    assert passes(extender, asking(world, "second", nodes)) == [nodes[1]], "asking for itself gave nothing away"
    chosen["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = None  # type: ignore[assignment]
    world.api.patch(kinds.PVC, "first", world.name, chosen)
    settled(extender, asking(world, "second", nodes), nodes)


def test_a_hold_that_nobody_confirms_ends(world: Any, extend: Callable[..., Any]) -> None:
    nodes = ground(world, 1)
    for name in ("first", "second"):
        world.claim(name)
        world.pod(name, name)
    chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": nodes[0]}}}
    world.api.patch(kinds.PVC, "first", world.name, chosen)
    extender = extend("--hold-seconds", "3")
    settled(extender, asking(world, "second", nodes), nodes)
    assert "a hold has expired" in extender.text()


@pytest.mark.promise
def test_behind_kube_scheduler(plane: Any, world: Any, extend: Callable[..., Any], tmp_path: Path) -> None:
    """Two disks or none; two pods for the last one; an extender that is away: each pod ends where its disk is."""
    from tests.daemons.controller.world import Process, install
    from tests.daemons.controller.world import kubeconfig as controller_kubeconfig
    from tests.daemons.scheduler.extending import REQUESTS, Stock

    def pod(name: str, *claims: str) -> None:
        for claim in claims:
            world.claim(claim)
        mounts = [{"name": "main", "image": "none", "resources": REQUESTS}]
        world.pod(name, *claims, containers=mounts)

    install(plane)
    nodes = ground(world, 1, 2)
    extender = extend()
    who = controller_kubeconfig(plane, world.api, tmp_path / "controller")
    controller = Process(who, tmp_path / "controller.log", start=started)
    stock = Stock(plane, world, tmp_path, ExtenderAddress(extender.url))
    try:
        # Each claim alone would fit either node: only the extender knows that both together do not.
        pod("pair", "left", "right")
        assert world.placed("pair") == [nodes[1]]
        world.wait_bound("left", "right")
        assert {lock["claim"] for lock in world.locks().values()} == {"left", "right"}
        world.check()

        pod("a", "a")
        pod("b", "b")
        until(lambda: world.where("a") or world.where("b"), lambda: stock.text()[-3000:])
        loser = "b" if world.where("a") else "a"
        until(lambda: world.condition(loser)[0] == "False", lambda: world.story_of(loser))
        assert len(world.locks()) == 3
        world.disk(nodes[0], "late")
        assert world.placed(loser) == [nodes[0]]
        world.wait_bound("a", "b")
        world.check()

        port = extender.port
        extender.stop()
        world.disk(nodes[0], "last")
        pod("waits", "waits")
        world.refused("waits", "connection refused")
        extend(at=port)
        assert world.placed("waits") == [nodes[0]]
        world.wait_bound("waits")
        world.check()
    finally:
        stock.stop()
        controller.stop()
        print(stock.text()[-5000:], controller.text())


PRIORITY_CLASS = kinds.Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)


def pair(folder: Path, name: str) -> tuple[str, str]:
    """Certificate and key of somebody who is his own authority, as files."""
    key, certificate = authority()
    files = folder / f"{name}.crt", folder / f"{name}.key"
    for file, content in zip(files, (certificate, pem(key)), strict=True):
        file.write_bytes(content)
    return str(files[0]), str(files[1])


def deployed(plane: Any, world: Any, folder: Path) -> list[str]:
    """Let the API server look at deploy/extender, and at a pod as the Deployment makes it; return its arguments."""
    file = ROOT / "deploy" / "extender" / "deployment.yaml"
    plane.kubectl("apply", "--dry-run=server", "-f", str(file))
    (body,) = (one for one in yaml.safe_load(file.read_text())["items"] if one["kind"] == "Deployment")
    template = body["spec"]["template"]
    meta = {**template["metadata"], "name": "one", "namespace": body["metadata"]["namespace"]}
    (folder / "pod.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **template, "metadata": meta}))
    plane.kubectl("create", "--dry-run=server", "-f", str(folder / "pod.yaml"))
    container = template["spec"]["containers"][0]
    ((mounted,), (command, *flags)) = container["volumeMounts"], container["args"]
    assert (container["command"], command) == (["python3", "-m", "berth_scheduler"], "extend")
    return [one.replace(mounted["mountPath"], str(folder)) for one in flags]


def published(world: Any) -> set[str]:
    """Nodes of which kube-scheduler has been told that they have a disk of the world's class."""
    listed = world.api.list(kinds.CSI_STORAGE_CAPACITY)
    return {
        one["nodeTopology"]["matchLabels"]["kubernetes.io/hostname"]
        for one in listed
        if one["storageClassName"] == world.name and one.get("maximumVolumeSize", one.get("capacity")) != "0"
    }


def test_two_behind_one_kube_scheduler_one_of_them_by_tls(
    plane: Any, world: Any, extend: Callable[..., Any], tmp_path: Path
) -> None:
    """Whoever is asked first judges and the other one binds, which is started as its Deployment starts it; and of two
    nodes on which room could be made that with the disks is taken, though the pods there are of more priority."""
    from tests.daemons.controller.world import Process, install
    from tests.daemons.controller.world import kubeconfig as controller_kubeconfig
    from tests.daemons.scheduler.extending import REQUESTS, Stock

    install(plane)
    nodes = ground(world, 2, 1)
    for name, value in (("low", -20), ("less", -10), ("high", 1000)):
        world.api.create(PRIORITY_CLASS, {"metadata": {"name": f"{world.name}-{name}"}, "value": value})
    first, port = extend(), free_port()
    server, client = pair(tmp_path, "tls"), pair(tmp_path, "client")
    shutil.copy(client[0], tmp_path / "ca.crt")
    extend(*deployed(plane, world, tmp_path), at=port)
    binds = ExtenderAddress(f"https://127.0.0.1:{port}", ca_file=server[0], cert_file=client[0], key_file=client[1])
    judges = {"urlPrefix": first.url, "filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True}
    who = controller_kubeconfig(plane, world.api, tmp_path / "controller")
    controller = Process(who, tmp_path / "controller.log", start=started)
    running = [controller]
    try:
        # Before kube-scheduler starts: no change of a capacity would have it look again at a pod that lacks cpu too.
        until(lambda: published(world) == set(nodes), "the controller does not tell of the disks")
        stock = Stock(plane, world, tmp_path, binds, [judges])
        running.append(stock)
        for node, level in zip(nodes, ("less", "low"), strict=True):
            spread = {"nodeSelector": {"kubernetes.io/hostname": node}, "priorityClassName": f"{world.name}-{level}"}
            world.pod(f"fills-{level}", cpu="1500m", **spread)
        world.placed("fills-low", "fills-less")
        world.claim("left")
        world.claim("right")
        needs = {"requests": {**REQUESTS["requests"], "cpu": "1"}, "limits": REQUESTS["limits"]}
        containers = [{"name": "main", "image": "none", "resources": needs}]
        world.pod("db", "left", "right", containers=containers, priorityClassName=f"{world.name}-high")
        assert world.placed("db") == [nodes[0]]
        world.wait_bound("left", "right")
        until(lambda: world.get_pod("fills-less") is None, "the victim does not go")
        assert world.where("fills-low") == nodes[1]
        assert {lock["claim"] for lock in world.locks().values()} == {"left", "right"}
        world.check()
        assert " msg=bound " in (tmp_path / "extender-1.log").read_text()
        assert " msg=bound " not in first.text()
    finally:
        for process in running:
            process.stop()
            print(process.text()[-5000:])
        for name in ("low", "less", "high"):
            world.delete(PRIORITY_CLASS, f"{world.name}-{name}")
