"""A manifest with several documents: what is taken of it, what is refused by name, and that nothing is lost."""

from __future__ import annotations

import copy

import pytest

from berth_core.app import manifests
from berth_core.app.observed import Observed
from berth_core.app.plan import make_plan
from berth_core.app.report import diff
from berth_core.app.wanted import REVISION_ANNOTATION, parse_app
from berth_core.errors import InputError
from tests.core.app.samples import GOOD, changed

LABELS = {"app": "db"}
TEMPLATE = {**GOOD["template"], "metadata": {"labels": LABELS}}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "200Mi"}},
    },
}
SPEC = {"serviceName": "db", "selector": {"matchLabels": LABELS}, "template": TEMPLATE, "volumeClaimTemplates": [CLAIM]}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "db", "labels": {"team": "a"}},
    "spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 5432}]},
}
READERS = {**SERVICE, "metadata": {"name": "db-read"}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "db"}, "data": {"a.conf": "x"}}


def stateful_set(metadata=None, **spec):
    whole = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata or {"name": "db"}}
    return copy.deepcopy({**whole, "spec": {**SPEC, **spec}})


def parsed(*documents, **options):
    template = documents[0] if len(documents) == 1 else {"kind": "List", "items": list(documents)}
    values = {"replicas": None, "disks": None, "template": template}
    return parse_app(changed(**{**values, **options}))


def made(app):
    return manifests.stateful_set(app)["spec"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("minReadySeconds", 7),
        ("revisionHistoryLimit", 3),
        ("replicas", 2),
        ("podManagementPolicy", "Parallel"),
        ("serviceName", "other"),
    ],
)
def test_a_field_of_the_stateful_set_is_taken(field, value):
    assert made(parsed(stateful_set(**{field: value})))[field] == value
    assert made(parsed(stateful_set())).get(field) != value


def test_labels_and_annotations_of_the_stateful_set_are_taken():
    given = {"name": "db", "namespace": "default", "labels": {"team": "a"}, "annotations": {"note": "b"}}
    metadata = manifests.stateful_set(parsed(stateful_set(given)))["metadata"]
    assert metadata["labels"] == {"team": "a", "berth.dev/app": "db", "app.kubernetes.io/managed-by": "berth"}
    assert metadata["annotations"]["note"] == "b"


def test_claim_templates_are_disks():
    app = parsed(stateful_set())
    disk = app.disks[0]
    assert (disk.name, disk.size, disk.storage_class, disk.volume_mode) == ("data", 200 << 20, "fast", "Filesystem")
    more = {"name": "data", "size": "204800Ki", "volume_mode": "Filesystem", "fs_type": "xfs"}
    disk = parsed(stateful_set(), disks=[more]).disks[0]
    assert (disk.storage_class, disk.fs_type) == ("fast", "xfs"), "the option says more of the same disk"


