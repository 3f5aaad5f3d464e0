"""DynamicResources: devices for claims, counted at once; what is not covered is refused by name.

That verdicts and allocations are kube-scheduler's is compared in tests/oracle/test_devices.py.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import InputError
from berth_core.framework.cycle import place
from berth_core.framework.events import Action, Change, ClusterEvent, pod_changes
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins import device_search
from berth_core.plugins.hints import BUILT_IN
from berth_core.plugins.table import DEFAULT_PROFILE, TABLE
from tests.core.cluster.objects import container, node, pod

FILE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
CONFIGURED = SchedulerConfiguration.parse(FILE).profiles[0].build()
GPU = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.x"'}}]}}


def with_claims(*names, name="web-0", template=""):
    manifest = pod(name, [container("1")])
    manifest["metadata"]["uid"] = f"uid-{name}"
    manifest["spec"]["resourceClaims"] = [{"name": one, "resourceClaimName": one} for one in names]
    if template:
        manifest["spec"]["resourceClaims"].append({"name": "made", "resourceClaimTemplateName": template})
    return manifest


def request(manifest):
    return PlacementRequest(PodInfo.from_manifest(manifest))


def published(node_name="a", *devices, name="", **spec):
    listed = [one if isinstance(one, dict) else {"name": one} for one in devices]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.x", "pool": pool, "nodeName": node_name, "devices": listed, **spec}
    return {"metadata": {"name": name or f"slice-{node_name}"}, "spec": spec}


def claim(name="one", namespace="default", **exactly):
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": requests}},
    }


def cluster(*slices, claims=(), nodes=("a", "b"), classes=(GPU,)):
    return Snapshot.from_objects(
        nodes=[node(one) for one in nodes], slices=slices, device_classes=classes, resource_claims=claims
    )


def chosen(snapshot, *names, name="web-0", expected=None):
    """Place a pod with these claims and count it; return its node and its devices."""
    asked = request(with_claims(*names, name=name))
    outcome = place(CONFIGURED, snapshot, asked)
    if outcome.placement is None:
        return outcome.diagnosis.message()
    snapshot.assume(asked, outcome.placement)
    devices = [one["device"] for made in outcome.placement.allocations.values() for one in made["devices"]["results"]]
    return outcome.placement.node, devices


def test_a_device_is_given_once():
    snapshot = cluster(published("b", "g0"), claims=[claim("one"), claim("two")])
    assert chosen(snapshot, "one", name="first") == ("b", ["g0"])
    assert "2 cannot allocate all claims" in chosen(snapshot, "two", name="second")
    snapshot.forget(request(with_claims("one", name="first")))
    assert chosen(snapshot, "two", name="second") == ("b", ["g0"])


def test_what_the_api_server_says_counts_once_beside_what_was_assumed():
    snapshot = cluster(published("b", "g0", "g1"), claims=[claim("one"), claim("two"), claim("three")])
    asked = request(with_claims("one", name="first"))
    placement = place(CONFIGURED, snapshot, asked).placement
    snapshot.assume(asked, placement)
    written = {**claim("one"), "status": {"allocation": placement.allocations["uid-one"]}}
    snapshot.upsert_resource_claim(written)
    assert dict(snapshot.dynamic.taken) == {("gpu.x", "b", "g0"): 1}
    snapshot.forget(asked)
    assert dict(snapshot.dynamic.taken) == {("gpu.x", "b", "g0"): 1}
    assert snapshot.dynamic.overdrawn(placement.allocations["uid-one"]) is None
    snapshot.upsert_resource_claim({**claim("two"), "status": written["status"]})
    assert snapshot.dynamic.overdrawn(placement.allocations["uid-one"]) == ("gpu.x", "b", "g0")
    snapshot.dynamic.remove_claim("default", "two")
    snapshot.upsert_resource_claim(claim("one"))
    assert not snapshot.dynamic.taken


def test_shares_of_one_device_add_up():
    shared = {"name": "g0", "allowMultipleAllocations": True, "capacity": {"part": {"value": "1"}}}
    ask = {"capacity": {"requests": {"part": "400m"}}}
    snapshot = cluster(published("a", shared), claims=[claim(one, **ask) for one in ("one", "two", "three")])
    assert chosen(snapshot, "one", name="first") == ("a", ["g0"])
    assert chosen(snapshot, "two", name="second") == ("a", ["g0"])
    assert "cannot allocate all claims" in chosen(snapshot, "three", name="third")
    both = snapshot.dynamic.pending.values()
    shares = [one["devices"]["results"][0]["shareID"] for one in both]
    assert len(set(shares)) == 2
    assert snapshot.dynamic.overdrawn(next(iter(both))) is None
    more = deepcopy(dict(next(iter(both))))
    more["devices"]["results"][0]["consumedCapacity"] = {"part": "900m"}
    snapshot.upsert_resource_claim({**claim("three"), "status": {"allocation": more}})
    assert snapshot.dynamic.overdrawn(more) == ("gpu.x", "a", "g0")


def test_a_claim_is_shared_by_pods_once_it_is_written():
    snapshot = cluster(published("b", "g0"), claims=[claim()])
    assert chosen(snapshot, "one", name="first") == ("b", ["g0"])
    assert "resource claim default/one is in the process of being allocated" in chosen(snapshot, "one", name="second")
    written = {**claim(), "status": {"allocation": dict(snapshot.dynamic.pending["uid-one"])}}
    snapshot.upsert_resource_claim(written)
    assert chosen(snapshot, "one", name="second") == ("b", [])


def test_a_claim_made_from_a_template():
    snapshot = cluster(published("b", "g0"), claims=[claim("web-0-made-x7k")])
    manifest = with_claims(template="t")
    waiting = PodInfo.from_manifest(manifest)
    plugin = TABLE.make("DynamicResources")
    assert plugin.gate(snapshot, waiting).reasons == ('pod "default/web-0": ResourceClaim not created yet',)
    manifest["status"] = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "web-0-made-x7k"}]}
    made = PodInfo.from_manifest(manifest)
    assert [one.event.action for one in pod_changes(waiting, made)] == [Action.POD_CLAIMS_GENERATED]
    assert "was not created for Pod default/web-0 (Pod is not owner)" in plugin.gate(snapshot, made).reasons[0]
    owned = claim("web-0-made-x7k")
    owned["metadata"]["ownerReferences"] = [{"controller": True, "uid": "uid-web-0"}]
    snapshot.upsert_resource_claim(owned)
    assert plugin.gate(snapshot, made).ok
    assert place(CONFIGURED, snapshot, request(manifest)).placement.node == "b"
    manifest["status"] = {"resourceClaimStatuses": [{"name": "made"}]}
    assert place(CONFIGURED, snapshot, request(manifest)).placement.allocations == {}


@pytest.mark.parametrize(
    ("devices", "spec", "words"),
    [
        ([{"name": "g0", "consumesCounters": [{"counterSet": "c"}]}], {}, "device gpu.x/a/g0, as it shares counters"),
        ([{"name": "g0", "bindingConditions": ["c"]}], {}, "device gpu.x/a/g0, as it has binding conditions"),
        ([{"name": "g0", "attributes": {"x": {"strings": ["y"]}}}], {}, "its attribute x has a value of another kind"),
        (["g0"], {"sharedCounters": [{"name": "c"}]}, "resource pool gpu.x/a has devices that share counters"),
        (["g0"], {"nodeName": None, "perDeviceNodeSelection": True}, "has devices with nodes of their own"),
    ],
)
@pytest.mark.parametrize("every", [False, True])
def test_devices_that_are_not_covered_are_never_given(devices, spec, words, every):
    asked = claim(**({"allocationMode": "All"} if every else {}))
    snapshot = cluster(published("a", *devices, **spec), claims=[asked], nodes=("a",))
    said = chosen(snapshot, "one")
    assert words in said or (every and "asks for all devices, but " in said and words.split(", as ")[-1] in said)
    snapshot.upsert_slice(
        published("a", "free", name="other", driver="gpu.x", pool={**published()["spec"]["pool"], "name": "p"})
    )
    assert every or chosen(snapshot, "one") == ("a", ["free"])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda devices: devices.update(constraints=[{"distinctAttribute": "gpu.x/n"}]),
            "constraint #0 is another than",
        ),
        (lambda devices: devices.update(requests=[{"name": "r"}]), "request r: unknown request type"),
        (
            lambda devices: devices["requests"][0]["exactly"].update(allocationMode="Some"),
            "unsupported count mode Some",
        ),
        (lambda devices: devices["requests"][0]["exactly"].update(selectors=[{}]), "a selector that is no CEL"),
        (
            lambda devices: devices["requests"][0]["exactly"].update(deviceClassName="x"),
            "device class x does not exist",
        ),
    ],
)
def test_claims_that_are_not_covered_are_never_allocated(spoil, words):
    asked = claim()
    spoil(asked["spec"]["devices"])
    assert words in chosen(cluster(published("a", "g0"), claims=[asked]), "one")


def test_a_selector_that_is_not_understood_refuses_the_node_and_says_so():
    asked = claim(selectors=[{"cel": {"expression": "size(device.driver) == 5"}}])
    said = chosen(cluster(published("a", "g0"), claims=[asked]), "one")
    assert (
        "1 cannot allocate all claims, 1 claim default/one: selector #0: CEL compile error: the function size()" in said
    )


def test_an_allocation_with_binding_conditions_is_not_waited_for():
    result = {"driver": "gpu.x", "pool": "a", "device": "g0", "request": "r", "bindingConditions": ["c"]}
    given = {**claim(), "status": {"allocation": {"devices": {"results": [result]}}}}
    assert "has binding conditions, which this scheduler does not wait for" in chosen(cluster(claims=[given]), "one")


def test_a_search_without_end_is_given_up(monkeypatch):
    """Thirty-two of forty devices that all fit, and one that no device fits: more ways than anybody can try."""
    none = {"cel": {"expression": 'device.driver == "none"'}}
    asked = claim(count=20)
    asked["spec"]["devices"]["requests"].append(
        {"name": "s", "exactly": {"deviceClassName": "gpu", "selectors": [none]}}
    )
    monkeypatch.setattr(device_search, "MOST_TRIES", 500)
    said = chosen(cluster(published("a", *[f"g{number}" for number in range(40)]), claims=[asked]), "one")
    assert "more than 500 ways to allocate the claims were tried" in said


def test_more_devices_than_can_be_searched_for_together():
    names = [f"c{number:02}" for number in range(40)]
    devices = [f"g{number:04}" for number in range(32 * 40)]
    snapshot = cluster(published("a", *devices), claims=[claim(one, count=32) for one in names], nodes=("a",))
    assert "more devices than can be searched for together" in chosen(snapshot, *names)
    assert chosen(snapshot, *names[:4]) == ("a", devices[: 4 * 32])


def test_nodes_without_devices_of_their_own_are_searched_once(monkeypatch):
    runs = []
    search = device_search.Search.run
    monkeypatch.setattr(device_search.Search, "run", lambda self: runs.append(1) or search(self))
    names = [f"n{number}" for number in range(50)]
    snapshot = cluster(published("n7", "g0"), claims=[claim()], nodes=names)
    assert chosen(snapshot, "one") == ("n7", ["g0"])
    assert len(runs) == 2


def test_a_pod_without_claims_is_not_asked_about_them():
    snapshot = cluster()
    outcome = place(CONFIGURED, snapshot, request(pod("web-0", [container("1")])))
    assert outcome.placement.node == "a"
    assert "DynamicResources" not in outcome.counts.filter


def test_modules_choose_a_node_and_another_scheduler_allocates_there():
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    assert place(DEFAULT_PROFILE, snapshot, request(with_claims("gpu"))).placement.node == "a"


def test_which_changes_help_a_pod_that_waits():
    wish = next(one for one in BUILT_IN["DynamicResources"] if one.event.resource == "ResourceClaim")
    mine = PodInfo.from_manifest(with_claims("one"))
    given = {**claim("other"), "status": {"allocation": {}, "reservedFor": []}}

    def helps(old, new):
        return wish.hint(mine, Change(ClusterEvent("ResourceClaim", Action.OTHER_UPDATE), old, new))

    assert helps(given, claim("other"))
    assert helps(given, None)
    assert helps(None, claim("one"))
    assert helps(claim("one"), {**claim("one"), "status": {"reservedFor": []}})
    assert not helps(claim("other"), given)
    assert not helps(claim("one"), claim("one"))
    assert not helps(None, claim("one", namespace="elsewhere"))


def test_slices_come_and_go():
    snapshot = cluster(claims=[claim()])
    table = snapshot.dynamic
    snapshot.upsert_slice(published("a", "g0"))
    snapshot.upsert_slice(published("b", "g0", name="slice-a"))
    assert (list(table.on_node), list(table.pools)) == (["b"], [("gpu.x", "b")])
    table.remove_slice("slice-a")
    table.remove_slice("slice-a")
    assert not table.on_node
    assert not table.pools
    table.remove_class("gpu")
    assert "device class gpu does not exist" in chosen(snapshot, "one")


def test_arguments_are_kube_schedulers():
    TABLE.make("DynamicResources", {"filterTimeout": "5s", "bindingTimeout": "1m"})
    with pytest.raises(InputError, match="timeout: unknown argument"):
        TABLE.make("DynamicResources", {"timeout": "5s"})
