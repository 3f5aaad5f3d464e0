"""Modules inside the controller, as real playbooks run them: where they run, who they are, what they never show."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbook import Run, Vaulted, run_playbook

pytestmark = pytest.mark.usefixtures("crds")
ORDINARY = "AnsiballZ_storage_class"
VAULT = Path(sys.executable).parent / "ansible-vault"
Playbook = Callable[..., Run]


def storage_class(**options: Any) -> dict[str, Any]:
    return {"berth.stateful.storage_class": {"name": "in-process", "state": "absent", **options}}


@pytest.fixture
def kubeconfig(control_plane: Any) -> str:
    return str(control_plane.kubeconfig)


@pytest.fixture
def vaulted(kubeconfig: str, tmp_path: Path) -> tuple[Path, Path]:
    """An encrypted kubeconfig and the file of its password."""
    secret, password = tmp_path / "vaulted.yml", tmp_path / "password"
    password.write_text("open sesame\n")
    secret.write_bytes(Path(kubeconfig).read_bytes())
    subprocess.run([VAULT, "encrypt", "--vault-password-file", password, secret], check=True, capture_output=True)
    return secret, password


def test_inside_the_controller(playbook: Playbook) -> None:
    run = playbook([storage_class()], "-vvv").ok()
    assert ORDINARY not in run.output
    assert run.last["requests"] == {"list": 1}


def test_task_environment_and_no_further(playbook: Playbook, kubeconfig: str, tmp_path: Path) -> None:
    """K8S_AUTH_* of one task reaches that task alone."""
    given = {**storage_class(), "environment": {"K8S_AUTH_KUBECONFIG": "{{ where }}"}, "vars": {"where": kubeconfig}}
    run = playbook([given, storage_class()], env={"HOME": str(tmp_path)})
    assert run.tasks[0].kind == "ok", run.output
    assert (
        f"no usable cluster configuration: the kubeconfig {tmp_path}/.kube/config does not exist" in run.failed()["msg"]
    )


def test_an_option_wins_over_the_environment(playbook: Playbook, kubeconfig: str) -> None:
    playbook([storage_class(kubeconfig=kubeconfig)], env={"K8S_AUTH_KUBECONFIG": "/no/such/file"}).ok()
    run = playbook([storage_class(kubeconfig="/no/such/file")], env={"K8S_AUTH_KUBECONFIG": kubeconfig})
    assert "/no/such/file does not exist" in run.failed()["msg"]


def test_check_mode_and_diff(playbook: Playbook, world: Callable[[], dict[str, str]], name: str) -> None:
    before = world()
    run = playbook([storage_class(name=name, state="present")], "--check", "--diff").ok()
    assert run.last["changed"]
    assert f"StorageClass {name} (absent)" in run.output
    assert '+    "provisioner": "local.berth.dev"' in run.output
    assert world() == before


def test_kubeconfig_as_mapping_keeps_its_secrets(playbook: Playbook, kubeconfig: str, tmp_path: Path) -> None:
    mapping = yaml.safe_load(Path(kubeconfig).read_text())
    secret = mapping["users"][0]["user"]["client-key-data"]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run = playbook([storage_class(kubeconfig=mapping)], "-vvvv", env={"TMPDIR": str(temporary)}).ok()
    assert secret not in run.output
    assert ORDINARY not in run.output
    assert [path for path in temporary.rglob("*") if path.is_file()] == [], "no key is left in a temporary file"


def test_vaulted_kubeconfig(playbook: Playbook, vaulted: tuple[Path, Path], kubeconfig: str, tmp_path: Path) -> None:
    secret = yaml.safe_load(Path(kubeconfig).read_text())["users"][0]["user"]["client-key-data"]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    options = ["--vault-password-file", str(vaulted[1]), "-vvv"]
    run = playbook([storage_class(kubeconfig=str(vaulted[0]))], *options, env={"TMPDIR": str(temporary)}).ok()
    assert ORDINARY not in run.output
    assert secret not in run.output
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
    run = playbook([{**storage_class(kubeconfig=str(vaulted[0])), "async": 60, "poll": 1}], *options, env={}).ok()
    assert ORDINARY in run.output
    assert secret not in run.output


def test_vaulted_without_its_password(playbook: Playbook, vaulted: tuple[Path, Path]) -> None:
    result = playbook([storage_class(kubeconfig=str(vaulted[0]))], env={}).failed()
    assert "vault" in result["msg"]
    assert str(vaulted[0]) in result["msg"]


def test_kubeconfig_found_in_files(kubeconfig: str, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "cluster.yml").write_bytes(Path(kubeconfig).read_bytes())
    run_playbook([storage_class(kubeconfig="cluster.yml")], tmp_path).ok()


def test_a_vaulted_token_is_never_shown(playbook: Playbook, control_plane: Any, tmp_path: Path, name: str) -> None:
    control_plane.kubectl("create", "serviceaccount", name)
    control_plane.kubectl(
        "create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--serviceaccount=default:{name}"
    )
    token = control_plane.kubectl("create", "token", name).strip()
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    command = [VAULT, "encrypt_string", "--vault-password-file", password, token]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    encrypted = Vaulted("\n".join(line.strip() for line in text.splitlines()[1:]) + "\n")
    ca = yaml.safe_load(Path(control_plane.kubeconfig).read_text())["clusters"][0]["cluster"][
        "certificate-authority-data"
    ]
    authority = tmp_path / "ca.pem"
    authority.write_bytes(__import__("base64").b64decode(ca))
    options = {"host": control_plane.api_url, "ca_cert": str(authority), "api_key": encrypted}
    # In a namespace of its own name, whose ServiceAccount no other test installs.
    of_nobody = {**options, "node_name": name, "namespace": name}
    tasks = [storage_class(**options), {"berth.stateful.node_agent_token": of_nobody}]
    run = playbook(tasks, "-vvvv", "--vault-password-file", str(password), env={})
    assert run.tasks[0].kind == "ok", run.output
    assert "is not there" in run.failed()["msg"], "the API server has answered"
    assert token not in run.output
    assert token[:40] not in run.output
    control_plane.kubectl("delete", "clusterrolebinding", name)


def test_another_connection_runs_the_ordinary_module(playbook: Playbook, kubeconfig: str) -> None:
    inventory = f"there ansible_connection=elsewhere ansible_python_interpreter={sys.executable}\n"
    run = playbook([storage_class(kubeconfig=kubeconfig)], "-vvv", env={}, inventory=inventory).ok()
    assert ORDINARY in run.output
    assert run.last["requests"] == {"list": 1}
    run = playbook(
        [{**storage_class(kubeconfig=kubeconfig), "delegate_to": "localhost"}], "-vvv", env={}, inventory=inventory
    ).ok()
    assert ORDINARY not in run.output, "delegated to the controller it is in its process again"


def test_become_runs_the_ordinary_module(playbook: Playbook, kubeconfig: str) -> None:
    """Become asks for another user's rights, which the controller's process does not have."""
    become = {"become": True, "become_method": "su", "become_user": "root"}
    run = playbook([{**storage_class(kubeconfig=kubeconfig), **become}], "-vvv", env={}).ok()
    assert ORDINARY in run.output


def test_without_the_library_the_module_s_own_python_is_used(
    playbook: Playbook, kubeconfig: str, tmp_path: Path
) -> None:
    """Ansible may live in a Python without kubernetes, with ansible_python_interpreter naming one that has it."""
    hidden = tmp_path / "hidden" / "kubernetes"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('not here')\n")
    here = {"PYTHONPATH": str(hidden.parent), "K8S_AUTH_KUBECONFIG": kubeconfig}
    run = playbook([{**storage_class(), "environment": {"PYTHONPATH": ""}}, storage_class()], "-vvv", env=here)
    assert run.tasks[0].kind == "ok", run.output
    assert ORDINARY in run.output
    message = run.failed()["msg"]
    assert f"the Python package kubernetes is missing in {sys.executable} (not here)" in message
    assert "-m pip install 'kubernetes>=" in message


def test_wrong_arguments_are_refused_like_everywhere(playbook: Playbook, world: Callable[[], dict[str, str]]) -> None:
    before = world()
    cases = {
        "missing required arguments: name": {"state": "present"},
        "value of state must be one of": {"name": "x", "state": "there"},
        "Unsupported parameters": {"name": "x", "colour": "red"},
        "'never' is not a valid boolean": {"name": "x", "default": "never"},
        "labels: 'tier' has the value 1 (a number); expected text, put it in quotes": {
            "name": "x",
            "labels": {"tier": 1},
        },
    }
    tasks = [{"berth.stateful.storage_class": options, "ignore_errors": True} for options in cases.values()]
    run = playbook(tasks).ok()
    for message, task in zip(cases, run.tasks, strict=True):
        assert message in task.result["msg"], task
        assert "Traceback" not in run.output
    assert world() == before
