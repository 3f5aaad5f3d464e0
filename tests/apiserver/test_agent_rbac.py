"""The agent of one node writes its own node's objects and nothing of another's: real tokens, real RBAC, real admission.

Two nodes, an agent each. The tokens are those of the two ways to run an agent: of a pod on the node, and bound to the
Node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import (
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_agent.agent import COMPONENT
from tests.core.app.disk_samples import held, kept
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for, fail_on_warning, forget, install_crds

RBAC = Path(__file__).parents[2] / "deploy/agent/rbac.yaml"
NAMESPACE, ACCOUNT = "berth-system", "berth-agent"
# Of two policies that refuse a request, the API server tells one's reason, and which one is chance.
NOT_BY_DISKS_POLICY = "only (by )?who may update Berths there|whose data .* keeps is said by giving up its lock"


class Agents(NamedTuple):
    admin: ApiClient
    mine: str  # the agent's node
    other: str
    agent: ApiClient


def client_with(control_plane: Any, token: str) -> ApiClient:
    """Nobody but the bearer of the token: no client certificate beside it."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "agent",
        "contexts": [{"name": "agent", "context": {"cluster": "it", "user": "agent"}}],
        "clusters": [
            {
                "name": "it",
                "cluster": {
                    "server": control_plane.api_url,
                    "certificate-authority": str(control_plane.ca_cert),
                },
            }
        ],
        "users": [{"name": "agent", "user": {"token": token}}],
    }
    return ApiClient(load_auth({"kubeconfig": kubeconfig}, {}), fail_on_warning)


def token_for(admin: ApiClient, bound: dict[str, Any] | None) -> str:
    spec: dict[str, Any] = {"expirationSeconds": 3600, **({"boundObjectRef": bound} if bound else {})}
    body = {"metadata": {"name": ACCOUNT, "namespace": NAMESPACE}, "spec": spec}
    answer = admin.create(kinds.SERVICE_ACCOUNT, body, subresource="token")
    return str(answer["status"]["token"])


def token_of_node(admin: ApiClient, node: str) -> str:
    uid = admin.get(kinds.NODE, node)["metadata"]["uid"]
    return token_for(admin, {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid})


def token_of_pod(admin: ApiClient, node: str) -> str:
    """What the kubelet asks for in the name of a DaemonSet's pod."""
    pod = {
        "metadata": {"name": f"agent-{node}", "namespace": NAMESPACE},
        "spec": {"serviceAccountName": ACCOUNT, "nodeName": node, "containers": [{"name": "agent", "image": "none"}]},
    }
    made = admin.create(kinds.POD, pod)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": made["metadata"]["uid"]}
    return token_for(admin, bound)


def in_force(loose: ApiClient, name: str) -> bool:
    """The API server takes up a policy, and what was just granted, a moment after it was written."""
    try:
        loose.create(kinds.LEASE, lease(name), dry_run=True)
    except ForbiddenError as exc:
        return "bound to no node" in exc.message
    return False


@pytest.fixture(scope="module")
def policies(control_plane: Any) -> None:
    """The CRDs, what the agents may, and the policies that hold them to their node: in force for all tests here."""
    install_crds(control_plane.kubeconfig)
    control_plane.kubectl("apply", "-f", str(RBAC))
    loose = client_with(control_plane, token_for(client_for(control_plane.kubeconfig), None))
    eventually(lambda: in_force(loose, f"t{uuid4().hex[:10]}"), what="the policy is in force")


@pytest.fixture
def nodes(api: ApiClient, policies: None, name: str) -> Iterator[list[str]]:
    made = [f"{name}-a", f"{name}-b"]
    for node in made:
        api.create(kinds.NODE, {"metadata": {"name": node}})
    yield made
    for node in made:
        for kind in (kinds.LOCAL_DISK, kinds.LOCAL_DEVICE):
            for each in api.list(kind, fields=f"spec.nodeName={node}"):
                forget(api, kind, each["metadata"]["name"])
        api.delete(kinds.POD, f"agent-{node}", NAMESPACE, grace=0)  # no kubelet is there to say that it has ended
        api.delete(kinds.LEASE, f"berth-agent-{node}", NAMESPACE)
        api.delete(kinds.NODE, node)


