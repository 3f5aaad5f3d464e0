"""The module installation_check on a real API server: what it refuses and names, that it writes nothing, and that the
rights which it asks for are those with which the modules themselves can work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import (
    controller,
    crds,
    installation_check,
    node_agent,
    node_agent_token,
    scheduler,
    storage_class,
    task_backend,
)
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, Operation, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app import install_rights
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.install_rights import Right, Run
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run as Call
from tests.apiserver.test_local_disk import runner
from tests.support.kube import forget, install_crds

pytestmark = pytest.mark.usefixtures("crds")
IMAGE, NAMESPACE = "registry.example.com/berth:0.2.0", "berth-system"
PEM = dict.fromkeys(("certificate", "key", "client_ca"), "-----BEGIN CERTIFICATE-----\n")
PARTS = ["crds", "storage_classes", "controller", "agents_daemonset", "scheduler", "extender", "task_backend"]
World = Callable[[], dict[str, str]]


def called(operation: Operation, kubeconfig: Any) -> Call:
    """The operation with what its action plugin brings."""
    run = runner(operation, kubeconfig)
    if operation.prepare is None:
        return run
    brought = dict.fromkeys({"manifests", "definitions", "policies"} & set(operation.options))
    return lambda check=False, **options: run(check, **operation.prepare({**brought, **options}))


@pytest.fixture
def check(control_plane: Any) -> Call:
    """As the administrator."""
    return called(installation_check.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def node(api: ApiClient, name: str) -> Iterator[str]:
    api.create(kinds.NODE, {"metadata": {"name": name}})
    yield name
    api.delete(kinds.NODE, name)


@pytest.fixture
def storage(api: ApiClient, name: str) -> Iterator[str]:
    """A StorageClass of somebody else's."""
    api.create(kinds.STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": "example.com/disks"})
    yield name
    api.delete(kinds.STORAGE_CLASS, name)


def test_an_administrator_is_asked_about_once_and_nothing_is_written(check: Call, world: World, node: str) -> None:
    before = world()
    for state in ("present", "absent"):
        for mode in (False, True):
            result = check(mode, state=state, parts=PARTS, node_names=[node], nodes_without_host="ignore", image=IMAGE)
            assert (result["changed"], result["missing_rights"], result["hosts_without_node"]) == (False, [], [])
            requests = result["requests"]
            assert requests.pop("dry_run") == 1
            assert set(requests) <= {"list", "get"}
            assert sum(requests.values()) < 25, requests
    assert world() == before


def test_every_right_that_is_missing_is_named_at_once(control_plane: Any, world: World, name: str) -> None:
    nobody = called(installation_check.OPERATION, control_plane.user_kubeconfig(name))
    before = world()
    refused = nobody(parts=PARTS, node_names=["h1"], storage_classes=[unsaid(name="fast")])
    assert refused["failed"]
    for right in (
        *(
            "list nodes",
            "create customresourcedefinitions.apiextensions.k8s.io",
            "create storageclasses.storage.k8s.io",
        ),
        *("patch deployments.apps in namespace berth-system", "create daemonsets.apps in namespace berth-system"),
    ):
        assert right in refused["missing_rights"], right
        assert right in refused["msg"]
    over = [text for text in refused["missing_rights"] if text.startswith("escalate and bind clusterroles")]
    assert any("berth-scheduler-extender" in text for text in over), refused["missing_rights"]
    assert (refused["changed"], world()) == (False, before)
    assert "exception" not in refused


def test_a_right_that_is_there_is_not_missed(control_plane: Any, name: str) -> None:
    control_plane.kubectl("create", "clusterrole", name, "--verb=list,create,patch", "--resource=storageclasses")
    control_plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    mine = called(installation_check.OPERATION, control_plane.user_kubeconfig(name))
    result = mine(parts=["storage_classes"], storage_classes=[unsaid(name="fast")])
    # What it may not look at either it says, and goes on.
    assert result["missing_rights"] == ["list customresourcedefinitions.apiextensions.k8s.io"], result
    control_plane.kubectl("delete", "clusterrolebinding,clusterrole", name)


def unsaid(**options: Any) -> dict[str, Any]:
    """A StorageClass as Ansible hands it over: with what was not said."""
    return {**{key: spec.get("default") for key, spec in storage_class.OPERATION.options.items()}, **options}


# -- the rights ----------------------------------------------------------------------------------------------------


def rules(rights: list[Right]) -> list[dict[str, Any]]:
    verbs: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for right in rights:
        verbs[right.group, right.resource, right.name].append(right.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": found, **({"resourceNames": [one]} if one else {})}
        for (group, resource, one), found in verbs.items()
    ]


def give(api: ApiClient, user: str, wanted: install_rights.Needed) -> None:
    """Exactly these rights, and the right to make the roles; each in its namespace."""
    over = [right for grant in wanted.grants for right in grant.over]
    every = [*wanted.rights, *over]
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]
    for namespace in sorted({right.namespace for right in every}):
        role, binding = (
            (kinds.ROLE, kinds.ROLE_BINDING) if namespace else (kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING)
        )
        meta = {"name": user, **({"namespace": namespace} if namespace else {})}
        mine = [right for right in every if right.namespace == namespace]
        api.apply(role, {"metadata": meta, "rules": rules(mine)})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": role.kind, "name": user}
        api.apply(binding, {"metadata": meta, "roleRef": ref, "subjects": subjects})


