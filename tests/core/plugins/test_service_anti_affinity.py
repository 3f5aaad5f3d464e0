"""ServiceAntiAffinity: pods of a service apart over the values of a label."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import InputError
from berth_core.plugins.service_anti_affinity import ServiceAntiAffinity
from tests.core.cluster.objects import node, pod, request
from tests.core.plugins.helpers import scored

PLUGIN = ServiceAntiAffinity.from_args({"label": "rack"}, "args")
WEB = {"app": "web"}
NODES = [
    node("a1", labels={"rack": "a"}),
    node("a2", labels={"rack": "a"}),
    node("b1", labels={"rack": "b"}),
    node("c"),
]


def cluster(*where, selector=None, namespace="default"):
    service = {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": WEB if selector is None else selector},
    }
    pods = [pod(f"p{index}", node_name=name, labels=WEB) for index, name in enumerate(where)]
    return Snapshot.from_objects(nodes=NODES, pods=pods, services=[service])


def new():
    return request(pod("new", labels=WEB))


def test_the_emptiest_domain_gets_the_most():
    assert scored(PLUGIN, cluster("a1", "a2", "b1"), new()) == {"a1": 33, "a2": 33, "b1": 66, "c": 0}
    assert scored(PLUGIN, cluster("a1"), new()) == {"a1": 0, "a2": 0, "b1": 100, "c": 0}


def test_pods_of_nodes_without_the_label_count_in_the_whole():
    assert scored(PLUGIN, cluster("a1", "c"), new()) == {"a1": 50, "a2": 50, "b1": 100, "c": 0}


def test_only_nodes_that_may_be_chosen_count():
    assert scored(PLUGIN, cluster("a1", "b1"), new(), among=["a2", "b1"]) == {"a2": 100, "b1": 0}


@pytest.mark.parametrize("more", [{"selector": {"app": "db"}}, {"namespace": "other"}])
def test_without_a_service_all_domains_are_alike(more):
    assert scored(PLUGIN, cluster("a1", **more), new()) == {"a1": 100, "a2": 100, "b1": 100, "c": 0}


@pytest.mark.parametrize("args", [{}, {"label": "a b"}, {"label": 1}, {"label": "rack", "x": 1}])
def test_wrong_arguments_name_their_path(args):
    with pytest.raises(InputError, match=r"^args\."):
        ServiceAntiAffinity.from_args(args, "args")
