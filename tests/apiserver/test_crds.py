"""The module crds on a real API server: install, upgrade, refuse, remove; and that a rerun costs one request."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import policies
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.crds import OPERATION, prepare, read_definitions
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    CLUSTER_ROLE,
    CRD,
    LOCAL_DISK,
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    PRIORITY_CLASS,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    Resource,
)
from tests.core.app.disk_samples import held
from tests.support.kube import install_crds

NAMES = [
    *("berths.berth.dev", "localdevices.berth.dev", "localdisks.berth.dev", "statefulapps.berth.dev"),
    *("taskbatches.berth.dev", "taskbatchshards.berth.dev", "taskoffers.berth.dev"),
    *("taskqueues.berth.dev", "tasks.berth.dev"),
]
POLICIES = [
    *((VALIDATING_ADMISSION_POLICY, name) for name in ("berth-disks", "berth-disk-status", "berth-devices")),
    (VALIDATING_ADMISSION_POLICY_BINDING, "berth-volumes"),
    *((kind, "berth-node-affinity") for kind in (MUTATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY_BINDING)),
    *((CLUSTER_ROLE, name) for name in ("berth-app-operator", "berth-disk-user", "berth-disk-wiper")),
    *((CLUSTER_ROLE, "berth-update-hold"), (PRIORITY_CLASS, "berth-hold")),
]
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(control_plane: Any) -> Module:
    def run(check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        params = prepare({**defaults, "kubeconfig": str(control_plane.kubeconfig), **options})
        return execute(OPERATION, Context(params, check, lambda text: None, environ={}))

    return run


@pytest.fixture
def widgets(api: ApiClient, name: str) -> Iterator[dict[str, Any]]:
    """A definition of another group, with two versions, gone at the end."""
    group = f"{name}.example.dev"
    schema = {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        }
    }
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": schema},
        {"name": "v2", "served": True, "storage": False, "schema": schema},
    ]
    names = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    yield {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": {"name": f"widgets.{group}"}, "spec": spec}
    api.delete(CRD, f"widgets.{group}")


@pytest.fixture(scope="module", autouse=True)
def put_back(control_plane: Any) -> Iterator[None]:
    """The files after this one install them no more."""
    yield
    install_crds(control_plane.kubeconfig)


@pytest.fixture
def crds(control_plane: Any) -> None:
    """Here a test before may have removed them."""
    install_crds(control_plane.kubeconfig)


@pytest.fixture
def no_crds(module: Module) -> None:
    assert not module(state="absent", force=True).get("failed")


@pytest.mark.usefixtures("no_crds")
def test_install_rerun_remove(module: Module, api: ApiClient, world: Callable[[], dict[str, str]]) -> None:
    before = world()
    planned = module(check=True)
    assert planned["changed"]
    assert world() == before
    assert [(crd["name"], crd["action"]) for crd in planned["crds"]] == [(name, "create") for name in NAMES]

    done = module()
    assert done["changed"]
    told = ("crds", "policies", "diff")
    assert {key: done[key] for key in told} == {key: planned[key] for key in told}
    assert api.list(LOCAL_DISK) == [], "the kind answers as soon as the module has returned"

    again = module()
    assert (again["changed"], again["diff"], again["requests"]) == (False, [], {"list": 7}), "one for each kind"
    assert module(check=True)["requests"] == {"list": 7}
    assert all(api.find(kind, name) for kind, name in POLICIES)

    removed = module(state="absent")
    assert removed["changed"]
    assert [api.find(CRD, name) for name in NAMES] == [None] * len(NAMES)
    assert not any(api.find(kind, name) for kind, name in POLICIES)
    gone = module(state="absent")
    assert (gone["changed"], gone["diff"], gone.get("failed")) == (False, [], None)


@pytest.mark.usefixtures("no_crds")
def test_an_older_api_server_goes_without_the_policy_that_it_has_no_kind_for(
    module: Module, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (MUTATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY_BINDING):
        monkeypatch.setitem(policies._RESOURCES, kind.kind, kind._replace(version="v0"))
    done = module()
    assert done["changed"], done
    assert not [row for row in done["policies"] if row["name"] == "berth-node-affinity"]
    assert api.find(VALIDATING_ADMISSION_POLICY, "berth-disks")
    assert not module()["changed"]
    assert module(state="absent")["changed"]
    assert api.find(MUTATING_ADMISSION_POLICY, "berth-node-affinity") is None


@pytest.mark.usefixtures("crds")
def test_somebody_changed_a_definition(module: Module, api: ApiClient) -> None:
    """What was taken out comes back, what was added goes: a definition is wholly berth's. Their labels stay."""
    live = api.get(CRD, NAMES[2])
    version = live["spec"]["versions"][0]
    del version["additionalPrinterColumns"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] = {"type": "string"}
    live["metadata"]["labels"]["theirs"] = "yes"
    api.replace(CRD, live)

    planned = module(check=True)
    changes = {crd["name"]: crd["action"] for crd in planned["crds"]}
    assert changes == {**dict.fromkeys(NAMES, "none"), NAMES[2]: "update"}
    (diff,) = planned["diff"]
    assert set(diff["before"]) == {"metadata", "spec"}, "no status in a diff"
    assert "conversion" not in diff["before"]["spec"], "no server defaults in a diff"
    assert "extra" in str(diff["before"])
    assert "extra" not in str(diff["after"])

    assert module()["requests"]["replace"] == 1
    live = api.get(CRD, NAMES[2])
    assert "extra" not in str(live["spec"])
    assert live["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"] == "Node"
    assert live["metadata"]["labels"] == {"app.kubernetes.io/part-of": "berth", "theirs": "yes"}
    assert not module()["changed"]


