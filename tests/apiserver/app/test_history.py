"""Who changed a berth, and when: noted with the change itself, in the Berth and then with the data of its disk."""

from __future__ import annotations

import json
import subprocess

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import INFO
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.history import ANNOTATION, MOST
from berth_cli.__main__ import main
from tests.apiserver.app.runner import run
from tests.apiserver.app.world import local_disk, params
from tests.support.playbook import run_playbook

NODE = "fake-0"


@pytest.fixture
def world(app_world):
    app_world.add_disk(local_disk(NODE, 0))
    yield app_world
    app_world.clear()


def told(kubeconfig, app="db"):
    result = run({"name": app, "kubeconfig": str(kubeconfig)}, INFO)
    assert not result.get("failed"), result
    return result["history"]


def changes(history):
    return [(row["from"], row["to"]) for row in history]


UP = [("Absent", "Selected"), ("Selected", "Reserved"), ("Reserved", "Bound"), ("Bound", "Created")]


def test_an_apps_life_is_told_with_no_write_more_and_outlives_the_berth(world, kubeconfig):
    options = params("db", kubeconfig, replicas=1, wait=True)
    first = run(options)
    assert not first.get("failed"), first
    assert first["trace"].count("create Berth") == 1
    assert first["trace"].count("patch Berth status") == 4, "Reserved, Bound, Created, Running, and nothing for history"
    assert not [one for one in first["trace"] if "SelfSubjectReview" in one]
    assert changes(told(kubeconfig)) == [*UP, ("Created", "Running")]
    for row in told(kubeconfig):
        by = row["by"]
        assert (row["namespace"], row["app"], row["ordinal"], row["count"]) == ("default", "db", 0, 1)
        assert (by["component"], by["playbook"]) == ("stateful_app", "")
        assert by["user"] not in ("", None)
        assert by["host"] not in ("", None)
    assert told(kubeconfig)[0]["why"] == f"node {NODE} is chosen"

    again = run(options)
    assert (again["changed"], again["trace"], "dry_run" in again["requests"]) == (False, [], False)

    container = {**options["template"]["spec"]["containers"][0], "image": "berth.local/busybox:2"}
    newer = {"spec": {**options["template"]["spec"], "containers": [container]}}
    updated = run({**options, "template": newer})
    assert not updated.get("failed"), updated
    assert updated["trace"].count("replace Berth") == 1
    (last,) = [row for row in told(kubeconfig) if row["to"].startswith("revision ")]
    assert last["from"].startswith("revision ")
    assert last["why"] == "the template has changed"

    before = told(kubeconfig)
    gone = run({**options, "state": "absent"})
    assert not gone.get("failed"), gone
    assert world.berths() == {}
    after = told(kubeconfig)
    assert after[: len(before)] == before, "the disk that keeps the data tells it all"
    assert after[-1]["to"] == "Releasing"
    assert after[-1]["why"].endswith("data: Retain")

    assert not run(options).get("failed")
    assert changes(told(kubeconfig))[: len(after)] == changes(after)
    assert changes(told(kubeconfig))[len(after) :] == [*UP, ("Created", "Running")]


def test_a_history_is_bounded_and_what_the_cluster_says_is_not_trusted(world, kubeconfig):
    options = params("db", kubeconfig, replicas=1)
    assert not run(options).get("failed")
    name, kinds = next(iter(world.berths())), world.kinds
    evil = "\x1b[2J\u202e" + "x" * 1000
    entry = {"time": "2026-01-01T00:00:00Z", "to": evil, "by": {"component": evil, "password": "p"}, "more": [1]}
    body = {"metadata": {"annotations": {ANNOTATION: json.dumps([entry, 7, {"by": []}, *[entry] * 50])}}}
    world.client.patch(kinds.BERTH, name, "default", body)
    rows = told(kubeconfig)
    assert len(rows) <= 2 * MOST
    assert all(row["to"].isprintable() and len(row["to"]) <= 128 for row in rows)
    assert "password" not in json.dumps(rows)
    world.client.patch(kinds.BERTH, name, "default", {"metadata": {"annotations": {ANNOTATION: "[{not json"}}})
    assert changes(told(kubeconfig)) == UP[1:]
    assert not run({**options, "state": "absent"}).get("failed"), "nothing that was written there stops a run"
    kept = world.disks()[f"{NODE}-d0"]["metadata"]["annotations"][ANNOTATION]
    assert len(json.loads(kept)) <= MOST


def test_a_disk_that_keeps_nobodys_data_tells_its_next_holder_nothing(world, kubeconfig):
    name, kinds = f"{NODE}-d0", world.kinds
    entry = {"time": "2026-01-01T00:00:00Z", "to": "Releasing", "by": {"component": "x"}}
    world.client.patch(kinds.LOCAL_DISK, name, None, {"metadata": {"annotations": {ANNOTATION: json.dumps([entry])}}})
    assert not run(params("db", kubeconfig, replicas=1)).get("failed")
    assert changes(told(kubeconfig)) == UP
    assert ANNOTATION not in (world.disks()[name]["metadata"].get("annotations") or {})


def test_playbook_task_user_and_commit_are_told_wherever_berths_are_looked_at(world, kubeconfig, tmp_path, capsys):
    commit = _committed(tmp_path)
    options = params("db", kubeconfig, replicas=1)
    page = tmp_path / "berth.html"
    shown = {"kubeconfig": str(kubeconfig)}
    done = run_playbook(
        [
            {"name": "The <b>database</b>", "berth.stateful.stateful_app": options},
            {"name": "A page", "berth.stateful.report": {**shown, "dest": str(page)}},
            {"name": "Secret", "no_log": True, "berth.stateful.stateful_app": {**options, "state": "absent"}},
            {"berth.stateful.stateful_app_info": {**shown, "name": "db"}},
        ],
        tmp_path,
    ).ok()
    *made, last = done.last["history"]
    assert changes(made) == UP
    for row in made:
        by = row["by"]
        assert (by["playbook"], by["task"], by["commit"]) == ("play.yml", "The <b>database</b>", commit)
        assert by["user"] not in ("", None)
    assert (last["to"], last["by"]["task"], last["by"]["playbook"]) == ("Releasing", "", "play.yml")

    text = page.read_text(encoding="utf-8")
    assert "<summary>default/db-0</summary>" in text
    assert "task The &lt;b&gt;database&lt;/b&gt;" in text
    for name in ("db", "db-0"):
        assert main(["history", name, "--kubeconfig", str(kubeconfig)]) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.split() == ["TIME", "REPLICA", "CHANGE", "BY", "WHY"]
        assert len(lines) == 5
        assert f"at {commit[:12]})" in lines[0]
        assert "Bound -> Created" in lines[3]
    assert main(["history", "other", "--kubeconfig", str(kubeconfig)]) == 2
    assert "no berth of an app or a pod other" in capsys.readouterr().err


def _committed(folder):
    """Make the folder a work tree of git. Returns its commit."""
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), *who, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
