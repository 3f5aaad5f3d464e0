"""ImageLocality: large images that many nodes have; and what is counted stays right when nodes change."""

from __future__ import annotations

import pytest

from berth_core.cluster.snapshot import Snapshot
from berth_core.model.image import normalized_name
from berth_core.plugins.image_locality import ImageLocality
from tests.core.cluster.objects import node, pod, request
from tests.core.plugins.helpers import scored

MI = 1 << 20
PLUGIN = ImageLocality()


def holding(name, **images):
    made = node(name)
    made["status"]["images"] = [{"names": [f"{image}:latest"], "sizeBytes": size} for image, size in images.items()]
    return made


def wants(*images, **spec):
    return request(pod(containers=[{"name": image, "image": image} for image in images], **spec))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("host:5000/web", "host:5000/web:latest"),
        ("host:5000/web:1", "host:5000/web:1"),
        ("web@sha256:0", "web@sha256:0"),
    ],
)
def test_a_name_without_tag_is_the_latest(name, expected):
    assert normalized_name(name) == expected


def test_size_and_spread():
    snapshot = Snapshot.from_objects(nodes=[holding("a", web=800 * MI), holding("b", db=10 * MI)])
    # 800 MiB on one node of two: 400 MiB, between 23 and 1000.
    assert scored(PLUGIN, snapshot, wants("web")) == {"a": 100 * (400 - 23) // (1000 - 23), "b": 0}
    assert scored(PLUGIN, snapshot, wants("db")) == {"a": 0, "b": 0}
    snapshot.upsert_node(holding("b", web=800 * MI))
    assert scored(PLUGIN, snapshot, wants("web")) == {"a": 79, "b": 79}


def test_containers_share_the_scale_and_image_volumes_do_not_add_to_it():
    snapshot = Snapshot.from_objects(nodes=[holding("a", web=5000 * MI, model=700 * MI)])
    assert scored(PLUGIN, snapshot, wants("web")) == {"a": 100}
    assert scored(PLUGIN, snapshot, wants("none", "other")) == {"a": 0}
    volume = {"name": "model", "image": {"reference": "model"}}
    assert scored(PLUGIN, snapshot, wants("none", volumes=[volume])) == {"a": 100 * (700 - 23) // (1000 - 23)}


def test_nothing_is_left_of_images_that_are_gone():
    snapshot = Snapshot.from_objects(nodes=[holding("a", web=800 * MI), holding("b")])
    for number in range(50):
        snapshot.upsert_node(holding("b", **{f"web{number}": MI}))
    assert len(snapshot.nodes.images.sets) <= 3
    snapshot.upsert_node(holding("0", web=800 * MI))
    assert scored(PLUGIN, snapshot, wants("web"), raw=True) == {"0": 52, "a": 52, "b": 0}
    snapshot.remove_node("a")
    assert scored(PLUGIN, snapshot, wants("web"), raw=True) == {"0": 38, "b": 0}
    snapshot.remove_node("0")
    assert dict(snapshot.nodes.images.on_nodes) == {"web49:latest": 1}
