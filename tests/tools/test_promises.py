"""What concerns data and exclusion is a promise: a failure of it is never tried again (docs/decisions/0020).

Files and tests are named here, so that none loses the mark unnoticed. A new test of a file that is named whole has it
by the file's own pytestmark.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Every test of these files.
FILES = (
    "tests/apiserver/app/test_stateful_app_devices.py",
    "tests/apiserver/app/test_stateful_app_faults.py",
    "tests/apiserver/app/test_stateful_app_handover.py",
    "tests/daemons/agent/test_deaths.py",
    "tests/daemons/agent/test_disks_faults.py",
    "tests/daemons/agent/test_disks_life.py",
    "tests/daemons/chaos/test_chaos.py",
    "tests/daemons/controller/test_app_on_hosts.py",
    "tests/daemons/controller/test_claim_disk_replaced.py",
    "tests/daemons/controller/test_faults.py",
    "tests/daemons/scheduler/test_deaths.py",
    "tests/daemons/scheduler/test_disks.py",
    "tests/daemons/scheduler/test_faults_leaders.py",
    "tests/daemons/scheduler/test_faults_servers.py",
    "tests/daemons/scheduler/test_pieces.py",
    "tests/integration/test_disk_replace.py",
    "tests/integration/test_stateful_app_hosts.py",
)
TESTS = (
    "tests/daemons/controller/test_with_agent.py::test_the_broken_disk_of_a_statefulsets_claim_is_replaced_by_one_task",
    "tests/apiserver/app/test_admission.py::test_what_the_api_server_refuses_is_told_before_anything_is_written",
    "tests/apiserver/app/test_admission.py::test_what_a_namespace_refuses_is_told_before_anything_is_written",
    "tests/apiserver/app/test_admission.py::test_a_quota_without_room_for_all_replicas_is_told_before_anything_is_written",
    "tests/apiserver/app/test_admission.py::test_what_is_left_when_the_workload_is_refused_after_all",
    "tests/daemons/agent/test_devices_hosts.py::test_two_pods_on_two_devices_and_nothing_is_left",
    "tests/daemons/agent/test_devices_hosts.py::test_one_device_in_shares_for_two_pods",
    "tests/daemons/kube/test_lease.py::test_a_leader_that_sleeps_writes_nothing_when_it_wakes",
    "tests/daemons/kube/test_lease.py::test_two_that_want_it_one_that_has_it",
    "tests/daemons/kube/test_lease.py::test_a_leader_that_is_killed",
    "tests/daemons/kube/test_lease.py::test_a_leader_that_is_cut_off",
    "tests/daemons/kube/test_lease.py::test_a_lease_that_somebody_takes_by_force",
    "tests/integration/test_local_disks.py::test_nothing_is_ever_formatted_by_mistake",
    "tests/integration/test_local_disks.py::test_held_disks_become_filesystems_that_outlive_power_cuts",
    "tests/integration/test_local_disks.py::test_a_mkfs_that_was_killed_half_way_is_done_once_more",
)


def _marked(nodes: list[ast.expr]) -> bool:
    return any("mark.promise" in ast.unparse(node) for node in nodes)


def _module(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_a_promise_as_a_whole(path: str) -> None:
    marks = [
        node.value
        for node in _module(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    assert _marked(marks), f"{path}: pytestmark has no pytest.mark.promise"


@pytest.mark.parametrize("test", TESTS)
def test_a_test_that_is_a_promise(test: str) -> None:
    path, name = test.split("::")
    functions = [
        node
        for node in _module(path).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]
    assert functions, f"{test} is not there; name what took its place"
    assert _marked(functions[0].decorator_list), f"{test} has no pytest.mark.promise"
