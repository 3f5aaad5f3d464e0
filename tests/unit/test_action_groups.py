"""`module_defaults: {group/berth.stateful.k8s: ...}` reaches exactly the modules that take the options of a connection.

A module that the group forgets talks silently to another cluster than the rest of the play.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# One of the options that doc_fragments/auth.py gives; validate-modules holds documentation and argument specs equal.
AUTH_OPTION = "impersonate_user"


def names(folder: str) -> set[str]:
    return {path.stem for path in (ROOT / "plugins" / folder).glob("*.py") if path.stem != "__init__"}


def modules_that_take_auth() -> set[str]:
    modules = sorted(f"berth.stateful.{name}" for name in names("modules"))
    command = [str(Path(sys.executable).parent / "ansible-doc"), "--json", "--type", "module", *modules]
    answer = subprocess.run(command, env=os.environ.copy(), check=True, stdout=subprocess.PIPE, text=True)
    described = json.loads(answer.stdout)
    assert sorted(described) == modules
    return {name.rsplit(".", 1)[1] for name, text in described.items() if AUTH_OPTION in text["doc"]["options"]}


def group() -> list[str]:
    return yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["action_groups"]["k8s"]


def test_group_is_the_modules_that_take_auth() -> None:
    assert sorted(group()) == sorted(modules_that_take_auth())


def test_each_has_an_action_plugin_and_each_action_plugin_a_module() -> None:
    assert set(group()) <= names("action")
    assert names("action") <= names("modules")
