"""differences and prune: hand-made cases of what the API server rewrites, and their common law under hypothesis."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.compare import MAP_KEYS, ZERO_KEYS, differences, prune

CASES = [
    ({"a": 1}, {"a": 1, "b": 2}, []),
    ({"a": 1}, {"a": 2}, ["a"]),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, ["a.c"]),
    ({"a": None}, {}, []),
    ({"a": None}, {"a": None}, []),
    ({"a": None}, {"a": 0}, ["a"]),
    ({"a": None}, {"a": {"b": 1}}, ["a"]),
    ({"a": [1, 2]}, {"a": [1, 2, 3]}, ["a"]),
    ({"a": [1, 2]}, {"a": [2, 1]}, ["a[0]", "a[1]"]),
    ({"a": [{"n": "x"}]}, {"a": [{"n": "x", "default": True}]}, []),
    ({"a": [{"n": "x"}]}, {"a": [{"n": "y"}]}, ["a[0].n"]),
    ({"a": {}}, {"a": "text"}, ["a"]),
    ({"a": 1}, {"a": True}, ["a"]),
    ({"a": False}, {"a": 0}, ["a"]),
    ({"a": 80}, {"a": "80"}, ["a"]),
    # quantities, where they are quantities
    ({"resources": {"requests": {"cpu": 1}}}, {"resources": {"requests": {"cpu": "1000m"}}}, []),
    ({"resources": {"requests": {"storage": "1Gi"}}}, {"resources": {"requests": {"storage": "1024Mi"}}}, []),
    (
        {"resources": {"requests": {"storage": "1G"}}},
        {"resources": {"requests": {"storage": "1Gi"}}},
        ["resources.requests.storage"],
    ),
    ({"capacity": {"storage": "1Gi"}}, {"capacity": {"storage": 1073741824}}, []),
    ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1024Mi"}}, []),
    ({"env": [{"name": "X", "value": "1"}]}, {"env": [{"name": "X", "value": "1000m"}]}, ["env[0].value"]),
    (
        {"metadata": {"labels": {"storage": "1"}}},
        {"metadata": {"labels": {"storage": "1000m"}}},
        ["metadata.labels.storage"],
    ),
    ({"resources": ["pods"]}, {"resources": ["nodes"]}, ["resources[0]"]),
    ({"capacity": True}, {"capacity": 1}, ["capacity"]),
    # what the server leaves out
    ({"tolerations": []}, {}, []),
    ({"tolerations": []}, {"tolerations": [{"key": "a"}]}, ["tolerations"]),
    ({"labels": {}}, {}, []),
    ({"emptyDir": {}}, {}, ["emptyDir"]),
    ({"emptyDir": {}}, {"emptyDir": {}}, []),
    ({"hostNetwork": False}, {}, []),
    ({"hostNetwork": True}, {}, ["hostNetwork"]),
    ({"hostNetwork": False}, {"hostNetwork": True}, ["hostNetwork"]),
    ({"env": [{"name": "X", "value": ""}]}, {"env": [{"name": "X"}]}, []),
    ({"allowPrivilegeEscalation": False}, {}, ["allowPrivilegeEscalation"]),
    ({"replicas": 0}, {}, ["replicas"]),
    # names that are not path segments
    ({"annotations": {"a.b/c": "1"}}, {"annotations": {}}, ["annotations['a.b/c']"]),
]


@pytest.mark.parametrize(("desired", "live", "paths"), CASES, ids=lambda value: str(value)[:60])
def test_case(desired: object, live: object, paths: list[str]) -> None:
    assert differences(desired, live) == paths
    assert (prune(live, desired) == desired) is (not paths) or _equal_by_type_alone(desired, live)


def _equal_by_type_alone(desired: object, live: object) -> bool:
    """Python takes 1 for True; JSON and berth do not. The law below avoids numbers 0 and 1 for that reason."""
    return desired == live


def test_prune_shows_only_what_changes() -> None:
    live = {
        "spec": {"a": 1, "b": "1024Mi", "resources": {"limits": {"memory": "1024Mi", "cpu": "1"}}},
        "status": {"x": 1},
    }
    desired = {"spec": {"a": 2, "resources": {"limits": {"memory": "1Gi", "cpu": "2"}}}}
    assert prune(live, desired) == {"spec": {"a": 1, "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}}}


def test_prune_shows_elements_that_will_go() -> None:
    assert prune({"a": [{"n": 1, "d": 0}, {"n": 2, "d": 0}]}, {"a": [{"n": 1}]}) == {"a": [{"n": 1}, {"n": 2, "d": 0}]}


def test_prune_shows_keys_that_will_go() -> None:
    assert prune({"a": 5, "b": 6}, {"a": None}) == {"a": 5}


KEYS = st.sampled_from(["a", "b", "resources", "storage", "metadata", "tolerations", min(MAP_KEYS), min(ZERO_KEYS)])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(2, 5), st.sampled_from(["", "x", "2Ki", "2048", "2000m"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_no_difference_exactly_when_the_pruned_is_the_desired(desired: dict, live: dict) -> None:
    before = copy.deepcopy((desired, live))
    assert (differences(desired, live) == []) == (prune(live, desired) == desired)
    assert (desired, live) == before


@given(OBJECTS)
def test_an_object_is_what_it_is(value: dict) -> None:
    assert differences(value, value) == []


@given(OBJECTS, OBJECTS)
def test_additions_of_others_never_matter(desired: dict, extra: dict) -> None:
    live = {**extra, **desired}
    assert differences(desired, live) == []
