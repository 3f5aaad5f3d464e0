# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user asks for, checked as a whole before anything else happens.

Made by the module from its options (`parse_app`); everything behind it may rely on what is said here. Every refusal
names the option, what was wrong with it, and what is expected.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InputError, QuantityError
from ..model.labels import LabelSelector
from ..model.names import check_subdomain, is_label, is_subdomain, shown
from ..model.quantity import MAX_INT64, bytes_
from .fsid import DEFAULT_MOUNT_ROOT, mount_point
from .given import Given, agreed, read_given
from .given_beside import check_governing
from .given_disks import merged
from .given_set import SetGiven
from .pod_change import without_running_fields
from .service_wanted import service_of
from .template_shape import check_readable, pod_template
from .update_rules import UpdateRules, update_rules

APP_LABEL = "berth.dev/app"
ORDINAL_LABEL = "berth.dev/ordinal"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
#: The selector of everything that berth has made, of whichever app or claim.
OURS = f"{MANAGED_LABEL}=berth"
STATEFUL_SET = "StatefulSet"
POD = "Pod"
#: The revision that an object was made from: a field that left it leaves no other trace in a subset comparison.
REVISION_ANNOTATION = "berth.dev/revision"
#: A StatefulSet's pods carry the label controller-revision-hash: the set's name, a dash, ten characters; a label has
#: 63.
_STATEFUL_SET_NAME = 52
_MAX_REPLICAS = 10_000


@dataclass(frozen=True)
class DiskWanted:
    """One disk of every replica. ``size`` in bytes; ``disk_names`` pins (any of these, one for each replica)."""

    name: str
    size: int
    storage_class: str | None
    volume_mode: str
    fs_type: str | None
    selector: Mapping[str, Any] | None
    disk_names: tuple[str, ...]


@dataclass(frozen=True)
class DeviceWanted:
    """``count`` whole devices, or ``share`` thousandths of one."""

    name: str
    device_class: str
    count: int
    share: int | None


@dataclass(frozen=True)
class AppWanted:
    """A stateful application. ``template`` is the pod template with berth's labels; ``service`` a Service manifest or
    None.

    ``admitted``: a pod of it as the namespace's admission returned it; None where none was asked for. What is made is
    made from the template, and so is the revision: only what counts against a node is taken from this.
    ``update``: how a changed template reaches the pods; None: none is to. ``suspended``: its replicas keep all that
    they have, and no pod runs.
    """

    name: str
    namespace: str
    replicas: int
    workload: str
    template: Mapping[str, Any]
    service: Mapping[str, Any] | None
    disks: tuple[DiskWanted, ...]
    devices: tuple[DeviceWanted, ...]
    pod_management_policy: str
    mount_root: str
    #: what the StatefulSet's manifest said beside its template
    given: SetGiven = field(default_factory=SetGiven)
    #: Services and ConfigMaps of the same manifest, the Service of ``service`` left out
    beside: tuple[Mapping[str, Any], ...] = ()
    admitted: Mapping[str, Any] | None = None
    update: UpdateRules | None = None
    suspended: bool = False

    def berth_name(self, ordinal: int) -> str:
        """Also the pod's name, for either workload."""
        return f"{self.name}-{ordinal}"

    def claim_name(self, claim: str, ordinal: int) -> str:
        """The PVC's name: the one that a StatefulSet looks for."""
        return f"{claim}-{self.name}-{ordinal}"

    @property
    def handed(self) -> tuple[DeviceWanted, ...]:
        """The devices that a container of the template names in resources.claims: those it is given, not only locked
        for."""
        return handed_devices(self.template["spec"], self.devices)

    @property
    def service_name(self) -> str:
        return str(self.service["metadata"]["name"]) if self.service else self.name

    @property
    def revision(self) -> str:
        """A hash of everything that a pod of this app is made from."""
        return digest([self.template, self.workload])

    @property
    def set_revision(self) -> str:
        """A hash of everything that its StatefulSet is made from, as far as a manifest said it."""
        own = [dict(self.given.fields), dict(self.given.metadata.labels), dict(self.given.metadata.annotations)]
        return digest([self.revision, own]) if any(own) else self.revision

    @property
    def base(self) -> str:
        """A hash of what of a bare pod no update in place changes: all but images, cpu and memory."""
        return digest(without_running_fields(self.template))


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits that are the same for the same value, as JSON has it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def handed_devices(spec: Mapping[str, Any], devices: tuple[DeviceWanted, ...]) -> tuple[DeviceWanted, ...]:
    """Which devices the containers of a pod's spec ask for by name, as they ask for volumes by mounting them."""
    users = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    named = {claim.get("name") for user in users for claim in (user.get("resources") or {}).get("claims") or ()}
    return tuple(device for device in devices if device.name in named)


def shared_claim_name(claim: str, app: str) -> str:
    """The ResourceClaim that the template of a StatefulSet names. There is none: each pod gets its own berth's, by the
    admission policy berth-device-claims; where that policy is missing the pod waits, and is never given a wrong one."""
    return f"{claim}-{app}"


