"""Tasks and pods for the tests of berth_core.tasks."""

from __future__ import annotations

from typing import Any

from berth_core.tasks.pods import PodState, manifest, read_pod
from berth_core.tasks.task import Task, read_task

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]}}


def task(name: str = "job", status: dict[str, Any] | None = None, going: bool = False, **spec: Any) -> Task:
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return read_task({"metadata": meta, "spec": {"template": TEMPLATE, **spec}, "status": status or {}})


def sized(name: str, cpu: int, queue: str = "default", **spec: Any) -> Task:
    """A task that asks for so many thousandths of a core."""
    requests = {"cpu": f"{cpu}m"}
    template = {"spec": {"containers": [{"name": "m", "image": "x", "resources": {"requests": requests}}]}}
    return task(name, template=template, queue=queue, **spec)


def pod(of: Task, number: int = 1, phase: str = "Running", code: int | None = None, **more: Any) -> PodState:
    """The pod of a try. ``more``: uid, version, node, reason, going."""
    body = manifest(of, number)
    body["metadata"] |= {"uid": more.get("uid", f"pod-{number}"), "resourceVersion": str(more.get("version", 1))}
    if more.get("going"):
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body["spec"] = {**body["spec"], "nodeName": more.get("node", "n1")}
    status: dict[str, Any] = {"phase": phase}
    if code is not None:
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}]
    if "reason" in more:
        status["reason"] = more["reason"]
    found = read_pod({**body, "status": status})
    assert found is not None
    return found
