"""Whose kept data is whose when names come again: by the uids of namespaces and pods, of the records that have them."""

from __future__ import annotations

import pytest

from berth_core.model.tenant import Tenant
from berth_core.model.volume import ClaimInfo

OLD_RECORD = Tenant()
NOW = Tenant("ns-2", since="2026-11-24T20:00:00Z")


@pytest.mark.promise
@pytest.mark.parametrize(
    ("who", "kept", "may"),
    [
        (NOW, Tenant("ns-2"), True),
        (NOW, Tenant("ns-1"), False),
        (NOW, OLD_RECORD, True),
        (Tenant(), Tenant("ns-1"), False),
        (Tenant(), OLD_RECORD, True),
        (NOW._replace(pod_uid="p-2"), Tenant("ns-2", "p-2"), True),
        (NOW._replace(pod_uid="p-2"), Tenant("ns-2", "p-1"), False),
        (NOW._replace(pod_uid="p-2"), Tenant("ns-1", "p-2"), False),
        (NOW._replace(pod_uid="p-2"), Tenant("ns-2"), False),
        (NOW._replace(pod_uid="p-2"), OLD_RECORD, False),
        (NOW, Tenant("ns-2", "p-1"), False),
    ],
)
def test_who_may_have_kept_data(who: Tenant, kept: Tenant, may: bool) -> None:
    assert who.may_have(kept) is may


def test_what_is_said_of_the_difference() -> None:
    told = NOW.difference(Tenant("ns-1"))
    made = "the one of today, uid ns-2, was made 2026-11-24T20:00:00Z"
    assert told == f"of an earlier namespace of that name (uid ns-1; {made})"
    assert Tenant().difference(Tenant("ns-1")) == "of an earlier namespace of that name (uid ns-1; it is gone)"
    assert NOW.difference(Tenant("ns-2", "p-1")) == "for the ephemeral volume of an earlier pod (uid p-1)"
    assert "no pod's ephemeral volume" in NOW._replace(pod_uid="p-2").difference(Tenant("ns-2"))


def test_a_record_says_what_it_knows() -> None:
    assert Tenant.on_record({"namespaceUID": "ns-1", "podUID": "p-1"}).fields() == {
        "namespaceUID": "ns-1",
        "podUID": "p-1",
    }
    assert Tenant.on_record({}).fields() == {}
    assert Tenant.in_namespace(None) == Tenant()
    made = {"metadata": {"uid": "ns-2", "creationTimestamp": "2026-11-24T20:00:00Z"}}
    assert Tenant.in_namespace(made) == NOW


def owned(claim: str, **owner: object) -> ClaimInfo:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "p-1", "controller": True, **owner}
    meta = {"name": claim, "namespace": "default", "uid": "c-1", "ownerReferences": [reference]}
    return ClaimInfo.from_object({"metadata": meta, "spec": {}})


def test_a_claim_is_an_ephemeral_volume_by_its_controller_and_its_name() -> None:
    assert owned("web-0-scratch").pod_uid == "p-1"
    assert owned("web-0-scratch", controller=False).pod_uid == "", "as Kubernetes does, its controller counts"
    assert owned("web-0-scratch", kind="StatefulSet", apiVersion="apps/v1", name="web").pod_uid == ""
    assert owned("scratch-web-0").pod_uid == "", "a StatefulSet's claim, which goes with its pod"