def take(api: ApiClient, user: str) -> None:
    for kind in (kinds.CLUSTER_ROLE_BINDING, kinds.CLUSTER_ROLE):
        api.delete(kind, user)
    for kind in (kinds.ROLE_BINDING, kinds.ROLE):
        api.delete(kind, user, NAMESPACE)


def needed(state: str, parts: list[str]) -> install_rights.Needed:
    manifests = installation_check.prepare({})["manifests"]
    return install_rights.needed(Run(state, parts, NAMESPACE), manifests)


def install(kubeconfig: Any, name: str, node: str, state: str, check: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """What the role does, by its modules."""
    shared = {"state": state, "wait": False, "force": state == "absent"}
    image = {"image": IMAGE} if state == "present" else {}
    agents = {"wait_timeout": 1, "default_configuration": "{}\n", "wait": False, "image": IMAGE}
    daemonset = {**dict.fromkeys(node_agent.OPERATION.options["daemonset"]["options"]), **agents}
    steps: list[tuple[Operation, dict[str, Any], bool]] = [
        # Definitions stay: other tests have objects of them.
        (crds.OPERATION, {**shared, "wait": state == "absent"}, check or state == "absent"),
        (storage_class.OPERATION, {"name": name, "state": state}, check),
        (controller.OPERATION, {**shared, **image}, check),
        (scheduler.OPERATION, {**shared, **image, "name": None}, check),
        (task_backend.OPERATION, {**shared, **image}, check),
        (
            scheduler.OPERATION,
            {**shared, **image, "mode": "extender", "name": None, "tls": PEM if image else None},
            check,
        ),
        (
            node_agent.OPERATION,
            {"state": state, "force": state == "absent", "daemonset": daemonset if image else None},
            check,
        ),
    ]
    if state == "present":
        steps.append((node_agent_token.OPERATION, {"node_name": node}, check))
    else:
        steps.reverse()
    return [(operation.name, called(operation, kubeconfig)(mode, **given)) for operation, given, mode in steps]


def test_the_rights_that_are_asked_for_are_enough(control_plane: Any, api: ApiClient, name: str, node: str) -> None:
    """An account with these rights and no others installs and removes every part; with one less it is told which."""
    own = control_plane.user_kubeconfig(name)
    mine = called(installation_check.OPERATION, own)
    parts = [*PARTS, "agents_hosts"]
    install(control_plane.kubeconfig, name, node, "absent")
    # Roles of the account are in it. It is not made again, so that only the modules' part of it is theirs.
    api.apply(kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    try:
        give(api, name, needed("present", parts))
        api.delete(kinds.CLUSTER_ROLE, "berth-block-volumes")
        api.patch(
            kinds.CRD, kinds.BERTH.definition, None, {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}}
        )
        for module, result in install(own, name, node, "present"):
            assert "msg" not in result, (module, result["msg"])
            assert result["changed"], module
        for chosen in (PARTS, ["agents_hosts"]):
            result = mine(parts=chosen, node_names=[node], nodes_without_host="ignore")
            # That is what it looks at itself, and the modules do not.
            assert [text for text in result["missing_rights"] if text != "list nodes"] == [], result
            assert result["hosts_without_node"] == []

        control_plane.kubectl("delete", "clusterrolebinding", name)
        refused = mine(parts=["controller"], node_names=[node])
        assert "create csidrivers.storage.k8s.io" in refused["missing_rights"]
        assert "create deployments.apps in namespace berth-system" not in refused["missing_rights"]

        give(api, name, needed("absent", parts))
        for module, result in install(own, name, node, "absent"):
            assert "msg" not in result, (module, result["msg"])
            assert result["changed"], module
        result = mine(state="absent", parts=PARTS)
        assert [text for text in result["missing_rights"] if not text.startswith("list nodes")] == [], result
    finally:
        take(api, name)
        install(control_plane.kubeconfig, name, node, "absent")
        install_crds(control_plane.kubeconfig)


# -- what does not fit ---------------------------------------------------------------------------------------------


def test_hosts_that_are_no_nodes_and_a_class_of_another_provisioner_in_one_message(
    check: Call, world: World, node: str, storage: str
) -> None:
    before = world()
    given = {"node_names": [f"{node}.example.com"], "storage_classes": [unsaid(name=storage)]}
    refused = check(parts=["storage_classes", "agents_hosts"], nodes_without_host="fail", **given)
    assert refused["hosts_without_node"] == [f"{node}.example.com"]
    assert node in refused["nodes_without_host"]
    assert len(refused["problems"]) == 3, refused["problems"]
    for words in (
        *(f"{node}.example.com (is it {node}?)", "berth_node_name", "no host of the inventory stands for the nodes"),
        *("provisioner is 'example.com/disks', wanted 'local.berth.dev'", "choose another name"),
    ):
        assert words in refused["msg"]
    gone = check(state="absent", parts=["storage_classes"], storage_classes=[unsaid(name=storage)])
    assert f"StorageClass {storage} is of provisioner example.com/disks, not local.berth.dev" in gone["msg"]
    own = [
        unsaid(name=storage, provisioner="example.com/disks", reclaim_policy="Delete", volume_binding_mode="Immediate")
    ]
    assert "msg" not in check(parts=["storage_classes"], storage_classes=own)
    assert world() == before


def test_a_second_installation_is_refused_by_name(
    check: Call, control_plane: Any, api: ApiClient, namespace: str
) -> None:
    there = called(controller.OPERATION, control_plane.kubeconfig)
    where = {"namespace": namespace, "image": IMAGE, "wait": False}
    try:
        assert "msg" not in there(state="absent", force=True, wait=False)
        assert "msg" not in there(**where)
        refused = check(parts=["crds", "controller"])
        assert f"controller berth-controller is installed in namespace {namespace}" in refused["msg"]
        rows = [row for row in refused["parts"] if row["part"] == "controller"]
        assert [(row["namespace"], row["version"]) for row in rows] == [(namespace, "0.2.0")]
        assert "msg" not in check(parts=["crds", "controller"], namespace=namespace)
    finally:
        assert "msg" not in there(state="absent", force=True, **where)
    assert "msg" not in check(parts=["crds", "controller"])


def test_custom_resources_and_agents_of_another_release(
    check: Call, control_plane: Any, api: ApiClient, node: str
) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    meta = {"name": f"berth-agent-{node}", "namespace": NAMESPACE, "annotations": {"berth.dev/agent-version": "0.3.1"}}
    spec = {"holderIdentity": node, "leaseDurationSeconds": 60, "renewTime": now}
    api.apply(kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    api.create(kinds.LEASE, {"metadata": meta, "spec": spec})
    disks = kinds.LOCAL_DISK.definition
    try:
        api.patch(kinds.CRD, disks, None, {"metadata": {"annotations": {"berth.dev/schema": "99"}}})
        refused = check(parts=["crds", "agents_hosts"], node_names=[node], nodes_without_host="ignore")
        assert f"CustomResourceDefinition {disks} has schema 99, of a newer release" in refused["msg"]
        assert f"newer release than this collection (0.2.0): {node} (0.3.1)" in refused["msg"]
        assert len(refused["problems"]) == 2
    finally:
        api.delete(kinds.LEASE, f"berth-agent-{node}", NAMESPACE)
        api.patch(kinds.CRD, disks, None, {"metadata": {"annotations": {"berth.dev/schema": "1"}}})
        older = check(parts=["controller"])
        install_crds(control_plane.kubeconfig)
    assert "has schema 1, and this release is made for schema" in older["msg"]
    assert "msg" not in check(parts=["controller"])


# -- removal -------------------------------------------------------------------------------------------------------


def test_what_needs_it_is_named_and_kept_data_is_a_warning(
    control_plane: Any, api: ApiClient, namespace: str, name: str
) -> None:
    warned: list[str] = []

    def absent(**options: Any) -> dict[str, Any]:
        made = installation_check.prepare({**unsaid_check(), "state": "absent", **options})
        return execute_with(control_plane.kubeconfig, made, warned)

    api.create(kinds.STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": "local.berth.dev"})
    size = {"requests": {"storage": "1Gi"}}
    meta = {"namespace": namespace, "name": "data"}
    claim = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": size}
    api.create(kinds.PVC, {"metadata": meta, "spec": claim})
    berth = {"app": "db", "ordinal": 0, "nodeName": "h1"}
    named = {"metadata": {"namespace": namespace, "name": "db-0"}, "spec": berth}
    api.create(kinds.BERTH, {"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", **named})
    kept = {"namespace": namespace, "app": "gone", "ordinal": 0, "claim": "data", "dataUID": "u"}
    disk = {"nodeName": "h1", "identity": {"serial": name, "size": 1 << 30}, "retainedFor": kept}
    record = {"metadata": {"name": f"{name}-a"}, "spec": disk}
    api.create(kinds.LOCAL_DISK, {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", **record})
    try:
        refused = absent(parts=["crds", "controller"])
        assert f"{namespace}/db (1)" in refused["msg"]
        assert f"{namespace}/data" in refused["msg"]
        assert any(f"{name}-a (of {namespace}/gone)" in text for text in warned), warned
        assert f"{namespace}/db" not in absent(parts=["scheduler"]).get("msg", "")
        api.delete(kinds.STORAGE_CLASS, name)
        theirs = {"name": name, "provisioner": "example.com/disks"}
        api.create(kinds.STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": theirs["provisioner"]})
        classes = absent(parts=["storage_classes"], storage_classes=[unsaid(**theirs)])
        assert f"claims have local disks or wait for one: {namespace}/data" in classes["msg"], "of any provisioner"
    finally:
        for kind, one in ((kinds.BERTH, "db-0"), (kinds.PVC, "data")):
            api.delete(kind, one, namespace)
        api.delete(kinds.STORAGE_CLASS, name)
        forget(api, kinds.LOCAL_DISK, f"{name}-a")


def unsaid_check() -> dict[str, Any]:
    return {key: spec.get("default") for key, spec in installation_check.OPERATION.argument_spec().items()}


def execute_with(kubeconfig: Any, params: dict[str, Any], warned: list[str]) -> dict[str, Any]:
    context = Context({**params, "kubeconfig": str(kubeconfig)}, False, warned.append, environ={})
    return execute(installation_check.OPERATION, context)


def test_pods_that_name_the_scheduler_keep_it(
    check: Call, control_plane: Any, api: ApiClient, namespace: str, name: str
) -> None:
    ours = called(scheduler.OPERATION, control_plane.kubeconfig)
    where = {"name": name, "namespace": namespace, "wait": False}
    pod = {"schedulerName": name, "containers": [{"name": "a", "image": "a"}]}
    api.create(kinds.SERVICE_ACCOUNT, {"metadata": {"namespace": namespace, "name": "own"}})
    try:
        assert "msg" not in ours(image=IMAGE, **where)
        given = {"state": "absent", "parts": ["scheduler"], "namespace": namespace, "scheduler_name": name}
        assert "msg" not in check(**given)
        spec = {**pod, "serviceAccountName": "own"}
        api.create(kinds.POD, {"metadata": {"namespace": namespace, "name": "waits"}, "spec": spec})
        assert f"pods name the scheduler and have not finished: {namespace}/waits;" in check(**given)["msg"]
        assert f"while pods wait for it: {namespace}/waits" in ours(True, state="absent", **where)["msg"]
        api.patch(kinds.POD, "waits", namespace, {"status": {"phase": "Succeeded"}}, subresource="status")
        assert "msg" not in check(**given)
        assert "msg" not in ours(True, state="absent", **where), "one that has ended waits for nobody"
    finally:
        assert "msg" not in ours(state="absent", force=True, **where)


def test_in_a_playbook(playbook: Callable[..., Any], node: str) -> None:
    """As users run it: in the controller, and as an ordinary module in a process of its own."""
    given = {"parts": ["crds"], "node_names": [node], "nodes_without_host": "ignore"}
    task = {"berth.stateful.installation_check": given}
    other = {"berth.stateful.installation_check": {**given, "node_names": ["h7"]}}
    run = playbook([task, {**task, "async": 60, "poll": 1}, other])
    assert run.failed()["hosts_without_node"] == ["h7"], run.output
    assert [each.result["problems"] for each in run.tasks][:2] == [[], []]
