"""Bad input is refused before anything happens, with the option, what was wrong, and what is expected."""

from __future__ import annotations

import copy

import pytest

from berth_core.app.wanted import parse_app
from berth_core.errors import InputError
from tests.core.app.samples import GOOD, changed


def disk(**values):
    return [{**GOOD["disks"][0], **values}]


def template(**values):
    spec = {**copy.deepcopy(GOOD["template"]["spec"]), **values}
    return {"spec": spec}


def with_container(**values):
    return template(containers=[{**GOOD["template"]["spec"]["containers"][0], **values}])


def test_a_good_request():
    app = parse_app(changed())
    assert app.disks[0].size == 200 * 2**20
    assert app.berth_name(2) == "db-2"
    assert app.claim_name("data", 2) == "data-db-2"
    assert app.template["metadata"]["labels"]["berth.dev/app"] == "db"
    assert app.service["spec"] == {"clusterIP": "None", "selector": {"berth.dev/app": "db"}}


def test_the_users_template_is_not_changed():
    options = changed(topology_spread_constraints=[{"maxSkew": 1, "topologyKey": "zone"}])
    before = copy.deepcopy(options)
    parse_app(options)
    assert options == before


def test_the_revision_follows_the_template_alone():
    base = parse_app(changed())
    assert parse_app(changed(replicas=5)).revision == base.revision
    assert parse_app(changed(template=template(terminationGracePeriodSeconds=1))).revision != base.revision


def test_a_stateful_set_may_stand_in_for_its_template():
    whole = {"kind": "StatefulSet", "spec": {"template": GOOD["template"]}}
    assert parse_app(changed(template=whole)).template == parse_app(changed()).template


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": -1}, "replicas is -1: expected 0 to"),
        ({"replicas": 10**6}, "replicas is 1000000"),
        ({"name": "Db"}, "name 'Db' .* cannot be used"),
        ({"name": "d" * 64}, r"64 characters\) cannot be used: expected a DNS-1123 label of at most 52"),
        ({"name": "d" * 62, "workload": "Pod"}, "at most 61 characters .* host name"),
        ({"namespace": "a/b"}, "namespace 'a/b' cannot be used"),
        ({"disks": disk(size="12Q")}, "disks.0..size .data.: .*12Q.*expected a quantity such as 10Gi"),
        ({"disks": disk(size="0")}, "is 0: expected more than 0"),
        ({"disks": disk(size="-1Gi")}, "disks.0..size"),
        ({"disks": disk(name="Data")}, "disks.0..name 'Data' cannot name a volume"),
        ({"disks": disk() + disk()}, "disks names data twice"),
        ({"disks": disk(disk_names=["a"])}, "1 disk_names are given for 3 replicas"),
        ({"disks": disk(disk_names=["a", "a", "b"])}, "names a twice"),
        ({"disks": disk(disk_names=["A!", "b", "c"])}, "'A!' is not the name of a LocalDisk"),
        ({"disks": disk(volume_mode="Block", fs_type="xfs")}, "fs_type xfs has no meaning"),
        ({"disks": []}, "disks is empty.*workload: Pod"),
        ({"template": {}}, "template has no spec"),
        ({"template": None}, "template has no spec"),
        ({"template": {"spec": {}}}, "has no containers"),
        ({"template": template(containers=[])}, "has no containers"),
        ({"template": template(containers=[{"name": "x"}])}, "containers.0. needs both name and image"),
        (
            {"template": template(volumes=[{"name": "data", "emptyDir": {}}])},
            "'data' is the name of a volume of template.spec.volumes too",
        ),
        ({"template": template(containers=[{"name": "x", "image": "y"}])}, "no container of the template uses 'data'"),
        ({"template": template(nodeName="h1")}, "nodeName is set"),
        (
            {"template": template(initContainers=["x"])},
            r"template.spec.initContainers is .* expected a list of mappings",
        ),
        ({"template": template(volumes="data")}, "template.spec.volumes is 'data': expected a list of mappings"),
        ({"template": template(resourceClaims=["gpu"])}, "template.spec.resourceClaims is"),
        ({"template": with_container(volumeMounts=["data"])}, r"template.spec.containers\[0\].volumeMounts is"),
        ({"template": with_container(resources="much")}, r"containers\[0\].resources is 'much': expected a mapping"),
        ({"template": with_container(resources={"claims": ["gpu"]})}, r"containers\[0\].resources.claims is"),
        ({"template": {**GOOD["template"], "metadata": "db"}}, "template.metadata is 'db'"),
        ({"template": {**GOOD["template"], "metadata": {"labels": ["a"]}}}, "template.metadata.labels is"),
        ({"template": {"kind": "StatefulSet", "spec": "x"}}, "template.spec is 'x': expected a mapping"),
        ({"mount_root": "relative"}, "mount root 'relative' is not usable"),
        ({"service": {"cluster_ip": "auto"}}, "needs at least one port"),
        ({"service": {"ports": [{"port": 70000}]}}, r"service.ports\[0\].port is 70000"),
        (
            {"devices": [{"name": "g", "device_class": "gpu", "count": 1, "share": 5}]},
            "count and share exclude each other",
        ),
        ({"devices": [{"name": "g", "device_class": "gpu", "share": 2000}]}, "share .g. is 2000: expected 1 to 1000"),
        ({"devices": [{"name": "g", "device_class": "gpu", "count": 0}]}, "count .g. is 0"),
    ],
)
def test_bad_input_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        parse_app(changed(**values))


def test_spread_constraints_are_given_once():
    with pytest.raises(InputError, match="keep one of them"):
        parse_app(
            changed(
                topology_spread_constraints=[{"maxSkew": 1}],
                template=template(topologySpreadConstraints=[{"maxSkew": 1}]),
            )
        )
