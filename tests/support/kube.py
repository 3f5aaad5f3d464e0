"""A client and the CRDs for tests against a real API server; the fixtures of tests/apiserver and the benches use it.

`python -m tests.support.kube KUBECONFIG` prints the `world` of a cluster of real hosts, a line each: for playbooks.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.crds import OPERATION as CRDS
from ansible_collections.berth.stateful.plugins.module_utils._glue.crds import prepare
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources

#: A kind that examples and tests write, and no part of berth.
AUTOSCALER = resources.Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True)


def fail_on_warning(text: str) -> None:
    raise AssertionError(f"the API server warns: {text}")


def client_for(kubeconfig: Path | str, warn: Callable[[str], None] = fail_on_warning, **options: Any) -> ApiClient:
    return ApiClient(load_auth({"kubeconfig": str(kubeconfig)}, {}), warn, **options)


def install_crds(kubeconfig: Path | str) -> None:
    defaults = {name: spec.get("default") for name, spec in CRDS.argument_spec().items()}
    params = prepare({**defaults, "kubeconfig": str(kubeconfig)})
    result = execute(CRDS, Context(params, False, fail_on_warning, environ={}))
    assert not result.get("failed"), result


#: What admission wants to be empty before an object is deleted.
_HELD: Mapping[resources.Resource, tuple[str, ...]] = {
    resources.LOCAL_DISK: ("claimRef", "retainedFor"),
    resources.LOCAL_DEVICE: ("claimRefs",),
}


def forget(api: ApiClient, kind: resources.Resource, name: str, namespace: str | None = None) -> bool:
    """Delete an object, and a LocalDisk or LocalDevice whoever holds it and whatever it keeps; False: there is none."""
    live = api.find(kind, name, namespace)
    held = [key for key in _HELD.get(kind, ()) if live and live["spec"].get(key)]
    if held:
        api.patch(kind, name, None, {"spec": dict.fromkeys(held)})
    return live is not None and api.delete(kind, name, namespace)


def disks_of(api: ApiClient, node: str) -> list[dict[str, Any]]:
    """A node's LocalDisks, by name."""
    found = api.list(resources.LOCAL_DISK, fields=f"spec.nodeName={node}")
    return sorted(found, key=lambda disk: str(disk["metadata"]["name"]))


def forget_disks(api: ApiClient, *names: str) -> None:
    """:func:`forget` these LocalDisks."""
    for name in names:
        forget(api, resources.LOCAL_DISK, name)


def patch_disk(api: ApiClient, name: str, **spec: Any) -> dict[str, Any]:
    """Change the spec of a LocalDisk; the disk as it is then."""
    return dict(api.patch(resources.LOCAL_DISK, name, None, {"spec": spec}))


#: Kinds that the cluster's own components change all the time.
OTHERS = (
    resources.NODE,
    resources.NAMESPACE,
    resources.LEASE,
    resources.EVENT,
    resources.CONFIG_MAP,
    resources.SERVICE_ACCOUNT,
    resources.CSI_NODE,
    resources.RESOURCE_SLICE,
)


def world(kubeconfig: Path | str, *, kubelets: bool = False) -> dict[str, str]:
    """Everything that berth's modules could change, name -> resourceVersion; the same before and after: no write.

    What earlier tests have made and what is on its way out is left out: when it goes is the cluster's doing. With
    ``kubelets``, which write the status of a pod when they like, a pod is told by all but that.
    """
    api, seen = client_for(kubeconfig), {}
    spaces, nodes = staying(api.list(resources.NAMESPACE)), staying(api.list(resources.NODE))
    for kind in (value for value in vars(resources).values() if isinstance(value, resources.Resource)):
        if kind in OTHERS:
            continue
        with contextlib.suppress(NotFoundError):  # a kind of berth's while the CRDs are not installed
            for item in api.list(kind):
                meta = item["metadata"]
                if not leaving(item, spaces, nodes):
                    told = _without_status(item) if kubelets and kind == resources.POD else meta["resourceVersion"]
                    seen[f"{kind.plural}/{meta.get('namespace', '')}/{meta['name']}"] = told
    return seen


def _without_status(pod: Mapping[str, Any]) -> str:
    meta = {key: value for key, value in pod["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    return json.dumps({"metadata": meta, "spec": pod["spec"]}, sort_keys=True)


def staying(items: Iterable[dict[str, Any]]) -> dict[str, str]:
    """name -> uid of those that nobody has deleted."""
    metas = (item["metadata"] for item in items)
    return {meta["name"]: meta["uid"] for meta in metas if "deletionTimestamp" not in meta}


def leaving(item: Mapping[str, Any], spaces: Mapping[str, str], nodes: Mapping[str, str]) -> bool:
    """True for what was deleted, or goes with its namespace, with the node that it is on, or with the Node that owns it
    (Kubernetes' garbage collectors take such pods away up to a minute later). ``spaces``, ``nodes``: what stays.
    """
    meta = item["metadata"]
    owners = {owner["uid"] for owner in meta.get("ownerReferences") or () if owner["kind"] == "Node"}
    node = item.get("spec", {}).get("nodeName") if item["kind"] == "Pod" else None
    return (
        "deletionTimestamp" in meta
        or ("namespace" in meta and meta["namespace"] not in spaces)
        or not owners <= set(nodes.values())
        or (bool(node) and node not in nodes)
    )


if __name__ == "__main__":
    print(*(f"{name} {told}" for name, told in sorted(world(sys.argv[1], kubelets=True).items())), sep="\n")