def check_app_name(name: str, namespace: str, workload: str = STATEFUL_SET, replicas: int = 1) -> None:
    """Raises InputError for a name that some object of the app could not carry."""
    limit = _STATEFUL_SET_NAME if workload == STATEFUL_SET else 63 - len(f"-{max(replicas - 1, 0)}")
    if not is_label(name) or len(name) > limit:
        raise InputError(
            f"name {name!r} ({len(name)} characters) cannot be used: expected a DNS-1123 label of at most {limit} "
            f"characters "
            f"(lower case letters, digits, '-'), because {_why_limit(workload)}"
        )
    if not is_label(namespace):
        raise InputError(
            f"namespace {shown(namespace)} cannot be used: expected a DNS-1123 label of at most 63 characters"
        )


def _why_limit(workload: str) -> str:
    if workload == STATEFUL_SET:
        return "a StatefulSet's pods carry its name and a hash in one label of 63 characters"
    return "a pod's host name is the app's name and its ordinal, 63 characters in all"


def parse_app(options: Mapping[str, Any]) -> AppWanted:
    """The options of ``stateful_app`` as one checked value. Raises InputError; touches nothing.

    Without a workload (None) it is a StatefulSet where there are disks.
    """
    name, namespace = options["name"], options["namespace"]
    given = read_given(options.get("template"), name, namespace, {APP_LABEL: name, MANAGED_LABEL: "berth"})
    told = given.workload
    asked = merged(options["disks"] or (), told.disks)
    workload = options["workload"] or (STATEFUL_SET if asked else POD)
    replicas = agreed("replicas", options.get("replicas"), "spec.replicas", told.replicas, 1)
    if replicas < 0 or replicas > _MAX_REPLICAS:
        raise InputError(f"replicas is {replicas}: expected 0 to {_MAX_REPLICAS}")
    check_app_name(name, namespace, workload, replicas)
    disks = tuple(_disk(index, disk, name) for index, disk in enumerate(asked))
    devices = tuple(_device(index, device) for index, device in enumerate(options["devices"] or ()))
    _unique("disks", [disk.name for disk in disks])
    _unique("devices", [device.name for device in devices])
    _enough_pins(disks, replicas)
    if workload == STATEFUL_SET and not disks:
        raise InputError(
            "disks is empty: the pods of a StatefulSet are tied to their berths by their disks; "
            "name at least one disk, or use workload: Pod, where each pod is tied to its node"
        )
    if options["workload"] == POD and told.of_sets_alone:
        raise InputError(
            f"workload is Pod, and the StatefulSet in template or src has {', '.join(told.of_sets_alone)}, which bare "
            "pods do not have: leave them out, or use workload: StatefulSet"
        )
    mount_root = options.get("mount_root") or DEFAULT_MOUNT_ROOT
    mount_point("check", mount_root)
    template = _template(options, given.template, name, disks)
    _hand_over(template["spec"], name, devices)
    check_readable(template, name, namespace)
    policy = agreed(
        *("pod_management_policy", options.get("pod_management_policy")),
        *("spec.podManagementPolicy", told.pod_management_policy, "OrderedReady"),
    )
    update = update_rules(options, replicas, told.fields, template)
    if update.min_ready and workload == STATEFUL_SET:  # its status counts by the same rule
        told = replace(told, fields={**told.fields, "minReadySeconds": update.min_ready})
    app = AppWanted(
        name,
        namespace,
        replicas,
        workload,
        template,
        None,
        disks,
        devices,
        policy,
        mount_root,
        told,
        update=update,
        suspended=bool(options.get("suspended")),
    )
    return _with_services(app, options.get("service"), given)


def _with_services(app: AppWanted, option: Mapping[str, Any] | None, given: Given) -> AppWanted:
    """The Service that gives the pods their names, the manifest's or one that is made; and all that is beside it."""
    told = given.workload.service_name
    name = agreed("service.name", (option or {}).get("name"), "spec.serviceName", told, app.name)
    beside = [_revised(one) for one in given.beside]
    own = [one for one in beside if (one["kind"], one["metadata"]["name"]) == ("Service", name)]
    if own:
        check_governing(own[0], app.template["metadata"]["labels"])
        if option is not None:
            raise InputError(f"service is given, and Service {name} in template or src too: keep one of them")
        service = own[0]
    elif option is not None or told is not None or app.workload == STATEFUL_SET:
        wanted = {**(option or {}), "name": name}
        service = service_of(wanted, app.name, app.namespace, {APP_LABEL: app.name}, {MANAGED_LABEL: "berth"})
    else:
        return replace(app, beside=tuple(beside))
    return replace(app, service=service, beside=tuple(one for one in beside if one not in own))