@pytest.mark.usefixtures("crds")
def test_a_policy_that_somebody_switched_off_is_in_force_again(module: Module, api: ApiClient) -> None:
    """By a condition that never holds, or without its binding. A release that had no policies is upgraded so, too."""
    live = api.get(VALIDATING_ADMISSION_POLICY, "berth-disks")
    never = {"name": "never", "expression": "false"}
    api.replace(VALIDATING_ADMISSION_POLICY, {**live, "spec": {**live["spec"], "matchConditions": [never]}})
    api.delete(VALIDATING_ADMISSION_POLICY_BINDING, "berth-volumes")
    planned = module(check=True)
    changed = {(row["kind"], row["name"]): row["action"] for row in planned["policies"] if row["action"] != "none"}
    assert changed == {
        ("ValidatingAdmissionPolicy", "berth-disks"): "update",
        ("ValidatingAdmissionPolicyBinding", "berth-volumes"): "create",
    }
    assert [entry["before_header"] for entry in planned["diff"]] == [
        "ValidatingAdmissionPolicy berth-disks",
        "ValidatingAdmissionPolicyBinding berth-volumes (absent)",
    ]
    assert module()["changed"]
    assert "matchConditions" not in api.get(VALIDATING_ADMISSION_POLICY, "berth-disks")["spec"]
    assert not module()["changed"]
    assert [row["action"] for row in module(mount_root="/mnt/disks")["policies"]].count("update") == 1
    spec = api.get(VALIDATING_ADMISSION_POLICY, "berth-volumes")["spec"]
    assert "'/mnt/disks'" in [variable["expression"] for variable in spec["variables"]]
    assert not module()["changed"], "it stays as it is installed"
    assert module(mount_root="/var/lib/berth/disks")["changed"]
    told = module(mount_root="/mnt/it's")
    assert told["failed"]
    assert "other signs" in told["msg"]


