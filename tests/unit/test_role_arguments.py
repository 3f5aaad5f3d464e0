"""Every role refuses what its argument_specs do not allow, names each option, and has done nothing by then."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbook import Run, run_playbook

ROLES = Path(__file__).parents[2] / "roles"
SPECS = {path.parts[-3]: yaml.safe_load(path.read_text())["argument_specs"] for path in ROLES.glob("*/meta/*specs.yml")}
#: What is no value of the type; every text can be read as one.
WRONG = {"int": "many", "bool": "perhaps", "dict": "nothing", "list": {"a": "mapping"}, "float": "much"}


def wrong(options: dict[str, Any]) -> dict[str, Any]:
    """For each option that can be given a wrong value, such a value."""
    made = {name: "no such choice" for name, option in options.items() if "choices" in option}
    return {name: WRONG[option["type"]] for name, option in options.items() if option.get("type") in WRONG} | made


def options_of(role: str) -> dict[str, Any]:
    return SPECS[role]["main"]["options"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Every role with its wrong values, one after the other."""
    tasks = [
        {
            "block": [
                {
                    "name": f"include {role}",
                    "ansible.builtin.include_role": {"name": f"berth.stateful.{role}"},
                    "vars": wrong(options_of(role)),
                }
            ],
            "rescue": [{"ansible.builtin.meta": "noop"}],
        }
        for role in sorted(SPECS)
    ]
    return run_playbook(tasks, tmp_path_factory.mktemp("roles")).ok()


@pytest.mark.parametrize("role", sorted(SPECS))
def test_wrong_values_are_refused_by_name_and_at_once(role: str, run: Run) -> None:
    options = options_of(role)
    given, required = wrong(options), {name for name, option in options.items() if option.get("required")}
    assert given
    begin = [task.name for task in run.tasks].index(f"include {role}")
    own = list(itertools.takewhile(lambda task: not task.name.startswith("include "), run.tasks[begin + 1 :]))
    assert [task.kind for task in own] == ["failed"], "the refusal, and nothing of the role"
    errors = "\n".join(own[0].result["argument_errors"])
    assert not [name for name in given if name not in errors], errors
    assert not [name for name in required - given.keys() if name not in errors], errors


def test_every_role_says_what_it_takes() -> None:
    assert SPECS.keys() == {path.name for path in ROLES.iterdir()}


def test_the_role_host_maintenance_gives_the_module_each_of_its_options() -> None:
    options = options_of("host_maintenance")
    first = yaml.safe_load((ROLES / "host_maintenance" / "tasks" / "node.yml").read_text())[0]
    given = first["berth.stateful.host_maintenance"]
    own = {"host_maintenance_tasks", "host_maintenance_needed", "host_maintenance_until"}
    assert {f"host_maintenance_{name}" for name in given if name != "state"} == options.keys() - own
    assert not [name for name, value in given.items() if f"host_maintenance_{name}" not in value and name != "state"]


def test_the_role_stateful_app_gives_the_module_each_of_its_options() -> None:
    """In its last task; until is of the first one alone, state and wait are the role's own way."""
    options = options_of("stateful_app")
    last = yaml.safe_load((ROLES / "stateful_app" / "tasks" / "main.yml").read_text())[-1]
    given = last["berth.stateful.stateful_app"]
    told = {name: value for name, value in given.items() if name != "wait"}
    assert {f"stateful_app_{name}" for name in told} == options.keys() - {"stateful_app_fence_tasks"}
    assert not [name for name, value in told.items() if f"stateful_app_{name}" not in value]
