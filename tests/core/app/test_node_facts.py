"""Capacity less what is kept back, against what kubelets reported (the first two are recorded from real ones)."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.node_facts import condition, node_facts
from berth_core.errors import QuantityError

CAPACITY = {"cpu": "2", "ephemeral-storage": "8154588Ki", "hugepages-2Mi": "0", "memory": "24684096Ki", "pods": "110"}
ALLOCATABLE = {**CAPACITY, "ephemeral-storage": "8266795133", "memory": "24581696Ki"}
KUBELET: dict[str, Any] = {"evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"}}


def node(capacity: dict[str, str], allocatable: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "h1"}, "status": {"capacity": capacity, "allocatable": allocatable}}


def test_a_kubelet_with_thresholds_alone() -> None:
    facts = node_facts(node(CAPACITY, ALLOCATABLE), KUBELET)
    assert [fact.resource for fact in facts] == ["cpu", "memory", "ephemeral-storage"]
    assert condition(facts) == ("True", "Matches", "")


def test_reservations_and_huge_pages_are_taken_off() -> None:
    capacity = {"cpu": "8", "memory": "16Gi", "hugepages-2Mi": "1Gi"}
    kubelet = {"kubeReserved": {"cpu": "100m", "memory": "1Gi"}, "systemReserved": {"cpu": "400m", "memory": "500Mi"}}
    facts = node_facts(node(capacity, {"cpu": "7500m", "memory": "14836Mi"}), kubelet)
    assert condition(facts)[0] == "False"
    told = condition(facts)[2]
    assert "cpu" not in told
    assert "memory: allocatable 15556673536, expected capacity 17179869184 - kube-reserved 1073741824 - " in told
    assert told.endswith(f"huge pages 1073741824 = {(16 * 1024 - 1024 - 500 - 1024) << 20}")
    right = {"cpu": "7500m", "memory": f"{16 * 1024 - 1024 - 500 - 1024}Mi"}
    assert condition(node_facts(node(capacity, right), kubelet))[0] == "True"


def test_more_kept_back_than_there_is_leaves_nothing() -> None:
    facts = node_facts(node({"cpu": "1"}, {"cpu": "0"}), {"systemReserved": {"cpu": "2"}})
    assert condition(facts)[0] == "True"


def test_a_threshold_that_is_none_is_refused() -> None:
    with pytest.raises(QuantityError, match="eviction threshold 'x%'"):
        node_facts(node(CAPACITY, ALLOCATABLE), {"evictionHard": {"nodefs.available": "x%"}})