def test_what_says_nothing_new_is_taken():
    """As kubectl get -o yaml has it."""
    given = {**stateful_set(), "status": {"replicas": 1}}
    given["metadata"].update(uid="u", resourceVersion="7", generation=1, creationTimestamp="2026-01-01T00:00:00Z")
    retained = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    given["spec"].update(ordinals={"start": 0}, persistentVolumeClaimRetentionPolicy=retained)
    claim = {**CLAIM, "apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
    given["spec"]["volumeClaimTemplates"] = [claim]
    assert parsed(given) == parsed(stateful_set())


def test_the_options_stand_where_the_manifest_says_nothing():
    app = parsed(stateful_set(), replicas=4, pod_management_policy="Parallel")
    assert (app.replicas, app.pod_management_policy) == (4, "Parallel")
    app = parsed(stateful_set())
    assert (app.replicas, app.pod_management_policy) == (1, "OrderedReady")
    app = parsed(stateful_set(replicas=2), replicas=2)
    assert app.replicas == 2


def test_services_and_config_maps_come_along():
    app = parsed(SERVICE, stateful_set(), READERS, CONFIG)
    assert (app.service_name, app.service["spec"]) == ("db", SERVICE["spec"])
    assert app.service["metadata"]["labels"] == {
        "team": "a",
        "berth.dev/app": "db",
        "app.kubernetes.io/managed-by": "berth",
    }
    assert [(one["kind"], one["metadata"]["name"]) for one in app.beside] == [
        ("Service", "db-read"),
        ("ConfigMap", "db"),
    ]
    assert app.beside[1]["data"] == CONFIG["data"]
    assert {one["metadata"]["namespace"] for one in app.beside} == {"default"}


def test_a_list_in_a_list_is_taken_apart():
    inner = {"apiVersion": "v1", "kind": "List", "items": [SERVICE, stateful_set()]}
    assert parsed(inner, CONFIG) == parsed(SERVICE, stateful_set(), CONFIG)


def test_without_its_service_the_manifest_gets_one_of_the_name_that_it_says():
    app = parsed(stateful_set(serviceName="heads"), READERS)
    assert app.service["metadata"]["name"] == app.service_name == "heads"
    assert [one["metadata"]["name"] for one in app.beside] == ["db-read"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ordinals", {"start": 5}, "spec.ordinals.start is '5': .* begin at 0; leave ordinals out"),
        (
            "persistentVolumeClaimRetentionPolicy",
            {"whenScaled": "Delete"},
            "RetentionPolicy.whenScaled is 'Delete': .* leave it out or say Retain",
        ),
        ("selector", {"matchLabels": {"app": "web"}}, r"spec.selector \(app=web\) does not select the pods"),
        ("replicas", "two", "spec.replicas is 'two': expected a whole number"),
        ("podManagementPolicy", "Random", "spec.podManagementPolicy is 'Random': expected OrderedReady or Parallel"),
        ("volumeMounts", [], "StatefulSet db: spec: volumeMounts cannot be taken: leave it out"),
    ],
)
def test_a_field_that_cannot_be_taken_is_refused_by_name(field, value, message):
    with pytest.raises(InputError, match=message):
        parsed(stateful_set(**{field: value}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accessModes": ["ReadWriteMany"]}, r"\(data\).spec.accessModes is .*ReadWriteMany"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector cannot be taken: leave it out, and select the disk"),
        ({"volumeName": "pv"}, r"spec.volumeName cannot be taken: .* \(disk_names\)"),
        ({"volumeAttributesClassName": "gold"}, "volumeAttributesClassName cannot be taken"),
        ({"volumeMode": "Object"}, "volumeMode is 'Object': expected Filesystem or Block"),
        ({"resources": {}}, "has no storage: expected the least size"),
        ({"resources": {"limits": {"storage": "1"}}}, "resources.limits cannot be taken"),
        ({"storageClassName": 1}, "storageClassName is '1'"),
    ],
)
def test_a_claim_that_a_local_disk_cannot_answer_is_refused(changes, message):
    claim = {**CLAIM, "spec": {**CLAIM["spec"], **changes}}
    with pytest.raises(InputError, match=rf"StatefulSet db: spec.volumeClaimTemplates\[0\].*{message}"):
        parsed(stateful_set(volumeClaimTemplates=[claim]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 3}, "replicas is 3, and spec.replicas of the StatefulSet in template or src is 2: keep one"),
        ({"pod_management_policy": "OrderedReady"}, "pod_management_policy is OrderedReady, and .* is Parallel"),
        ({"service": {"name": "a"}}, "service.name is a, and spec.serviceName .* is db"),
        ({"service": {"ports": []}}, "service is given, and Service db in template or src too: keep one of them"),
        ({"disks": [{**GOOD["disks"][0], "size": "1Gi"}]}, r"disks \(data\): size is 1Gi, and .* is 200Mi"),
        ({"disks": [{**GOOD["disks"][0], "storage_class": "slow"}]}, "storage_class is slow, and storageClassName"),
        ({"disks": [{**GOOD["disks"][0], "volume_mode": "Block"}]}, "volume_mode is Block, and volumeMode"),
        ({"namespace": "other"}, "metadata.namespace is 'default', and the app's is other"),
        ({"name": "web"}, "StatefulSet db: the app is called web"),
        ({"workload": "Pod"}, "has minReadySeconds, podManagementPolicy, which bare pods do not have"),
    ],
)
def test_an_option_does_not_contradict_the_manifest(options, message):
    fields = {"replicas": 2, "podManagementPolicy": "Parallel", "minReadySeconds": 1}
    whole = stateful_set({"name": "db", "namespace": "default"}, **fields)
    with pytest.raises(InputError, match=message):
        parsed(whole, SERVICE, **options)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([SERVICE, CONFIG], r"have 0 StatefulSets \(none\): expected exactly one"),
        ([stateful_set(), stateful_set({"name": "web"})], r"2 StatefulSets \(StatefulSet db, StatefulSet web\)"),
        (
            [stateful_set(), {"kind": "Deployment", "metadata": {"name": "web"}}],
            "Deployment web .* another application",
        ),
        ([stateful_set(), {"kind": "Secret", "metadata": {"name": "pw"}}], "Secret pw is not taken: .* with no_log"),
        (
            [stateful_set(), {"kind": "ServiceAccount"}],
            r"ServiceAccount \(without a name\) is not taken: .* beforehand",
        ),
        ([stateful_set(), {"spec": {}}], "document 2 has no kind"),
        ([stateful_set(), "text"], r"items\[1\] is 'text': expected a mapping"),
        ([stateful_set(), SERVICE, SERVICE], "Service db is in its documents twice"),
        ([stateful_set(), {**CONFIG, "apiVersion": "v2"}], "ConfigMap db: apiVersion is 'v2': expected v1"),
        ([stateful_set(), {**CONFIG, "metadata": {"name": "A"}}], "ConfigMap has metadata.name 'A'"),
        ([stateful_set(), {**CONFIG, "metadata": {"name": "a", "namespace": "b"}}], "ConfigMap a: .*namespace is 'b'"),
        ([stateful_set(), {**CONFIG, "metadata": {"name": "a", "finalizers": ["b"]}}], "finalizers cannot be taken"),
        (
            [stateful_set(), {**SERVICE, "spec": {"selector": {"app": "web"}}}],
            "Service db: spec.selector {'app': 'web'} does not select the pods",
        ),
    ],
)
def test_documents_that_are_not_taken_are_refused_by_name(documents, message):
    with pytest.raises(InputError, match=message):
        parsed(*documents)


