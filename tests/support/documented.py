"""Options that a task or a role is given, held against the documentation of the module or the role.

Ansible's syntax check stops at names of modules and roles; what they are given it reads when they run.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
OURS = "berth.stateful."
#: What a role's entry and a task may say beside the role's variables and the module.
_OF_ROLE = {"role", "vars", "when", "tags", "become"}
_INCLUDES = tuple(f"ansible.builtin.{verb}_role" for verb in ("include", "import"))


@functools.cache
def modules() -> Mapping[str, Any]:
    """Module -> its options, as ansible-doc knows them, those of the fragments too."""
    names = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if path.stem != "__init__")
    command = [str(Path(sys.executable).parent / "ansible-doc"), "--json", *(OURS + name for name in names)]
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(Path(sys.prefix) / "collections"), **os.environ}
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return {name: found["doc"]["options"] for name, found in json.loads(answer.stdout).items()}


@functools.cache
def role_options(role: str) -> Mapping[str, Any]:
    specs = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    return dict(specs["argument_specs"]["main"]["options"])


def unknown_options(plays: list[dict[str, Any]]) -> Iterator[str]:
    """What the plays give berth's modules and roles that these do not document, as a path and what is wrong."""
    for play in plays:
        variables = play.get("vars", {})
        roles = [{"role": role} if isinstance(role, str) else role for role in play.get("roles", ())]
        if roles:  # a play's variables are for any role that it may come to
            every = {name: said for path in ROOT.glob("roles/*") for name, said in role_options(path.name).items()}
            yield from _wrong(every, variables, "vars", whole=False)
        for role in roles:
            own = {key: value for key, value in role.items() if key not in _OF_ROLE}
            yield from _of_role(role["role"], {**role.get("vars", {}), **own}, given_before=variables)
        for task in play.get("tasks", ()):
            yield from _of_task(task, variables)


def _of_task(task: Mapping[str, Any], variables: Mapping[str, Any]) -> Iterator[str]:
    for name, value in task.items():
        if name.startswith(OURS):
            yield from _wrong(modules()[name], value or {}, name)
        elif name in _INCLUDES:
            yield from _of_role(value["name"], task.get("vars", {}), given_before=variables)


def _of_role(role: str, given: Mapping[str, Any], given_before: Mapping[str, Any]) -> Iterator[str]:
    if role.startswith(OURS):
        options = role_options(role.removeprefix(OURS))
        before = {name: value for name, value in given_before.items() if name in options}
        yield from _wrong(options, {**before, **given}, role)


def _wrong(options: Mapping[str, Any], given: Any, path: str, whole: bool = True) -> Iterator[str]:
    if not isinstance(given, Mapping):
        return  # a template, which only a run can read
    names = {name for option, said in options.items() for name in (option, *said.get("aliases", ()))}
    yield from (f"{path}.{name} is not documented" for name in given if name not in names)
    required = [name for name, said in options.items() if whole and said.get("required")]
    yield from (f"{path} lacks {name}" for name in required if name not in given)
    for name, value in given.items():
        said = options.get(name, {})
        if said.get("choices") and isinstance(value, str) and "{{" not in value and value not in said["choices"]:
            yield f"{path}.{name} is {value}, none of {said['choices']}"
        below = said.get("options") or said.get("suboptions")
        for each in (value if isinstance(value, list) else [value]) if below else ():
            yield from _wrong(below, each, f"{path}.{name}")
