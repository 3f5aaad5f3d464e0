# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender of the stock kube-scheduler in the cluster: the shipped objects filled in, its Secret, its address.

Called by the module scheduler. The objects are those of deploy/extender, which come in as they are there. Nothing is
read or written here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config.stock import MANAGED
from ..errors import InputError
from .shipped import (
    INSTANCE,
    NAME_LABEL,
    PART_OF,
    Object,
    Pods,
    check_object_name,
    check_replicas,
    digest,
    fill_in,
    renamed,
)

#: The name of the shipped objects.
SHIPPED = "berth-scheduler-extender"
#: What its Secret holds: option of the module -> key -> how a PEM text of it begins.
TLS = {
    "certificate": ("tls.crt", "-----BEGIN CERTIFICATE-----"),
    "key": ("tls.key", "-----BEGIN "),
    "client_ca": ("ca.crt", "-----BEGIN CERTIFICATE-----"),
}
_PORT = "extender"


@dataclass(frozen=True)
class Wanted(Pods):
    """One extender. ``tls``: PEM texts by the options of `TLS`; None: the Secret of its name is there already.

    ``cluster_ip``: the address of its Service, for a certificate that is made before; None: the cluster chooses.
    """

    tls: Mapping[str, str] | None = None
    cluster_ip: str | None = None


def secret(wanted: Wanted) -> Object | None:
    """The Secret that is asked for. Raises InputError for what is no PEM."""
    if wanted.tls is None:
        return None
    for option, (_key, begin) in TLS.items():
        if begin not in (wanted.tls.get(option) or ""):
            raise InputError(f"tls.{option}: expected PEM ({begin}...), as text")
    labels = {PART_OF: "berth", NAME_LABEL: SHIPPED, INSTANCE: wanted.name}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": wanted.name, "namespace": wanted.namespace, "labels": labels},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(wanted.tls[option].encode()).decode() for option, (key, _begin) in TLS.items()},
    }


def missing_keys(found: Mapping[str, Any]) -> list[str]:
    """What a Secret that somebody else made lacks."""
    return [key for key, _begin in TLS.values() if not (found.get("data") or {}).get(key)]


def veiled(body: Mapping[str, Any]) -> Object:
    """A Secret for people to read: of each value, which it is and not what."""
    data = {key: f"sha256 {digest(str(value))}" for key, value in sorted((body.get("data") or {}).items())}
    return {**body, "data": data}


def objects(shipped: Sequence[Mapping[str, Any]], wanted: Wanted, data: Mapping[str, str]) -> list[Object]:
    """The objects of that extender, in the order of ``shipped``; ``data`` is its Secret's, whose change replaces the
    pods. Raises InputError for what cannot be."""
    check_object_name(wanted.name)
    check_replicas(wanted.replicas)
    made = [renamed(body, SHIPPED, wanted.name, wanted.namespace) for body in shipped]
    for body in made:
        if body["kind"] == "Deployment":
            fill_in(body, wanted, digest(json.dumps(dict(data), sort_keys=True)))
        elif body["kind"] == "Service" and wanted.cluster_ip:
            body["spec"]["clusterIP"] = wanted.cluster_ip
    return made


def url(service: Mapping[str, Any]) -> str:
    """Where kube-scheduler asks: by the cluster IP, for on the host's network it knows no names of Services. Before
    there is one, by name."""
    meta, spec = service["metadata"], service["spec"]
    address = str(spec.get("clusterIP") or "")
    port = next(each["port"] for each in spec["ports"] if each["name"] == _PORT)
    host = f"[{address}]" if ":" in address else address or f"{meta['name']}.{meta['namespace']}.svc"
    return f"https://{host}:{port}"


def waiting_pods(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Pods without a node that only kube-scheduler with its extender places, sorted."""
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("nodeName") and _asks(pod)
    )


def _asks(pod: Mapping[str, Any]) -> bool:
    containers = [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]
    return any(MANAGED in ((one.get("resources") or {}).get("requests") or {}) for one in containers)
