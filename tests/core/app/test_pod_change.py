"""Which changes of a template a running pod takes, and which need a new pod."""

from __future__ import annotations

import copy

import pytest

from berth_core.app.pod_change import pod_change, qos_class, with_running_fields, without_running_fields

OLD = {
    "metadata": {"labels": {"berth.dev/app": "db"}, "annotations": {"note": "1"}},
    "spec": {
        "initContainers": [{"name": "init", "image": "init:1"}],
        "containers": [
            {
                "name": "db",
                "image": "db:1",
                "env": [{"name": "SIZE", "value": "1024Mi"}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            },
            {"name": "side", "image": "side:1"},
        ],
        "terminationGracePeriodSeconds": 30,
    },
}
DB = ("spec", "containers", 0)


def changed(*path, to):
    new = copy.deepcopy(OLD)
    place = new
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return new


@pytest.mark.parametrize(
    ("path", "to", "field"),
    [
        ((*DB, "image"), "db:2", "spec.containers[db].image"),
        (("spec", "initContainers", 0, "image"), "init:2", "spec.initContainers[init].image"),
        (("metadata", "labels", "tier"), "gold", "metadata.labels"),
        (("metadata", "annotations", "note"), None, "metadata.annotations"),
        ((*DB, "resources", "requests", "cpu"), "2", "spec.containers[db].resources.requests.cpu"),
        ((*DB, "resources", "limits", "memory"), "1Gi", "spec.containers[db].resources.limits.memory"),
        ((*DB, "resources", "limits", "cpu"), "3", "spec.containers[db].resources.limits.cpu"),
    ],
)
def test_a_running_pod_takes_it(path, to, field):
    change = pod_change(OLD, changed(*path, to=to))
    assert (change.fields, change.forced) == ((field,), ())


@pytest.mark.parametrize(
    ("path", "to", "field"),
    [
        ((*DB, "env", 0, "value"), "1Gi", "spec.containers[db].env"),  # a text, no quantity
        ((*DB, "command"), ["db", "--new"], "spec.containers[db].command"),
        (("spec", "containers", 1, "name"), "other", "spec.containers"),
        (("spec", "terminationGracePeriodSeconds"), 5, "spec.terminationGracePeriodSeconds"),
        (("spec", "securityContext"), {"fsGroup": 1}, "spec.securityContext"),
        (("spec", "enableServiceLinks"), False, "spec.enableServiceLinks"),  # left out, it is true
        ((*DB, "resources", "requests", "cpu"), None, "spec.containers[db].resources.requests.cpu"),
        ((*DB, "resources", "limits", "hugepages-2Mi"), "4Mi", "spec.containers[db].resources.limits.hugepages-2Mi"),
        ((*DB, "resources", "claims"), [{"name": "gpu"}], "spec.containers[db].resources.claims"),
    ],
)
def test_it_needs_a_new_pod(path, to, field):
    change = pod_change(OLD, changed(*path, to=to))
    assert change.forced == (field,)
    assert not change.in_place


def test_resources_of_an_init_container_are_never_resized():
    change = pod_change(OLD, changed("spec", "initContainers", 0, "resources", to={"requests": {"cpu": "1"}}))
    assert change.forced == ("spec.initContainers[init].resources.requests.cpu",)


def test_what_means_the_same_is_no_change():
    new = changed(*DB, "resources", "requests", "cpu", to="0.5")
    new["spec"]["volumes"] = []
    new["spec"]["hostNetwork"] = False
    new["spec"]["containers"][1]["resources"] = {}
    assert pod_change(OLD, new) == pod_change(OLD, OLD)
    assert pod_change(OLD, new).in_place


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"requests": {"memory": "1"}}], "Burstable"),
    ],
)
def test_qos_class(resources, expected):
    assert qos_class({"containers": [{"name": "c", "resources": one} for one in resources]}) == expected


def test_another_qos_class_needs_a_new_pod():
    old = {
        "spec": {"containers": [{"name": "c", "image": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}
    }
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "500m"}
    assert pod_change(old, new).forced == ("spec (QoS class Guaranteed becomes Burstable)",)


def test_a_bare_pods_former_template_is_found_in_the_pod():
    new = changed(*DB, "image", to="db:2")
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    pod = copy.deepcopy(OLD)
    pod["spec"]["containers"][1]["resources"] = {"requests": {"cpu": "100m"}}  # a LimitRange's default
    assert without_running_fields(OLD) == without_running_fields(new)
    assert with_running_fields(new, pod) == OLD
    assert without_running_fields(changed(*DB, "command", to=["x"])) != without_running_fields(OLD)