@pytest.mark.usefixtures("crds")
def test_a_priority_class_that_somebody_made_stays_as_it_is(module: Module, api: ApiClient) -> None:
    """Its value cannot be changed, and is the cluster's to choose: what the class of deploy/ says is a beginning."""
    api.delete(PRIORITY_CLASS, "berth-hold")
    made = {"metadata": {"name": "berth-hold"}, "value": 7, "preemptionPolicy": "Never"}
    theirs = api.create(PRIORITY_CLASS, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **made})
    try:
        assert not module()["changed"]
        assert not module(state="absent", force=True).get("failed")
        module()
        assert api.get(PRIORITY_CLASS, "berth-hold")["metadata"]["uid"] == theirs["metadata"]["uid"]
    finally:
        api.delete(PRIORITY_CLASS, "berth-hold")
    assert {row["name"]: row["action"] for row in module()["policies"]}["berth-hold"] == "create"
    labels = {"app.kubernetes.io/part-of": None}
    api.patch(PRIORITY_CLASS, "berth-hold", None, {"metadata": {"labels": labels}})
    assert not module()["changed"], "also where it has lost its label"
    api.delete(PRIORITY_CLASS, "berth-hold")
    module()


def test_upgrade_with_a_new_version(module: Module, api: ApiClient, widgets: dict[str, Any]) -> None:
    first = copy.deepcopy(widgets)
    del first["spec"]["versions"][1]
    assert module(definitions=[first])["changed"]
    assert module(definitions=[widgets])["crds"][0] == {
        "name": widgets["metadata"]["name"],
        "action": "update",
        "versions": ["v1", "v2"],
    }
    assert not module(definitions=[widgets])["changed"]
    api.list(Resource(widgets["spec"]["group"], "v2", "widgets", "Widget", True))


