"""The example inventory is what a person copies: Ansible reads it, and everything in it is taken as it stands there."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue import storage_class
from ansible_collections.berth.stateful.plugins.module_utils._glue.query import library
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.agent_config import Libraries, check_text
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    MUTATING_ADMISSION_POLICY,
    Resource,
)
from tests.badinput.asking import answer

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "inventory"
SPECS = {
    path.parts[-3]: yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
    for path in ROOT.glob("roles/*/meta/argument_specs.yml")
}
#: Variables of the agent's role -> the key of its configuration.
AGENT = {
    "berth_disks": "disks",
    "berth_disk_selectors": "disk_selectors",
    "node_agent_policies": "policies",
    "node_agent_intervals": "intervals",
    "node_agent_metrics": "metrics",
    "node_agent_usage": "usage",
}


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(EXAMPLE), "--list"]
    told = subprocess.run(command, env=os.environ.copy(), check=True, capture_output=True, text=True)
    assert "WARNING" not in told.stderr
    return dict(json.loads(told.stdout))


@pytest.fixture(scope="module")
def hosts(listed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """host -> its variables."""
    return dict(listed["_meta"]["hostvars"])


def test_three_hosts_and_not_the_machine_of_ansible_itself(listed: dict[str, Any], hosts: dict[str, Any]) -> None:
    assert listed["berth_hosts"]["hosts"] == sorted(hosts) == ["n1", "n2", "n3"]
    assert sorted(path.stem for path in (EXAMPLE / "host_vars").iterdir()) == sorted(hosts)


def test_every_variable_is_one_of_a_role(hosts: dict[str, dict[str, Any]]) -> None:
    known = {name for options in SPECS.values() for name in options}
    given = {name for variables in hosts.values() for name in variables if not name.startswith("ansible_")}
    if "berth" not in SPECS:  # the role that has them all
        given = {name for name in given if name in AGENT or not name.startswith("berth_")}
    assert given <= known, given - known
    commented = {
        line.removeprefix("# ").partition(":")[0]
        for path in EXAMPLE.rglob("*.yml")
        for line in map(str.strip, path.read_text().splitlines())
        if line.startswith(("# node_agent_", "# local_disks_"))
    }
    assert commented <= known, commented - known


def test_disks_and_settings_are_taken_by_the_agent(hosts: dict[str, dict[str, Any]]) -> None:
    for host, variables in hosts.items():
        settings = {"node": host, **{key: variables[name] for name, key in AGENT.items()}}
        checked = check_text(yaml.safe_dump(settings), Libraries(yaml, library))
        assert not checked.problems, (host, checked.problems)
        assert checked.settings is not None
        wrong = {**settings, "disks": [{**settings["disks"][0], "fs_type": "ntfs"}]}
        assert check_text(yaml.safe_dump(wrong), Libraries(yaml, library)).problems, "the check itself"


def test_no_disk_is_declared_twice_and_each_has_a_class_that_is_made(hosts: dict[str, dict[str, Any]]) -> None:
    disks = [disk for variables in hosts.values() for disk in variables["berth_disks"]]
    assert len({disk["serial"] for disk in disks}) == len(disks)
    entries = [*disks, *hosts["n1"]["berth_disk_selectors"]]
    used = {entry["storage_class"] for entry in entries if not entry.get("reserved")}
    assert used == {each["name"] for each in hosts["n1"]["berth_storage_classes"]}


def test_what_is_installed_passes_the_check_of_an_installation(hosts: dict[str, dict[str, Any]]) -> None:
    given = hosts["n1"]
    asked = {
        "parts": [
            "crds",
            "storage_classes",
            "controller",
            f"agents_{given['berth_agents']}",
            given["berth_scheduling"],
            *(["task_backend"] if given["berth_tasks"] else []),
        ],
        "namespace": given["berth_namespace"],
        "image": given["berth_image"],
        "storage_classes": given["berth_storage_classes"],
        "scheduler_name": given["berth_scheduler_name"],
        "assign_pods": given["berth_assign_pods"],
        "nodes_without_host": given["berth_nodes_without_host"],
        "node_names": sorted(hosts),
    }
    result = answer("installation_check", asked, Empty())
    assert [text for text in result["problems"] if "no Node of the cluster" not in text] == []
    assert result["hosts_without_node"] == sorted(hosts)
    assert set(given["berth_storage_classes"][0]) <= set(storage_class.OPERATION.options)


def test_pods_are_not_assigned_by_an_api_server_that_knows_no_policies() -> None:
    asked = {"parts": ["crds", "scheduler"], "image": "berth:0.2.0", "assign_pods": True}
    (problem,) = answer("installation_check", asked, Older())["problems"]
    assert "has no MutatingAdmissionPolicy" in problem
    assert "write schedulerName: berth-scheduler into the pods instead" in problem
    assert answer("installation_check", asked, Empty())["problems"] == []
    assert answer("installation_check", {**asked, "state": "absent"}, Older())["problems"] == []


class Empty:
    """A client of a cluster that has nothing, and whose account may do everything."""

    written = 0
    requests: Mapping[str, int] = MappingProxyType({})

    def list(self, *_args: Any, **_more: Any) -> list[Any]:
        return []

    def find(self, *_args: Any, **_more: Any) -> None:
        return None

    def create(self, *_args: Any, **_more: Any) -> dict[str, Any]:
        return {"status": {"allowed": True}}


class Older(Empty):
    """Of Kubernetes before 1.36."""

    def list(self, kind: Resource, *_args: Any, **_more: Any) -> list[Any]:
        if kind == MUTATING_ADMISSION_POLICY:
            raise NotFoundError("the server could not find the requested resource")
        return []


def test_it_is_in_the_tarball() -> None:
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    paths = [str(path.relative_to(ROOT)) for path in [EXAMPLE, *EXAMPLE.rglob("*")]]
    assert len(paths) > 6
    assert not [path for path in paths for pattern in ignored if fnmatch.fnmatch(path, pattern)]
