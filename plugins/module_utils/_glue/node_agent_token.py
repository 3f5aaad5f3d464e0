# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_agent_token: the token of a daemon on the host of one node, bound to that Node, and where to use it.

Called by plugins/modules/node_agent_token.py and plugins/action/node_agent_token.py. A token that is still good is not
handed back: Ansible censors in a result whatever an option with no_log was given. Writes no file.
"""

from __future__ import annotations

import base64
import time
from typing import Any

from ..berth_core.app.node_agents import ACCOUNT, NAMESPACE, token_is_good
from ..berth_core.errors import InputError, NotFoundError, StateError
from ..berth_core.model.names import check_label, check_subdomain
from ..berth_core.model.resources import NODE, SERVICE_ACCOUNT
from .base import Context, Operation

#: Seconds; the API server takes no more.
_LONGEST = 1 << 32


def run(context: Context) -> dict[str, Any]:
    params, node = context.params, context.params["node_name"]
    name, namespace = params["service_account"], params["namespace"]
    check_subdomain(node, "node_name")
    check_subdomain(name, "service_account")
    check_label(namespace, "namespace")
    if not 600 <= params["life"] <= _LONGEST:
        raise InputError(f"life is {params['life']}: expected 600 (10 minutes) to {_LONGEST} seconds")
    account = context.client.find(SERVICE_ACCOUNT, name, namespace)
    current = str(params["current"] or "").strip()
    if account is None and context.check_mode:
        return {"changed": True, "token": "", **_place(context)}
    if account is None:
        raise StateError(
            f"ServiceAccount {namespace}/{name} is not there; install what it needs first (module "
            f"{'node_agent' if name == ACCOUNT else 'scheduler with mode: service'})"
        )
    try:
        uid = context.client.get(NODE, node)["metadata"]["uid"]
    except NotFoundError as exc:
        raise StateError(
            f"Node {node} is not in the cluster, and a token is bound to its Node: set berth_node_name of the host to "
            "the name that kubectl get nodes shows"
        ) from exc
    if token_is_good(current, node, uid, account["metadata"]["uid"], time.time()):
        return {"changed": False, "token": "", **_place(context)}
    if context.check_mode:
        return {"changed": True, "token": "", **_place(context)}
    bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"expirationSeconds": params["life"], "boundObjectRef": bound},
    }
    answer = context.client.create(SERVICE_ACCOUNT, body, subresource="token")
    return {"changed": True, "token": answer["status"]["token"], **_place(context)}


def _place(context: Context) -> dict[str, str]:
    """Server and certificate authority (base64 of PEM), as this task itself reaches it."""
    server, authority = context.client.server()
    return {"server": server, "ca_data": base64.b64encode(authority.encode()).decode()}


OPERATION = Operation(
    name="node_agent_token",
    options={
        "node_name": {"type": "str", "required": True},
        "current": {"type": "str", "no_log": True},
        "service_account": {"type": "str", "default": ACCOUNT},
        "namespace": {"type": "str", "default": NAMESPACE},
        "life": {"type": "int", "default": 7 * 86400},
    },
    run=run,
)