def test_a_version_with_stored_objects_is_never_dropped(
    module: Module, widgets: dict[str, Any], world: Callable[[], dict[str, str]]
) -> None:
    module(definitions=[widgets])
    before = world()
    second = copy.deepcopy(widgets)
    del second["spec"]["versions"][0]
    second["spec"]["versions"][0]["storage"] = True
    other = copy.deepcopy(widgets)
    other["metadata"]["name"] = f"gadgets.{widgets['spec']['group']}"
    other["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    for check in (True, False):
        result = module(check=check, definitions=[other, second])
        assert result["failed"]
        assert not result["changed"]
        assert "objects may be stored in v1" in result["msg"]
        assert "status.storedVersions" in result["msg"]
    assert world() == before, "refused before anything was written, the other definition too"


def test_the_scope_never_changes(module: Module, widgets: dict[str, Any]) -> None:
    module(definitions=[widgets])
    widgets["spec"]["scope"] = "Cluster"
    result = module(definitions=[widgets])
    assert result["failed"]
    assert "the scope is Namespaced and cannot become Cluster" in result["msg"]


def test_names_that_are_taken(module: Module, api: ApiClient, widgets: dict[str, Any]) -> None:
    module(definitions=[widgets])
    second = copy.deepcopy(widgets)
    second["metadata"]["name"] = f"wodgets.{widgets['spec']['group']}"
    second["spec"]["names"] = {"kind": "Widget", "plural": "wodgets"}
    try:
        result = module(definitions=[second])
        assert result["failed"]
        assert result["changed"], "it was created, although it will not be served"
        assert "names are not accepted" in result["msg"]
        assert "widget" in result["msg"].lower()
        assert module(definitions=[second])["failed"], "nor is that fine the next time"
    finally:
        api.delete(CRD, second["metadata"]["name"])


@pytest.mark.usefixtures("crds")
def test_removal_says_what_would_be_lost(
    module: Module, api: ApiClient, name: str, world: Callable[[], dict[str, str]]
) -> None:
    for index in range(12):
        spec = {"nodeName": "n1", "identity": {"serial": f"{name}-{index}", "size": 5}}
        api.create(
            LOCAL_DISK,
            {
                "metadata": {"name": f"{name}-{index:02}"},
                "spec": spec,
                "apiVersion": "berth.dev/v1alpha1",
                "kind": "LocalDisk",
            },
        )
    api.patch(LOCAL_DISK, f"{name}-00", None, {"spec": {"claimRef": held()}})  # goes with its definition all the same
    before = world()
    refused = module(state="absent")
    assert refused["failed"]
    assert not refused["changed"]
    assert "12 localdisks.berth.dev" in refused["msg"]
    assert f"{name}-00" in refused["msg"]
    assert "and 2 more" in refused["msg"]
    assert "force: true" in refused["msg"]
    assert refused["lost"]["localdisks.berth.dev"] == [f"{name}-{index:02}" for index in range(12)]
    planned = module(check=True, state="absent", force=True)
    assert planned["changed"]
    assert planned["lost"] == refused["lost"]
    assert world() == before

    done = module(state="absent", force=True)
    assert done["changed"]
    assert done["lost"] == refused["lost"]
    assert [api.find(CRD, crd) for crd in NAMES] == [None] * len(NAMES)
    module()
    assert api.list(LOCAL_DISK) == []


@pytest.mark.usefixtures("crds")
def test_removal_that_a_finalizer_holds(module: Module, api: ApiClient, name: str) -> None:
    spec = {"nodeName": "n1", "identity": {"serial": name, "size": 5}}
    body = {
        "metadata": {"name": name, "finalizers": ["example.dev/hold"]},
        "spec": spec,
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "LocalDisk",
    }
    api.create(LOCAL_DISK, body)
    result = module(state="absent", force=True, wait_timeout=1)
    assert result["failed"]
    assert result["changed"]
    assert "not gone after 1 s: localdisks.berth.dev" in result["msg"]
    again = module()
    assert "is being removed" in again["msg"]
    api.patch(LOCAL_DISK, name, None, {"metadata": {"finalizers": []}})
    assert not module(state="absent", force=True).get("failed")
    assert module()["changed"]


BAD = [
    ([], "there are no definitions"),
    (["text"], r"definitions\[0\] is a str"),
    ([{"kind": "Pod"}], "expected a CustomResourceDefinition"),
    ([{"kind": "CustomResourceDefinition", "metadata": {}}], "lacks metadata.name"),
    (read_definitions()[:1] * 2, "is defined twice"),
]


@pytest.mark.parametrize(("definitions", "message"), BAD, ids=[message for _definitions, message in BAD])
def test_bad_definitions_are_refused_before_any_request(module: Module, definitions: list[Any], message: str) -> None:
    result = module(definitions=definitions)
    assert result["failed"]
    assert (result["requests"], result["changed"]) == ({}, False)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result["msg"])


def test_a_definition_that_the_api_refuses(module: Module, api: ApiClient, widgets: dict[str, Any]) -> None:
    widgets["spec"]["versions"][0]["storage"] = False
    result = module(definitions=[widgets])
    assert (result["failed"], result["changed"], result["status"], result["reason"]) == (True, False, 422, "Invalid")
    assert widgets["metadata"]["name"] in result["msg"]
    assert result["causes"]
    assert api.find(CRD, widgets["metadata"]["name"]) is None


@pytest.mark.usefixtures("no_crds")
def test_as_a_user_runs_it(playbook: Callable[..., Any]) -> None:
    run = playbook([{"berth.stateful.crds": {}}], "--check", "--diff").ok()
    assert run.last["changed"]
    assert "CustomResourceDefinition localdisks.berth.dev (absent)" in run.output
    run = playbook([{"berth.stateful.crds": {}}, {"berth.stateful.crds": {}}]).ok()
    assert [task.result["changed"] for task in run.tasks] == [True, False]


@pytest.mark.usefixtures("no_crds")
def test_in_the_background_as_an_ordinary_module(playbook: Callable[..., Any]) -> None:
    run = playbook([{"berth.stateful.crds": {}, "async": 60, "poll": 1}]).ok()
    assert run.last["changed"]
    assert [crd["name"] for crd in run.last["crds"]] == NAMES, "the definitions travelled with the arguments"
