# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stock kube-scheduler's own configuration with berth's extender in it, for the version that the cluster runs.

Called by front ends, which write the document where kube-scheduler reads it. What stands in the document already is
kept; only an extender of the same address is replaced.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .connections import parse_extenders
from .plugin_args import API_VERSION

KIND = "KubeSchedulerConfiguration"
#: The first minor version of Kubernetes 1 whose kube-scheduler reads kubescheduler.config.k8s.io/v1.
FIRST = 25
#: What pods ask for that want the extender: no node has any, and kube-scheduler is told not to look for it.
MANAGED = "berth.dev/local-disk"


@dataclass(frozen=True)
class ExtenderAddress:
    """Where the extender listens, and how kube-scheduler shows who it is. Files are paths on kube-scheduler's host.

    ``managed``: pods that ask for this extended resource are the extender's; empty: all pods are, and each costs a
    request. ``timeout``: seconds for one answer; a bind waits for claims, so more than the extender's bind_seconds.
    """

    url: str
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    managed: str = MANAGED
    ignorable: bool = False
    timeout: int = 30
    weight: int = 1


def with_extender(version: str, source: Mapping[str, Any] | None, at: ExtenderAddress) -> dict[str, Any]:
    """The document for that version of Kubernetes. ``source``: what kube-scheduler reads now; None: its defaults.

    Raises InputError for a version that does not read it, a source that is no such configuration, a wrong address, and
    where another extender binds pods already (there may be one).
    """
    _readable(version)
    plain: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    document = copy.deepcopy(dict(source)) if source is not None else plain
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        found = f"{document.get('kind')} of {document.get('apiVersion')}"
        raise InputError(f"kube-scheduler's configuration: expected {KIND} of {API_VERSION}, got {found}")
    others = document.get("extenders") or []
    if not isinstance(others, list) or not all(isinstance(one, Mapping) for one in others):
        raise InputError("kube-scheduler's configuration: extenders: expected a list of objects")
    kept = [one for one in others if str(one.get("urlPrefix", "")).rstrip("/") != at.url.rstrip("/")]
    document["extenders"] = [*kept, _extender(at)]
    parse_extenders(document["extenders"])
    return document


def _readable(version: str) -> None:
    found = re.fullmatch(r"v?1\.(\d+)\b.*", version)
    if found is None or int(found.group(1)) < FIRST:
        raise InputError(f"Kubernetes {version}: kube-scheduler reads {API_VERSION} from version 1.{FIRST} on")


def _extender(at: ExtenderAddress) -> dict[str, Any]:
    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", at.url):
        raise InputError(f"the extender's address {at.url!r}: expected http://HOST:PORT or https://HOST:PORT")
    secure = at.url.startswith("https://")
    if secure and not at.ca_file:
        raise InputError("the extender is asked by https: name the authority that its certificate is verified against")
    if bool(at.cert_file) != bool(at.key_file):
        raise InputError("a client certificate and its key belong together: give both or none")
    extender: dict[str, Any] = {
        "urlPrefix": at.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": at.weight,
        "httpTimeout": f"{at.timeout}s",
        "nodeCacheCapable": True,
        "ignorable": at.ignorable,
    }
    if secure:
        tls = {"caFile": at.ca_file, "certFile": at.cert_file, "keyFile": at.key_file}
        extender.update(enableHTTPS=True, tlsConfig={key: value for key, value in tls.items() if value})
    if at.managed:
        extender["managedResources"] = [{"name": at.managed, "ignoredByScheduler": True}]
    return extender
