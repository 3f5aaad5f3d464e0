# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a replica's disk may be exchanged for: whose it is, and whether the new one can take its place.

Called by the module disk_replace before anything is written; the exchange itself is in lifecycle/replacing.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import IdentityError, InputError, StateError
from . import claims
from .disk_change import SETTINGS, new_disk, wanted_name
from .identity import agrees, from_spec
from .observed import ready

Object = Mapping[str, Any]


class Replica(NamedTuple):
    """Whose disk it is. ``app``: of stateful_app, or the StatefulSet that makes the claim from template ``claim``."""

    namespace: str
    app: str
    ordinal: int
    claim: str

    @property
    def berth(self) -> str:
        """Also the pod's name."""
        return f"{self.app}-{self.ordinal}"

    @property
    def claim_name(self) -> str:
        return f"{self.claim}-{self.app}-{self.ordinal}"


def owner_of(old: Object) -> Object | None:
    """The disk's ``claimRef`` or ``retainedFor``: who holds it, or whose data it keeps; None: it is nobody's."""
    ref: Object | None = old["spec"].get("claimRef") or old["spec"].get("retainedFor")
    return ref or None


def of_claim(owner: Object) -> bool:
    """Whether that is a PersistentVolumeClaim without an app."""
    return str(owner["app"]).startswith(claims.APP_PREFIX)


def replica_of(owner: Object) -> Replica:
    """The replica of an app that an `owner_of` names."""
    return Replica(owner["namespace"], owner["app"], int(owner["ordinal"]), owner["claim"])


def replica_of_claim(old: str, owner: Object, sets: Iterable[Object]) -> Replica:
    """The pod and the template behind a claim without an app. ``sets``: the StatefulSets of its namespace.

    Raises StateError where none of them makes the claim again when it is deleted.
    """
    for one in _made_by(owner["namespace"], sets):
        if (claims.app_name(one.claim_name), claims.volume_label(one.claim_name)) == (owner["app"], owner["claim"]):
            return one
    name = owner["claim"]
    raise StateError(
        f"LocalDisk {old} is of PersistentVolumeClaim {owner['namespace']}/{name}, which no StatefulSet makes: a disk "
        "is exchanged by deleting the claim, and nobody would make it again. Make a claim of another name, restore the "
        f"data into it, let the workload use it, and delete {name} (kubectl delete pvc {name} -n "
        f"{owner['namespace']}); or scale its StatefulSet up, if it has fewer replicas now. Nothing was changed"
    )


def check_pods(replica: Replica, pods: Iterable[Object]) -> None:
    """Refuse to wait for pods that nobody asked to stop. Raises StateError, naming a pod beside the StatefulSet's."""
    for pod in pods:
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if name == replica.berth or phase in ("Succeeded", "Failed"):
            continue
        if replica.claim_name in claims.claims_of_pod(pod):
            raise StateError(
                f"pod {replica.namespace}/{name} mounts claim {replica.claim_name}, too, and is not StatefulSet "
                f"{replica.app}'s: delete it first (kubectl delete pod {name} -n {replica.namespace}); nothing was "
                "changed"
            )


def _made_by(namespace: str, sets: Iterable[Object]) -> Iterator[Replica]:
    """Every claim that these StatefulSets make."""
    for one in sets:
        spec = one["spec"]
        first = int((spec.get("ordinals") or {}).get("start") or 0)
        for template in spec.get("volumeClaimTemplates") or ():
            for ordinal in range(first, first + int(spec.get("replicas", 1))):
                yield Replica(namespace, one["metadata"]["name"], ordinal, template["metadata"]["name"])


def new_local_disk(old: Object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The LocalDisk of the new disk: on the old one's node, with its settings and labels where none are given.

    Raises InputError, IdentityError.
    """
    spec = old["spec"]
    where = f"disk_replace: the disk in place of {old['metadata']['name']}"
    inherited = {option: spec.get(field) for option, field in SETTINGS.items() if option != "reserved"}
    given = {key: value for key, value in wanted.items() if value is not None}
    labels = {**(old["metadata"].get("labels") or {}), **(given.get("labels") or {})}
    made = new_disk({**inherited, **given, "labels": labels, "node_name": spec["nodeName"]}, where)
    if made["metadata"]["name"] == old["metadata"]["name"]:
        raise InputError(f"{where} has the same name; leave name out, or give it another")
    if agrees(from_spec(made["spec"]["identity"]), from_spec(spec["identity"])):
        raise IdentityError(f"{where} is that very disk ({from_spec(spec['identity']).describe()})")
    for field in ("volumeMode", "fsType"):
        default = "Filesystem" if field == "volumeMode" else None
        if spec.get(field, default) != made["spec"].get(field, default):
            raise InputError(f"{where}: {field} cannot differ from the old disk's: the replica's claim is made for it")
    return made


def new_name(old: Object, wanted: Mapping[str, Any]) -> str:
    """The new LocalDisk's name."""
    return wanted_name({**wanted, "node_name": old["spec"]["nodeName"]}, "disk_replace: new")


def check_new(declared: Object, live: Object, owner: Object | None = None) -> None:
    """Refuse a LocalDisk of that name that is not the disk that was declared. ``owner``: whose data it may keep.

    Raises IdentityError, StateError.
    """
    name, asked, there = declared["metadata"]["name"], declared["spec"]["identity"], live["spec"]["identity"]
    if not agrees(from_spec(asked), from_spec(there)) or live["spec"]["nodeName"] != declared["spec"]["nodeName"]:
        raise IdentityError(
            f"LocalDisk {name} is {from_spec(there).describe()} of node {live['spec']['nodeName']}, declared is "
            f"{from_spec(asked).describe()} of node {declared['spec']['nodeName']}; nothing was given to it"
        )
    kept, who = live["spec"].get("retainedFor"), ("namespace", "app", "ordinal", "claim")
    if kept and [kept[key] for key in who] != [(owner or {}).get(key) for key in who]:
        raise StateError(f"LocalDisk {name} keeps the data of {kept['namespace']}/{kept['app']}-{kept['ordinal']}")


def check_quorum(berth: Object, replica: Replica, pods: Iterable[Object]) -> None:
    """Whether enough of the app's other pods are Ready for this one to be stopped. ``pods``: of the app.

    One that is down already is no Ready one less. Raises StateError.
    """
    quorum = int(berth["spec"].get("quorum") or 0)
    up = sorted(str(pod["metadata"]["name"]) for pod in pods if ready(pod))
    others = [name for name in up if name != replica.berth]
    if replica.berth not in up or len(others) >= quorum:
        return
    raise StateError(
        f"replica {replica.namespace}/{replica.berth} is Ready and would be stopped for its new disk; {len(others)} "
        f"others are Ready ({', '.join(others) or 'none'}), and quorum is {quorum}. Bring others back first; or, where "
        "so few may be left, run stateful_app with a smaller quorum, or without it; nothing was changed"
    )


def check_size(berth: Object, replica: Replica, declared: Object) -> None:
    """For the replica of an app; what a claim asks for is looked at in lifecycle/replacing_claim.py.

    Raises StateError where the new disk is too small for what the replica asked for.
    """
    asked = [entry["size"] for entry in berth["spec"].get("disks") or () if entry["claim"] == replica.claim]
    size = declared["spec"]["identity"]["size"]
    if asked and size < asked[0]:
        raise StateError(
            f"LocalDisk {declared['metadata']['name']} has {size} bytes, and claim {replica.claim} of berth "
            f"{replica.namespace}/{replica.berth} asked for {asked[0]}: take a larger disk; nothing was changed"
        )
