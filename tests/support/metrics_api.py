"""metrics.k8s.io as custom resources: what nodes and pods use is what a test writes, without a metrics-server."""

from __future__ import annotations

from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import Resource

KINDS = (kinds.NODE_METRICS, kinds.POD_METRICS)


def definition(kind: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of NodeMetrics or PodMetrics."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": kind.plural, "singular": kind.plural[:-1], "kind": kind.kind, "listKind": f"{kind.kind}List"}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    # Groups of Kubernetes' own are reserved for what it has approved.
    approved = {"api-approved.kubernetes.io": "unapproved, a metrics-server of a test"}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return {
        "metadata": {"name": kind.definition, "annotations": approved},
        "spec": {"group": kind.group, "scope": scope, "names": names, "versions": [version]},
    }
