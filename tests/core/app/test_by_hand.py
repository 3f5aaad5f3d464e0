"""What others have changed in a StatefulSet: told by the API server's record of who has set what, and what stays."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app import by_hand, manifests
from berth_core.app.by_hand import KEYS, aligned, changed, differing, told, told_back
from berth_core.app.observed import Observed
from berth_core.app.plan import Plan, hand_made, make_plan, needs_former, stateful_set_change
from berth_core.app.report import diff
from berth_core.app.revisions import applied_last
from berth_core.app.wanted import parse_app
from tests.core.app.samples import changed as options

AT = "2026-01-02T03:04:05Z"
ATOMIC = ("nodeSelector", "selector")
DEFAULTS = {"protocol": "TCP"}


# -- a StatefulSet as the API server keeps it


def fields_of(value, name=""):
    """The fieldsV1 of whoever applies the value."""
    if isinstance(value, dict) and value and name not in ATOMIC:
        return {f"f:{key}": fields_of(one, key) for key, one in value.items()}
    if isinstance(value, list) and name in KEYS:
        return {key_of(one, name): {".": {}, **fields_of(one)} for one in value}
    return {}


def key_of(element, name):
    named = {key: element.get(key, DEFAULTS.get(key)) for key in KEYS[name]}
    return f"k:{json.dumps(dict(sorted(named.items())), separators=(',', ':'))}"


def entry(manager, fields, at=AT, operation="Update", **values):
    return {"manager": manager, "operation": operation, "time": at, "fieldsV1": fields, **values}


def app(image="db:1", edit=None, **values):
    wanted = options(**values)
    wanted["template"]["spec"]["containers"][0]["image"] = image
    (edit or (lambda spec: None))(wanted["template"]["spec"])
    return parse_app(wanted)


def applied(wanted):
    """Its StatefulSet, as berth has applied it."""
    live = json.loads(json.dumps(manifests.stateful_set(wanted)))
    own = {"metadata": live["metadata"], "spec": live["spec"]}
    live["metadata"]["managedFields"] = [
        entry("berth", fields_of(own), "2026-01-01T00:00:00Z", "Apply"),
        entry("kube-controller-manager", {"f:status": {}}, "2026-02-02T00:00:00Z", subresource="status"),
    ]
    return live


def set_by(live, path, value, manager="kubectl-set", at=AT):
    """A hand sets the field (None: takes it out): nobody else owns it any more."""
    whole, steps = live, list(path)
    fields: list = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if step == len(whole):
                whole.append(value)
            fields.append(key_of(whole[step], steps[number - 1]))
        else:
            fields.append(f"f:{step}")
        if number < len(steps) - 1:
            whole = whole[step]
    for one in live["metadata"]["managedFields"]:
        take(one["fieldsV1"], fields)
    if value is None:
        del whole[steps[-1]]
        return live
    whole[steps[-1]] = value
    own: dict = fields_of(value, steps[-1]) if not isinstance(value, dict) or steps[-1] not in ATOMIC else {}
    for step in reversed(fields):
        own = {step: own}
    live["metadata"]["managedFields"].append(entry(manager, own, at))
    return live


def take(fields, steps):
    """The field is not its own any more."""
    for step in steps[:-1]:
        if step not in fields:
            return
        fields = fields[step]
    fields.pop(steps[-1], None)


CONTAINER = ("spec", "template", "spec", "containers", 0)
IMAGE = (*CONTAINER, "image")
FIELD = "spec.template.spec.containers[db].image"


def rows(wanted, live):
    seen = Observed("db", "default", stateful_set=live)
    return hand_made(wanted, seen, make_plan(wanted, seen))


# -- taken back


@pytest.mark.parametrize("asked", ["db:1", "db:2"])
def test_an_image_that_a_hand_has_set_is_told_whatever_is_asked_for(asked):
    live = set_by(applied(app()), IMAGE, "db:9")
    found = rows(app(asked), live)
    assert told_back(found) == f"{FIELD} was set to db:9 by kubectl-set at {AT} (becomes {asked})"
    assert told_back(found, when=False) == f"{FIELD} was set to db:9 by kubectl-set (becomes {asked})"


def test_nothing_is_told_where_the_hand_has_set_what_is_asked_for():
    assert rows(app("db:9"), set_by(applied(app()), IMAGE, "db:9")) == []


def test_what_is_asked_for_anew_is_nobodys_change():
    assert rows(app("db:2"), applied(app())) == []
    assert rows(app("db:2", edit=lambda spec: spec.update(nodeSelector={"a": "b"})), applied(app())) == []
    assert rows(app(replicas=5), applied(app())) == []


def test_the_size_follows_the_app_whoever_has_set_it():
    live = set_by(applied(app()), ("spec", "replicas"), 7, "kubectl-scale")
    assert stateful_set_change(app(), Observed("db", "default", stateful_set=live)) is not None
    assert rows(app(), live) == rows(app("db:2"), live) == []


def test_what_two_have_set_to_the_same_is_nobodys_change():
    live = applied(app())
    live["metadata"]["managedFields"].append(entry("argocd", fields_of({"spec": live["spec"]}), operation="Apply"))
    assert rows(app("db:2"), live) == []
    set_by(live, IMAGE, "db:9")
    assert [one.field for one in rows(app("db:2"), live)] == [FIELD]


def test_of_several_the_last_writer_is_named():
    live = set_by(applied(app()), IMAGE, "db:9")
    later = copy.deepcopy(live["metadata"]["managedFields"][-1]) | {"manager": "argocd", "time": "2026-03-03T00:00:00Z"}
    live["metadata"]["managedFields"].append(later)
    assert "by argocd at 2026-03-03" in told_back(rows(app(), live))


def test_what_was_taken_out_is_told_while_the_same_is_asked_for():
    wanted = app(edit=lambda spec: spec.update(nodeSelector={"a": "b"}))
    live = set_by(applied(wanted), ("spec", "template", "spec", "nodeSelector"), None)
    assert told_back(rows(wanted, live)) == "spec.template.spec.nodeSelector was taken out"


def test_a_field_of_an_older_release_of_berth_is_no_hands():
    live = applied(app())
    live["spec"]["podManagementPolicy"] = "Parallel"
    assert stateful_set_change(app(), Observed("db", "default", stateful_set=live)) is not None
    assert rows(app(), live) == []


def test_what_the_api_server_has_filled_in_is_no_hands():
    wanted = app(update_strategy="same_node")
    live = applied(wanted)
    live["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    take(live["metadata"]["managedFields"][0]["fieldsV1"], ["f:spec", "f:updateStrategy"])
    assert rows(wanted, live) == []
    assert [one.field for one in rows(wanted, set_by(live, ("spec", "updateStrategy", "type"), "RollingUpdate"))] == [
        "spec.updateStrategy.type"
    ]


def test_a_statefulset_that_berth_has_never_applied_has_nothing_to_be_taken_back():
    """One that was there before: the task that takes it over says what it becomes."""
    live = applied(app())
    live["metadata"]["managedFields"] = [entry("kubectl-client-side-apply", fields_of({"spec": live["spec"]}))]
    assert rows(app("db:2"), live) == []
    del live["metadata"]["annotations"]["berth.dev/revision"]
    assert rows(app("db:2"), live) == []


def test_without_any_record_of_managers_only_what_was_asked_before_tells():
    live = set_by(applied(app()), IMAGE, "db:9")
    del live["metadata"]["managedFields"]
    assert told_back(rows(app(), live)) == f"{FIELD} was set to db:9 by somebody (becomes db:1)"
    assert rows(app("db:2"), live) == []


def test_no_set_and_no_change_have_nothing_to_tell():
    assert hand_made(app(), Observed("db", "default"), Plan()) == []
    assert rows(app(), applied(app())) == []
    assert rows(app(workload="Pod"), None) == []


SECRET = [{"name": "PASSWORD", "value": "one"}, {"name": "SIZE", "value": "1"}]


def with_env(env, image="db:1"):
    return app(image, edit=lambda spec: spec["containers"][0].update(env=copy.deepcopy(env)))


def test_values_of_the_environment_are_not_told():
    live = set_by(applied(with_env(SECRET)), (*CONTAINER, "env", 0, "value"), "two")
    for image in ("db:1", "db:2"):
        words = told_back(rows(with_env(SECRET, image), live))
        assert words == (f"spec.template.spec.containers[db].env[PASSWORD].value was set by kubectl-set at {AT}"), (
            "neither what it was, nor what it becomes"
        )


def test_an_element_that_was_taken_out_is_named_by_its_key():
    live = set_by(applied(with_env(SECRET)), (*CONTAINER, "env", 0), None)
    assert told(rows(with_env(SECRET), live)) == "spec.template.spec.containers[db].env[PASSWORD] was taken out"


@pytest.mark.parametrize(
    ("path", "value", "name", "words"),
    [
        ((*CONTAINER, "ports", 0, "hostPort"), 81, "containers[db].ports[80/TCP].hostPort", "set to 81 by"),
        ((*CONTAINER, "command", 0), "other", "containers[db].command[0]", "set to other by"),
        ((*CONTAINER, "tty"), True, "containers[db].tty", "set to true by"),
        ((*CONTAINER, "resources", "limits", "cpu"), "3", "containers[db].resources.limits.cpu", "set to 3 by"),
        (("spec", "template", "spec", "nodeSelector"), {"a/b": "d"}, "nodeSelector['a/b']", "set to d by"),
        (("spec", "template", "spec", "tolerations"), [], "tolerations", "set by"),
    ],
)
def test_each_kind_of_field_finds_its_owner(path, value, name, words):
    def more(spec):
        limits = {"limits": {"cpu": "2000m"}}
        ports = [{"containerPort": 80, "hostPort": 80}]
        spec["containers"][0].update(command=["a"], tty=False, resources=limits, ports=ports)
        spec.update(nodeSelector={"a/b": "c"}, tolerations=[{"key": "x", "operator": "Exists"}])

    live = applied(app(edit=more))
    owner = path[:-1] if path[-1] == 0 else path
    whole = live
    for step in owner:
        whole = whole[step]
    set_by(live, owner, [value] if path[-1] == 0 else value)
    for image in ("db:1", "db:2"):
        (found,) = rows(app(image, edit=more), live)
        assert found.field == f"spec.template.spec.{name}"
        assert words in found.told()
        assert found.by.manager == "kubectl-set"


def test_a_long_value_is_cut():
    assert "9" * 128 + "... by" in told(rows(app(), set_by(applied(app()), IMAGE, "9" * 500)))


def test_the_diff_has_what_goes():
    live = set_by(
        set_by(applied(with_env(SECRET)), IMAGE, "db:9"), (*CONTAINER, "env", 2), {"name": "MORE", "value": "x"}
    )
    wanted = with_env([*SECRET, {"name": "NEW", "value": "y"}], "db:2")
    seen = Observed("db", "default", stateful_set=live)
    shown = diff(wanted, seen, make_plan(wanted, seen), [], "Created")
    before, after = (
        shown[side]["objects"]["StatefulSet default/db"]["spec"]["template"]["spec"]["containers"][0]
        for side in ("before", "after")
    )
    assert (before["image"], after["image"]) == ("db:9", "db:2")
    assert ([one["name"] for one in before["env"]], [one["name"] for one in after["env"]]) == (
        ["PASSWORD", "SIZE"],
        ["PASSWORD", "SIZE", "NEW"],
    ), "what others have added is neither there nor gone: it stays"


def test_in_a_map_that_was_empty_a_field_is_whose_entry_names_it():
    def with_user(user=None):
        own = {} if user is None else {"runAsUser": user}
        return app(edit=lambda spec: spec["containers"][0].update(securityContext=own))

    live = set_by(applied(with_user()), (*CONTAINER, "securityContext", "runAsUser"), 9)
    assert rows(with_user(), live) == []
    assert "securityContext.runAsUser was set to 9 by kubectl-set" in told(rows(with_user(5), live))


# -- taken out, and something else is asked for: the revisions that the StatefulSet's controller has kept tell


def kept(live, number, template):
    meta = {
        "name": f"db-{number}",
        "annotations": {"berth.dev/revision": live["metadata"]["annotations"]["berth.dev/revision"]},
        "ownerReferences": [{"uid": "u"}],
    }
    return {"metadata": meta, "revision": number, "data": {"spec": {"template": template}}}


def test_what_was_taken_out_is_told_from_what_is_new():
    live = applied(with_env(SECRET))
    live["metadata"]["uid"] = "u"
    given = copy.deepcopy(live["spec"]["template"])
    set_by(live, (*CONTAINER, "env", 0), None)
    of_hand = kept(live, 4, copy.deepcopy(live["spec"]["template"]))
    before = applied_last([of_hand, kept(live, 3, given)], live)
    assert before["spec"] == given["spec"]
    more = [*SECRET, {"name": "NEW", "value": "x"}]
    for env, words in (
        (SECRET, ["spec.template.spec.containers[db].env[PASSWORD] was taken out"]),
        (more, ["spec.template.spec.containers[db].env[PASSWORD] was taken out"]),
        (more[1:], []),
        (SECRET[1:], []),
    ):
        wanted = with_env(env, "db:2")
        seen = Observed("db", "default", stateful_set=live)
        plan = make_plan(wanted, seen)
        assert needs_former(wanted, seen, plan) == (env != SECRET[1:])
        assert [one.told() for one in hand_made(wanted, seen, plan, before)] == words
        assert hand_made(wanted, seen, plan) == [], "of a template that is not known nothing is said"


def test_the_former_template_is_asked_for_only_where_it_could_tell_something():
    for wanted, live in (
        (app("db:2"), applied(app())),
        (app(), set_by(applied(app()), IMAGE, "db:9")),
        (with_env(SECRET), set_by(applied(with_env(SECRET)), (*CONTAINER, "env", 0), None)),
        (app(replicas=5), applied(app())),
        (app(), None),
    ):
        seen = Observed("db", "default", stateful_set=live)
        assert not needs_former(wanted, seen, make_plan(wanted, seen))


def test_a_template_that_was_given_otherwise_is_not_known():
    live = applied(app())
    live["metadata"]["uid"] = "u"
    other = kept(live, 1, live["spec"]["template"])
    other["metadata"]["annotations"] = {"berth.dev/revision": "another"}
    anothers = kept(live, 1, live["spec"]["template"]) | {"revision": 1}
    anothers["metadata"]["ownerReferences"] = [{"uid": "other"}]
    assert applied_last([other, anothers], live) is None
    assert applied_last([], None) is None
    del live["metadata"]["annotations"]
    other["metadata"]["annotations"] = None
    assert applied_last([other], live) is None


# -- what others have added


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*CONTAINER, "env", 2), {"name": "MORE", "value": "x"}),
        (("spec", "template", "spec", "containers", 1), {"name": "side", "image": "side:1"}),
        (("spec", "template", "spec", "nodeSelector"), {"a": "b"}),
        (("spec", "template", "metadata", "annotations"), {"kubectl.kubernetes.io/restartedAt": AT}),
    ],
)
def test_what_others_have_added_stays_and_is_no_change(path, value):
    """Or a run would write, for nothing, each time: an apply does not take it away."""
    live = set_by(applied(with_env(SECRET)), path, value)
    assert stateful_set_change(with_env(SECRET), Observed("db", "default", stateful_set=live)) is None
    assert rows(with_env(SECRET, "db:2"), live) == []


def test_an_order_is_no_difference_and_an_element_that_is_gone_is_one():
    live = applied(with_env(SECRET))
    env = live["spec"]["template"]["spec"]["containers"][0]["env"]
    env.reverse()
    assert stateful_set_change(with_env(SECRET), Observed("db", "default", stateful_set=live)) is None
    del env[0]
    assert stateful_set_change(with_env(SECRET), Observed("db", "default", stateful_set=live)) is not None


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ([{"name": "a"}, {"name": "a"}], [{"name": "a"}]),
        ([{"name": "a"}], [{"name": "a"}, {"name": "a"}]),
        (["a"], [{"name": "a"}]),
        ([{"name": "a"}, 3], [{"name": "a"}]),
        ("text", [{"name": "a"}]),
    ],
)
def test_lists_that_no_api_server_keeps_are_compared_as_they_are(live, desired):
    assert aligned({"env": live}, {"env": desired}) == {"env": live}


# -- overtaken


def test_what_a_hand_changes_and_adds_is_told_with_who_did():
    ours = applied(app())
    live = set_by(copy.deepcopy(ours), IMAGE, "db:9")
    set_by(live, ("spec", "template", "spec", "nodeSelector"), {"a": "b"}, "kubectl-edit", "2026-05-05T00:00:00Z")
    set_by(live, (*CONTAINER, "volumeMounts"), None)
    before, now = ({"spec": {"template": one["spec"]["template"]}} for one in (ours, live))
    assert told(changed(before, now, live)) == (
        f"{FIELD} was set to db:9 by kubectl-set at {AT}; "
        "spec.template.spec.containers[db].volumeMounts was taken out; "
        "spec.template.spec.nodeSelector was set by kubectl-edit at 2026-05-05T00:00:00Z"
    )
    assert changed(before, before, ours) == []


# -- the law, for generated hands

NAMES = ["A", "B", "C"]
VALUES = st.sampled_from(["1", "2", "3"])
ENVS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
ACTS = st.lists(st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), VALUES)), max_size=4)


def env_of(values):
    return [{"name": name, "value": value} for name, value in sorted(values.items())]


@given(ENVS, ACTS, ENVS)
def test_told_is_just_what_others_have_set_and_the_apply_sets_otherwise(first, acts, second):
    live, hands = applied(with_env(env_of(first))), {}
    env = live["spec"]["template"]["spec"]["containers"][0].setdefault("env", [])
    for name, value in acts:
        index = next((number for number, one in enumerate(env) if one["name"] == name), len(env))
        if value is None:
            if index < len(env):
                set_by(live, (*CONTAINER, "env", index), None)
            hands[name] = None
        elif index == len(env):
            set_by(live, (*CONTAINER, "env", index), {"name": name, "value": value})
            hands[name] = value
        elif env[index]["value"] != value:
            set_by(live, (*CONTAINER, "env", index, "value"), value)
            hands[name] = value
    there = {one["name"]: one["value"] for one in env}
    expected = {name for name, value in hands.items() if value is not None and second.get(name, value) != value}
    if first == second:
        expected |= {name for name in second if name not in there}
    found = rows(with_env(env_of(second)), live)
    assert {one.field.partition(".env[")[2].partition("]")[0] for one in found} == expected


@given(ENVS, ENVS)
def test_there_is_a_difference_exactly_where_an_apply_changes_something(desired, live):
    one, other = ({"env": env_of(each)} for each in (desired, live))
    assert bool(differing(one, other)) == ({**live, **desired} != live)


def test_the_manager_is_the_modules_and_the_controllers():
    from berth_controller.apps.requests import MANAGER

    assert by_hand.OURS == MANAGER == "berth"
