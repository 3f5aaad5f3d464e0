"""Requests that kube-scheduler never sends: what the extender answers, and which words its answer has.

tests/daemons/scheduler/test_extender.py sends them to a running extender, beside good ones.
"""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

MB = 1 << 20
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u-1"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
ARGS: dict[str, Any] = {"Pod": POD, "Nodes": None, "NodeNames": ["n1"]}
BIND = {"PodName": "p", "PodNamespace": "default", "PodUID": "u-1", "Node": "n1"}
META = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}
PREEMPT: dict[str, Any] = {"Pod": POD, "NodeNameToMetaVictims": META}


class Row(NamedTuple):
    """``status``: of the answer; 200 is an extender's answer. ``words``: of its Error, which is one line."""

    name: str
    sent: bytes
    status: int
    words: tuple[str, ...] = ()


def request(path: str, body: bytes, method: str = "POST", **headers: str) -> bytes:
    lines = {
        "Host": "x",
        "Content-Length": str(len(body)),
        **{key.replace("_", "-"): one for key, one in headers.items()},
    }
    head = "".join(f"{key}: {one}\r\n" for key, one in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def asks(verb: str, document: Any, *words: str, status: int = 400, name: str = "") -> Row:
    return Row(
        name or f"{verb} {' '.join(words)}"[:80], request(f"/{verb}", json.dumps(document).encode()), status, words
    )


def raw(name: str, body: bytes, *words: str, status: int = 400, verb: str = "filter", **headers: str) -> Row:
    return Row(name, request(f"/{verb}", body, **headers), status, words)


def pod(change: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """ARGS with other metadata and spec."""
    made = copy.deepcopy(POD)
    made["metadata"].update(change)
    made["spec"].update(spec)
    return {**ARGS, "Pod": made}


def containers(**container: Any) -> dict[str, Any]:
    return pod({}, containers=[{"name": "c", "image": "i", **container}])


GOOD = json.dumps(ARGS).encode()
NOT_JSON = "the body is not JSON"
NOT_HTTP = "this is not HTTP/1.1"
ROWS: tuple[Row, ...] = (
    # -- HTTP
    Row("GET", request("/filter", b"", "GET"), 405, ("GET: expected POST",)),
    Row("PUT", request("/filter", GOOD, "PUT"), 405, ("PUT: expected POST",)),
    Row("DELETE", request("/bind", b"", "DELETE"), 405, ("DELETE: expected POST",)),
    Row("the root", request("/", GOOD), 404, ("/: expected /bind, /filter",)),
    Row("another verb", request("/scores", GOOD), 404, ("/scores",)),
    Row("a verb in capitals", request("/Filter", GOOD), 404, ("/Filter",)),
    Row("below a verb", request("/filter/..", GOOD), 404, ("/filter/..",)),
    Row("a path with a sign", request("/%66ilter", GOOD), 404, ("/%66ilter",)),
    Row("a whole URL", request("http://x/filter", GOOD), 404, ("expected /bind",)),
    Row("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, (NOT_HTTP,)),
    Row("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404, ("*: expected /bind",)),
    Row("no host", b"POST /filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400, (NOT_HTTP,)),
    Row("a path with a blank", b"POST /fil ter HTTP/1.1\r\nHost: x\r\n\r\n", 400, (NOT_HTTP,)),
    Row("a header without a name", b"POST /filter HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n", 400, (NOT_HTTP,)),
    raw("a length that is none", GOOD, NOT_HTTP, Content_Length="many"),
    raw("a negative length", GOOD, NOT_HTTP, Content_Length="-1"),
    raw("a length of more than is taken", b"", "expected at most", status=413, Content_Length=str(100 * MB)),
    raw("a length that no number is", b"", NOT_HTTP, Content_Length="9" * 30),
    raw("a header of 200 kB", b"", NOT_HTTP, X="y" * 200_000),
    raw("a chunk that is none", b"zz\r\n", NOT_HTTP, Content_Length="4", Transfer_Encoding="chunked"),
    # -- JSON
    raw("nothing", b"", NOT_JSON),
    raw("half of it", GOOD[: len(GOOD) // 2], NOT_JSON),
    raw("text", b"filter", NOT_JSON),
    raw("bytes", b"\xff\xfe\x00\x80", NOT_JSON),
    raw("UTF-16", '{"a": 1}'.encode("utf-16"), "Pod: expected a pod"),
    raw("deep nesting", b"[" * 100_000, NOT_JSON),
    raw("deep nesting that ends", b'{"Pod":' + b"[" * 50_000 + b"]" * 50_000 + b"}", NOT_JSON),
    raw("more after it", GOOD + b"{}", NOT_JSON),
    raw("a number with 5000 digits", b'{"Pod": ' + b"9" * 5000 + b"}", NOT_JSON),
    raw("NaN", b'{"Pod": NaN}', NOT_JSON, "NaN"),
    raw("infinity", b'{"Pod": -Infinity}', NOT_JSON, "-Infinity"),
    raw("a list", b"[1]", "a JSON list: expected an object"),
    raw("null", b"null", "expected an object"),
    raw("a text", b'"a"', "expected an object"),
    raw("a form", b"Pod=p", NOT_JSON, Content_Type="application/x-www-form-urlencoded"),
    raw(
        "one key twice: the last one counts", b'{"Pod": ' + b"1, " + GOOD[1:], "Pod: expected a pod", status=400
    )._replace(sent=request("/filter", GOOD[:-1] + b', "Pod": 1}')),
    raw("another content type", GOOD, status=200, Content_Type="text/plain"),
    raw("no content type", GOOD, status=200),
    # -- ExtenderArgs
    asks("filter", {}, "Pod: expected a pod"),
    asks("filter", {"Pod": "p", "NodeNames": []}, "Pod: expected a pod, got str"),
    asks("filter", {"pod": POD, "nodenames": []}, "Pod: expected a pod", name="keys in lower case"),
    asks("filter", {"Pod": {}, "NodeNames": []}, "Pod.metadata.name"),
    asks("filter", {**ARGS, "Pod": {"metadata": "p"}}, "Pod.metadata.name"),
    asks("filter", pod({"name": 7}), "Pod.metadata.name", "7"),
    asks("filter", pod({"namespace": 7}), "namespace", status=200),
    asks("filter", pod({"uid": ["u"]}), "uid", status=200),
    asks("filter", pod({"labels": "a"}), "labels", status=200),
    asks("filter", pod({"labels": {"a": 1}}), "labels", status=200),
    asks("filter", pod({"annotations": [1]}), status=200, name="annotations that are a list"),
    asks("filter", pod({"ownerReferences": "x"}), "ownerReferences", status=200),
    asks("filter", {**ARGS, "Pod": {**POD, "spec": "x"}}, "spec", status=200),
    asks("filter", {**ARGS, "Pod": {**POD, "status": 3}}, "status", status=200),
    asks("filter", pod({}, containers="x"), "containers", status=200),
    asks("filter", pod({}, containers=[None]), "containers", status=200),
    asks("filter", containers(resources="x"), "resources", status=200),
    asks("filter", containers(resources={"requests": {"cpu": "much"}}), "'much'", status=200),
    asks("filter", containers(resources={"requests": {"cpu": "-1"}}), status=200, name="less than no processor"),
    asks("filter", containers(resources={"requests": {"cpu": "1e400"}}), status=200, name="more than any processor"),
    asks("filter", containers(resources={"requests": {"memory": [1]}}), "memory", status=200),
    asks("filter", containers(ports=[{"hostPort": "http"}]), "hostPort", status=200),
    asks("filter", pod({}, volumes=[{"name": 1}]), "volumes", status=200),
    asks("filter", pod({}, volumes=[{"name": "v", "persistentVolumeClaim": "x"}]), "volume v", status=200),
    asks("filter", pod({}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": 1}}]), "claim", status=200),
    asks(
        *("filter", pod({}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])),
        *('persistentvolumeclaim "none"', "not known"),
        status=200,
    ),
    asks("filter", pod({}, nodeSelector="x"), "nodeSelector", status=200),
    asks("filter", pod({}, tolerations=[1]), "tolerations", status=200),
    asks("filter", pod({}, affinity={"nodeAffinity": "x"}), "ffinity", status=200),
    asks("filter", pod({}, topologySpreadConstraints="x"), "topologySpreadConstraints", status=200),
    asks("filter", pod({}, priority="high"), "priority", status=200),
    asks("filter", pod({}, resourceClaims={"a": 1}), "resourceClaims", status=200),
    asks("filter", {"Pod": POD}, "neither Nodes nor NodeNames"),
    asks("filter", {"Pod": POD, "NodeNames": "n1"}, "NodeNames: expected a list of names"),
    asks("filter", {"Pod": POD, "NodeNames": [1]}, "NodeNames: expected a list of names"),
    asks("filter", {"Pod": POD, "NodeNames": ["\ud800"]}, status=200, name="half a character"),
    asks("filter", {"Pod": POD, "NodeNames": ["n" * 100_000]}, status=200, name="a long name"),
    asks("filter", {"Pod": POD, "NodeNames": []}, status=200, name="no node"),
    asks("filter", {"Pod": POD, "NodeNames": ["n1"] * 1000}, status=200, name="one node a thousand times"),
    asks("filter", {"Pod": POD, "Nodes": 7}, "Nodes"),
    asks("filter", {"Pod": POD, "Nodes": "n1"}, "Nodes"),
    asks("filter", {"Pod": POD, "Nodes": {"items": [7]}}, "Nodes.items"),
    asks("filter", {"Pod": POD, "Nodes": {"items": "x"}}, "Nodes.items"),
    asks("filter", {"Pod": POD, "Nodes": {"items": [{"metadata": []}]}}, "Nodes.items[0].metadata.name"),
    asks("prioritize", {}, "Pod: expected a pod"),
    asks("prioritize", containers(resources={"requests": {"cpu": "much"}}), "'much'", status=422),
    asks("prioritize", pod({"labels": [1]}), "labels", status=422),
    # -- ExtenderPreemptionArgs
    asks("preempt", {"Pod": POD}, "NodeNameToVictims: expected victims by node"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": []}, "NodeNameToMetaVictims"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"n1": 1}}, "NodeNameToMetaVictims[n1]"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"Pods": 1}}}, "NodeNameToMetaVictims[n1].Pods"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"Pods": [{}]}}}, "[n1]", "pods with uids"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": 1}]}}}, "[n1]", "uids"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"NumPDBViolations": "x"}}}, "NumPDBViolations"),
    asks("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"NumPDBViolations": True}}}, "NumPDBViolations"),
    asks("preempt", {"Pod": POD, "NodeNameToVictims": {"n1": {"Pods": [{"metadata": []}]}}}, "[n1]", "uids"),
    asks("preempt", {"Pod": POD, "NodeNameToVictims": {"n1": {"Pods": [{"metadata": [1]}]}}}, "[n1]", "uids"),
    asks("preempt", {**PREEMPT, "Pod": None}, "Pod: expected a pod"),
    # -- ExtenderBindingArgs
    *(
        asks("bind", {**BIND, field: value}, f"{field}: expected a ")
        for field in BIND
        for value in (None, "", 7, ["a"])
    ),
    asks("bind", {**BIND, "PodName": "gone"}, "default/gone is gone", status=200),
    asks("bind", {**BIND, "PodName": "../nodes/n1"}, "PodName", "'../nodes/n1'"),
    asks("bind", {**BIND, "PodName": "a b"}, "PodName", "'a b'"),
    asks("bind", {**BIND, "PodName": "a\r\nX: y"}, "PodName"),
    asks("bind", {**BIND, "PodName": "\ud800"}, "PodName"),
    asks("bind", {**BIND, "PodName": "x" * 100_000}, "PodName", "100000 characters"),
    asks("bind", {**BIND, "PodNamespace": "../.."}, "PodNamespace", "'../..'"),
    asks("bind", {**BIND, "PodNamespace": "A"}, "PodNamespace", "'A'"),
    asks("bind", {**BIND, "Node": "No Such"}, "Node is 'No Such'"),
)