# -- the plan


def seen(app, **values):
    beside = {(one["kind"], one["metadata"]["name"]): one for one in app.beside}
    there = {"stateful_set": manifests.stateful_set(app), "service": app.service, "beside": beside}
    return Observed("db", "default", **{**there, **values})


def plan_of(app, observed):
    return make_plan(app, observed, "Created")


def test_what_stands_as_the_manifest_says_is_not_applied_again():
    app = parsed(stateful_set(replicas=0), SERVICE, READERS, CONFIG)
    assert plan_of(app, seen(app)).empty
    plan = plan_of(app, Observed("db", "default"))
    assert plan.beside == app.beside
    shown = diff(app, Observed("db", "default"), plan, [], "Created")
    assert {"Service default/db-read", "ConfigMap default/db"} <= set(shown["after"]["objects"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"data": {"a.conf": "x"}}, {"data": {"a.conf": "y"}}),
        ({"data": {"a.conf": "x", "b.conf": "y"}}, {"data": {"a.conf": "x"}}),
    ],
)
def test_a_changed_config_map_is_applied_also_where_it_only_lost_something(before, after):
    then = parsed(stateful_set(replicas=0), {**CONFIG, **before})
    now = parsed(stateful_set(replicas=0), {**CONFIG, **after})
    plan = plan_of(now, seen(then))
    assert [one["data"] for one in plan.beside] == [after["data"]]
    assert plan.stateful_set is None


def test_a_field_that_left_the_manifest_is_taken_away_and_no_pod_is_made_anew():
    then, now = parsed(stateful_set(replicas=0, minReadySeconds=5)), parsed(stateful_set(replicas=0))
    plan = plan_of(now, seen(then))
    assert "minReadySeconds" not in plan.stateful_set["spec"]
    assert then.revision == now.revision


def test_an_app_of_before_keeps_its_revision():
    """Whoever gives a template alone sees no change by this release."""
    app = parse_app(changed())
    annotations = manifests.stateful_set(app)["metadata"]["annotations"]
    assert annotations == {REVISION_ANNOTATION: app.revision}
    assert app.set_revision == app.revision
