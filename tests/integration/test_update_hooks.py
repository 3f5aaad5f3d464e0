"""Hooks of an update on real kubelets: their order, a failure that stops before the pod is touched, the next run."""

from __future__ import annotations

import copy

import pytest

from berth_dev.pytest_plugin import cluster_of_hosts
from tests.integration.test_stateful_app_hosts import APP, app_play, base, last
from tests.integration.test_stateful_app_update import pods
from tests.support.hosts import run_plays

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise, pytest.mark.timeout(900)]

#: A line in the replica's own disk: which hook, and with which text the pod was made.
NOTE = 'echo "$0 $ROUND" >> /data/hooks'
#: The hook that fails as long as the disk has this file.
OR_FAIL = f"{NOTE}; test ! -e /data/broken || {{ printf 'not \\033[31mdrained'; exit 7; }}"


@pytest.fixture
def dev_cluster():
    """Its own: other tests leave disks that keep data."""
    with cluster_of_hosts() as cluster:
        yield cluster


def script(name, text=OR_FAIL):
    return ["sh", "-c", text, name]


def task(kubeconfig, number, asks=None, **hooks):
    """The module alone: the disks are ready once the role has run."""
    options = {key.removeprefix("stateful_app_"): value for key, value in APP.items() if key.startswith("stateful_app")}
    options["template"] = copy.deepcopy(options["template"])
    options["template"]["spec"]["containers"][0]["env"] = [{"name": "ROUND", "value": str(number)}]
    asked = {"before": script("before"), "after": script("after"), **hooks}
    more = {"replicas": 2, "wait": True, "wait_timeout": 60, "kubeconfig": kubeconfig, "update_hooks": asked}
    step = {"name": "The app", "berth.stateful.stateful_app": {**options, **more, **(asks or {})}}
    return {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [step]}


def told(result):
    return [(row["hook"], row["ordinal"], row["skipped"]) for row in result["hooks"]]


def test_hooks_around_each_replica(dev_cluster, tmp_path):
    kubeconfig = str(dev_cluster.kubeconfig)

    def run(number, *args, **hooks):
        return run_plays(dev_cluster, [task(kubeconfig, number, **hooks)], tmp_path, *args)

    def result(number, *args, **hooks):
        return last(run(number, *args, **hooks).ok(), "The app")

    def inside(ordinal, script):
        return dev_cluster.kubectl("exec", f"journal-{ordinal}", "--", "sh", "-c", script)

    def notes(ordinal):
        return inside(ordinal, "cat /data/hooks 2>/dev/null || true").splitlines()

    def uids():
        return pods(dev_cluster, ".metadata.uid")

    order = [(hook, ordinal, None) for ordinal in (1, 0) for hook in ("before", "after")]
    role = app_play(kubeconfig, stateful_app_replicas=2, stateful_app_update_hooks={"after": script("after")})
    first = last(run_plays(dev_cluster, [*base(kubeconfig), role], tmp_path).ok())
    assert "hooks" not in first, "a new app has no update"
    assert told(result(1, "--check")) == order
    assert (notes(0), notes(1)) == ([], [])

    assert told(result(1)) == order
    assert [notes(ordinal) for ordinal in (1, 0)] == [["before ", "after 1"]] * 2

    inside(1, "touch /data/broken")
    before = uids()
    failed = run(2).failed()
    assert "the hook before ('sh') in pod default/journal-1 ended with exit code 7" in failed["msg"]
    assert "the pod was not touched" in failed["msg"]
    assert failed["msg"].endswith("the end of its output: not \\x1b[31mdrained")
    assert failed["hook"]["exit_code"] == 7
    assert uids() == before
    inside(1, "rm /data/broken")

    failed = run(2, after=script("after", f"{NOTE}; exit 3")).failed()
    assert "the hook after ('sh') in pod default/journal-1 ended with exit code 3" in failed["msg"]
    assert [one == two for one, two in zip(uids(), before, strict=True)] == [True, False], "the next one was not begun"
    assert notes(1)[2:] == ["before 1", "before 1", "after 2"], "the next run ran it again"
    assert told(result(2)) == [("after", 1, None), *order[2:]]
    assert notes(1)[5:] == ["after 2"]
    assert notes(0)[2:] == ["before 1", "after 2"]
    assert not result(2)["changed"]

    before = uids()
    late = run(3, before=["sh", "-c", "echo begun; exec sleep 600"], timeout=2).failed()
    assert "did not end within 2 s (update_hooks.timeout), and may still run" in late["msg"]
    assert late["msg"].endswith("the end of its output: begun")
    never = run(3, before=["/no/such/program"]).failed()
    assert "the hook before ('/no/such/program') in pod default/journal-1 could not be run" in never["msg"]
    assert never["hook"]["exit_code"] is None
    assert uids() == before

    primary = {"update_order": "primary_last", "update_primary_command": ["sh", "-c", "test $(hostname) = journal-1"]}
    unknown = run(4, asks={**primary, "update_primary_command": ["/no/such/program"]}).failed()
    assert "update_primary_command ('/no/such/program') in pod default/journal-0 could not be run" in unknown["msg"]
    assert uids() == before
    assert told(result(4, asks=primary)) == [*order[2:], *order[:2]], "the highest ordinal is the primary, and the last"
    assert not result(4, asks=primary)["changed"]
