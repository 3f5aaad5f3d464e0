"""What ConfigMaps and Secrets hold counts as a part of the template where that is asked for, and by a hash alone."""

from __future__ import annotations

import json

import pytest

from berth_core.app import manifests
from berth_core.app.contents import asked_for, own_content, with_contents
from berth_core.app.plan import OWN
from berth_core.app.pod_change import CONTENTS, pod_change
from berth_core.app.pod_revision import Target, change_of
from berth_core.app.wanted import parse_app
from berth_core.errors import StateError
from tests.core.app.samples import GOOD, changed

BOTH = ("config_maps", "secrets")
PLACES = {
    "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c-env", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s-env", "key": "b", "optional": True}}},
        {"name": "C", "value": "plain"},
    ],
    "envFrom": [{"configMapRef": {"name": "c-from"}}, {"secretRef": {"name": "s-from"}}],
}
VOLUMES = [
    {"name": "c", "configMap": {"name": "c-volume"}},
    {"name": "s", "secret": {"secretName": "s-volume"}},
    {"name": "p", "projected": {"sources": [{"configMap": {"name": "c-part"}}, {"secret": {"name": "s-part"}}]}},
    {"name": "again", "configMap": {"name": "c-env", "optional": True}},
    {"name": "e", "emptyDir": {}},
]


def app(container=None, volumes=(), **values):
    main = {**GOOD["template"]["spec"]["containers"][0], **(container or {})}
    spec = {"containers": [main], "volumes": list(volumes)}
    return parse_app(changed(template={"metadata": {"annotations": {"own": "1"}}, "spec": spec}, **values))


def body(kind="ConfigMap", uid="u", **data):
    return {"kind": kind, "metadata": {"uid": uid, "labels": {"any": uid}}, "data": data}


def counted(wanted, kinds=BOTH, **bodies):
    """``bodies``: by name, with _ for -."""
    read = {one: bodies.get(one.name.replace("-", "_")) for one in asked_for(wanted, kinds)}
    return with_contents(wanted, read)


def told(wanted):
    return json.loads(wanted.template["metadata"]["annotations"].get(CONTENTS, "{}"))


ONE = {"envFrom": [{"configMapRef": {"name": "conf"}}]}
SECRET = {"envFrom": [{"secretRef": {"name": "pass"}}]}


def test_every_place_of_a_template_is_looked_at_and_each_object_is_named_once():
    found = asked_for(app(PLACES, VOLUMES), BOTH)
    assert [(one.resource.kind, one.name, one.optional) for one in found] == [
        *(("ConfigMap", name, False) for name in ("c-env", "c-from", "c-part", "c-volume")),
        *(("Secret", name, name == "s-env") for name in ("s-env", "s-from", "s-part", "s-volume")),
    ]
    assert {one.resource.kind for one in asked_for(app(PLACES, VOLUMES), ["secrets"])} == {"Secret"}
    assert asked_for(app(PLACES, VOLUMES), None) == []


@pytest.mark.parametrize("strange", ["text", 1, None, [1], {"name": 7}, {"name": {}}, [{"configMapRef": 3}]])
def test_what_is_no_reference_is_left_to_the_api_server(strange):
    wanted = app({"env": strange, "envFrom": strange}, [{"name": "v", "configMap": strange, "projected": strange}])
    assert asked_for(wanted, BOTH) == []


def test_another_content_needs_new_pods_and_is_named_and_labels_count_for_nothing():
    wanted = app(ONE)
    old, same, new = (
        counted(wanted, conf=one) for one in (body(a="1"), body(uid="later", a="1"), body(a="secret words"))
    )
    assert pod_change(old.template, same.template).same
    assert pod_change(old.template, new.template).forced == ("ConfigMap conf (its content)",)
    assert pod_change(wanted.template, old.template).forced == ("ConfigMap conf (its content)",), "not known before"
    assert pod_change(old.template, wanted.template).fields == ("metadata.annotations",), "no longer counted"
    assert old.revision != new.revision
    assert "secret words" not in json.dumps(new.template)
    assert new.template["metadata"]["annotations"]["own"] == "1"


def test_only_what_changed_is_named():
    wanted = app({**ONE, "env": PLACES["env"]})
    old = counted(wanted, conf=body(a="1"), c_env=body(b="1"))
    new = counted(wanted, conf=body(a="1"), c_env=body(b="2"), s_env=body("Secret"))
    assert pod_change(old.template, new.template).forced == (
        "ConfigMap c-env (its content)",
        "Secret s-env (its content)",
    ), "one that may be missing has come"


def test_a_secret_cannot_be_guessed_from_its_hash():
    """The same password in two Secrets has two hashes: the uid is known to those alone who may read the Secret."""
    wanted = app(SECRET)
    one, other = (told(counted(wanted, **{"pass": body("Secret", uid=uid, p="MTIzNA==")})) for uid in ("u1", "u2"))
    assert one != other
    assert one == told(counted(wanted, **{"pass": body("Secret", uid="u1", p="MTIzNA==")}))


def test_one_that_is_missing_is_named_with_its_place():
    with pytest.raises(StateError, match="ConfigMap default/conf is not there, and envFrom of container db of the"):
        counted(app(ONE))
    optional = app({"envFrom": [{"configMapRef": {"name": "conf", "optional": True}}]})
    assert told(counted(optional)) == {"ConfigMap conf": None}


def test_without_the_option_the_template_is_what_it_was():
    wanted = app(ONE)
    assert with_contents(wanted, {}) is wanted
    assert with_contents(counted(wanted, conf=body(a="1")), {}).template == wanted.template


def test_the_apps_own_config_map_counts_as_its_manifest_has_it():
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "1"}}
    spec = {"containers": [{**GOOD["template"]["spec"]["containers"][0], **ONE}]}
    workload = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
    workload["spec"] = {"template": {"spec": spec}}
    wanted = parse_app(changed(template={"kind": "List", "items": [own, workload]}))
    (named,) = asked_for(wanted, BOTH)
    assert own_content(wanted, named)["data"] == {"a": "1"}
    assert own_content(app(ONE), named) is None


def test_a_bare_pod_says_which_content_makes_it_anew():
    old = counted(app(ONE, workload="Pod"), conf=body(a="1"))
    new = counted(app(ONE, workload="Pod"), conf=body(a="2"))
    target = Target(new.revision, new.template, {}, OWN, comes_back=False)
    assert change_of(manifests.pod(old, 0, "h1"), target).forced == ("ConfigMap conf (its content)",)


@pytest.mark.parametrize("text", ["no json", "[]", "1"])
def test_an_annotation_that_somebody_has_spoiled_counts_as_none(text):
    new = counted(app(ONE), conf=body(a="1"))
    spoiled = {**new.template, "metadata": {"annotations": {CONTENTS: text}}}
    assert pod_change(spoiled, new.template).forced == ("ConfigMap conf (its content)",)
