"""The batches in which a playbook goes over many hosts: its own expressions, evaluated by the real ansible-playbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbook import Run, run_playbook

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
HOSTS = [f"n{number:02}" for number in range(1, 21)]
#: Stands where the role does. It tells the batch, and fails on the hosts that it is told to fail on.
TASK = {
    "ansible.builtin.assert": {"that": "inventory_hostname not in bad", "success_msg": "{{ ansible_play_batch }}"},
}


def over(
    folder: Path, bad: list[str] | None = None, playbook: str = "node_agent", once: bool = False, **variables: Any
) -> Run:
    """``once``: one host of each batch tells of it, which takes half of the time."""
    (play,) = yaml.safe_load((PLAYBOOKS / f"{playbook}.yml").read_text(encoding="utf-8"))
    keywords = {key: play[key] for key in ("hosts", "serial", "max_fail_percentage")}
    inventory = "[berth_hosts]\n" + "".join(f"{host} ansible_connection=local\n" for host in HOSTS)
    given = json.dumps({"bad": bad or [], **variables})
    return run_playbook(
        [{**TASK, "run_once": once}], folder, "-e", given, "--forks", "20", inventory=inventory, **keywords
    )


def sizes(run: Run) -> list[int]:
    return [len(line.split()) for line in dict.fromkeys(str(task.result["msg"]) for task in run.tasks)]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [1, *[2] * 9, 1]),
        ({"berth_serial": 1}, [1] * 20),
        ({"berth_serial": "50%"}, [10, 10]),
        ({"berth_serial": [1, 5, "25%"]}, [1, 5, 5, 5, 4]),
        ({"berth_serial": 1, "node_agent_service_manager": "daemonset"}, [20]),
        ({"playbook": "host_maintenance"}, [1] * 20),
        ({"playbook": "host_maintenance", "berth_serial": 5}, [5] * 4),
    ],
    ids=str,
)
def test_hosts_go_in_batches(variables: dict[str, Any], expected: list[int], tmp_path: Path) -> None:
    assert sizes(over(tmp_path, once=True, **variables).ok()) == expected


@pytest.mark.parametrize(
    ("bad", "variables", "reached"),
    [
        (["n01"], {}, 1),
        (["n03"], {"playbook": "host_maintenance"}, 3),
        (["n03"], {"playbook": "host_maintenance", "berth_serial": 5}, 5),
        (["n05"], {}, 5),
        (["n05"], {"berth_serial": 10, "berth_max_fail_percentage": 10}, 20),
        (["n05", "n06"], {"berth_serial": 10, "berth_max_fail_percentage": 10}, 10),
    ],
    ids=str,
)
def test_a_failure_ends_it_unless_it_is_allowed(
    bad: list[str], variables: dict[str, Any], reached: int, tmp_path: Path
) -> None:
    run = over(tmp_path, bad, **variables)
    assert run.rc != 0, run.output
    assert {task.host for task in run.tasks} == set(HOSTS[:reached]), run.output
    assert {task.host for task in run.tasks if task.kind == "failed"} == set(bad)
