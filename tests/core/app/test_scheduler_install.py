"""The objects of a scheduler, made of the shipped ones; what is refused; what is missing until it leads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_core.app import scheduler_install as install
from berth_core.app import shipped as shipped_objects
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import InputError, StateError

FOLDER = Path(__file__).parents[3] / "deploy" / "scheduler"
API = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def shipped() -> list[dict[str, Any]]:
    return [one for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load(path.read_text())["items"]]


def wanted(**more: Any) -> install.Wanted:
    return install.Wanted(**{"name": "packing", "namespace": "placing", "image": "example.com/s:1", **more})


def made(**more: Any) -> dict[str, dict[str, Any]]:
    return {body["kind"]: body for body in install.objects(shipped(), wanted(**more))}


def texts(value: Any, key: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [found for name, one in value.items() for found in texts(one, name)]
    if isinstance(value, list):
        return [found for one in value for found in texts(one, key)]
    return [(key, value)] if isinstance(value, str) else []


def test_nothing_keeps_the_shipped_name_but_the_label_that_says_what_it_is():
    for body in install.objects(shipped(), wanted()):
        kept = [key for key, text in texts(body) if "berth-scheduler" in text or text == "berth-system"]
        assert set(kept) <= {shipped_objects.NAME_LABEL}, (body["kind"], kept)


def test_the_parts_find_each_other():
    them = made()
    pods = them["Deployment"]["spec"]["template"]
    for selector in (
        them["Deployment"]["spec"]["selector"]["matchLabels"],
        them["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= pods["metadata"]["labels"].items()
    assert pods["spec"]["serviceAccountName"] == them["ServiceAccount"]["metadata"]["name"] == "packing"
    assert pods["spec"]["volumes"][0]["configMap"]["name"] == them["ConfigMap"]["metadata"]["name"]
    for binding, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        assert them[binding]["roleRef"]["name"] == them[role]["metadata"]["name"]
        (subject,) = them[binding]["subjects"]
        assert (subject["name"], subject["namespace"]) == ("packing", "placing")
    assert [rule["resourceNames"] for rule in them["Role"]["rules"] if "resourceNames" in rule] == [["packing"]]
    assert pods["spec"]["containers"][0]["image"] == "example.com/s:1"


def test_the_shipped_configuration_is_the_one_of_the_module():
    """Whoever applies the folder by hand has the scheduler that the module makes."""
    (by_hand,) = (one["data"][install.FILE] for one in shipped() if one["kind"] == "ConfigMap")
    document, names = install.configuration(wanted(name=install.SHIPPED, namespace=shipped_objects.SHIPPED_NAMESPACE))
    ours = SchedulerConfiguration.parse(document)
    theirs = SchedulerConfiguration.parse(yaml.safe_load(by_hand))
    assert names == [one.scheduler_name for one in theirs.profiles]
    assert ours.profiles == theirs.profiles
    assert ours.leader_election.resource_name == theirs.leader_election.resource_name


def test_the_page_is_served_where_a_port_is_asked_for():
    def ports(**more):
        (container,) = made(**more)["Deployment"]["spec"]["template"]["spec"]["containers"]
        return [one["value"] for one in container["env"] if one["name"] == "BERTH_SCHEDULER_PAGE_PORT"]

    assert (ports(), ports(page_port=9812)) == ([], ["9812"])
    with pytest.raises(InputError, match="page_port is 70000"):
        made(page_port=70000)


def test_options_are_filled_in_and_what_is_not_asked_for_is_shipped():
    plain = made()["Deployment"]["spec"]["template"]["spec"]
    assert plain["priorityClassName"] == "system-cluster-critical"
    assert "nodeSelector" not in plain
    full = made(
        replicas=3,
        priority_class="high",
        resources={"requests": {"cpu": "1"}},
        node_selector={"pool": "system"},
        tolerations=[],
    )["Deployment"]["spec"]
    assert full["replicas"] == 3
    pod = full["template"]["spec"]
    assert (pod["priorityClassName"], pod["nodeSelector"], pod["tolerations"]) == ("high", {"pool": "system"}, [])
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


def test_another_configuration_replaces_the_pods_and_what_is_dropped_is_a_difference():
    def notes(**more: Any) -> tuple[str, str]:
        body = made(**more)["Deployment"]
        pods = body["spec"]["template"]["metadata"]["annotations"][shipped_objects.CONFIGURATION]
        return pods, body["metadata"]["annotations"][shipped_objects.ASKED]

    assert notes() == notes()
    other = notes(config={"profiles": [{"percentageOfNodesToScore": 50}]})
    assert other[0] != notes()[0]
    selected = notes(node_selector={"pool": "system"})
    assert selected[0] == notes()[0]
    assert selected[1] != notes()[1]


def test_the_names_of_its_profiles_and_its_lease_are_filled_in():
    config = {"profiles": [{"schedulerName": "packing"}, {"schedulerName": "spreading"}]}
    them = made(config=config)
    document = json.loads(them["ConfigMap"]["data"][install.FILE])
    assert document["leaderElection"] == {"resourceName": "packing", "resourceNamespace": "placing"}
    assert install.profiles_of(them["Deployment"], "packing") == ["packing", "spreading"]
    assert install.profiles_of(None, "packing") == ["packing"]
    alone = install.configuration(wanted(config={**API, "profiles": [{"pluginConfig": []}]}))
    assert alone[1] == ["packing"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"profile": []}, "config.profile: unknown field"),
        ({"profiles": {}}, "config.profiles must be a list of objects"),
        ({"apiVersion": "v1"}, "config.kind: expected KubeSchedulerConfiguration of kubescheduler"),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}]},
            "config.profiles[0].plugins.score.enabled[0].name: ",
        ),
        (
            {
                "profiles": [
                    {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "X"}}}]}
                ]
            },
            "config.profiles[0].pluginConfig[0].args.scoringStrategy.type: ",
        ),
        (
            {"profiles": [{"schedulerName": "other"}]},
            "config.profiles: expected one with schedulerName packing, got other",
        ),
        (
            {"profiles": [{"schedulerName": "packing"}, {"schedulerName": "default-scheduler"}]},
            "config.profiles: default-scheduler is the stock scheduler's name",
        ),
        ({"leaderElection": {"leaderElect": False}}, "config.leaderElection.leaderElect: expected true"),
        ({"leaderElection": {"resourceName": "x"}}, "config.leaderElection: expected the Lease placing/packing"),
        ({"leaderElection": []}, "config.leaderElection must be an object"),
        ({"clientConnection": {"kubeconfig": "/x"}}, "config.clientConnection.kubeconfig: expected none"),
        ({"extenders": [{"urlPrefix": "x:1"}]}, "config.extenders[0].urlPrefix: expected http(s)://HOST"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_path(config: dict[str, Any], message: str):
    with pytest.raises(InputError) as caught:
        made(config=config)
    assert caught.value.message.startswith(message), caught.value.message


@pytest.mark.parametrize("name", ["", "Packing", "-x", "x" * 47, "a.b", "kube-scheduler", "default-scheduler"])
def test_names_that_no_object_may_have_or_the_stock_scheduler_has(name: str):
    with pytest.raises(InputError, match="name is"):
        made(name=name)


def test_no_replicas_is_no_scheduler():
    with pytest.raises(InputError, match="replicas is 0: expected 1 or more"):
        made(replicas=0)


def test_plugins_from_outside_are_named_and_the_others_are_still_checked():
    enabled = {"multiPoint": {"enabled": [{"name": "QuietHours"}]}}
    config = {"profiles": [{"plugins": enabled, "pluginConfig": [{"name": "QuietHours", "args": {"from": 22}}]}]}
    with pytest.raises(InputError, match="unknown plugin 'QuietHours'"):
        made(config=config)
    assert made(config=config, outside_plugins=["QuietHours"])
    config["profiles"][0]["pluginConfig"].append({"name": "NodeName", "args": {"x": 1}})
    with pytest.raises(InputError, match=r"config.profiles\[0\].pluginConfig\[1\].args.x"):
        made(config=config, outside_plugins=["QuietHours"])
    with pytest.raises(InputError, match=r"^outside_plugins: NodeName is a plugin of the collection"):
        made(outside_plugins=["NodeName"])


def live(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {shipped_objects.PART_OF: "berth", **labels}}}


def test_what_is_not_that_scheduler_s_is_left_alone():
    mine = {shipped_objects.INSTANCE: "packing"}

    def owner(name: str) -> shipped_objects.Owner:
        return shipped_objects.Owner("scheduler", install.SHIPPED, name, "placing")

    assert shipped_objects.is_ours(live("packing", **mine), owner("packing"))
    assert shipped_objects.is_ours(live(install.SHIPPED), owner(install.SHIPPED))  # applied by hand
    assert not shipped_objects.is_ours(live("berth-agent"), owner("berth-agent"))
    assert not shipped_objects.is_ours({"metadata": {"name": "admin"}}, owner("admin"))
    with pytest.raises(StateError, match="ClusterRole admin is there and is no part of scheduler admin"):
        shipped_objects.check_live({"metadata": {"name": "admin"}}, owner("admin"), "ClusterRole admin")
    here, elsewhere = ({**live("packing", **mine), "subjects": [{"namespace": one}]} for one in ("placing", "other"))
    shipped_objects.check_live(here, owner("packing"), "ClusterRoleBinding packing")
    with pytest.raises(StateError, match="scheduler packing is installed in namespace other"):
        shipped_objects.check_live(elsewhere, owner("packing"), "ClusterRoleBinding packing")


def test_pods_that_wait_are_those_without_a_node_that_name_it():
    def pod(name: str, scheduler: str, **spec: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "a"}, "spec": {"schedulerName": scheduler, **spec}}

    going = pod("e", "packing")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [pod("b", "packing"), pod("a", "second"), pod("c", "default-scheduler"), pod("d", "packing", nodeName="n")]
    assert install.waiting_pods([*pods, going], ["packing", "second"]) == ["a/a", "a/b"]


def deployment(**status: int) -> dict[str, Any]:
    status = {"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 2, **status}
    return {"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status}


def running(name: str, ready: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    waiting = {} if ready else {"waiting": {"reason": "ImagePullBackOff"}}
    status = {"conditions": conditions, "containerStatuses": [{"state": waiting}]}
    return {"metadata": {"name": name}, "spec": {"nodeName": "n1"}, "status": status}


@pytest.mark.parametrize(
    ("status", "holder", "pods", "missing"),
    [
        ({}, "p1_0a", [running("p1"), running("p2")], ""),
        ({}, "", [running("p1"), running("p2")], "its pods are Ready and none leads: its Lease is held by nobody"),
        ({}, "old_0a", [running("p1")], "its pods are Ready and none leads: its Lease is held by old"),
        ({"observedGeneration": 1}, "p1_0a", [running("p1")], "of 2 pods 0 are new and 0 are available"),
        ({"replicas": 3}, "p1_0a", [running("p1")], "of 2 pods 2 are new and 2 are available"),
        (
            {"availableReplicas": 1},
            "p1_0a",
            [running("p1"), running("p2", ready=False)],
            "of 2 pods 2 are new and 1 are available; not Ready: p2 on node n1 (ImagePullBackOff)",
        ),
    ],
)
def test_what_is_missing_until_it_leads(status: dict[str, int], holder: str, pods: Any, missing: str):
    lease = {"spec": {"holderIdentity": holder}}
    assert shipped_objects.not_leading(deployment(**status), lease, pods) == missing


def test_without_a_lease_nobody_leads():
    assert shipped_objects.leader(None) == ""
    assert "held by nobody" in shipped_objects.not_leading(deployment(), None, [running("p1")])
