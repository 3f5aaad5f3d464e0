# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server tells of the node agents: who lives, with which configuration, and which token is still good.

Called by the modules node_agent, node_agent_info and node_agent_token; the time comes in as an argument. Never verifies
a token: only the API server can.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Callable

from ..lifecycle.locks import disk_holder
from ..model.times import age

NAMESPACE = "berth-system"
ACCOUNT = "berth-agent"
LEASE_PREFIX = "berth-agent-"
#: The DaemonSet's configuration files: one for each node that has its own, and one for all others.
FILE_SUFFIX = ".yaml"
DEFAULT_FILE = f"default{FILE_SUFFIX}"
_NOTES = "berth.dev/"
#: Characters of a line of a log that fit into a message.
_LINE = 300
#: A token is renewed when a third of its life is over, as the agent itself does it.
_SHARE = 3


def agent_of(lease: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """One agent, from its Lease. ``alive``: somebody holds the Lease, and it has not run out."""
    spec, meta = lease.get("spec") or {}, lease["metadata"]
    notes = meta.get("annotations") or {}
    renewed = str(spec.get("renewTime") or "")
    silent = age(renewed, now)
    lasts = int(spec.get("leaseDurationSeconds") or 0)
    alive = bool(spec.get("holderIdentity")) and silent is not None and silent < lasts
    conditions = _conditions(str(notes.get(_NOTES + "conditions") or "[]"))
    ready = [each for each in conditions if each.get("type") == "Ready"]
    return {
        "node": str(meta["name"])[len(LEASE_PREFIX) :],
        "alive": alive,
        "ready": alive and bool(ready) and ready[0].get("status") == "True",
        "holder": str(spec.get("holderIdentity") or ""),
        "renewed": renewed,
        "version": str(notes.get(_NOTES + "agent-version") or ""),
        "configuration": str(notes.get(_NOTES + "configuration") or ""),
        "configuration_since": str(notes.get(_NOTES + "configuration-since") or ""),
        "conditions": conditions,
    }


def absent_agent(node: str) -> dict[str, Any]:
    """A node whose agent has never been heard of."""
    blank = dict.fromkeys(("holder", "renewed", "version", "configuration", "configuration_since"), "")
    return {"node": node, "alive": False, "ready": False, **blank, "conditions": []}


def unready(agent: Mapping[str, Any], configuration: str | None, version: str | None) -> str:
    """Why an agent is not what is waited for, as one line; empty when it is."""
    if not agent["alive"]:
        seen = f"its Lease was renewed last at {agent['renewed']}" if agent["renewed"] else "it has no Lease"
        return f"the agent of node {agent['node']} does not live ({seen})"
    for what, wanted in (("configuration", configuration), ("version", version)):
        if wanted and agent[what] != wanted:
            refused = _told(agent, "ConfigurationInForce") if what == "configuration" else ""
            return f"the agent of node {agent['node']} has {what} {agent[what] or 'none'}, not {wanted}{refused}"
    if not agent["ready"]:
        return f"the agent of node {agent['node']} is not Ready{_told(agent, 'Ready')}"
    return ""


def not_rolled_out(daemon_set: Mapping[str, Any], pods: Callable[[], Iterable[Mapping[str, Any]]]) -> str:
    """How far Kubernetes is with replacing the agents' pods, as one line; empty when all are new and Ready.

    ``pods`` is asked only where something is missing, for the names and nodes of those that are not Ready.
    """
    status = daemon_set.get("status") or {}
    wanted = int(status.get("desiredNumberScheduled") or 0)
    updated, available = (int(status.get(key) or 0) for key in ("updatedNumberScheduled", "numberAvailable"))
    seen = int(status.get("observedGeneration") or 0) >= int(daemon_set["metadata"].get("generation") or 0)
    if seen and updated == wanted == available:
        return ""
    waiting = sorted(pod_problem(pod) for pod in pods() if not is_ready(pod))
    told = f"; not Ready: {'; '.join(waiting)}" if waiting else ""
    return f"of {wanted} agents {updated if seen else 0} are new and {available} are available{told}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def pod_problem(pod: Mapping[str, Any]) -> str:
    """``name on node n1 (CrashLoopBackOff: the last line of its log)``; for the module scheduler too."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [each.get("state") or {} for each in containers]
    reasons = [str((state.get("waiting") or state.get("terminated") or {}).get("reason") or "") for state in states]
    why = next(filter(None, reasons), str((pod.get("status") or {}).get("phase") or "Pending"))
    said = next(filter(None, map(_last_words, containers)), "")
    told = f"{why}: {said}" if said else why
    return f"{pod['metadata']['name']} on node {(pod.get('spec') or {}).get('nodeName') or 'none'} ({told})"


def _last_words(container: Mapping[str, Any]) -> str:
    """The last line that a container left (terminationMessagePolicy), or why it waits; empty where nothing is known."""
    state, last = container.get("state") or {}, container.get("lastState") or {}
    for part in (state.get("terminated"), last.get("terminated"), state.get("waiting")):
        lines = [line.strip() for line in str((part or {}).get("message") or "").splitlines() if line.strip()]
        if lines:
            return lines[-1][:_LINE]
    return ""


def next_steps(pods: Iterable[Mapping[str, Any]], leases: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """What the living agents of pods that are not Ready say of themselves, and what to do, as one line."""
    lame = [pod for pod in pods if not is_ready(pod)]
    nodes = sorted(str((pod.get("spec") or {}).get("nodeName") or "") for pod in lame)
    agents = {agent["node"]: agent for agent in (agent_of(lease, now) for lease in leases)}
    steps = [unready(agents[node], None, None) for node in nodes if node in agents and agents[node]["alive"]]
    if lame:
        steps.append(f"see kubectl -n {NAMESPACE} logs {min(str(pod['metadata']['name']) for pod in lame)}")
    steps.append("other nodes keep theirs: run again with what is right, or with what was there (previous)")
    return "; ".join(filter(None, steps))


def asked_before(daemon_set: Mapping[str, Any] | None, config_map: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the option daemonset of the module node_agent would say of what is there; None where there is none."""
    if daemon_set is None:
        return None
    pod, files = daemon_set["spec"]["template"]["spec"], dict((config_map or {}).get("data") or {})
    default = files.pop(DEFAULT_FILE, None)
    return {
        "image": pod["containers"][0]["image"],
        "default_configuration": "{}\n" if default is None else default,
        "configurations": {name[: -len(FILE_SUFFIX)]: text for name, text in sorted(files.items())},
        "node_selector": pod.get("nodeSelector") or None,
        "tolerations": pod.get("tolerations") or None,
    }


def held_disks(disks: Iterable[Mapping[str, Any]], nodes: Sequence[str] | None = None) -> list[dict[str, str]]:
    """The disks that somebody holds, by name."""
    rows = [
        {"name": disk["metadata"]["name"], "node": disk["spec"]["nodeName"], "holder": str(disk_holder(disk))}
        for disk in disks
        if disk_holder(disk) and (nodes is None or disk["spec"]["nodeName"] in nodes)
    ]
    return sorted(rows, key=lambda row: row["name"])


def token_is_good(token: str, node: str, node_uid: str, account_uid: str, now: float) -> bool:
    """Whether a token is that of the agent of this very node and account, and most of its life is still to come."""
    claims = token_claims(token)
    bound = claims.get("kubernetes.io") or {}
    if not isinstance(bound, Mapping):
        return False
    whose = (bound.get("node") or {}).get("name"), (bound.get("node") or {}).get("uid")
    issued, ends = float(claims.get("iat") or 0), float(claims.get("exp") or 0)
    same = whose == (node, node_uid) and (bound.get("serviceaccount") or {}).get("uid") == account_uid
    return same and issued <= now < issued + (ends - issued) / _SHARE


def token_claims(token: str) -> Mapping[str, Any]:
    """What a token says of itself; nothing where it is none."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _told(agent: Mapping[str, Any], kind: str) -> str:
    found = [each for each in agent["conditions"] if each.get("type") == kind and each.get("status") != "True"]
    return f": {found[0].get('reason', '')} {found[0].get('message', '')}".rstrip() if found else ""


def _conditions(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
