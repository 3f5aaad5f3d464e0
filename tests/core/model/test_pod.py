"""Pods: the arithmetic of requests, and everything else that scheduling looks at."""

from __future__ import annotations

import pytest

from berth_core.errors import InputError, QuantityError, SelectorError
from berth_core.model.pod import HostPort, PodInfo
from berth_core.model.requests import is_extended, is_scalar
from tests.core.cluster.objects import GI, MI, container, pod


def read(*containers, inits=(), **spec):
    return PodInfo.from_manifest(pod(containers=list(containers), initContainers=list(inits), **spec))


def sidecar(**requests):
    return {**container(**requests), "restartPolicy": "Always"}


def amounts(info):
    return dict(info.requests)


def test_containers_add_up():
    assert amounts(read(container("500m", "1Gi"), container("1", "1Gi"))) == {"cpu": 1500, "memory": 2 * GI}


def test_sums_are_rounded_once_at_the_end():
    assert amounts(read(container("0.1m"), container("0.1m"))) == {"cpu": 1}


def test_init_containers_set_a_minimum():
    assert amounts(read(container("1", "1Gi"), inits=[container("2", "512Mi"), container("1", "3Gi")])) == {
        "cpu": 2000,
        "memory": 3 * GI,
    }


def test_a_sidecar_runs_beside_everything_after_it():
    # 1 and 1 with the sidecar beside the container; 3 and 1 while the second init container runs;
    # 2 before the sidecar has started.
    info = read(container("1"), inits=[container("2"), sidecar(cpu="1"), container("3")])
    assert amounts(info) == {"cpu": 4000}


def test_an_init_container_before_the_sidecar_does_not_pay_for_it():
    assert amounts(read(container("1"), inits=[container("3"), sidecar(cpu="1")])) == {"cpu": 3000}


def test_overhead_is_added_last():
    assert amounts(read(container("1"), inits=[container("3")], overhead={"cpu": "250m", "memory": "1Mi"})) == {
        "cpu": 3250,
        "memory": MI,
    }


def test_limits_stand_in_for_requests_that_are_missing():
    limited = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    assert amounts(read(limited)) == {"cpu": 1000, "memory": GI}


def test_pod_level_requests_replace_the_sum():
    info = read(container("1", "1Gi", example__com="3"), resources={"requests": {"cpu": "4", "example.com/x": "9"}})
    assert amounts(info)["cpu"] == 4000
    assert amounts(info)["memory"] == GI
    assert "example.com/x" not in amounts(info)


def test_pod_level_limits_default_requests_from_the_containers_first():
    info = read(container("1"), resources={"limits": {"cpu": "4", "memory": "2Gi"}})
    assert amounts(info) == {"cpu": 1000, "memory": 2 * GI}


def test_huge_pages_of_a_container_bring_pod_level_limits_and_so_pod_level_defaults():
    pages = {"name": "c", "resources": {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "2"}}}
    manifest = pod(containers=[pages], resources={"requests": {"memory": "1Gi"}})
    given = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    manifest["status"] = {"containerStatuses": [given]}
    # cpu was fixed at pod level when the pod was made: a container's resize does not change it.
    assert amounts(PodInfo.from_manifest(manifest)) == {"cpu": 2000, "memory": GI, "hugepages-2Mi": 4 * MI}


def test_scoring_counts_a_container_without_requests():
    info = read(container(), container("1"))
    assert amounts(info) == {"cpu": 1000}
    assert dict(info.nonzero) == {"cpu": 1100, "memory": 400 * MI}
    assert info.nonzero == info.score_requests


def test_a_request_of_zero_is_a_request():
    assert dict(read(container("0", "0")).nonzero) == {"cpu": 0, "memory": 0}


def test_scoring_with_pod_level_requests():
    info = read(container("1"), container(), resources={"requests": {"memory": "1Gi"}})
    # On a node, cpu is requested by one container, and nothing is assumed for the other.
    assert dict(info.nonzero) == {"cpu": 1000, "memory": GI}
    # While the pod is being placed, v1.36 scores its containers alone, each with its defaults.
    assert dict(info.score_requests) == {"cpu": 1100, "memory": 400 * MI}


