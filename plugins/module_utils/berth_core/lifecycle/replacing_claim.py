# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One disk for another under a claim without an app: the claim goes with its Berth, and its heir gets the new disk.

A claim cannot be tied to another volume, so a StatefulSet's controller makes it anew, with another uid and so another
Berth. Two things carry the exchange from the one to the other: the old Berth, which stays Replacing until the new one
is Reserved, and the old disk, which keeps the data and is cordoned, so that no other one is chosen for the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..app import claims
from ..app.claim_disks import unfit
from ..app.observed import ready
from ..model.disk import LocalDisk
from ..model.resources import PVC
from ..model.tenant import Tenant
from . import back, replacing, states
from .claim import ClaimOwner
from .replacing import Exchange, OfClaim
from .step import DONE, Choose, Ref, Step, Wait
from .view import Object, View, going, recorded


def heir(view: View, exchange: Exchange, of: OfClaim) -> View | Wait:
    """The claim that was made anew and its Berth, to be carried on as any other claim; a Wait where it is not there."""
    claim, record = view.claims.get(of.name), _record(view, of)
    if claim is None or going(claim):
        text = f"StatefulSet {of.namespace}/{of.workload} to make its claim {of.name} again"
        return Wait("ClaimMissing", text, on=Ref(PVC, of.name, of.namespace), part="assign")
    has = [each["name"] for each in (record or {"spec": {}})["spec"].get("disks") or ()]
    bound = claim["spec"].get("volumeName") if record is None else None
    if bound or (record is not None and has != [exchange.new]):
        what = f"PersistentVolume {bound}" if bound else f"LocalDisk {', '.join(has)}"
        text = f"claim {of.namespace}/{of.name} was given {what} meanwhile, not LocalDisk {exchange.new}"
        return Wait("OtherDisk", f"{text}: it needs no exchange any more", True, part="assign")
    owner = ClaimOwner(
        claims.parse(claim, of.storage_class),
        own=True,
        chosen=LocalDisk.from_object(view.disks[exchange.new]),
        mount_root=of.mount_root,
    )
    return replace(view, owner=owner, berth=record, exchange=None, heir=None)


def old_goes(view: View, of: OfClaim) -> Step | None:
    """The old Berth is given up when the new one is Reserved: until then it says that the claim's disk is exchanged."""
    old, new = view.berth, _record(view, of)
    if old is None or new is None or not states.reached(recorded(new), states.RESERVED):
        return None
    return back.release(view, old, "the claim that was made anew has the new disk")._replace(part="bind")


def named(view: View, of: OfClaim, step: Step) -> Step:
    """A step of the heir as one of the exchange; when it is bound, its pod is waited for."""
    record = _record(view, of)
    if step == DONE:
        there = ready(view.pods.get(of.pod))
        return DONE if there else Wait("Pod", f"waits for pod {of.pod} to be Ready", part="run")
    if isinstance(step, Choose):
        return step
    if record is None:
        return step._replace(part="assign")
    part = "bind" if states.reached(recorded(record), states.RESERVED) else "lock"
    if isinstance(step, Wait) and step.reason == "Binding":
        return step._replace(on=Ref(PVC, of.name, of.namespace), part=part)
    return step._replace(part=part)


def unfitting(view: View, exchange: Exchange, of: OfClaim) -> Wait | None:
    """A disk that is not what the claim asks for is refused before anything is touched."""
    claim = view.claims.get(of.name)
    if claim is None:
        return None
    why = unfit(claims.parse(claim, of.storage_class), LocalDisk.from_object(exchange.declared))
    if not why:
        return None
    text = f"LocalDisk {exchange.new}, as it is declared, is {why} for claim {of.namespace}/{of.name}"
    return Wait("Unfit", f"{text}: name another disk; nothing was changed", True)


def rename(view: View, record: Object, exchange: Exchange) -> Step | None:
    """Its own disks never change: another new disk may be named as long as the heir has none."""
    told = (record.get("status") or {}).get("replacing") or {}
    return replacing.replace(view, record, exchange) if told.get("to") != exchange.new else None


def end_named(view: View, of: OfClaim, step: Step) -> Step:
    """A step of the end of the old Berth as one of the exchange."""
    new = _record(view, of)
    after = new is not None and states.reached(recorded(new), states.RESERVED)
    return step if isinstance(step, Choose) else step._replace(part="bind" if after else "release")


def adopt(view: View, exchange: Exchange, of: OfClaim) -> Step | None:
    new, record = view.disks.get(exchange.new), _record(view, of)
    kept: Mapping[str, Any] = ((new or {}).get("spec") or {}).get("retainedFor") or {}
    same = (kept.get("namespace"), kept.get("app")) == (of.namespace, claims.app_name(of.name))
    asking = _tenant(view, exchange)
    if same and (not asking.namespace_uid or asking.may_have(Tenant.on_record(kept))):
        return None  # it was this claim's already, and only this claim gets it
    return replacing.adopt(view, exchange, record["metadata"]["uid"] if record is not None else "")


def _tenant(view: View, exchange: Exchange) -> Tenant:
    """Whose the claim is, as the old disk has it on record."""
    spec = (view.disks.get(exchange.old) or {}).get("spec") or {}
    return Tenant.on_record(spec.get("claimRef") or spec.get("retainedFor") or {})


def _record(view: View, of: OfClaim) -> Object | None:
    """The Berth of the claim that is there now, where that is not the one that goes."""
    claim, found = view.claims.get(of.name), view.heir
    if claim is None or found is None or found["metadata"]["name"] != claims.berth_name(claim["metadata"]["uid"]):
        return None
    return found
