"""node_agent, node_agent_info and node_agent_token on a real API server, before there is any agent."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import node_agent, node_agent_info, node_agent_token
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.daemonset_options import unsaid
from tests.apiserver.test_agent_rbac import client_with, disk
from tests.apiserver.test_local_disk import Run, runner
from tests.core.app.disk_samples import held
from tests.dev.hosts_help import eventually
from tests.support.kube import forget

pytestmark = pytest.mark.usefixtures("crds")
World = Callable[[], dict[str, str]]


@pytest.fixture
def agent(control_plane: Any) -> Run:
    run = runner(node_agent.OPERATION, control_plane.kubeconfig)
    return lambda check=False, **options: run(check, **node_agent.prepare({"manifests": None, **options}))


@pytest.fixture
def info(control_plane: Any) -> Run:
    return runner(node_agent_info.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def token(control_plane: Any) -> Run:
    return runner(node_agent_token.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def node(api: ApiClient, name: str) -> Iterator[str]:
    api.create(kinds.NODE, {"metadata": {"name": name}})
    yield name
    forget(api, kinds.LOCAL_DISK, f"{name}-d0")
    api.delete(kinds.LEASE, f"berth-agent-{name}", "berth-system")
    api.delete(kinds.NODE, name)


def lease(node: str, **annotations: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    notes = {f"berth.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"holderIdentity": node, "leaseDurationSeconds": 60, "renewTime": now}
    return {
        "metadata": {"name": f"berth-agent-{node}", "namespace": "berth-system", "annotations": notes},
        "spec": spec,
    }


READY = '[{"type":"Ready","status":"True","reason":"Published"}]'


def test_what_agents_need_is_installed_once(agent: Run, world: World) -> None:
    agent(state="absent", force=True)
    before = world()
    planned = agent(check=True)
    assert planned["changed"]
    assert world() == before
    made = agent()
    assert made["changed"], made
    assert [each["after_header"] for each in made["diff"]] == [each["after_header"] for each in planned["diff"]]
    after = world()
    again = agent()
    assert (again["changed"], again["diff"]) == (False, [])
    assert world() == after


def test_the_agents_as_a_daemonset(agent: Run, api: ApiClient) -> None:
    asked = {
        **unsaid(),
        "image": "registry.example.com/berth:1",
        "configurations": {"n1": "node: n1\n"},
        "node_selector": {"disks": "local"},
    }
    assert agent(daemonset=asked)["changed"]
    pod = api.get(kinds.DAEMON_SET, "berth-agent", "berth-system")["spec"]["template"]["spec"]
    assert [each["image"] for each in pod["containers"]] == [asked["image"]]
    assert pod["nodeSelector"] == {"disks": "local"}
    files = api.get(kinds.CONFIG_MAP, "berth-agent", "berth-system")["data"]
    assert files == {"n1.yaml": "node: n1\n", "default.yaml": "{}\n"}
    assert not agent(daemonset=asked)["changed"]
    assert not agent()["changed"]  # what is not asked for is left alone
    changed = agent(daemonset={**asked, "image": "registry.example.com/berth:2"})
    assert [each["after_header"] for each in changed["diff"]] == ["DaemonSet berth-system/berth-agent"]
    assert agent(state="absent")["changed"]
    for kind in (kinds.DAEMON_SET, kinds.CONFIG_MAP, kinds.SERVICE_ACCOUNT):
        assert api.find(kind, "berth-agent", "berth-system") is None


def test_what_agents_or_the_api_server_would_refuse_writes_nothing(
    agent: Run, world: World, api: ApiClient, node: str
) -> None:
    asked = {**unsaid(), "image": "registry.example.com/berth:1", "node_selector": {"of": "nobody"}}

    def versions() -> dict[str, str]:
        """Of everything that the module may write; of the DaemonSet, whose status others write, its generation."""
        found = {key: seen for key, seen in world().items() if not key.startswith("daemonsets/")}
        for kind, field in (
            *((kinds.CONFIG_MAP, "resourceVersion"), (kinds.SERVICE_ACCOUNT, "resourceVersion")),
            (kinds.DAEMON_SET, "generation"),
        ):
            live = api.find(kind, "berth-agent", "berth-system")
            found[kind.kind] = str(live["metadata"][field]) if live else ""
        return found

    for installed in (False, True):
        agent(state="absent", force=True)
        if installed:
            assert agent(daemonset=asked)["changed"]
        before = versions()
        assert bool(before["ConfigMap"]) == installed
        for broken, words in (
            ({"default_configuration": "disks: ["}, "daemonset.default_configuration: line 1: is not YAML"),
            ({"configurations": {node: "intervals: {scan: 1}\n"}}, f"of node {node}: line 1: intervals.scan is 1"),
            ({"tolerations": [{"operator": "Exists", "value": "x"}]}, "berth-agent (spec.template.spec.tolerations[0]"),
        ):
            for check in (True, False):
                refused = agent(check, daemonset={**asked, "image": "registry.example.com/berth:2", **broken})
                assert words in refused.get("msg", ""), refused
                assert "nothing was written" in refused["msg"]
                assert not refused["changed"]
                assert versions() == before
    agent(state="absent", force=True)


def test_a_roll_out_that_does_not_come_up_is_told_and_taken_back(agent: Run, api: ApiClient, node: str) -> None:
    api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"disks": node}}})
    first = {**unsaid(), "image": "registry.example.com/berth:1", "node_selector": {"disks": node}}
    first["configurations"] = {node: "policies: {wipe: false}\n"}
    agent(state="absent", force=True)
    assert agent(daemonset=first)["previous"] is None

    def there() -> tuple[Any, Any]:
        pod = api.get(kinds.DAEMON_SET, "berth-agent", "berth-system")["spec"]["template"]
        return pod, api.get(kinds.CONFIG_MAP, "berth-agent", "berth-system")["data"]

    def pods() -> list[dict[str, Any]]:
        return api.list(kinds.POD, "berth-system", labels="app.kubernetes.io/name=berth-agent")

    before = there()
    eventually(pods, 60, "the agent's pod is made")
    failed = agent(
        daemonset={
            **first,
            "image": "registry.example.com/berth:2",
            "configurations": None,
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "wait": True,
            "wait_timeout": 1,
        }
    )
    (pod,) = (each["metadata"]["name"] for each in eventually(pods, 60, "the new one"))
    assert "of 1 agents" in failed["msg"], failed
    assert "berth-agent-" in failed["msg"]
    assert "see kubectl -n berth-system logs" in failed["msg"]
    assert "with what was there (previous)" in failed["msg"]
    assert there() != before
    assert agent(daemonset={**unsaid(), **failed["previous"]})["changed"]
    assert there() == before
    agent(state="absent", force=True)
    api.delete(kinds.POD, pod, "berth-system")


def test_an_agent_is_not_taken_away_from_held_disks(agent: Run, api: ApiClient, node: str, world: World) -> None:
    agent()
    api.create(kinds.LOCAL_DISK, disk(node))
    api.patch(kinds.LOCAL_DISK, f"{node}-d0", None, {"spec": {"claimRef": held()}})
    api.create(kinds.LEASE, lease(node))
    before = world()
    for asked in ({"node_name": node}, {}):
        refused = agent(state="absent", **asked)
        assert f"{node}-d0 (by default/db-0)" in refused["msg"]
        assert world() == before
    api.patch(kinds.LOCAL_DISK, f"{node}-d0", None, {"spec": {"claimRef": None}})
    assert f"agents of {node} live" in agent(state="absent")["msg"]
    assert world() == before | {f"localdisks//{node}-d0": world()[f"localdisks//{node}-d0"]}
    assert agent(check=True, state="absent", node_name=node)["changed"]
    assert api.find(kinds.LEASE, f"berth-agent-{node}", "berth-system")
    assert agent(state="absent", node_name=node)["changed"]
    assert not agent(state="absent", node_name=node)["changed"]
    assert agent(state="absent")["changed"]
    assert not agent(state="absent")["changed"]


def test_who_lives_and_with_which_configuration(agent: Run, info: Run, api: ApiClient, node: str) -> None:
    agent()
    silent = info(node_names=[node])
    assert silent["agents"][0]["alive"] is False
    assert "it has no Lease" in silent["unready"][0]
    late = info(node_names=[node], wait=True, wait_timeout=1)
    assert "not Ready after 1 s" in late["msg"]
    api.create(kinds.LEASE, lease(node, configuration="0123456789ab", conditions=READY, agent_version="0.2.0"))
    found = info(node_names=[node], configuration="0123456789ab", wait=True)
    assert found["agents"][0]["ready"] is True, found
    other = info(node_names=[node], configuration="ffff")
    assert "has configuration 0123456789ab, not ffff" in other["unready"][0]
    assert "has version 0.2.0, not 9" in info(node_names=[node], version="9")["unready"][0]
    refused = '[{"type":"Ready","status":"False","reason":"NotLooked","message":"no look yet"}]'
    api.patch(
        kinds.LEASE,
        f"berth-agent-{node}",
        "berth-system",
        {"metadata": {"annotations": {"berth.dev/conditions": refused}}},
    )
    assert "is not Ready: NotLooked no look yet" in info(node_names=[node])["unready"][0]
    api.patch(
        kinds.LEASE, f"berth-agent-{node}", "berth-system", {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}
    )
    assert "does not live" in info(node_names=[node])["unready"][0]


def test_a_token_is_asked_for_once_and_is_that_nodes(
    agent: Run, token: Run, api: ApiClient, control_plane: Any, node: str
) -> None:
    agent()
    planned = token(check=True, node_name=node)
    assert (planned["changed"], planned["token"]) == (True, "")
    made = token(node_name=node)
    assert made["changed"], made
    assert made["server"] == control_plane.api_url
    assert "BEGIN CERTIFICATE" in base64.b64decode(made["ca_data"]).decode()
    again = token(node_name=node, current=made["token"] + "\n")
    assert (again["changed"], again["token"]) == (False, "")
    mine = client_with(control_plane, made["token"])
    assert eventually(lambda: mine.create(kinds.LOCAL_DISK, disk(node)), what="the agent's rights are in force")
    for useless in ("", "no token", made["token"].split(".")[0], "a.e30.b"):
        assert token(node_name=node, current=useless)["changed"]
    assert token(node_name=node, current=made["token"], life=600)["changed"] is False
    api.delete(kinds.NODE, node)
    assert f"Node {node} is not in the cluster" in token(node_name=node, current=made["token"])["msg"]
    api.create(kinds.NODE, {"metadata": {"name": node}})
    assert token(node_name=node, current=made["token"])["changed"]  # another node by the same name