def test_a_running_pod_counts_what_it_was_given():
    manifest = pod(containers=[container("1")])
    given = {"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}
    manifest["status"] = {"containerStatuses": [given]}
    assert amounts(PodInfo.from_manifest(manifest)) == {"cpu": 3000}
    manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    manifest["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    assert amounts(PodInfo.from_manifest(manifest)) == {"cpu": 3000}
    manifest["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Deferred"}]
    assert amounts(PodInfo.from_manifest(manifest)) == {"cpu": 9000}


def test_host_ports():
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    assert read(container(ports=[*ports, {"containerPort": 90}])).host_ports == (
        HostPort("UDP", "10.0.0.1", 53),
        HostPort("TCP", "0.0.0.0", 8080),
    )


def test_host_network_takes_every_port():
    assert read(container(ports=[{"containerPort": 80}]), hostNetwork=True).host_ports == (
        HostPort("TCP", "0.0.0.0", 80),
    )


def test_ports_of_init_containers_count_for_sidecars_alone():
    port = [{"containerPort": 1, "hostPort": 1}]
    assert read(container(), inits=[container(ports=port)]).host_ports == ()
    assert len(read(container(), inits=[{**container(ports=port), "restartPolicy": "Always"}]).host_ports) == 1


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (("TCP", "0.0.0.0", 80), ("TCP", "127.0.0.1", 80), True),
        (("TCP", "127.0.0.1", 80), ("TCP", "127.0.0.1", 80), True),
        (("TCP", "127.0.0.1", 80), ("TCP", "127.0.0.2", 80), False),
        (("TCP", "0.0.0.0", 80), ("UDP", "0.0.0.0", 80), False),
        (("TCP", "0.0.0.0", 80), ("TCP", "0.0.0.0", 81), False),
    ],
)
def test_port_conflicts(one, other, conflict):
    assert HostPort(*one).conflicts(HostPort(*other)) is conflict
    assert HostPort(*other).conflicts(HostPort(*one)) is conflict


def test_volumes():
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "config", "configMap": {"name": "c"}},
    ]
    found = PodInfo.from_manifest(pod("web-0", volumes=volumes)).volumes
    assert [(one.volume, one.claim, one.ephemeral) for one in found] == [
        ("data", "data-web-0", False),
        ("scratch", "web-0-scratch", True),
    ]


def spread(**more):
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **more,
    }


def test_spread_constraints():
    manifest = pod(
        labels={"app": "a", "rev": "7"},
        topologySpreadConstraints=[spread(matchLabelKeys=["rev", "none"], minDomains=3)],
    )
    (found,) = PodInfo.from_manifest(manifest).spread
    assert str(found.selector) == "app=a,rev=7"
    assert (found.hard, found.min_domains, found.honor_affinity, found.honor_taints) == (True, 3, True, False)


@pytest.mark.parametrize("wrong", [{"maxSkew": 0}, {"topologyKey": ""}, {"whenUnsatisfiable": "Maybe"}])
def test_bad_spread_constraints(wrong):
    with pytest.raises(InputError, match=r"topologySpreadConstraints\[0\]"):
        PodInfo.from_manifest(pod(topologySpreadConstraints=[spread(**wrong)]))


def test_shape_leaves_out_the_name_and_nothing_that_matters():
    same = PodInfo.from_manifest(pod("a")).shape == PodInfo.from_manifest(pod("b")).shape
    assert same
    base = PodInfo.from_manifest(pod("a")).shape
    for change in (
        {"node_name": "n"},
        {"labels": {"k": "v"}},
        {"namespace": "x"},
        {"nodeSelector": {"k": "v"}},
        {"priority": 3},
    ):
        assert PodInfo.from_manifest(pod("a", **change)).shape != base
    hash(base)


def test_twins_share_the_long_part_of_their_shape():
    first = PodInfo.from_manifest(pod("a", labels={"k": "v"}))
    twin, alone = first.twin(pod("b", labels={"k": "v"})), PodInfo.from_manifest(pod("b", labels={"k": "v"}))
    assert twin.shape[-1] is first.shape[-1]
    assert twin.shape == alone.shape
    assert hash(twin.shape) == hash(alone.shape)
    assert twin.shape[-1] is not alone.shape[-1]
    assert first.twin(pod("b", labels={"k": "w"})).shape != twin.shape


def test_a_twin_that_cannot_be_read_is_named():
    wrong = pod("b", labels={"k": 1})
    with pytest.raises(InputError, match=r"pod default/b: metadata\.labels"):
        PodInfo.from_manifest(pod("a")).twin(wrong)


@pytest.mark.parametrize(
    ("manifest", "error", "words"),
    [
        (pod(containers=[container("two")]), QuantityError, "two"),
        (pod(containers="c"), InputError, "pod default/p: spec.containers must be a list of objects"),
        (pod(nodeSelector={"k": 1}), InputError, "nodeSelector.k must be a string"),
        (pod(hostNetwork="yes"), InputError, "hostNetwork must be true or false"),
        (pod(priority="high"), InputError, "priority must be an integer"),
        (
            pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"preference": {}}]}}),
            SelectorError,
            "weight",
        ),
        (
            pod(topologySpreadConstraints=[{**spread(), "labelSelector": {"matchLabels": {"-": "x"}}}]),
            SelectorError,
            "'-'",
        ),
    ],
)
def test_bad_pods_are_refused_by_field(manifest, error, words):
    with pytest.raises(error, match=words):
        PodInfo.from_manifest(manifest)


def test_which_resources_are_counted_apart():
    assert is_scalar("example.com/gpu")
    assert is_extended("example.com/gpu")
    assert is_scalar("hugepages-2Mi")
    assert not is_extended("hugepages-2Mi")
    assert not is_extended("kubernetes.io/x")
    assert not is_scalar("cpu")
    assert not is_scalar("requests.example.com/gpu")
