# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what the exchange of a disk under a claim without an app looks at.

Called by disk_replace and replacing.py. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...berth_core.app import claims, manifests
from ...berth_core.app.replace_plan import Replica, of_claim, replica_of, replica_of_claim
from ...berth_core.app.wanted import APP_LABEL
from ...berth_core.errors import StateError
from ...berth_core.lifecycle.replacing import Exchange, OfClaim
from ...berth_core.lifecycle.step import Ref
from ...berth_core.lifecycle.view import View, disks_of
from ...berth_core.model import resources as kinds
from ...berth_core.model.tenant import Tenant
from ..client import ApiClient
from .driver import Driver


def whose(client: ApiClient, old: str, owner: Mapping[str, Any] | None) -> Replica | None:
    """The replica whose disk it is; None where that is gone with its namespace, whatever has its name now.

    Raises StateError for a claim that nobody would make again.
    """
    if owner is None or not _of_today(client, owner):
        return None
    if not of_claim(owner):
        return replica_of(owner)
    return replica_of_claim(old, owner, client.list(kinds.STATEFUL_SET, owner["namespace"]))


def _of_today(client: ApiClient, owner: Mapping[str, Any]) -> bool:
    kept = Tenant.on_record(owner)
    if not kept.namespace_uid:
        return True
    return Tenant.in_namespace(client.find(kinds.NAMESPACE, owner["namespace"]), kept.pod_uid).may_have(kept)


def exchange_of_claim(
    client: ApiClient, replica: Replica, old: Mapping[str, Any], declared: Mapping[str, Any], mount_root: str
) -> Exchange:
    """The exchange of that disk. Raises StateError where the claim's class is gone."""
    name, of_class = old["metadata"]["name"], old["spec"].get("storageClassName", "")
    storage_class = client.find(kinds.STORAGE_CLASS, of_class)
    if not claims.ours(storage_class) or storage_class is None:
        raise StateError(
            f"LocalDisk {name}: StorageClass {of_class} of claim {replica.namespace}/{replica.claim_name} is gone, or "
            f"not of provisioner {claims.PROVISIONER}: make it again as it was; nothing was changed"
        )
    of = OfClaim(replica.namespace, replica.claim_name, replica.app, replica.berth, storage_class, mount_root)
    return Exchange(claims.volume_label(replica.claim_name), name, declared, of)


def look_at_claim(client: ApiClient, driver: Driver, view: View, exchange: Exchange, of: OfClaim) -> View:
    """The claim, the Berth that has the old disk, that of the claim as it is now, their volumes, and the pod."""
    view = driver.look(view, Ref(kinds.PVC, of.name, of.namespace))
    claim = view.claims.get(of.name)
    heir = claims.berth_name(claim["metadata"]["uid"]) if claim is not None else ""
    berths = client.list(kinds.BERTH, of.namespace, labels=f"{APP_LABEL}={claims.app_name(of.name)}")
    on_old = [one for one in berths if exchange.old in [each["name"] for each in disks_of(one)]]
    new = next((one for one in berths if one["metadata"]["name"] == heir and one not in on_old), None)
    view = replace(view, berth=on_old[0] if on_old else None, heir=new)
    for record in view.records():
        for entry in disks_of(record):
            view = driver.look(view, Ref(kinds.PV, manifests.volume_of(record, entry)))
    view = driver.look(view, Ref(kinds.POD, of.pod, of.namespace))
    node = client.get(kinds.NODE, exchange.declared["spec"]["nodeName"])
    return replace(view, hostname=manifests.hostname_of(node))
