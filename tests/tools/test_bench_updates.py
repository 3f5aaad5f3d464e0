"""What the benches of updates make of a watch, of counts, of kwok's stages and of Kruise's manifests; no cluster."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from tests.bench import kubelet, open_kruise
from tests.bench.api_writes import written
from tests.bench.readiness import Seen, Span, by_pod, not_ready
from tests.bench.update_calls import Calls, calls, came_home, plain, told
from tests.bench.update_calls import counted as evaluations


def test_spans_in_which_a_pod_is_not_ready() -> None:
    seen = [
        *(Seen(1.0, "db-1", True), Seen(2.0, "db-1", False), Seen(3.0, "db-0", False), Seen(4.0, "db-1", False)),
        *(Seen(5.0, "db-0", True), Seen(7.0, "db-1", True), Seen(8.0, "db-1", False), Seen(8.5, "db-1", True)),
    ]
    spans = not_ready(seen)
    assert spans == [Span("db-0", 3.0, 5.0), Span("db-1", 2.0, 7.0), Span("db-1", 8.0, 8.5)]
    assert by_pod(spans) == {"db-0": 2.0, "db-1": 5.5}
    assert not_ready(seen[:1]) == []
    with pytest.raises(ValueError, match="not Ready at the end: db-1"):
        not_ready(seen[:-1])


def counted(resource: str, verb: str, value: int) -> str:
    labels = f'code="200",component="apiserver",dry_run="",group="",resource="{resource}",scope="resource"'
    return f'apiserver_request_total{{{labels},subresource="",verb="{verb}",version="v1"}} {value}'


def test_writes_of_everybody() -> None:
    lines = [counted("pods", "PATCH", 3), counted("pods", "GET", 50), counted("leases", "PUT", 70), "# HELP x"]
    assert written("\n".join([*lines, counted("statefulsets", "POST", 2)])) == 5
    assert written("\n".join(lines), without=()) == 73


def evaluated(point: str, plugin: str, value: int) -> str:
    labels = f'extension_point="{point}",plugin="{plugin}",profile="default-scheduler"'
    return f"scheduler_plugin_evaluation_total{{{labels}}} {value}"


def test_calls_on_a_replicas_own_node_are_told_and_not_counted() -> None:
    at = {"a": ("u1", "n1"), "b": ("u2", "n2"), "c": ("u3", "n3"), "d": ("u4", "n4")}
    home = came_home(at, {"a": ("u5", "n1"), "b": ("u6", "n1"), "c": ("u3", "n3"), "e": ("u7", "n9")})
    assert home == 1, "b came to another node, c was not made anew, d is gone"
    own = calls(evaluations("\n".join([evaluated("Filter", "A", 3), evaluated("Filter", "B", 3), "# HELP x"])))
    assert own == Calls(6, 0, 3, (3, 3))
    assert (own.on_own(3), own.elsewhere(3)) == (6, 0)
    assert own.elsewhere(2) == 2, "one of the three looked at a node to which no pod came back"
    assert "0 filter calls on other nodes than the replica's own; and 6 on that" in told([own, calls(Counter())], 3)
    lines = [evaluated("Filter", "A", 300), evaluated("Filter", "B", 90), evaluated("Score", "A", 27)]
    all_nodes = calls(evaluations("\n".join(lines)))
    assert (all_nodes.looked, all_nodes.elsewhere(3)) == (300, 300 - 3 + 90 - 3 + 27)
    assert calls(Counter()) == Calls(0, 0, 0)


OWN = yaml.safe_load(kubelet.STAGES.read_text())


def test_own_stages_take_the_place_of_kwoks() -> None:
    theirs = [{"kind": "KwokConfiguration"}, *({"metadata": {"name": name}, "spec": {}} for name in ("pod-ready", "x"))]
    found = kubelet.replaced(theirs, OWN)
    assert found == [theirs[0], theirs[2], *OWN]
    timed = kubelet.timed(found, {"pod-ready": 1.5})
    assert [one.get("spec", {}).get("delay") for one in timed if one in OWN] == [None] * (len(OWN) - 1)
    assert {"durationMilliseconds": 1500} in [one.get("spec", {}).get("delay") for one in timed]
    with pytest.raises(AssertionError, match="no such stages"):
        kubelet.timed(found, {"pod-gone": 1.0})


def test_kruises_stateful_set_has_what_a_plain_one_has() -> None:
    base = plain("db", 3, 1)
    for policy, gates in ((open_kruise.IN_PLACE, [{"conditionType": "InPlaceUpdateReady"}]), (open_kruise.ANEW, None)):
        found = open_kruise.stateful_set("db", 3, 1, policy)
        assert found["spec"]["template"]["spec"].pop("readinessGates", None) == gates
        assert found["spec"].pop("updateStrategy")["rollingUpdate"] == {"podUpdatePolicy": policy}
        assert found == {**base, "apiVersion": "apps.kruise.io/v1beta1"}


def test_kruise_is_asked_about_its_stateful_sets_alone() -> None:
    theirs = {
        "mutating-webhook-configuration": ["mpod.kb.io", "mstatefulset.kb.io"],
        "validating-webhook-configuration": ["vpod.kb.io", "vstatefulset.kb.io", "vbuiltinstatefulset.kb.io"],
    }
    shipped = [
        {"metadata": {"name": name}, "webhooks": [{"name": hook} for hook in hooks]} for name, hooks in theirs.items()
    ]
    assert open_kruise.webhooks(yaml.safe_dump_all(shipped)) == [
        {"metadata": {"name": f"kruise-{name}"}, "webhooks": [{"name": hooks[1]}]} for name, hooks in theirs.items()
    ]