@pytest.fixture(params=["service", "daemonset"])
def agents(request: pytest.FixtureRequest, api: ApiClient, control_plane: Any, nodes: list[str]) -> Agents:
    make = token_of_node if request.param == "service" else token_of_pod
    mine, other = nodes
    return Agents(api, mine, other, client_with(control_plane, make(api, mine)))


def disk(node: str, **spec: Any) -> dict[str, Any]:
    identity = {"serial": f"S-{node}", "size": 4096}
    whole = {"metadata": {"name": f"{node}-d0"}, "spec": {"nodeName": node, "identity": identity, **spec}}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", **whole}


def device(node: str, **spec: Any) -> dict[str, Any]:
    whole = {"metadata": {"name": f"{node}-g0"}, "spec": {"nodeName": node, "deviceClass": "gpu", "uuid": node, **spec}}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDevice", **whole}


def lease(node: str) -> dict[str, Any]:
    return {"metadata": {"name": f"berth-agent-{node}", "namespace": NAMESPACE}, "spec": {"holderIdentity": node}}


def slice_(node: str) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-berth.dev-0"},
        "spec": {"driver": "berth.dev", "nodeName": node, "pool": pool},
    }


def event(node: str) -> dict[str, Any]:
    return {
        "metadata": {"generateName": "e-", "name": f"{node}-event", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": COMPONENT,
        "reportingInstance": node,
        "action": "Look",
        "reason": "Test",
        "type": "Normal",
        "regarding": {"kind": "Node", "apiVersion": "v1", "name": node, "namespace": "default"},
    }


def refused(act: Callable[[], Any], node: str) -> None:
    """It is forbidden, and by berth's policy, which names the node whose agent asked."""
    with pytest.raises(ForbiddenError) as told:
        act()
    assert "ValidatingAdmissionPolicy 'berth-agent'" in told.value.message
    assert f"the agent of node {node} may not" in told.value.message, told.value.message


MADE = [
    (kinds.LOCAL_DISK, disk),
    (kinds.LOCAL_DEVICE, device),
    (kinds.LEASE, lease),
    (kinds.RESOURCE_SLICE, slice_),
    (kinds.EVENT, event),
]


@pytest.mark.parametrize(("kind", "body"), MADE, ids=[kind.plural for kind, _body in MADE])
def test_an_agent_makes_what_is_of_its_node_alone(agents: Agents, kind: Any, body: Any) -> None:
    made = agents.agent.create(kind, body(agents.mine))
    refused(lambda: agents.agent.create(kind, body(agents.other)), agents.mine)
    theirs = agents.admin.create(kind, body(agents.other))
    change = {"metadata": {"annotations": {"seen": "yes"}}}

    def annotate(live: dict[str, Any]) -> Any:
        return agents.agent.patch(kind, live["metadata"]["name"], live["metadata"].get("namespace"), change)

    assert annotate(made)["metadata"]["annotations"]["seen"] == "yes"
    refused(lambda: annotate(theirs), agents.mine)
    for live in (made, theirs):
        agents.admin.delete(kind, live["metadata"]["name"], live["metadata"].get("namespace"))


@pytest.mark.parametrize("kind", [kinds.LOCAL_DISK, kinds.LOCAL_DEVICE], ids=["disk", "device"])
def test_status_of_its_own_objects_alone(agents: Agents, kind: Any) -> None:
    body = disk if kind is kinds.LOCAL_DISK else device
    for node in (agents.mine, agents.other):
        agents.admin.create(kind, body(node))
    name = body(agents.mine)["metadata"]["name"]
    status = {"metadata": {"name": name}, "status": {"phase": "Available"}}
    agents.agent.apply(kind, status, "status", manager="berth-agent")
    assert agents.admin.get(kind, name)["status"]["phase"] == "Available"
    theirs = body(agents.other)["metadata"]["name"]
    foreign = {"metadata": {"name": theirs}, "status": {"phase": "Faulted"}}
    refused(lambda: agents.agent.apply(kind, foreign, "status", manager="berth-agent"), agents.mine)
    assert "status" not in agents.admin.get(kind, theirs)
    for mine_or_theirs in (name, theirs):
        with pytest.raises(ForbiddenError):  # by RBAC: what was published is never deleted by an agent
            agents.agent.delete(kind, mine_or_theirs)


def test_an_agent_touches_no_lock_and_nothing_that_is_declared(agents: Agents) -> None:
    name = f"{agents.mine}-d0"
    for spec in ({"claimRef": held()}, {"retainedFor": kept()}):
        with pytest.raises(ForbiddenError, match=f"it gives nothing out|{NOT_BY_DISKS_POLICY}"):
            agents.agent.create(kinds.LOCAL_DISK, disk(agents.mine, **spec))
    agents.admin.create(kinds.LOCAL_DISK, disk(agents.mine))
    for change in ({"claimRef": held()}, {"reserved": True}, {"storageClassName": "x"}, {"reclaimPolicy": "Delete"}):
        with pytest.raises(ForbiddenError, match=f"changes nothing of what is declared|{NOT_BY_DISKS_POLICY}"):
            agents.agent.patch(kinds.LOCAL_DISK, name, None, {"spec": change})
    agents.admin.patch(kinds.LOCAL_DISK, name, None, {"spec": {"claimRef": held()}})
    before = agents.admin.get(kinds.LOCAL_DISK, name)
    with pytest.raises(ForbiddenError, match=f"removes nothing of what is declared|{NOT_BY_DISKS_POLICY}"):
        agents.agent.patch(kinds.LOCAL_DISK, name, None, {"spec": {"claimRef": None}})
    assert agents.admin.get(kinds.LOCAL_DISK, name) == before
    agents.admin.patch(kinds.LOCAL_DISK, name, None, {"spec": {"claimRef": None, "retainedFor": kept()}})
    with pytest.raises(ForbiddenError, match="removes nothing of what is declared"):
        agents.agent.patch(kinds.LOCAL_DISK, name, None, {"spec": {"retainedFor": None}})
    agents.agent.patch(kinds.LOCAL_DISK, name, None, {"metadata": {"annotations": {"seen": "yes"}}})


def test_a_wipe_and_whose_data_it_was_go_together_once_that_wipe_is_recorded_as_done(agents: Agents) -> None:
    """An agent that is wrong, or somebody else's, frees no disk whose data nobody has wiped."""
    mine, theirs = (f"{node}-d0" for node in (agents.mine, agents.other))
    for node in (agents.mine, agents.other):
        made = agents.admin.create(kinds.LOCAL_DISK, disk(node, retainedFor=kept()))
        request = {"requestID": "r-1", "identity": made["spec"]["identity"], "requestedBy": "an administrator"}
        agents.admin.patch(kinds.LOCAL_DISK, made["metadata"]["name"], None, {"spec": {"wipe": request}})

    def take_off(name: str, *fields: str) -> None:
        agents.agent.patch(kinds.LOCAL_DISK, name, None, {"spec": dict.fromkeys(fields)})

    def record(client: ApiClient, name: str, **last: str) -> None:
        status = {"metadata": {"name": name}, "status": {"lastWipe": {"requestedBy": "an administrator", **last}}}
        client.apply(kinds.LOCAL_DISK, status, "status", manager="berth-agent-disks")

    done = {"requestID": "r-1", "result": "Succeeded", "dataUID": kept()["dataUID"]}
    other, since = {**done, "dataUID": "other"}, {**done, "lockUID": "u2"}
    for last in ({}, {"requestID": "r-1", "result": "Failed"}, {**done, "requestID": "r-0"}, other, since):
        if last:
            record(agents.agent, mine, **last)
        for fields in (("wipe",), ("retainedFor",), ("wipe", "retainedFor")):
            with pytest.raises(ForbiddenError, match="removes nothing of what is declared"):
                take_off(mine, *fields)
    record(agents.agent, mine, **done)
    with pytest.raises(ForbiddenError, match="removes nothing of what is declared"):
        take_off(mine, "retainedFor")  # the request would stay, of a disk that looks as if it held nothing
    take_off(mine, "wipe", "retainedFor")
    assert agents.admin.get(kinds.LOCAL_DISK, mine)["spec"].keys() & {"wipe", "retainedFor"} == set()
    record(agents.admin, theirs, **done)
    refused(lambda: take_off(theirs, "wipe", "retainedFor"), agents.mine)


def test_only_its_own_conditions_of_pods_on_its_node(agents: Agents) -> None:
    for node in (agents.mine, agents.other):
        pod = {"metadata": {"name": f"db-{node}", "namespace": "default"}}
        spec = {"nodeName": node, "containers": [{"name": "db", "image": "none"}]}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        agents.admin.create(kinds.POD, {**pod, "spec": {**spec, "terminationGracePeriodSeconds": 0}})
    told = {"status": {"conditions": [{"type": "berth.dev/DiskHealthy", "status": "False", "reason": "Faulted"}]}}
    patched = agents.agent.patch(kinds.POD, f"db-{agents.mine}", "default", told, "status")
    assert patched["status"]["conditions"][0]["type"] == "berth.dev/DiskHealthy"
    refused(lambda: agents.agent.patch(kinds.POD, f"db-{agents.other}", "default", told, "status"), agents.mine)
    others: list[dict[str, Any]] = [
        {"status": {"phase": "Failed"}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}},
        {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "another"}]}},
        {"status": {"message": "x"}},
        {"metadata": {"labels": {"app": "another"}}},
        {"metadata": {"annotations": {"another": "yes"}}},
    ]
    for change in others:
        with pytest.raises(ForbiddenError, match="its own conditions"):
            agents.agent.patch(kinds.POD, f"db-{agents.mine}", "default", change, "status")
    with pytest.raises(ForbiddenError):
        agents.agent.delete(kinds.POD, f"db-{agents.mine}", "default")
    for node in (agents.mine, agents.other):
        control = {"metadata": {"name": f"db-{node}", "namespace": "default"}}
        agents.admin.delete(kinds.POD, control["metadata"]["name"], "default")


