"""What an installation refuses before it writes: hosts, versions, another installation, two agents on a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue import installation_check
from berth_core.app import crd_schemas, install_check, service_install
from berth_core.app.install_check import Findings, check
from berth_core.app.install_found import covered, scheduler_names
from berth_core.app.install_rights import PARTS
from berth_core.app.release import other_release, version_of_image
from berth_core.errors import InputError
from berth_core.model import resources as kinds
from tests.core.app import install_world
from tests.core.app.install_world import agent, asked, definitions, node, seen, shipped

ROOT = Path(__file__).parents[3]
NODES = [node("h1"), node("h2"), node("h3")]
MASTER = "node-role.kubernetes.io/control-plane"
EVERYTHING = ("crds", "storage_classes", "controller", "agents_hosts", "scheduler")


def found(*parts: str, of: dict[str, Any] | None = None, **more: Any) -> Findings:
    given = {"nodes": NODES, "definitions": definitions(), **(of or {})}
    return check(asked(*parts, **more), seen(**given), install_world.SHIPPED["crds"])


def problem(*parts: str, of: dict[str, Any] | None = None, **more: Any) -> str:
    """The one problem that there is."""
    (text,) = found(*parts, of=of, **more).problems
    return text


def test_a_fresh_cluster_and_one_that_is_as_it_should_be():
    hosts = ("h1", "h2", "h3")
    assert found(*EVERYTHING, of={"definitions": {}}, node_names=hosts) == Findings()
    there = {
        "deployments": [shipped("controller", "Deployment"), shipped("scheduler", "Deployment")],
        "bindings": [shipped(folder, "ClusterRoleBinding") for folder in ("controller", "scheduler", "agent")],
        "agents": [agent("h1"), agent("h2", alive=False)],
    }
    assert found(*EVERYTHING, of=there, node_names=hosts, image="example.com/berth:0.2.0") == Findings()
    assert found(*EVERYTHING, of=there, node_names=hosts, state="absent") == Findings()


# -- hosts and nodes -----------------------------------------------------------------------------------------------


def test_a_host_that_is_no_node_is_named_with_the_way_out():
    of = {"nodes": [*NODES, node("h4.example.com")]}
    names = ("h1", "h2", "h3", "h4", "h7")
    result = found("agents_hosts", of=of, node_names=names, nodes_without_host="ignore")
    assert result.hosts_without_node == ["h4", "h7"]
    (text,) = result.problems
    for words in ("h4 (is it h4.example.com?), h7;", "berth_node_name", "out of the group"):
        assert words in text
    gone = found("agents_hosts", of=of, node_names=names, state="absent")
    assert (gone.problems, gone.hosts_without_node) == ([], ["h4", "h7"])
    assert "h4 (is it" in gone.warnings[0]


@pytest.mark.parametrize(
    ("handling", "problems", "warnings"), [("warn", 0, 1), ("fail", 1, 0), ("ignore", 0, 0)], ids=str
)
def test_nodes_without_a_host(handling: str, problems: int, warnings: int):
    of = {"nodes": [*NODES, node("cp", MASTER), node("gpu", "example.com/gpu")]}
    result = found("controller", of=of, node_names=("h1", "h2"), nodes_without_host=handling)
    assert result.nodes_without_host == ["gpu", "h3"], "a control plane's node runs no applications"
    assert (len(result.problems), len(result.warnings)) == (problems, warnings)
    for text in [*result.problems, *result.warnings]:
        assert "gpu, h3" in text
    if problems:
        assert "set nodes_without_host to warn" in result.problems[0]
    assert found("controller", of=of, node_names=("h1",), state="absent").nodes_without_host == []


def test_many_nodes_are_a_few_names_and_a_number():
    of = {"nodes": [node(f"n{number:04}") for number in range(5000)]}
    (text,) = found("controller", of=of, node_names=()).warnings
    assert "n0009 and 4990 more" in text
    assert len(text) < 300


def test_hosts_are_not_compared_where_none_are_given():
    assert found("controller") == Findings()


def test_of_what_may_not_be_read_nothing_is_said():
    of = {"nodes": [], "definitions": {}}
    them = seen(**of)._replace(unread=(kinds.NODE, kinds.CRD))
    run = asked("controller", "agents_hosts", node_names=("h1",))
    assert check(run, them, install_world.SHIPPED["crds"]) == Findings()


# -- versions ------------------------------------------------------------------------------------------------------


def test_newer_custom_resources_are_refused_whether_they_are_part_of_the_run_or_not():
    number = crd_schemas.SCHEMAS["localdisks.berth.dev"] + 1
    of = {"definitions": definitions(localdisks=number)}
    assert f"localdisks.berth.dev has schema {number}, of a newer release" in problem("crds", of=of)
    text = problem("controller", of=of)
    assert f"has schema {number}, and this release is made for schema {number - 1}" in text
    assert "collection of the newer release" in text
    assert found("storage_classes", of=of) == Findings()


def test_older_custom_resources_are_upgraded_by_the_run_or_missing_from_it():
    of = {"definitions": definitions(berths=1)}
    assert found("crds", "controller", of=of) == Findings()
    assert "upgrade it with the module crds" in problem("controller", of=of)
    assert found("controller", of=of, state="absent") == Findings()
    texts = found("scheduler", of={"definitions": {}}).problems
    assert len(texts) == len(crd_schemas.SCHEMAS)
    assert all("is missing: add crds to the run" in text for text in texts)


def test_versions_that_are_stored_and_no_longer_known_are_refused():
    live = definitions()
    live["localdisks.berth.dev"]["status"] = {"storedVersions": ["v1alpha1", "v1"]}
    assert "objects may be stored in v1" in problem("crds", of={"definitions": live})


def test_agents_of_another_release():
    of = {"agents": [agent("h1", "0.1.3"), agent("h2"), agent("h9", "0.1.0"), agent("h3", "0.1.0", alive=False)]}
    text = problem("crds", of=of)
    for words in ("of an older release than this collection (0.2.0)", "h1 (0.1.3), h9 (0.1.0);", "add their hosts"):
        assert words in text
    assert "h9 (0.1.0);" in problem("agents_hosts", of=of, node_names=("h1", "h2", "h3"))
    assert found("agents_hosts", of=of) == Findings()
    text = problem("agents_hosts", of={"agents": [agent("h1", "0.3.0")]})
    assert "newer release than this collection (0.2.0): h1 (0.3.0); run the collection of that release" in text
    for version in ("0.2.9", "0.2.0-rc.1", "", "main"):
        assert found("crds", of={"agents": [agent("h1", version)]}) == Findings(), version


def test_a_daemon_set_is_upgraded_by_the_run_on_every_node():
    of = {"agents": [agent("h1", "0.1.3")], "daemon_sets": [shipped("agent", "DaemonSet")]}
    assert found("agents_daemonset", of=of, node_names=("h1", "h2", "h3")) == Findings()


def test_a_controller_that_is_no_part_of_the_run_is_told_from_one_that_fits():
    made = shipped("controller", "Deployment")
    env = made["spec"]["template"]["spec"]["containers"][0]["env"]
    env.append({"name": "BERTH_CONTROLLER_SCHEMAS", "value": crd_schemas.as_text()})
    assert found("crds", of={"deployments": [made]}) == Findings()
    env[-1]["value"] = "localdisks.berth.dev=1"
    text = problem("crds", of={"deployments": [made]})
    for words in (
        "controller berth-system/berth-controller",
        "localdisks.berth.dev=1",
        "add controller to the run",
    ):
        assert words in text
    assert found("crds", "controller", of={"deployments": [made]}) == Findings()


def test_a_tag_of_another_release_is_a_warning():
    (text,) = found("controller", image="example.com:5000/berth:v0.3.1").warnings
    assert "says version 0.3.1 in its tag, and this collection is 0.2.0" in text
    of = {"deployments": [shipped("scheduler", "Deployment", image="berth:0.1.0")]}
    (text,) = found("controller", of=of).warnings
    assert "image berth:0.1.0 of scheduler berth-scheduler, no part of this run," in text
    assert found("scheduler", of=of) == Findings()


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("berth:0.2.0", "0.2.0"),
        ("example.com:5000/berth:v1.2.3-rc.1", "1.2.3-rc.1"),
        ("example.com:5000/berth", ""),
        ("example.com/berth:latest", ""),
        ("example.com/berth:0.2.0@sha256:abc", "0.2.0"),
        ("berth@sha256:abc", ""),
        ("", ""),
    ],
)
def test_the_version_of_an_image(image: str, version: str):
    assert version_of_image(image) == version


@pytest.mark.parametrize(("version", "line"), [("0.2.7", 0), ("0.3.0", 1), ("1.0.0", 1), ("0.1.9", -1), ("x", 0)])
def test_release_lines(version: str, line: int):
    assert other_release(version) == line


# -- another installation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["controller", "scheduler", "extender"])
@pytest.mark.parametrize("kind", ["Deployment", "ClusterRoleBinding"])
def test_a_second_installation_is_refused_by_name(folder: str, kind: str):
    of = {"deployments" if kind == "Deployment" else "bindings": [shipped(folder, kind, "other")]}
    for parts in ([folder], ["crds"]):
        text = problem(*parts, of=of)
        assert "is installed in namespace other, and this run is for namespace berth-system" in text
        assert text.startswith(folder)
        assert "set namespace: other" in text
    assert found(folder, of=of, namespace="other") == Findings()
    assert "installed in namespace other" in problem(folder, of=of, state="absent")
    assert found("crds", of=of, state="absent") == Findings()


def test_one_installation_is_told_once():
    of = {
        "deployments": [shipped("controller", "Deployment", "other")],
        "bindings": [shipped("controller", "ClusterRoleBinding", "other")],
    }
    assert len(found("controller", of=of).problems) == 1


def test_schedulers_of_other_names_may_be_elsewhere():
    made = shipped("scheduler", "Deployment", "other")
    made["metadata"]["name"] = "batch-scheduler"
    assert found("scheduler", of={"deployments": [made]}) == Findings()
    assert "scheduler batch-scheduler" in problem(
        "scheduler", of={"deployments": [made]}, schedulers=("batch-scheduler",)
    )


def test_agents_are_in_one_namespace_only():
    of = {"daemon_sets": [shipped("agent", "DaemonSet", "other")], "nodes": []}
    text = problem("controller", of=of, namespace="other")
    assert "DaemonSet berth-agent is installed in namespace other, and this run is for namespace berth-system" in text
    assert "set namespace" not in text


def test_what_is_not_ours_is_no_installation():
    made = shipped("controller", "Deployment", "other")
    made["metadata"]["labels"] = {}
    assert found("controller", of={"deployments": [made]}) == Findings()


# -- two agents on a node ------------------------------------------------------------------------------------------


def test_agents_on_hosts_beside_a_daemon_set():
    made = shipped("agent", "DaemonSet")
    made["spec"]["template"]["spec"]["nodeSelector"] = {"disks": "yes"}
    nodes = [node("h1"), node("h2", labels={"disks": "yes", "a": "b"}), node("h3", labels={"disks": "no"})]
    assert covered([made], nodes) == {"h2"}
    of = {"daemon_sets": [made], "nodes": nodes}
    hosts = {"node_names": ("h1", "h3"), "nodes_without_host": "ignore"}
    assert found("agents_hosts", of=of, **hosts).problems == []
    for state in ("present", "absent"):
        text = problem("agents_hosts", of=of, node_names=("h1", "h2", "h3"), state=state)
        assert "DaemonSet berth-system/berth-agent runs the agents of h2, and this run has agents" in text
        assert "node_agent_state: absent" in text
    assert problem("agents_hosts", of=of).startswith("DaemonSet")


def test_a_daemon_set_beside_agents_on_hosts():
    made = shipped("agent", "DaemonSet")
    of = {"agents": [agent("h1"), agent("h2", alive=False)]}
    text = problem("agents_daemonset", of=of)
    assert "agents run as services of the hosts h1, and this run has agents in a DaemonSet" in text
    of["daemon_sets"] = [made]
    assert found("agents_daemonset", of=of) == Findings()


def test_agents_that_a_removal_does_not_reach_keep_their_account():
    bound = {"bindings": [shipped("agent", "ClusterRoleBinding")], "agents": [agent("h1"), agent("h3")]}
    text = problem("agents_hosts", of=bound, node_names=("h1", "h2"), state="absent")
    assert "hosts h3, which this run does not reach" in text
    assert "h1, h3" in problem("agents_daemonset", of=bound, state="absent")
    assert found("agents_hosts", of=bound, node_names=("h1", "h2", "h3"), state="absent") == Findings()
    assert found("controller", of=bound, state="absent") == Findings()
    # A Lease outlives its agent for a moment: a second run finds nothing to break.
    assert found("agents_daemonset", of={"agents": [agent("h1")]}, state="absent") == Findings()


# -- in the words of who asks ---------------------------------------------------------------------------------------


def test_refusals_name_the_variables_of_the_role():
    """Each of them as roles/berth/vars has it; without it, the module's own options."""
    said = yaml.safe_load((ROOT / "roles/berth/vars/main.yml").read_text())["berth_option_names"]
    elsewhere = {"deployments": [shipped("controller", "Deployment", "other")]}
    on_hosts = {"agents": [agent("h1")]}
    as_pods = {"daemon_sets": [shipped("agent", "DaemonSet")]}
    old = shipped("controller", "Deployment")
    env = {"name": "BERTH_CONTROLLER_SCHEMAS", "value": "localdisks.berth.dev=1"}
    old["spec"]["template"]["spec"]["containers"][0]["env"].append(env)
    for words, parts, of, more in (
        ("set berth_namespace: other, or", ("controller",), elsewhere, {}),
        ("set berth_nodes_without_host to warn", (), {}, {"node_names": (), "nodes_without_host": "fail"}),
        ("a node has one agent; give berth_agents: hosts, or", ("agents_daemonset",), on_hosts, {}),
        ("a node has one agent; give berth_agents: daemonset, or", ("agents_hosts",), as_pods, {}),
        ("add berth_controller: true to the run", ("crds",), {"deployments": [old]}, {}),
    ):
        assert words in problem(*parts, of=of, said=said, **more)
        assert "berth_" not in problem(*parts, of=of, **more).replace("berth_node_name", "")


