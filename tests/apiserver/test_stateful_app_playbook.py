"""stateful_app as a task: a template from a file, check mode, diff, and errors as a person sees them."""

from __future__ import annotations

import pytest
import yaml

from tests.apiserver.app.world import params

APP = "berth.stateful.stateful_app"


@pytest.fixture
def options(control_plane, crds, name, namespace):
    values = params(name, control_plane.kubeconfig, namespace=namespace, replicas=1)
    return {key: value for key, value in values.items() if key != "kubeconfig"}


def test_a_template_from_a_file_beside_the_playbook(playbook, tmp_path, options, world):
    template = options.pop("template")
    folder = tmp_path / "play" / "files"
    folder.mkdir(parents=True)
    (folder / "app.yml").write_text(yaml.safe_dump({"kind": "StatefulSet", "spec": {"template": template}}))
    before = world()
    run = playbook([{APP: {**options, "src": "app.yml", "disks": [{"name": "data", "size": "1Mi"}]}}], "--check")
    assert "does not fit" in run.failed()["msg"], run.output
    assert world() == before


#: What is in a file of a template that will not do (nothing: there is none), and what is said of it.
WRONG = (
    (None, "cannot be read: No such file or directory"),
    ("a: [", "is not YAML"),
    ("- a\n", "has no mapping"),
    ("a: 1\n---\nb: 2\n", "document 1 has no kind"),
    ("spec: {}\n", "has no containers"),
)


def test_template_files_that_will_not_do_and_two_sources_of_one(playbook, tmp_path, options, world):
    tasks, alone = [], {key: value for key, value in options.items() if key != "template"}
    for number, (text, _message) in enumerate(WRONG):
        path = tmp_path / f"template-{number}.yml"
        if text is not None:
            path.write_text(text)
        tasks.append({APP: {**alone, "src": str(path)}, "ignore_errors": True})
    before = world()
    ran = playbook([*tasks, {APP: {**options, "src": "/dev/null"}}])
    assert "mutually exclusive" in ran.failed()["msg"]
    ignored = [task.result["msg"] for task in ran.tasks if task.kind == "ignored"]
    for told, (_text, message) in zip(ignored, WRONG, strict=True):
        assert message in told
    assert world() == before


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ("fake-0", "whose filesystems agents make, and no agent is alive on node localhost"),
        ("localhost", "leave_nodes names localhost, and the cluster has no Node of that name; nothing was changed"),
    ],
)
def test_the_role_has_replicas_leave_where_agents_make_filesystems(
    playbook, options, control_plane, world, left, message
):
    """The play's one host has no agent. Where it is the one that is left, the module is given the names."""
    given = {f"stateful_app_{name}": value for name, value in options.items()}
    asked = {
        **given,
        "stateful_app_kubeconfig": str(control_plane.kubeconfig),
        "stateful_app_leave_nodes": [left],
        "stateful_app_leave_data": [f"{options['name']}-0"],
    }
    before = world()
    run = playbook([{"ansible.builtin.include_role": {"name": APP}, "vars": asked}])
    assert message in run.failed()["msg"], run.output
    assert world() == before