def test_an_agent_takes_no_name_that_another_nodes_agent_would_give(agents: Agents) -> None:
    own = [f"{agents.mine}-0123456789", f"bay-7-{agents.mine}"]
    for name in own:
        agents.agent.create(kinds.LOCAL_DISK, {**disk(agents.mine), "metadata": {"name": name}})
        agents.admin.delete(kinds.LOCAL_DISK, name)
    taken = [
        (kinds.LOCAL_DISK, disk, f"{agents.other}-0123456789"),
        (kinds.LOCAL_DISK, disk, f"{agents.mine}-x-0123456789"),
        (kinds.LOCAL_DEVICE, device, f"{agents.other}-gpu-0123456789ab"),
        (kinds.RESOURCE_SLICE, slice_, f"{agents.other}-berth.dev-0"),
    ]
    for kind, body, name in taken:
        refused(
            lambda kind=kind, body=body, name=name: agents.agent.create(
                kind, {**body(agents.mine), "metadata": {"name": name}}
            ),
            agents.mine,
        )


def test_an_agent_tells_of_nothing_but_its_node_and_disks_and_pods(agents: Agents) -> None:
    local_disk = {"kind": "LocalDisk", "apiVersion": "berth.dev/v1alpha1"}
    told = {
        "own": ({**local_disk, "name": f"{agents.mine}-0123456789"}, True),
        "given": ({**local_disk, "name": "bay-7"}, True),
        "pod": ({"kind": "Pod", "apiVersion": "v1", "name": "db-0", "namespace": "default"}, True),
        "claim": ({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "name": "c", "namespace": "default"}, True),
        "theirs": ({**local_disk, "name": f"{agents.other}-0123456789"}, False),
        "node": ({"kind": "Node", "apiVersion": "v1", "name": agents.other}, False),
        "secret": ({"kind": "Secret", "apiVersion": "v1", "name": "x", "namespace": "default"}, False),
        "app": ({"kind": "StatefulSet", "apiVersion": "apps/v1", "name": "db", "namespace": "default"}, False),
    }
    for name, (about, may) in told.items():
        body = {**event(agents.mine), "regarding": {"namespace": "default", **about}}
        body["metadata"] = {"name": f"{agents.mine}-{name}", "namespace": "default"}
        if may:
            agents.agent.create(kinds.EVENT, body)
        else:
            refused(lambda body=body: agents.agent.create(kinds.EVENT, body), agents.mine)
    another = {**event(agents.mine), "reportingController": "kubelet"}
    refused(lambda: agents.agent.create(kinds.EVENT, another), agents.mine)


