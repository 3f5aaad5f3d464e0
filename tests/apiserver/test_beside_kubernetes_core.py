"""One play with modules of kubernetes.core and berth: the cluster is named once, and neither undoes the other's work.

The real collection, as the PyPI package ansible brings it to the environment of the benches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.playbook import Run, environment

ROOT = Path(__file__).resolve().parents[2]
SITE = next(iter(ROOT.glob(".venv-bench/lib/python3*/site-packages/ansible_collections/kubernetes/core")), None)
pytestmark = pytest.mark.skipif(SITE is None, reason="kubernetes.core is not there (make venv-bench)")
GROUPS = ("group/berth.stateful.k8s", "group/kubernetes.core.k8s")
KIND = {"api_version": "storage.k8s.io/v1", "kind": "StorageClass"}


@pytest.fixture(params=["module_defaults", "variables"])
def play(
    request: pytest.FixtureRequest, control_plane: Any, playbook: Callable[..., Run], tmp_path: Path
) -> Callable[..., Run]:
    """Where the cluster is, said once: by a mapping for both groups, or by the variables that both know."""
    assert SITE is not None
    ours = environment(tmp_path / "record")["ANSIBLE_COLLECTIONS_PATH"]
    env = {"ANSIBLE_COLLECTIONS_PATH": f"{ours}:{SITE.parents[2]}"}
    where = {"kubeconfig": str(control_plane.kubeconfig)}
    if request.param == "module_defaults":
        return lambda tasks: playbook(tasks, env=env, module_defaults=dict.fromkeys(GROUPS, where))
    return lambda tasks: playbook(tasks, env={**env, "K8S_AUTH_KUBECONFIG": where["kubeconfig"]})


@pytest.fixture
def storage_class(api: Any, name: str) -> Iterator[str]:
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import STORAGE_CLASS

    yield name
    api.delete(STORAGE_CLASS, name)


@pytest.mark.usefixtures("crds")
def test_both_in_one_play(play: Callable[..., Run], storage_class: str) -> None:
    labelled = {"metadata": {"labels": {"team": "storage"}}}
    mine = {"berth.stateful.storage_class": {"name": storage_class}}
    run = play(
        [
            mine,
            {"kubernetes.core.k8s": {**KIND, "name": storage_class, "state": "patched", "definition": labelled}},
            mine,
            {"kubernetes.core.k8s_info": {**KIND, "name": storage_class}},
            {"kubernetes.core.k8s_info": {"api_version": "berth.dev/v1alpha1", "kind": "LocalDisk"}},
            {"berth.stateful.local_disk_info": {}},
        ]
    ).ok()
    made, labels, again, read, theirs, ours = [task.result for task in run.tasks]
    assert [made["changed"], labels["changed"], again["changed"]] == [True, True, False]
    (found,) = read["resources"]
    assert found["metadata"]["labels"]["team"] == "storage"
    assert found["provisioner"] == "local.berth.dev"
    names = [{one["metadata"]["name"] for one in listed} for listed in (theirs["resources"], ours["local_disks"])]
    assert names[0] == names[1]
