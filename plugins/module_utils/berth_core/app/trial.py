# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of an app is tried on the API server before anything is chosen or written, and what its refusal means.

Pure: which objects a plan will create or change, one for all that are alike, and what they use of quotas. The trial
itself (dry runs) is in _glue/app/trying.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

from ..errors import AdmissionError, ApiError, InputError
from ..lifecycle import states
from ..lifecycle.view import disks_of
from ..model.resources import BERTH, CONFIG_MAP, POD, PV, PVC, RESOURCE_CLAIM, SERVICE, STATEFUL_SET, Resource
from . import manifests, quota
from .choose import Choice, World
from .given_beside import BESIDE
from .observed import Object, Observed
from .plan import Plan, beside_changes, service_change, stateful_set_change, strategy_patch, without_strategy
from .wanted import POD as POD_WORKLOAD
from .wanted import AppWanted, DiskWanted

Manifest = dict[str, Any]
#: The name of what is tried and will be called otherwise: a volume is called after its disk and its berth.
ASIDE = "trial"
#: (ordinal, disk) -> the class that the claim will have; None: not known.
ClassOf = Callable[[int, DiskWanted], "str | None"]
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
#: The field that a server-side apply cannot merge.
_UNMERGED = re.compile(r"typed patch object \([^)]*\): \.(\S+): ")
#: What admission says, and what to do about it.
_REMEDIES = (
    ("no PriorityClass", "create that PriorityClass, or change template.spec.priorityClassName"),
    ("service account", "create that ServiceAccount, or change template.spec.serviceAccountName"),
    ("violates PodSecurity", "change the securityContext of the template, or choose a namespace that allows it"),
    ("usage per", "keep to the LimitRange of the namespace: change the template's resources or the disks' size"),
    ("must specify", "give the template's containers the requests and limits that the ResourceQuota counts"),
)


def needs_pod(plan: Plan) -> bool:
    """Whether anything is chosen, recorded or created for which a pod of this template counts."""
    going = any(not states.reached(now, states.CREATED) for now in (plan.advance or {}).values())
    return bool(plan.select or plan.refresh or plan.restart or going)


def trial_pod(app: AppWanted, observed: Observed, aside: bool = False) -> Manifest:
    """A pod as it will be created, under the name of one that is not there; ``aside``: under a name that none has.

    The name of a Berth is not tried: the policy berth-node-affinity would give the pod that Berth's node, and what is
    tried here stands for all replicas.
    """
    ordinals = range(app.replicas)
    missing = (ordinal for ordinal in ordinals if observed.pod(ordinal) is None and ordinal not in observed.berths)
    ordinal = next(missing, None)
    body = manifests.untied_pod(app, ordinal or 0)
    if ordinal is None or aside:
        body["metadata"]["name"] += f"-{ASIDE}"
    return body


def workload(app: AppWanted, observed: Observed) -> list[tuple[Resource, Object]]:
    """What will be applied, however far this run goes: StatefulSet, Services and ConfigMaps, where they change."""
    changes = ((STATEFUL_SET, _stateful_set(app, observed)), (SERVICE, service_change(app, observed)))
    beside = [(BESIDE[body["kind"]], body) for body in beside_changes(app, observed)]
    return [*((resource, body) for resource, body in changes if body is not None), *beside]


def _stateful_set(app: AppWanted, observed: Observed) -> Mapping[str, Any] | None:
    """Without the strategy where that is patched before: a dry run of the one knows nothing of the other."""
    desired = stateful_set_change(app, observed)
    if desired is None or strategy_patch(desired, observed.stateful_set) is None:
        return desired
    return without_strategy(desired)


def storage(app: AppWanted, observed: Observed) -> list[tuple[Resource, Manifest]]:
    """A volume and a claim for each disk of the app, of the first replica that has none."""
    found: list[tuple[Resource, Manifest]] = []
    for disk in app.disks:
        ordinal = next(_without_claim(app, observed, disk), None)
        if ordinal is not None:
            found += _pair(app, disk, ordinal)
    return found


def _pair(app: AppWanted, disk: DiskWanted, ordinal: int) -> list[tuple[Resource, Manifest]]:
    name = f"{app.name}-{ASIDE}"
    identity = {"serial": ASIDE, "size": disk.size}
    spec = {"nodeName": ASIDE, "identity": identity, "volumeMode": disk.volume_mode}
    local = {"metadata": {"name": name}, "spec": spec, "status": {"observed": {"byId": ASIDE}}}
    record = {"metadata": {"uid": f"{ASIDE}-{ASIDE}"}, "spec": {"ordinal": ordinal}}  # as long as a policy expects one
    return [
        (PV, manifests.volume(app, record, disk.name, local, ASIDE)),
        (PVC, manifests.claim(app, record, disk.name, local)),
    ]


def _without_claim(app: AppWanted, observed: Observed, disk: DiskWanted) -> Iterator[int]:
    return (o for o in range(app.replicas) if app.claim_name(disk.name, o) not in observed.claims)


