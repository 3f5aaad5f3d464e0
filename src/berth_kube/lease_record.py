"""What is written into a Lease, and when somebody else's is over. Called by lease.py alone. Pure.

The fields and their meaning are those of client-go's leader election, so that its clients and these can compete.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from berth_core.model.resources import LEASE

from .clocks import stamp

Obj = dict[str, Any]


class Claim(NamedTuple):
    """Who wants the lease, for how many seconds after each renewal, and what the wall clock shows."""

    identity: str
    seconds: float
    now: dt.datetime


class Observed(NamedTuple):
    """A lease as it was last seen to change, and what the own clock showed then."""

    lease: Obj | None
    at: float

    def look(self, lease: Obj | None, now: float) -> Observed:
        """What is seen now: the time stays that of the last change."""
        if lease is not None and self.lease is not None and _record(lease) == _record(self.lease):
            return Observed(lease, self.at)
        return Observed(lease, now)

    def free_for(self, identity: str, now: float) -> bool:
        """May ``identity`` take it? It is nobody's, its own, or has not changed for as long as it was meant to last."""
        holder = holder_of(self.lease)
        seconds = float(((self.lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0)
        return not holder or holder == identity or now >= self.at + seconds


def holder_of(lease: Obj | None) -> str:
    """Who holds the lease; empty: nobody."""
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def taken(lease: Obj | None, namespace: str, name: str) -> Obj:
    """A copy to be changed: of the lease that was seen, or of a new one."""
    if lease is not None:
        return copy.deepcopy(lease)
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": {}}


def claimed(lease: Obj, claim: Claim, annotations: Mapping[str, str]) -> Obj:
    """The lease held by the claimant: acquired now, or renewed. Others' annotations and labels stay."""
    spec = lease.setdefault("spec", {})
    now = stamp(claim.now)
    if spec.get("holderIdentity") != claim.identity:
        transitions = spec.get("leaseTransitions")
        # as client-go counts: the first holder is no transition
        spec["leaseTransitions"] = int(transitions or 0) + (0 if transitions is None else 1)
        spec["holderIdentity"], spec["acquireTime"] = claim.identity, now
    spec["leaseDurationSeconds"], spec["renewTime"] = max(1, round(claim.seconds)), now
    if annotations:
        meta = lease["metadata"]
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    return lease


def released(lease: Obj, now: dt.datetime) -> Obj:
    """The lease that nobody holds, over after a second."""
    free = copy.deepcopy(lease)
    spec = free["spec"]
    spec.update(holderIdentity="", leaseDurationSeconds=1, renewTime=stamp(now), acquireTime=stamp(now))
    return free


def _record(lease: Obj) -> Any:
    return lease.get("spec")