def _revised(manifest: Mapping[str, Any]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), REVISION_ANNOTATION: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _disk(index: int, disk: Mapping[str, Any], app: str) -> DiskWanted:
    where = f"disks[{index}]"
    name = _claim(where, str(disk.get("name")))
    if len(f"{name}-{app}") > 240:
        raise InputError(f"{where}.name {name!r} is too long for the claim {name}-{app}-N")
    try:
        size = bytes_(disk["size"])
    except QuantityError as exc:
        raise InputError(f"{where}.size ({name}): {exc}; expected a quantity such as 10Gi") from exc
    if size <= 0:
        raise InputError(f"{where}.size ({name}) is {disk['size']}: expected more than 0")
    if size >= MAX_INT64:
        raise InputError(f"{where}.size ({name}) is {shown(disk['size'])}: expected a size that a disk can have")
    if disk.get("fs_type") and disk["volume_mode"] == "Block":
        raise InputError(
            f"{where} ({name}): fs_type {disk['fs_type']} has no meaning with volume_mode Block; leave it out"
        )
    pins = tuple(disk.get("disk_names") or ())
    for pin in pins:
        if not is_subdomain(pin):
            raise InputError(f"{where}.disk_names ({name}): {shown(pin)} is not the name of a LocalDisk")
    _unique(f"{where}.disk_names ({name})", list(pins))
    if disk.get("storage_class"):
        check_subdomain(disk["storage_class"], f"{where}.storage_class ({name})")
    LabelSelector.parse(disk.get("selector"), f"{where}.selector ({name})")
    return DiskWanted(
        name, size, disk.get("storage_class"), disk["volume_mode"], disk.get("fs_type"), disk.get("selector"), pins
    )


def _device(index: int, device: Mapping[str, Any]) -> DeviceWanted:
    where = f"devices[{index}]"
    name = _claim(where, str(device.get("name")))
    share, count = device.get("share"), device.get("count")
    if share is not None and count is not None:
        raise InputError(f"{where} ({name}): count and share exclude each other: whole devices, or a part of one")
    if share is not None and not 1 <= share <= 1000:
        raise InputError(f"{where}.share ({name}) is {share}: expected 1 to 1000 thousandths of a device")
    if count is not None and not 1 <= count <= 64:
        raise InputError(f"{where}.count ({name}) is {count}: expected 1 to 64")
    check_subdomain(device["device_class"], f"{where}.device_class ({name})")
    return DeviceWanted(name, device["device_class"], 1 if count is None else count, share)


def _claim(where: str, name: str) -> str:
    if not is_label(name):
        raise InputError(f"{where}.name {shown(name)} cannot name a volume: expected a DNS-1123 label")
    return name


def _unique(option: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{option} names {', '.join(twice)} twice: every name may stand there once")


def _enough_pins(disks: tuple[DiskWanted, ...], replicas: int) -> None:
    for disk in disks:
        if disk.disk_names and len(disk.disk_names) < replicas:
            raise InputError(
                f"disks ({disk.name}): {len(disk.disk_names)} disk_names are given for {replicas} replicas; name at "
                f"least one disk for each"
            )


def _template(options: Mapping[str, Any], source: Any, app: str, disks: tuple[DiskWanted, ...]) -> dict[str, Any]:
    """The pod template with berth's labels and spread constraints, or InputError."""
    template = pod_template(copy.deepcopy(source), STATEFUL_SET)
    spec = template["spec"]
    _volumes_do_not_collide(spec, disks)
    constraints = options.get("topology_spread_constraints")
    if constraints:
        if spec.get("topologySpreadConstraints"):
            raise InputError(
                "topology_spread_constraints is given, and template.spec.topologySpreadConstraints too: keep one of "
                "them"
            )
        spec["topologySpreadConstraints"] = constraints
    if spec.get("nodeName"):
        raise InputError(
            "template.spec.nodeName is set: it would take the choice of nodes away; use nodeSelector or affinity"
        )
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), APP_LABEL: app, MANAGED_LABEL: "berth"}
    kept = {key: value for key, value in metadata.items() if key == "annotations" and value}
    return {"metadata": {**kept, "labels": labels}, "spec": spec}


def _hand_over(spec: dict[str, Any], app: str, devices: tuple[DeviceWanted, ...]) -> None:
    """Give the pod a claim for each device that its containers ask for."""
    handed = handed_devices(spec, devices)
    own = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
    for device in handed:
        if device.name in own:
            raise InputError(
                f"devices: {device.name!r} is the name of a claim in template.spec.resourceClaims too: rename one of "
                f"them; the claims of devices are made by this app"
            )
    if handed:
        claims = [{"name": each.name, "resourceClaimName": shared_claim_name(each.name, app)} for each in handed]
        spec["resourceClaims"] = [*(spec.get("resourceClaims") or ()), *claims]


def _volumes_do_not_collide(spec: Mapping[str, Any], disks: tuple[DiskWanted, ...]) -> None:
    own = {volume.get("name") for volume in spec.get("volumes") or () if isinstance(volume, Mapping)}
    for disk in disks:
        if disk.name in own:
            raise InputError(
                f"disks: {disk.name!r} is the name of a volume of template.spec.volumes too: rename one of them"
            )
        key = "volumeDevices" if disk.volume_mode == "Block" else "volumeMounts"
        users = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        if not any(mount.get("name") == disk.name for user in users for mount in user.get(key) or ()):
            raise InputError(
                f"disks: no container of the template uses {disk.name!r}: expected it in {key} of one of them"
            )