def test_an_agent_renews_its_own_token_and_gets_no_other_nodes(agents: Agents, control_plane: Any) -> None:
    nodes = {node: agents.admin.get(kinds.NODE, node)["metadata"]["uid"] for node in (agents.mine, agents.other)}

    def renew(bound: dict[str, Any] | None) -> str:
        return token_for(agents.agent, bound)

    mine = {"apiVersion": "v1", "kind": "Node", "name": agents.mine, "uid": nodes[agents.mine]}
    fresh = client_with(control_plane, renew(mine))
    fresh.create(kinds.LOCAL_DISK, disk(agents.mine))
    refused(lambda: fresh.create(kinds.LOCAL_DISK, disk(agents.other)), agents.mine)
    refused(lambda: renew({**mine, "name": agents.other, "uid": nodes[agents.other]}), agents.mine)
    refused(lambda: renew(None), agents.mine)
    body = {"metadata": {"name": "default", "namespace": NAMESPACE}, "spec": {"expirationSeconds": 3600}}
    with pytest.raises(ForbiddenError):
        agents.agent.create(kinds.SERVICE_ACCOUNT, body, subresource="token")


def test_a_token_that_is_bound_to_no_node_writes_nothing(api: ApiClient, control_plane: Any, nodes: list[str]) -> None:
    loose = client_with(control_plane, token_for(api, None))
    for kind, body in MADE:
        with pytest.raises(ForbiddenError, match="bound to no node"):
            loose.create(kind, body(nodes[0]))


