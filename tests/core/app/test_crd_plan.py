"""What becomes of a definition, given the one that is installed."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_core.app.crd_plan import SCHEMA, established, loss_message, plan_crd, updated
from berth_core.errors import StateError

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object"}},
}
DESIRED: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.x.dev", "labels": {"a": "b"}},
    "spec": {
        "group": "x.dev",
        "scope": "Cluster",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [VERSION],
    },
}


def installed(**changes: Any) -> dict[str, Any]:
    live = copy.deepcopy(DESIRED)
    live["metadata"].update({"uid": "u", "resourceVersion": "7", "managedFields": [{}]})
    live["metadata"]["labels"]["theirs"] = "x"
    live["spec"]["conversion"] = {"strategy": "None"}
    live["spec"]["names"].update({"singular": "thing", "listKind": "ThingList"})
    live["status"] = {"storedVersions": ["v1"], "conditions": []}
    live.update(changes)
    return live


def test_server_defaults_and_others_labels_are_no_difference() -> None:
    change = plan_crd(DESIRED, installed())
    assert (change.action, change.before) == ("none", change.after)


def test_what_we_no_longer_have_goes() -> None:
    live = installed()
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"old": {"type": "string"}}
    change = plan_crd(DESIRED, live)
    assert change.action == "update"
    body = updated(change)
    assert body["spec"] == DESIRED["spec"]
    assert body["metadata"] == {
        "name": "things.x.dev",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"a": "b", "theirs": "x"},
    }


def test_new() -> None:
    change = plan_crd(DESIRED, None)
    assert (change.action, change.before) == ("create", {})


def test_refusals() -> None:
    live = installed(status={"storedVersions": ["v0", "v1"]})
    with pytest.raises(StateError, match="stored in v0"):
        plan_crd(DESIRED, live)
    with pytest.raises(StateError, match="cannot become Cluster"):
        plan_crd(DESIRED, installed(spec={**DESIRED["spec"], "scope": "Namespaced"}))
    going = installed()
    going["metadata"]["deletionTimestamp"] = "now"
    with pytest.raises(StateError, match="is being removed"):
        plan_crd(DESIRED, going)


def test_established() -> None:
    condition = {"type": "Established", "status": "True"}
    assert established(installed(status={"conditions": [condition]}))
    assert not established(installed())
    taken = {"type": "NamesAccepted", "status": "False", "reason": "KindConflict", "message": "Thing is taken"}
    with pytest.raises(StateError, match="Thing is taken"):
        established(installed(status={"conditions": [taken, condition]}))


def test_loss_message() -> None:
    lost = {"a.x": ["1", "2", "3"], "b.x": [], "c.x": ["n/1"]}
    assert loss_message(lost, shown=2) == "3 a.x (1, 2, and 1 more), 1 c.x (n/1)"


def numbered(number: str) -> dict[str, Any]:
    return {**DESIRED, "metadata": {**DESIRED["metadata"], "annotations": {SCHEMA: number}}}


def test_an_older_release_does_not_put_its_schema_in_place_of_a_newer_one() -> None:
    assert plan_crd(numbered("2"), installed()).action == "update"
    live = installed()
    live["metadata"]["annotations"] = {SCHEMA: "10"}
    assert plan_crd(numbered("10"), live).action == "none"
    for older in (numbered("9"), DESIRED):
        with pytest.raises(StateError, match=r"things\.x\.dev has schema 10, of a newer release"):
            plan_crd(older, live)


def test_the_number_of_a_schema_grows_with_it() -> None:
    """When this fails: raise berth.dev/schema of that definition and write its new number and digest here."""
    found = {}
    for path in CRDS.glob("*.yaml"):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))
        digest = hashlib.sha256(json.dumps(crd["spec"], sort_keys=True).encode()).hexdigest()[:12]
        found[crd["metadata"]["name"]] = (crd["metadata"]["annotations"][SCHEMA], digest)
    assert found == {
        "berths.berth.dev": ("6", "64cefdc6db39"),
        "localdevices.berth.dev": ("2", "44580303188a"),
        "localdisks.berth.dev": ("6", "6561dfa49717"),
        "statefulapps.berth.dev": ("10", "876026e0ad9a"),
        "taskbatches.berth.dev": ("3", "48602d18517f"),
        "taskbatchshards.berth.dev": ("1", "d84618875093"),
        "taskoffers.berth.dev": ("1", "0b5c9f3e036d"),
        "taskqueues.berth.dev": ("3", "e122dac66e06"),
        "tasks.berth.dev": ("3", "6dfbe6ffa286"),
    }