# -- quotas


def demands(app: AppWanted, observed: Observed, plan: Plan, class_of: ClassOf) -> list[quota.Demand]:
    """Everything that is going to be created in the namespace, less what goes before it."""
    spec = (app.template if app.admitted is None else app.admitted)["spec"]
    gone = sum(observed.pod(ordinal) is not None for ordinal in plan.release)
    missing = 0 if app.suspended else sum(observed.pod(ordinal) is None for ordinal in range(app.replicas))
    pods = missing - gone
    found = [
        quota.Demand(pods + len(plan.restart), quota.of_pod(spec), spec),
        quota.Demand(pods, quota.of_object(POD.plural), spec),
        quota.Demand(len(plan.select) - len(plan.discard) - len(plan.release), _one(BERTH)),
        quota.Demand(int(observed.service is None and app.service is not None), _one(SERVICE)),
        quota.Demand(int(app.workload != POD_WORKLOAD and observed.stateful_set is None), _one(STATEFUL_SET)),
        quota.Demand(len(app.handed) * (len(plan.select) - len(plan.release)), _one(RESOURCE_CLAIM)),
    ]
    for body in app.beside:
        missing = (body["kind"], body["metadata"]["name"]) not in observed.beside
        found.append(quota.Demand(int(missing), _one(BESIDE[body["kind"]])))
    if not plan.release:  # claims that go make room by classes that nobody has looked up
        for disk in app.disks:
            lacking = _without_claim(app, observed, disk)
            found += [quota.Demand(1, quota.of_claim(disk.size, class_of(ordinal, disk))) for ordinal in lacking]
    return found


class Classes:
    """The class of a claim: the one that is asked for, or that of the disk that was chosen."""

    def __init__(self, seen: Observed, choices: Sequence[Choice], world: World | None) -> None:
        known = {each["metadata"]["name"]: each for each in (world.disks if world is not None else ())}
        self._disks = {**seen.disks, **known}
        self._names = {
            ordinal: {each["claim"]: each["name"] for each in disks_of(record)}
            for ordinal, record in seen.berths.items()
        }
        self._names.update({choice.ordinal: dict(choice.disks) for choice in choices})

    def __call__(self, ordinal: int, disk: DiskWanted) -> str | None:
        if disk.storage_class is not None:
            return disk.storage_class
        found = self._disks.get(self._names.get(ordinal, {}).get(disk.name, ""))
        return found["spec"].get("storageClassName") if found else None


def _one(resource: Resource) -> quota.Usage:
    return quota.of_object(resource.plural, resource.group)


def exceeded(app: AppWanted, lines: Sequence[str]) -> str:
    """The message for what the quotas of the namespace refuse."""
    return (
        f"the quotas of namespace {app.namespace} leave no room for what {app.name} is going to create: "
        f"{'; '.join(lines)}; raise the quota, or ask for fewer replicas or less; nothing was written"
    )


def is_quota(refused: ApiError) -> bool:
    """Whether it is a quota that has no room for one more: it is counted for all of them afterwards."""
    return isinstance(refused, AdmissionError) and "exceeded quota" in refused.message


def is_new_namespace(refused: InputError) -> bool:
    """Whether it may be the moment between a namespace and the account that every namespace gets."""
    return 'serviceaccount "default" not found' in refused.message


# -- refusals


def refusal(app: AppWanted, resource: Resource, refused: ApiError) -> InputError:
    """The API server's refusal of one of the app's objects, as an error that says what to change."""
    if refused.status == 404 and "namespaces" in refused.message:
        return InputError(f"namespace {app.namespace} does not exist; create it first")
    return InputError(
        f"{refused.message}; {_remedy(resource, refused)}; it was tried beforehand, and nothing was written",
        status=refused.status,
        reason=refused.reason,
        causes=refused.causes,
    )


def _remedy(resource: Resource, refused: ApiError) -> str:
    for words, remedy in _REMEDIES:
        if words in refused.message:
            return remedy
    fields = [str(cause["field"]) for cause in refused.causes if cause.get("field")]
    fields += [*_UNKNOWN.findall(refused.message), *_UNMERGED.findall(refused.message)]
    where = ", ".join(dict.fromkeys(_option(resource, field) for field in fields))
    return f"change {where or _OPTIONS[resource]}"


#: The option of stateful_app from which an object is made.
_OPTIONS: Mapping[Resource, str] = {
    POD: "template",
    STATEFUL_SET: "template",
    SERVICE: "service",
    CONFIG_MAP: "template",
    PV: "disks",
    PVC: "disks",
}


def _option(resource: Resource, field: str) -> str:
    option = _OPTIONS[resource]
    if resource == STATEFUL_SET:
        return field[len("spec.") :] if field.startswith("spec.template") else field
    return f"{option}.{field}" if option == "template" else f"{option} ({field})"