def test_the_role_names_options_and_parts_that_there_are():
    said = yaml.safe_load((ROOT / "roles/berth/vars/main.yml").read_text())["berth_option_names"]
    specs = yaml.safe_load((ROOT / "roles/berth/meta/argument_specs.yml").read_text())["argument_specs"]
    assert set(said) <= {*installation_check.OPERATION.options, *PARTS}
    assert {value.partition(":")[0] for value in said.values()} <= set(specs["main"]["options"])


# -- what is told of what is there ---------------------------------------------------------------------------------


def test_rows_of_what_is_installed():
    them = seen(
        definitions=definitions(),
        deployments=[shipped("controller", "Deployment", image="berth:0.2.0")],
        bindings=[shipped(folder, "ClusterRoleBinding") for folder in ("controller", "agent", "scheduler")],
        agents=[agent("h2"), agent("h1"), agent("h3", "0.1.0"), agent("h4", alive=False)],
    )
    rows = [each.row() for each in them.installed]
    count = len(crd_schemas.SCHEMAS)
    assert {row["name"]: row["version"] for row in rows[:count]} == {
        name: f"schema {number}" for name, number in crd_schemas.SCHEMAS.items()
    }
    assert rows[count:] == [
        {
            "part": "controller",
            "name": "berth-controller",
            "namespace": "berth-system",
            "version": "0.2.0",
            "image": "berth:0.2.0",
        },
        {"part": "agents_hosts", "name": "berth-agent", "namespace": "berth-system"},
        {"part": "scheduler", "name": "berth-scheduler", "namespace": "berth-system"},
        {"part": "agents", "name": "berth-agent", "version": "0.1.0", "nodes": ["h3"]},
        {"part": "agents", "name": "berth-agent", "version": "0.2.0", "nodes": ["h1", "h2"]},
    ]


def test_the_names_that_pods_give_a_scheduler():
    made = shipped("scheduler", "Deployment")
    assert scheduler_names([made], "berth-scheduler") == ["berth-scheduler"]
    made["metadata"]["annotations"] = {"berth.dev/scheduler-names": "batch,web"}
    on_hosts = service_install.token_rights("berth-scheduler", "berth-system", ["web", "x"])
    assert scheduler_names([made, on_hosts[0]], "berth-scheduler") == ["batch", "web", "x"]
    made["metadata"]["labels"] = {}
    assert scheduler_names([made], "berth-scheduler") == []


# -- what contradicts itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"parts": ("agents_hosts", "agents_daemonset")}, "contradict each other"),
        ({"node_names": ("h1", "h2", "h1")}, "two hosts stand for Node h1"),
        ({"parts": ("agents",)}, "agents is none; expected crds"),
    ],
)
def test_contradictions(more: dict[str, Any], words: str):
    with pytest.raises(InputError, match=words):
        install_check.check_asked(asked("crds")._replace(**more))
