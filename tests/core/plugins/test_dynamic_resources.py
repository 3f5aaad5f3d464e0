"""DynamicResources: who cannot allocate claims says so, and binds nobody without them."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import InputError
from berth_core.framework.cycle import place
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import DEFAULT_PROFILE, TABLE
from tests.core.cluster.objects import container, node, pod, request

FILE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
CONFIGURED = SchedulerConfiguration.parse(FILE).profiles[0].build()
WORDS = "this scheduler does not allocate resource claims, and the pod has gpu, nic: give it to kube-scheduler"


def with_claims(*names):
    manifest = pod("web-0", [container("1")])
    manifest["spec"]["resourceClaims"] = [{"name": one, "resourceClaimName": f"{one}-web-0"} for one in names]
    return manifest


def test_a_pod_with_claims_is_refused_by_a_configured_profile():
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    outcome = place(CONFIGURED, snapshot, request(with_claims("gpu", "nic")))
    assert outcome.placement is None
    assert outcome.diagnosis.rejected_by == "DynamicResources"
    assert WORDS in outcome.diagnosis.message()


def test_a_pod_without_claims_is_not_asked_about_them():
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    assert place(CONFIGURED, snapshot, request(pod("web-0", [container("1")]))).placement.node == "a"


def test_modules_choose_a_node_and_another_scheduler_allocates_there():
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    assert place(DEFAULT_PROFILE, snapshot, request(with_claims("gpu"))).placement.node == "a"


def test_who_disables_it_takes_the_refusal_away():
    plugins = {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
    profile = SchedulerConfiguration.parse({**FILE, "profiles": [{"plugins": plugins}]}).profiles[0].build()
    snapshot = Snapshot.from_objects(nodes=[node("a")])
    assert place(profile, snapshot, request(with_claims("gpu"))).placement.node == "a"


def test_claims_are_part_of_the_shape_and_shared_by_twins():
    one, other = PodInfo.from_manifest(with_claims("gpu")), PodInfo.from_manifest(pod("web-0", [container("1")]))
    assert one.resource_claims == ("gpu",)
    assert one.shape != other.shape
    assert one.twin(with_claims("gpu")).resource_claims == ("gpu",)


def test_arguments_are_kube_schedulers():
    TABLE.make("DynamicResources", {"filterTimeout": "5s", "bindingTimeout": "1m"})
    with pytest.raises(InputError, match="timeout: unknown argument"):
        TABLE.make("DynamicResources", {"timeout": "5s"})
