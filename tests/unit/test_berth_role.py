"""The role berth: in which order it calls for its parts, where a fault stops it, and what it refuses by itself.

Its own tasks, run by the real ansible-playbook in a collection where the other roles and the modules only tell that
they were called. What the parts do is held by their own tests; all of them together by molecule's scenario install.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbook import Run, Task, run_playbook

ROOT = Path(__file__).parents[2]
HOSTS = ["n1", "n2", "n3"]
#: For what is the same on each host.
ONE = ("--limit", "n1")
ROLES = ("node_agent", "controller", "scheduler", "task_backend")
MODULES = ("installation_check", "crds", "storage_class", "node_agent", "local_disk", "local_disk_info")
#: Instead of each module, in Ansible's own process: what it was asked, and what the role reads of its answer.
MODULE = """
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        lost = {"localdisks.berth.dev": ["n1-a"], "localdevices.berth.dev": [], "berths.berth.dev": []}
        return {"changed": False, "asked": dict(self._task.args), "lost": lost, "result": [{"name": "n1-a"}]}
"""
CALLED = {"ansible.builtin.assert": {"that": "inventory_hostname not in (bad | default([]))", "quiet": True}}

ASSIGNS = [
    {
        "name": "role assigns {{ scheduler_assign_pods }} {{ scheduler_assign_storage_classes | join }}",
        "when": "scheduler_assign_pods | default(false)",
        **CALLED,
    }
]


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("collections")
    ours = folder / "ansible_collections" / "berth" / "stateful"
    shutil.copytree(ROOT / "roles" / "berth", ours / "roles" / "berth")
    for role in ROLES:
        (ours / "roles" / role / "tasks").mkdir(parents=True)
        task = {"name": f"role {role} {{{{ {role}_state }}}} {{{{ {role}_mode | default('') }}}}", **CALLED}
        tasks = [task, *(ASSIGNS if role == "scheduler" else [])]
        (ours / "roles" / role / "tasks" / "main.yml").write_text(yaml.safe_dump(tasks))
    (ours / "plugins" / "action").mkdir(parents=True)
    for module in MODULES:
        (ours / "plugins" / "action" / f"{module}.py").write_text(MODULE)
    # As the environment of all of them, so that they begin in a prepared process (tests/support/prepared_ansible.py).
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ANSIBLE_COLLECTIONS_PATH", str(folder))
        yield folder


def play(
    collections: Path, folder: Path, *args: str, more: dict[str, Any] | None = None, away: str = "", **variables: Any
) -> Run:
    """``away``: a line of the inventory of a host that is not there."""
    task = {"name": "berth", "ansible.builtin.include_role": {"name": "berth.stateful.berth"}}
    inventory = "[berth_hosts]\n" + "".join(f"{host} ansible_connection=local\n" for host in HOSTS)
    inventory += f"n2 berth_node_name=two\n{away}\n"
    inventory += f"[all:vars]\nansible_python_interpreter={sys.executable}\n"
    given = ("-e", json.dumps({"berth_image": "registry.example.com/berth:1", "node_agent_become": False, **variables}))
    return run_playbook([task], folder, *given, *args, inventory=inventory, hosts="berth_hosts", **more or {})


def calls(run: Run) -> list[str]:
    """The parts in their order: roles with the hosts that they were called on, modules with the state that they got."""
    said = []
    for name, group in itertools.groupby(run.tasks, lambda task: task.name.rpartition(" : ")[2]):
        tasks = [task for task in group if task.kind == "ok"]
        if name.startswith("role ") and tasks:
            said.append(" ".join([*name.split()[1:], *sorted(task.host for task in tasks)]))
        said += [f"{name}: {each.get('state')}" for task in tasks for each in asked(task)]
    return said


def asked(task: Task) -> list[dict[str, Any]]:
    """What a module was asked by a task, for each item of a loop."""
    return [each["asked"] for each in task.result.get("results", [task.result]) if "asked" in each]


def first_asked(run: Run) -> dict[str, Any]:
    return next(each for task in run.tasks for each in asked(task))


def test_parts_come_one_after_the_other_and_one_hosts_agent_before_all_others(
    collections: Path, tmp_path: Path
) -> None:
    run = play(collections, tmp_path).ok()
    assert calls(run) == [
        "The cluster, the images, the nodes, and what is there already: present",
        "The custom resources, their policies and roles: None",
        "Storage classes of the disks: present",
        "controller present n1 n2 n3",
        "node_agent present n1",
        "node_agent present n2 n3",
        "scheduler present daemon n1 n2 n3",
    ]
    checked = first_asked(run)
    assert sorted(checked["node_names"]) == ["n1", "n3", "two"]
    assert checked["parts"] == ["crds", "storage_classes", "controller", "agents_hosts", "scheduler"]
    assert checked["storage_classes"] == [{"name": "berth-local"}]


@pytest.mark.parametrize(("bad", "reached"), [("n1", ["n1"]), ("n3", ["n1", "n2", "n3"])])
def test_a_fault_of_the_first_agent_reaches_no_other_host(
    collections: Path, tmp_path: Path, bad: str, reached: list[str]
) -> None:
    run = play(collections, tmp_path, bad=[bad], berth_controller=False)
    assert run.rc != 0, run.output
    touched = [task.host for task in run.tasks if "role node_agent" in task.name]
    assert sorted(touched) == reached
    assert not [task for task in run.tasks if "role scheduler" in task.name], "what comes after the agents"


def test_how_many_of_the_others_may_fail_the_play_says(collections: Path, tmp_path: Path) -> None:
    half = {"max_fail_percentage": "{{ berth_max_fail_percentage }}"}
    run = play(collections, tmp_path, bad=["n3"], more=half, berth_max_fail_percentage=50, berth_controller=False)
    assert run.rc != 0, run.output
    assert "scheduler present daemon n1 n2" in calls(run), "the run goes on without that host"
    run = play(collections, tmp_path, bad=["n1"], more=half, berth_max_fail_percentage=50, berth_controller=False)
    assert not [each for each in calls(run) if each.startswith(("scheduler", "node_agent"))], "not with a bad first one"


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_host_that_does_not_answer_is_found_before_anything_is_written(
    collections: Path, tmp_path: Path, state: str
) -> None:
    away = ("-e", json.dumps({"ansible_ssh_port": 1}))
    run = play(collections, tmp_path, *away, away="n2 ansible_connection=ssh ansible_host=127.0.0.1", berth_state=state)
    assert run.rc != 0, run.output
    assert calls(run) == []


@pytest.mark.parametrize(
    ("variables", "lack"),
    [
        ({}, "controller, scheduler:"),
        (
            {"berth_agents": "daemonset", "berth_tasks": True, "berth_scheduler_image": "s:1"},
            "controller, agents, task_b",
        ),
        ({"berth_controller": False, "berth_scheduling": "extender"}, "scheduler:"),
    ],
)
def test_images_are_named_before_anything_is_written(
    collections: Path, tmp_path: Path, variables: dict[str, Any], lack: str
) -> None:
    run = play(collections, tmp_path, *ONE, berth_image="", **variables)
    assert f"no image for {lack}" in run.failed()["msg"]
    assert calls(run) == []


def test_parts_that_run_on_hosts_need_no_image(collections: Path, tmp_path: Path) -> None:
    play(collections, tmp_path, *ONE, berth_image="", berth_controller=False, berth_scheduling="stock").ok()


@pytest.mark.parametrize(
    ("variables", "parts", "called"),
    [
        ({"berth_agents": "none", "berth_scheduling": "stock"}, ["crds", "storage_classes", "controller"], []),
        (
            {
                "berth_agents": "daemonset",
                "berth_scheduling": "extender",
                "berth_storage_classes": [],
                "berth_tasks": True,
            },
            ["crds", "controller", "agents_daemonset", "extender", "task_backend"],
            ["node_agent present n1 n2 n3", "scheduler present extender n1 n2 n3", "task_backend present n1 n2 n3"],
        ),
    ],
)
def test_parts_are_chosen(
    collections: Path, tmp_path: Path, variables: dict[str, Any], parts: list[str], called: list[str]
) -> None:
    run = play(collections, tmp_path, **variables).ok()
    assert first_asked(run)["parts"] == parts
    assert [each for each in calls(run) if each.startswith(("node_agent", "scheduler", "task_"))] == called


def test_they_go_in_the_opposite_order(collections: Path, tmp_path: Path) -> None:
    run = play(collections, tmp_path, berth_state="absent", berth_scheduler_name="mine").ok()
    objects = ["What objects there are: absent", "Look at the LocalDisks: None"]
    objects += ["LocalDisks; what is on the disks stays there: absent"]
    assert calls(run) == [
        "The cluster, the images, the nodes, and what is there already: absent",
        *objects,
        "task_backend absent n1 n2 n3",
        "scheduler absent daemon n1 n2 n3",
        "scheduler absent extender n1 n2 n3",
        "controller absent n1 n2 n3",
        "node_agent absent n1 n2 n3",
        "Their account, rights and policy, and those that the cluster runs: absent",
        *objects,
        "Storage classes of the disks: absent",
        "The custom resources, their policies and roles: absent",
    ]
    assert run.last["asked"]["force"] is False, "where no LocalDevices are left"


@pytest.mark.parametrize(
    ("args", "more", "kept"),
    [(("--limit", "n1,n3"), {}, "n2 would keep"), ((), {"serial": 2}, "n3 would keep")],
    ids=["limit", "serial"],
)
def test_a_removal_that_would_leave_hosts_out(
    collections: Path, tmp_path: Path, args: tuple[str, ...], more: dict[str, Any], kept: str
) -> None:
    run = play(collections, tmp_path, *args, more=more, berth_state="absent")
    assert kept in run.failed()["msg"]
    assert calls(run) == []


GIVEN = {"berth_assign_pods": True, "berth_assign_storage_classes": ["fast"]}


def test_an_installation_may_leave_hosts_out_and_gives_pods_the_scheduler(collections: Path, tmp_path: Path) -> None:
    run = play(collections, tmp_path, "--limit", "n3", **GIVEN).ok()
    assert "node_agent present n3" in calls(run)
    assert sorted(first_asked(run)["node_names"]) == ["n1", "n3", "two"], "their nodes have hosts all the same"
    assert "assigns True fast n3" in calls(run)
    assert first_asked(run)["assign_pods"] is True


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({**GIVEN, "berth_scheduling": "extender"}, "got berth_scheduling: extender and berth_wait: True"),
        ({**GIVEN, "berth_wait": False}, "got berth_scheduling: scheduler and berth_wait: False"),
        ({"berth_assign_storage_classes": ["fast"]}, "needs berth_assign_pods: true"),
        ({"scheduler_assign_pods": True}, "berth_assign_pods (False)"),
    ],
)
def test_pods_are_given_a_scheduler_that_leads_and_by_one_variable(
    collections: Path, tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    run = play(collections, tmp_path, *ONE, **wrong)
    assert words in run.failed()["msg"]
    assert calls(run) == []


def test_two_ways_of_running_agents(collections: Path, tmp_path: Path) -> None:
    run = play(collections, tmp_path, *ONE, node_agent_service_manager="daemonset")
    assert "berth_agents: daemonset" in run.failed()["msg"]
    assert calls(run) == []
