# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Service of an app, from the option ``service``. Every refusal names the option; nothing is read.

Called by wanted.py. Whether ports agree with one another is the API server's to judge, which is asked by a dry run.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..model.names import is_label, shown

#: A name of a port (IANA's service name): it goes into SRV records.
_PORT_NAME = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9](-?[a-z0-9])*")


def service_of(
    service: Mapping[str, Any] | None, app: str, namespace: str, selector: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """A headless Service unless told otherwise: what a StatefulSet needs for the names of its pods."""
    given = service or {}
    spec: dict[str, Any] = {"clusterIP": _address(given.get("cluster_ip") or "None"), "selector": dict(selector)}
    if spec["clusterIP"] == "auto":
        del spec["clusterIP"]
    if given.get("publish_not_ready_addresses"):
        spec["publishNotReadyAddresses"] = True
    ports = [_port(index, port) for index, port in enumerate(given.get("ports") or ())]
    if ports:
        spec["ports"] = ports
    elif "clusterIP" not in spec:
        raise InputError("service.ports is empty: a service with a cluster IP needs at least one port")
    name = given.get("name") or app
    if not is_label(name):
        raise InputError(f"service.name {shown(name)} cannot name a Service: expected a DNS-1123 label")
    metadata = {"name": name, "namespace": namespace, "labels": {**selector, **labels}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _address(text: str) -> str:
    if text not in ("None", "auto"):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise InputError(
                f"service.cluster_ip is {shown(text)}: expected None, auto or an address, as 10.96.0.20"
            ) from None
    return text


def _port(index: int, port: Mapping[str, Any]) -> dict[str, Any]:
    where = f"service.ports[{index}]"
    number, target, name = port["port"], port.get("target_port"), port.get("name")
    if not 1 <= number <= 65535:
        raise InputError(f"{where}.port is {number}: expected 1 to 65535")
    made: dict[str, Any] = {"port": number, "protocol": port.get("protocol") or "TCP"}
    if name:
        made["name"] = name
    made["targetPort"] = _target(where, target) if target else number
    return made


def _target(where: str, target: str) -> int | str:
    if target.isascii() and target.isdigit() and len(target) <= 5 and 1 <= int(target) <= 65535:
        return int(target)
    if not _PORT_NAME.fullmatch(target):
        raise InputError(f"{where}.target_port is {shown(target)}: expected 1 to 65535, or the name of a port")
    return target
