"""A controller, or an execution environment, without the Python packages of requirements.txt: said plainly, by all.

.venv-lint is one: it has Ansible, and no kubernetes, numpy or jmespath.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.playbook import environment, run_playbook

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv-lint" / "bin"
OURS = "berth.stateful."
TASKS = {
    "crds": None,
    "local_disk_info": None,
    "resource_list_info": None,
    "report": {"dest": "/report.html"},
    "scheduler": {"image": "registry.example.com/berth:1"},
    "stateful_app_info": {"name": "db"},
    "storage_class": {"name": "local"},
}


@pytest.fixture(scope="module")
def said() -> str:
    """What names package and interpreter. The environment is what it is taken for."""
    lacks = (
        "import importlib.util as u, json; print(json.dumps([n for n in ('kubernetes', 'numpy') if u.find_spec(n)]))"
    )
    assert json.loads(subprocess.check_output([BIN / "python", "-c", lacks])) == [], "make venv-lint"
    return f"the Python package kubernetes is missing in {BIN / 'python'}"


def test_every_module_names_package_interpreter_and_remedy(said: str, tmp_path: Path) -> None:
    tasks = [{OURS + name: options, "ignore_errors": True} for name, options in TASKS.items()]
    kubeconfig = {"K8S_AUTH_KUBECONFIG": "/nowhere"}
    run = run_playbook(tasks, tmp_path, python=str(BIN / "python"), env=kubeconfig)
    assert "Traceback" not in run.output
    assert [task.kind for task in run.tasks] == ["ignored"] * len(TASKS), run.output
    for task in run.tasks:
        assert said in task.result["msg"]
        assert "pip install" in task.result["msg"]


def test_lookup_and_inventory_do_so_too(said: str, tmp_path: Path) -> None:
    ask = {"ansible.builtin.debug": {"msg": "{{ query('berth.stateful.berths', kubeconfig='/nowhere') }}"}}
    assert said in run_playbook([ask], tmp_path, python=str(BIN / "python")).failed()["msg"]
    file = tmp_path / "a.berth.yml"
    file.write_text(yaml.safe_dump({"plugin": "berth.stateful.cluster", "kubeconfig": "/nowhere"}))
    env = {**environment(tmp_path / "record"), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", "COLUMNS": "1000"}
    command = [BIN / "ansible-inventory", "-i", file, "--list"]
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=300)
    assert done.returncode != 0
    told = " ".join((done.stdout + done.stderr).split())
    assert said in told, told
    assert "Traceback" not in told


def test_filters_that_need_no_library_work(tmp_path: Path) -> None:
    run = run_playbook(
        [{"ansible.builtin.debug": {"msg": "{{ '1Gi' | berth.stateful.quantity }}"}}],
        tmp_path,
        python=str(BIN / "python"),
        env={"HOME": os.environ["HOME"]},
    )
    assert run.ok().last["msg"] == 1 << 30
