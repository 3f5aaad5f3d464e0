# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting until the API server says that a host's node is Ready. `hostset` calls this.

The question goes with the node's own certificate, which may read its own Node object, and the server is verified as the
node verifies it. A node whose host lost its power stays Ready for a while: of a host that was just switched on, only
what a kubelet has said since then counts.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime

from ..errors import HostError
from ..pki import Pki
from .model import Host


def node_is_ready(node: dict[str, object] | None, since: float = 0.0) -> bool:
    """True when the Node object has condition Ready=True, told at or after `since`, and no not-ready taint any more.

    `since`: seconds since the epoch, by this machine's clock, which is the hosts' too; the API keeps whole seconds.
    """
    if node is None:
        return False
    status, spec = node.get("status"), node.get("spec")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    taints = spec.get("taints", []) if isinstance(spec, dict) else []
    ready = any(c["type"] == "Ready" and c["status"] == "True" and _told(c) >= int(since) for c in conditions)
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def _told(condition: dict[str, str]) -> float:
    """When the kubelet last said so; 0 where it does not tell."""
    at = condition.get("lastHeartbeatTime")
    return datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() if at else 0.0


def read_node(pki: Pki, host: Host, server_url: str) -> dict[str, object] | None:
    """The host's Node object; None while there is none, or while the API server does not answer."""
    pair = pki.client(f"system:node:{host.name}", ["system:nodes"])
    context = ssl.create_default_context(cafile=str(pki.ca_cert))
    context.load_cert_chain(pair.cert, pair.key)
    url = f"{server_url}/api/v1/nodes/{host.name}"
    try:
        # No proxy of the user's environment stands between this machine and its own bridge.
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with direct.open(url, timeout=5) as answer:
            node: dict[str, object] = json.load(answer)
            return node
    except urllib.error.HTTPError as error:
        # 403: the bootstrap roles, or the node authorizer's graph, are not there yet.
        if error.code in (403, 404, 429, 500, 503):
            return None
        raise HostError(f"node {host.name}: API server {server_url} answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise HostError(f"API server {server_url}: its certificate is not valid: {error.reason}") from error
        return None
    except OSError:
        return None


def wait_ready(
    pki: Pki, host: Host, server_url: str, timeout: float, alive: Callable[[], bool], since: float = 0.0
) -> float:
    """Until Ready, as a kubelet says at or after `since` (seconds since the epoch); returns the seconds it took.

    HostError after `timeout`, or once the host is not `alive`.
    """
    start = time.monotonic()
    while not node_is_ready(read_node(pki, host, server_url), since):
        if not alive():
            raise HostError(f"host {host.name}: has stopped before its node was Ready")
        if time.monotonic() - start > timeout:
            raise HostError(f"node {host.name}: not Ready within {timeout:.0f} s at {server_url}")
        time.sleep(0.1)
    return time.monotonic() - start
