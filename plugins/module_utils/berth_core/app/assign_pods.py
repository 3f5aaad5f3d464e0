# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who schedules a pod is decided in one place: admission policies that give pods a scheduler where nobody wrote one.

Called by the module scheduler (assign_pods). When a policy sees a pod, the API server has filled in the default
already: a pod whose maker wrote nothing and one whose maker wrote default-scheduler are the same (docs/decisions/0036).
Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .shipped import INSTANCE, NAME_LABEL, PART_OF

#: On a namespace: who schedules its pods. On a pod: who schedules this one, whatever the namespace says.
LABEL = "berth.dev/scheduler"
#: What the API server writes where nobody wrote a name.
_NOBODY = "default-scheduler"
#: Without its pods nothing is placed in a cluster, a scheduler's neither.
_KUBE_SYSTEM = "kube-system"
_API = "admissionregistration.k8s.io/v1"
_PODS: Mapping[str, Any] = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
_UNWRITTEN = {
    "name": "nobody-wrote-a-scheduler",
    "expression": f"object.spec.?schedulerName.orValue('{_NOBODY}') == '{_NOBODY}'",
}
_UNPLACED = {"name": "is-to-be-scheduled", "expression": "object.spec.?nodeName.orValue('') == ''"}

Object = dict[str, Any]


def names(scheduler: str) -> tuple[str, str]:
    """What the policies of a scheduler are called: that of labelled namespaces, that of StorageClasses."""
    return f"{scheduler}-namespaces", f"{scheduler}-storage-classes"


def objects(scheduler: str, namespace: str, storage_classes: Sequence[str] = ()) -> list[Object]:
    """The policies with their bindings: for pods of labelled namespaces, and for those that bring a volume of one of
    these StorageClasses with them, in every namespace.

    ``namespace``: the scheduler's own, whose pods it cannot place before it runs. The names have been checked.
    """
    labelled, classed = names(scheduler)
    unmarked = {
        "name": "its-own-label-names-no-other",
        "expression": f"object.metadata.?labels[?'{LABEL}'].orValue('{scheduler}') == '{scheduler}'",
    }
    conditions = [_UNWRITTEN, _UNPLACED, unmarked]
    others = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted({_KUBE_SYSTEM, namespace}),
    }
    chosen = {"matchLabels": {LABEL: scheduler}, "matchExpressions": [others]}
    made = _pair(labelled, scheduler, chosen, conditions)
    if storage_classes:
        listed = ", ".join(f"'{each}'" for each in sorted(set(storage_classes)))
        uses = {
            "name": "brings-a-volume-of-a-storage-class",
            "expression": "object.spec.?volumes.orValue([]).exists(v, v.?ephemeral.?volumeClaimTemplate.?spec"
            f".?storageClassName.orValue('') in [{listed}])",
        }
        made += _pair(classed, scheduler, {"matchExpressions": [others]}, [*conditions, uses])
    return made


def absent(scheduler: str, wanted: Sequence[Mapping[str, Any]] = ()) -> list[Object]:
    """Those of the scheduler's policies and bindings, by kind and name, that are not wanted."""
    all_of_them = [one for name in names(scheduler) for one in _pair(name, scheduler, {}, [])]
    kept = {(one["kind"], one["metadata"]["name"]) for one in wanted}
    return [one for one in all_of_them if (one["kind"], one["metadata"]["name"]) not in kept]


def _pair(
    name: str, scheduler: str, namespaces: Mapping[str, Any], conditions: Sequence[Mapping[str, str]]
) -> list[Object]:
    meta = {"name": name, "labels": {PART_OF: "berth", NAME_LABEL: "berth-scheduler", INSTANCE: scheduler}}
    given = f"Object{{spec: Object.spec{{schedulerName: '{scheduler}'}}}}"
    policy = {
        "apiVersion": _API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": meta,
        "spec": {
            "failurePolicy": "Fail",
            # A later policy may bring the volume.
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"namespaceSelector": dict(namespaces), "resourceRules": [dict(_PODS)]},
            "matchConditions": [dict(one) for one in conditions],
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": given}}],
        },
    }
    binding = {
        "apiVersion": _API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": name},
    }
    return [policy, binding]
