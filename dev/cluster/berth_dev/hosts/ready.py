# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting until the API server says that a host's node is Ready. `hostset` calls me.

I ask with the node's own certificate, which may read its own Node object, and verify the server as the node does.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from ..errors import HostError
from ..pki import Pki
from .model import Host


def node_is_ready(node: dict[str, object] | None) -> bool:
    """True when the Node object has condition Ready=True and no not-ready taint any more."""
    if node is None:
        return False
    status, spec = node.get("status"), node.get("spec")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    taints = spec.get("taints", []) if isinstance(spec, dict) else []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


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


def wait_ready(pki: Pki, host: Host, server_url: str, timeout: float, alive: Callable[[], bool]) -> float:
    """Until Ready; returns the seconds it took. HostError after `timeout`, or once the host is not `alive`."""
    start = time.monotonic()
    while not node_is_ready(read_node(pki, host, server_url)):
        if not alive():
            raise HostError(f"host {host.name}: has stopped before its node was Ready")
        if time.monotonic() - start > timeout:
            raise HostError(f"node {host.name}: not Ready within {timeout:.0f} s at {server_url}")
        time.sleep(0.1)
    return time.monotonic() - start