def test_the_token_of_a_node_that_is_gone_is_nobody(api: ApiClient, control_plane: Any, nodes: list[str]) -> None:
    """A node that comes back under the same name is another node: its agent gets a token of its own."""
    old = client_with(control_plane, token_of_node(api, nodes[0]))
    assert old.list(kinds.LOCAL_DISK, fields=f"spec.nodeName={nodes[0]}") == []
    api.delete(kinds.NODE, nodes[0])
    api.create(kinds.NODE, {"metadata": {"name": nodes[0]}})

    def unauthorized() -> bool:
        try:
            old.create(kinds.LOCAL_DISK, disk(nodes[0]))
        except UnauthorizedError:
            return True
        api.delete(kinds.LOCAL_DISK, f"{nodes[0]}-d0")
        return False

    eventually(unauthorized, what="the old token is refused")  # the API server remembers a good token for some seconds


def test_the_rest_of_the_cluster_is_out_of_reach(agents: Agents) -> None:
    for kind, namespace in ((kinds.SECRET, "default"), (kinds.SECRET, NAMESPACE), (kinds.CONFIG_MAP, "default")):
        with pytest.raises(ForbiddenError):
            agents.agent.list(kind, namespace)
    elsewhere = {"metadata": {"name": f"berth-agent-{agents.mine}", "namespace": "default"}, "spec": {}}
    for write in (
        lambda: agents.agent.delete(kinds.NODE, agents.mine),
        lambda: agents.agent.patch(kinds.NODE, agents.mine, None, {"metadata": {"labels": {"a": "b"}}}),
        lambda: agents.agent.create(kinds.PV, {"metadata": {"name": "x"}, "spec": {}}),
        lambda: agents.agent.delete(kinds.BERTH, "x", "default"),
        lambda: agents.agent.create(kinds.LEASE, elsewhere),
    ):
        with pytest.raises(ForbiddenError):
            write()
    with pytest.raises(NotFoundError):
        agents.agent.get(kinds.BERTH, "none", "default")  # reads are what fencing needs
