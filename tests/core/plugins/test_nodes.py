"""NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts: as kube-scheduler judges and rates."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.contract import Code
from berth_core.framework.cycle import place
from berth_core.plugins.node_affinity import NodeAffinity
from berth_core.plugins.node_declared_features import NodeDeclaredFeatures
from berth_core.plugins.node_name import NodeName
from berth_core.plugins.node_ports import NodePorts
from berth_core.plugins.node_unschedulable import NodeUnschedulable
from berth_core.plugins.table import DEFAULT_PROFILE
from berth_core.plugins.taint_toleration import TaintToleration
from tests.core.cluster.objects import berth, container, node, pod, request, taint
from tests.core.plugins.helpers import codes, judged, passing, scored


def wants(**spec):
    return request(pod(**spec))


# -- NodeUnschedulable and NodeName


@pytest.mark.parametrize(
    ("toleration", "passes"),
    [
        (None, False),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_a_cordon(toleration, passes):
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b", unschedulable=True)])
    asked = wants(tolerations=[toleration] if toleration else [])
    assert passing(NodeUnschedulable(), snapshot, asked) == (["a", "b"] if passes else ["a"])
    if not passes:
        assert judged(NodeUnschedulable(), snapshot, asked)["b"] == ("node(s) were unschedulable",)
        assert codes(NodeUnschedulable(), snapshot, asked)["b"] == Code.UNRESOLVABLE


@pytest.mark.parametrize(("name", "expected"), [("", ["a", "b"]), ("b", ["b"]), ("z", [])])
def test_a_node_by_name(name, expected):
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b")])
    assert passing(NodeName(), snapshot, wants(node_name=name)) == expected


# -- NodeDeclaredFeatures


RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "skipped"),
        ({"containers": [{"name": "m", "restartPolicyRules": [{"action": "Restart"}]}]}, "skipped"),
        ({"containers": [{"name": "m", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}, ["r", "ru"]),
        ({"initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}, ["r", "ru"]),
        ({"hostNetwork": True}, "skipped"),
        ({"hostUsers": False}, "skipped"),
        ({"hostNetwork": True, "hostUsers": False}, ["ru"]),
    ],
)
def test_features_that_kubelets_declare(spec, expected):
    declared = {"none": None, "other": ["Other"], "r": [RESTARTS], "ru": [RESTARTS, USERS]}
    nodes = [node(name) for name in declared]
    for one in nodes:
        one.setdefault("status", {})["declaredFeatures"] = declared[one["metadata"]["name"]]
    snapshot, plain = Snapshot.from_objects(nodes=nodes), pod()
    plain["spec"].update(spec)
    found = judged(NodeDeclaredFeatures(), snapshot, request(plain))
    assert found == expected or [name for name, reasons in found.items() if not reasons] == expected
    if expected != "skipped":
        assert found["none"] == ("node(s) didn't match Pod's required features",)
        outcome = place(DEFAULT_PROFILE, snapshot, request(plain))
        assert outcome.placement.node in expected


# -- TaintToleration


@pytest.mark.parametrize(
    ("taints", "tolerations", "passes"),
    [
        ([], [], True),
        ([taint("k")], [], False),
        ([taint("k", "NoExecute")], [], False),
        ([taint("k", "PreferNoSchedule")], [], True),
        ([taint("k", value="v")], [{"key": "k", "operator": "Equal", "value": "v"}], True),
        ([taint("k", value="v")], [{"key": "k", "value": "w"}], False),
        ([taint("k", value="v")], [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
        ([taint("k"), taint("l")], [{"key": "k", "operator": "Exists"}], False),
        ([taint("k"), taint("l")], [{"operator": "Exists"}], True),
        ([taint("k", value="5")], [{"key": "k", "operator": "Gt", "value": "1"}], False),
    ],
)
def test_taints(taints, tolerations, passes):
    snapshot = Snapshot.from_objects(nodes=[node("a", taints=taints)])
    found = judged(TaintToleration(), snapshot, wants(tolerations=tolerations))
    assert found == {"a": () if passes else ("node(s) had untolerated taint(s)",)}


def test_fewer_unwanted_taints_are_better():
    soft = [taint(key, "PreferNoSchedule") for key in ("k", "l", "m")]
    nodes = [
        node("a"),
        node("b", taints=soft[:1]),
        node("c", taints=soft[:2]),
        node("d", taints=[*soft, taint("hard")]),
    ]
    snapshot = Snapshot.from_objects(nodes=nodes)
    assert scored(TaintToleration(), snapshot, wants()) == {"a": 100, "b": 67, "c": 34, "d": 0}
    tolerant = wants(
        tolerations=[{"key": "k", "operator": "Exists"}, {"key": "l", "operator": "Exists", "effect": "NoSchedule"}]
    )
    assert scored(TaintToleration(), snapshot, tolerant) == {"a": 100, "b": 100, "c": 50, "d": 0}
    assert scored(TaintToleration(), snapshot, wants(), among=["a"]) == {"a": 100}


# -- NodeAffinity


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def required(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def preferred(*weighted):
    terms = [{"weight": weight, "preference": {"matchExpressions": [found]}} for weight, found in weighted]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


LABELLED = [node("a", labels={"zone": "1", "ssd": ""}), node("b", labels={"zone": "2", "cores": "8"}), node("c")]


def where(*found):
    return {"matchExpressions": list(found)}


ZONE, SSD, CORES = expression("zone", "Exists"), expression("ssd", "Exists"), expression("cores", "Exists")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"zone": "1"}}, ["a"]),
        ({"nodeSelector": {"zone": "1", "ssd": "x"}}, []),
        ({"affinity": required(where(expression("zone", "In", "1", "2")))}, ["a", "b"]),
        ({"affinity": required(where(expression("zone", "NotIn", "1")))}, ["b", "c"]),
        ({"affinity": required(where(SSD))}, ["a"]),
        ({"affinity": required(where(expression("zone", "DoesNotExist")))}, ["c"]),
        ({"affinity": required(where(expression("cores", "Gt", "7")))}, ["b"]),
        ({"affinity": required(where(expression("cores", "Lt", "8")))}, []),
        ({"affinity": required(where(ZONE, SSD))}, ["a"]),
        ({"affinity": required(where(SSD), where(CORES))}, ["a", "b"]),
        ({"affinity": required({"matchFields": [expression("metadata.name", "NotIn", "a")]})}, ["b", "c"]),
        ({"affinity": required({"matchFields": [expression("metadata.name", "In", "b")], **where(SSD)})}, []),
        ({"affinity": required()}, []),
        ({"affinity": required({})}, []),
        ({"nodeSelector": {"zone": "1"}, "affinity": required(where(CORES))}, []),
    ],
)
def test_required_affinity(spec, expected):
    assert passing(NodeAffinity(), Snapshot.from_objects(nodes=LABELLED), wants(**spec)) == expected


def test_a_pod_without_wishes_is_not_looked_at():
    snapshot = Snapshot.from_objects(nodes=LABELLED)
    assert judged(NodeAffinity(), snapshot, wants()) == "skipped"
    assert scored(NodeAffinity(), snapshot, wants()) == "skipped"


def test_terms_that_name_nodes_narrow_to_them():
    snapshot = Snapshot.from_objects(nodes=LABELLED)
    asked = wants(affinity=required({"matchFields": [expression("metadata.name", "In", "b")]}))
    outcome = place(DEFAULT_PROFILE, snapshot, asked)
    assert outcome.placement.node == "b"
    assert outcome.counts.nodes == ("b",), "the others are not even looked at"
    nowhere = wants(affinity=required({"matchFields": [expression("metadata.name", "In", "z")]}))
    message = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert place(DEFAULT_PROFILE, snapshot, nowhere).diagnosis.summary() == message


def test_terms_that_contradict_themselves():
    fields = [expression("metadata.name", "In", "a"), expression("metadata.name", "In", "b")]
    asked = wants(affinity=required({"matchFields": fields}))
    assert judged(NodeAffinity(), Snapshot.from_objects(nodes=LABELLED), asked) == {
        "": ("pod affinity terms conflict",)
    }


def test_preferences_add_up():
    asked = wants(
        affinity=preferred(
            (10, expression("zone", "Exists")), (5, expression("ssd", "Exists")), (1, expression("x", "Exists"))
        )
    )
    snapshot = Snapshot.from_objects(nodes=LABELLED)
    assert scored(NodeAffinity(), snapshot, asked, raw=True) == {"a": 15, "b": 10, "c": 0}
    assert scored(NodeAffinity(), snapshot, asked) == {"a": 100, "b": 66, "c": 0}
    assert scored(NodeAffinity(), snapshot, asked, among=["c"]) == {"c": 0}


def test_affinity_that_the_profile_adds():
    added = {
        **required({"matchExpressions": [expression("zone", "Exists")]})["nodeAffinity"],
        **preferred((3, expression("cores", "Exists")))["nodeAffinity"],
    }
    plugin = NodeAffinity.from_args({"addedAffinity": added}, "args")
    snapshot = Snapshot.from_objects(nodes=LABELLED)
    assert judged(plugin, snapshot, wants(nodeSelector={"zone": "1"})) == {
        "a": (),
        "b": ("node(s) didn't match Pod's node affinity/selector",),
        "c": ("node(s) didn't match scheduler-enforced node affinity",),
    }
    assert passing(plugin, snapshot, wants()) == ["a", "b"]
    assert scored(plugin, snapshot, wants()) == {"a": 0, "b": 100, "c": 0}


# -- NodePorts


def port(number, protocol="TCP", ip=""):
    return {"containerPort": 1, "hostPort": number, "protocol": protocol, "hostIP": ip}


@pytest.mark.parametrize(
    ("taken", "wanted", "passes"),
    [
        ([port(80)], [port(81)], True),
        ([port(80)], [port(80)], False),
        ([port(80)], [port(80, "UDP")], True),
        ([port(80, ip="127.0.0.1")], [port(80)], False),
        ([port(80)], [port(80, ip="127.0.0.1")], False),
        ([port(80, ip="127.0.0.1")], [port(80, ip="127.0.0.2")], True),
        ([port(80), port(82)], [port(81), port(82)], False),
    ],
)
def test_host_ports(taken, wanted, passes):
    busy = pod("x", [container(ports=taken)], node_name="a")
    snapshot = Snapshot.from_objects(nodes=[node("a"), node("b")], pods=[busy])
    asked = wants(containers=[container(ports=wanted)])
    assert passing(NodePorts(), snapshot, asked) == (["a", "b"] if passes else ["b"])
    snapshot.remove_pod("default", "x")
    assert passing(NodePorts(), snapshot, asked) == ["a", "b"]


def test_a_port_taken_twice_is_free_when_both_are_gone():
    pods = [pod(name, [container(ports=[port(80)])], node_name="a") for name in ("x", "y")]
    snapshot = Snapshot.from_objects(nodes=[node("a")], pods=pods)
    asked = wants(containers=[container(ports=[port(80)])])
    snapshot.remove_pod("default", "x")
    assert passing(NodePorts(), snapshot, asked) == []
    snapshot.remove_pod("default", "y")
    assert passing(NodePorts(), snapshot, asked) == ["a"]


def test_ports_of_a_berth_are_taken_and_a_pod_without_ports_is_not_looked_at():
    snapshot = Snapshot.from_objects(nodes=[node("a")], berths=[berth("db", 0, "a", ports=[{"port": 80}])])
    asked = wants(containers=[container(ports=[port(80)])])
    assert judged(NodePorts(), snapshot, asked) == {
        "a": ("node(s) didn't have free ports for the requested pod ports",)
    }
    assert judged(NodePorts(), snapshot, wants()) == "skipped"
