"""The collection of an earlier commit, then this one, on one cluster: nothing that an application has changes.

`git archive` of the commit stands for the tarball of the release before; it is built and installed as Galaxy's are.
This release is the tree, in whose prepared process the playbooks begin: that its tarball is whole is seen by `make
collection`, `molecule-install` and the commands of the pages.
"""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.crds import OPERATION, prepare
from tests.apiserver.app.world import local_disk, params
from tests.support.kube import install_crds
from tests.support.playbook import run_playbook
from tests.support.tarball import OLDER, install_commit

CRDS = {"berth.stateful.crds": None}
#: A disk that the application has not got.
FREE = "fake-2-d0"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """The collections path of the earlier one."""
    return install_commit(tmp_path_factory.mktemp("before"), OLDER["FIRST"])


@pytest.fixture
def before(app_world, kubeconfig, earlier, tmp_path):
    """Runs tasks with the earlier collection, on a cluster that has its custom resources and no others."""
    run = runner(kubeconfig, tmp_path / "before", ANSIBLE_COLLECTIONS_PATH=str(earlier))
    try:
        uninstall_crds(kubeconfig)
        run(CRDS).ok()
        yield run
        app_world.clear()
    finally:
        install_crds(kubeconfig)


@pytest.fixture
def now(kubeconfig, tmp_path):
    return runner(kubeconfig, tmp_path / "now")


def uninstall_crds(kubeconfig):
    defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
    params = prepare({**defaults, "kubeconfig": str(kubeconfig), "state": "absent", "force": True})
    result = execute(OPERATION, Context(params, False, pytest.fail, environ={}))
    assert not result.get("failed"), result


def runner(kubeconfig, folder, **env):
    env = {"K8S_AUTH_KUBECONFIG": str(kubeconfig), **env}
    return lambda *tasks: run_playbook(list(tasks), folder, env=env)


def app(kubeconfig):
    options = params("upgraded", kubeconfig)
    del options["kubeconfig"]
    return {"berth.stateful.stateful_app": options}


@pytest.mark.promise
def test_an_application_outlives_the_upgrade_and_the_way_back(before, now, app_world, control_plane, kubeconfig):
    """One story, because each part needs the earlier custom resources."""
    for node in control_plane.fake_nodes()[:2]:
        app_world.add_disk(local_disk(node, 0))
    assert before(app(kubeconfig)).ok().last["changed"]
    held, berths = app_world.holders(), uids(app_world.berths("upgraded"))
    assert len(held) == len(berths) == 2
    assert not now(app(kubeconfig)).ok().last["changed"], "this collection on the earlier custom resources"

    app_world.add_disk(local_disk("fake-2", 0))
    what_they_lack_is_told(now, app_world)
    a_newer_schema_is_left_alone(now, app_world)
    upgraded, rerun = (task.result for task in now(CRDS, CRDS).ok().tasks)
    actions = sorted(crd["action"] for crd in upgraded["crds"])
    assert actions == [*["create"] * 6, *["update"] * 3], "it had no StatefulApps, nor kinds of tasks"
    assert not rerun["changed"]
    assert now(wipe(app_world)).ok().last["changed"], "what they lacked"
    pods = uids({pod["metadata"]["name"]: pod for pod in app_world.ours(app_world.kinds.POD)})
    for run, changed in ((now, True), (now, False), (before, False)):  # its StatefulApp is made, once
        assert run(app(kubeconfig)).ok().last["changed"] == changed
        assert (app_world.holders(), uids(app_world.berths("upgraded"))) == (held, berths)
    assert uids({pod["metadata"]["name"]: pod for pod in app_world.ours(app_world.kinds.POD)}) == pods


def what_they_lack_is_told(now, world):
    told = now(wipe(world)).failed()["msg"]
    assert f"LocalDisk {FREE}" in told
    assert "run berth.stateful.crds of this release first" in told


def wipe(world):
    identity = world.disks()[FREE]["spec"]["identity"]
    return {"berth.stateful.local_disk": {"name": FREE, "wipe": {"identity": identity}, "wait": False}}


def a_newer_schema_is_left_alone(now, world):
    crd, annotation = world.kinds.CRD, {"annotations": {"berth.dev/schema": "1000"}}
    world.client.patch(crd, "localdisks.berth.dev", None, {"metadata": annotation})
    there = world.client.get(crd, "berths.berth.dev")
    told = now(CRDS).failed()["msg"]
    assert "localdisks.berth.dev has schema 1000, of a newer release" in told
    assert world.client.get(crd, "berths.berth.dev") == there, "the others are as they were, too"
    annotation = {"annotations": {"berth.dev/schema": None}}
    world.client.patch(crd, "localdisks.berth.dev", None, {"metadata": annotation})


def uids(objects):
    return {name: item["metadata"]["uid"] for name, item in objects.items()}
