"""The objects of the controller, made of the shipped ones; what is refused; which claims need it; which schemas fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_controller.settings import parse
from berth_core.app import controller_install as install
from berth_core.app import crd_schemas
from berth_core.app.shipped import ASKED, CONFIGURATION, INSTANCE, NAME_LABEL, Owner, is_ours
from berth_core.errors import InputError

DEPLOY = Path(__file__).parents[3] / "deploy"
OURS = {"metadata": {"name": "fast"}, "provisioner": "local.berth.dev"}
OTHERS = {"metadata": {"name": "other"}, "provisioner": "example.com/disks"}


def documents(folder: str) -> list[dict[str, Any]]:
    found = [yaml.safe_load(path.read_text()) for path in sorted((DEPLOY / folder).glob("*.yaml"))]
    return [one for body in found for one in (body["items"] if body["kind"] == "List" else [body])]


def made(**more: Any) -> dict[str, dict[str, Any]]:
    given = {"name": install.SHIPPED, "namespace": "placing", "image": "example.com/berth:1", **more}
    return {body["kind"]: body for body in install.objects(documents("controller"), install.Wanted(**given))}


def pod(**more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = made(**more)["Deployment"]["spec"]["template"]["spec"]
    return spec


def variables(**more: Any) -> dict[str, str]:
    (container,) = pod(**more)["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def test_every_object_is_the_controllers_and_in_its_namespace():
    them = made()
    assert {"CSIDriver", "Deployment", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"} <= set(them)
    owner = Owner("controller", install.SHIPPED, install.SHIPPED, "placing", several=False)
    for kind, body in them.items():
        assert body["metadata"].get("namespace") in (None, "placing"), kind
        assert kind == "Namespace" or is_ours(body, owner), kind
    assert [one["namespace"] for one in them["ClusterRoleBinding"]["subjects"]] == ["placing"]
    assert is_ours(documents("controller")[0], owner)  # applied by hand
    labels = them["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert {NAME_LABEL: install.SHIPPED, INSTANCE: install.SHIPPED}.items() <= labels.items()


def test_what_is_asked_for_is_in_its_pods():
    spec = pod(replicas=3, node_selector={"pool": "system"}, tolerations=[], resources={"limits": {"cpu": "1"}})
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "system"}, [])
    assert [(one["image"], one["resources"]) for one in spec["containers"]] == [
        ("example.com/berth:1", {"limits": {"cpu": "1"}})
    ]
    assert made(replicas=3)["Deployment"]["spec"]["replicas"] == 3


def test_the_daemon_takes_what_it_is_given():
    flags = {"workers": 3, "resync": "60", "orphan-interval": 30.5, "mount-root": "/srv/disks", "log-format": "json"}
    taken = parse([], variables(log_level="debug", flags=flags))
    assert (taken.workers, taken.resync, taken.orphan_interval) == (3, 60.0, 30.5)
    assert (taken.mount_root, taken.log_format, taken.log_level) == ("/srv/disks", "json", "debug")
    assert taken.schemas == crd_schemas.as_text()


def test_another_setting_replaces_the_pods():
    def notes(**more: Any) -> tuple[str, str]:
        body = made(**more)["Deployment"]
        configuration = body["spec"]["template"]["metadata"]["annotations"][CONFIGURATION]
        return configuration, body["metadata"]["annotations"][ASKED]

    assert notes() == notes(flags={})
    assert len({notes()[0], notes(log_level="debug")[0], notes(flags={"workers": 3})[0]}) == 3
    assert notes()[1] != notes(replicas=1)[1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"worker": 1}, ("flags.worker", "workers")),
        ({"namespace": "a"}, ("flags.namespace", "mount-root")),
        ({"workers": 0}, ("flags.workers", "'0'", "whole number, 1 to 64")),
        ({"workers": 1.5}, ("flags.workers", "'1.5'", "whole")),
        ({"workers": True}, ("flags.workers", "'True'")),
        ({"resync": "soon"}, ("flags.resync", "'soon'", "1 to 86400")),
        ({"resync": [1]}, ("flags.resync", "'[1]'")),
        ({"mount-root": "/"}, ("flags: ", "an absolute path")),
        ({"mount-root": 1}, ("flags.mount-root", "'1'", "text")),
        ({"log-format": "xml"}, ("flags.log-format", "'xml'", "logfmt or json")),
        ({"orphan-report-after": 60, "orphan-repair-after": 5}, ("--orphan-repair-after is 5", "(60)")),
    ],
)
def test_flags_that_the_daemon_would_refuse_are_refused_before(flags: dict[str, Any], words: tuple[str, ...]):
    with pytest.raises(InputError) as refused:
        made(flags=flags)
    assert [word for word in words if word not in refused.value.message] == []


def claim(name: str, storage_class: str, volume: str = "", **notes: str) -> dict[str, Any]:
    spec = {"storageClassName": storage_class, **({"volumeName": volume} if volume else {})}
    return {"metadata": {"name": name, "namespace": "a", "annotations": notes}, "spec": spec}


def volume(name: str, by: str, claim: str = "") -> dict[str, Any]:
    spec = {"claimRef": {"namespace": "a", "name": claim}} if claim else {}
    return {"metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": by}}, "spec": spec}


def test_claims_need_it_that_wait_and_those_whose_volumes_exist():
    handed = {"volume.kubernetes.io/storage-provisioner": "local.berth.dev"}
    going = claim("going", "fast")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = [
        *(claim("waits", "fast"), claim("theirs", "other"), going, claim("bound-by-hand", "fast", "static")),
        *(claim("lost-its-class", "gone", **handed), claim("bound", "fast", "v1")),
    ]
    volumes = [
        volume("v1", "local.berth.dev", "bound"),
        volume("v2", "local.berth.dev", "deleted"),
        volume("v3", "local.berth.dev"),
        volume("v4", "example.com/disks", "theirs"),
    ]
    needed = install.needed_by(found, [OURS, OTHERS], volumes)
    assert needed == ["a/bound", "a/deleted", "a/lost-its-class", "a/waits", "v3"]
    assert install.needed_by([claim("theirs", "other")], [OURS, OTHERS], volumes[3:]) == []


def test_the_schemas_are_those_of_the_shipped_definitions():
    definitions = {body["metadata"]["name"]: body for body in documents("crds")}
    assert set(definitions) == set(crd_schemas.SCHEMAS)
    assert {name: crd_schemas.other_schema(name, body) for name, body in definitions.items()} == dict.fromkeys(
        definitions, ""
    )


def test_other_schemas_are_named_with_the_way_out():
    name, number = next(iter(crd_schemas.SCHEMAS.items()))

    def said(schema: int) -> str:
        return crd_schemas.other_schema(name, {"metadata": {"annotations": {"berth.dev/schema": str(schema)}}})

    assert said(number) == ""
    assert f"{name} has schema {number - 1}" in said(number - 1)
    assert "upgrade it with the module crds" in said(number - 1)
    assert "the collection of the newer release" in said(number + 1)
    assert "has schema 0" in crd_schemas.other_schema(name, {"metadata": {}})


def test_a_program_of_another_release_says_which_schemas_it_knows():
    crd_schemas.check_installed_for(crd_schemas.as_text(), "--schemas")
    with pytest.raises(InputError, match=r"--schemas is 'berths.berth.dev=2': this program knows berths.berth.dev="):
        crd_schemas.check_installed_for("berths.berth.dev=2", "--schemas")
