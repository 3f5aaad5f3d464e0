# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a cluster and an inventory fit what a run would install or remove: every problem of it, in one go.

Called by the module installation_check before the role berth writes anything. What is installed is told by
install_found.py, what keeps it there by install_needs.py. Nothing is read or written here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import InputError, StateError
from ..model.names import first
from ..model.resources import CRD, NODE, Resource
from ..model.taint import NO_SCHEDULE, parse_taints
from . import crd_schemas
from .crd_plan import plan_crd
from .install_found import Installed, covered, daemon_sets, schemas_of_controllers
from .install_rights import AGENTS, PARTS
from .node_agents import NAMESPACE as OF_AGENTS
from .release import VERSION, other_release, version_of_image

Object = Mapping[str, Any]
HANDLING = ("warn", "fail", "ignore")
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_NAMED = 10


class Asked(NamedTuple):
    """What a run is to do. ``node_names``: those of the inventory's hosts; None: they are not looked at.

    ``schedulers``: the names of the schedulers and extenders that are this installation's. ``said``: what the caller
    calls an option of the module, or one of its parts, where it has a name of its own: the role's variables.
    """

    state: str
    namespace: str
    parts: Sequence[str]
    node_names: Sequence[str] | None
    nodes_without_host: str
    image: str
    schedulers: Sequence[str]
    said: Mapping[str, str] = {}

    def name(self, option: str) -> str:
        """What a person has written for that option or part."""
        return self.said.get(option, option)

    def with_any(self, *parts: str) -> bool:
        """Whether the run has one of these parts."""
        return bool({*parts} & {*self.parts})


class Seen(NamedTuple):
    """What was read. ``definitions``: those that are there, by name; ``agents``: as node_agents.agent_of tells them;
    ``unread``: kinds that the account may not list, of which nothing is said."""

    nodes: Sequence[Object]
    definitions: Mapping[str, Object]
    deployments: Sequence[Object]
    daemon_sets: Sequence[Object]
    installed: Sequence[Installed]
    agents: Sequence[Mapping[str, Any]]
    unread: Collection[Resource] = ()


@dataclass
class Findings:
    """What is wrong, and what a person should know."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hosts_without_node: list[str] = field(default_factory=list)
    nodes_without_host: list[str] = field(default_factory=list)


def check_asked(asked: Asked) -> None:
    """Refuse what contradicts itself (InputError)."""
    unknown = sorted(set(asked.parts) - set(PARTS))
    if unknown:
        raise InputError(f"parts: {unknown[0]} is none; expected {', '.join(PARTS)}")
    if set(AGENTS) <= set(asked.parts):
        raise InputError(f"parts: {' and '.join(AGENTS)} contradict each other: expected one of them, or none")
    twice = sorted(name for name, count in Counter(asked.node_names or ()).items() if count > 1)
    if twice:
        raise InputError(
            f"node_names: two hosts stand for Node {first(twice)}: set berth_node_name of each to the node that it is"
        )


def check(asked: Asked, seen: Seen, definitions: Sequence[Object]) -> Findings:
    """Hosts, versions and other installations. ``definitions``: those of this release, as deploy/crds has them."""
    found = Findings()
    _hosts(asked, seen, found)
    if asked.state == "present":
        found.problems += _definitions(asked, seen, definitions)
        _versions(asked, seen, found)
    found.problems += _elsewhere(asked, seen)
    _two_agents(asked, seen, found)
    return found


# -- hosts and nodes -----------------------------------------------------------------------------------------------


def _hosts(asked: Asked, seen: Seen, found: Findings) -> None:
    if asked.node_names is None or NODE in seen.unread:
        return
    nodes = {str(node["metadata"]["name"]): node for node in seen.nodes}
    found.hosts_without_node = sorted(set(asked.node_names) - set(nodes))
    if found.hosts_without_node:
        said = ", ".join(_told(name, nodes) for name in found.hosts_without_node)
        text = (
            f"no Node of the cluster has the name of these hosts: {said}; set berth_node_name of a host to the name "
            "that kubectl get nodes shows, or take the host out of the group"
        )
        # A node that is gone keeps nobody from removing what is left on its host.
        (found.problems if asked.state == "present" else found.warnings).append(text)
    if asked.state != "present":
        return
    without = sorted(set(nodes) - set(asked.node_names))
    found.nodes_without_host = [name for name in without if not _of_control_plane(nodes[name])]
    if found.nodes_without_host and asked.nodes_without_host != "ignore":
        fails = asked.nodes_without_host == "fail"
        option = asked.name("nodes_without_host")
        remedy = f"; add them, or set {option} to warn or ignore" if fails else ""
        text = f"no host of the inventory stands for the nodes {first(found.nodes_without_host, _NAMED)}{remedy}"
        (found.problems if fails else found.warnings).append(text)


def _told(host: str, nodes: Iterable[str]) -> str:
    """The host, and the node that it seems to be: names with and without a domain are mixed up most."""
    short = host.partition(".")[0]
    like = [name for name in sorted(nodes) if name.partition(".")[0] == short]
    return f"{host} (is it {like[0]}?)" if len(like) == 1 else host


def _of_control_plane(node: Object) -> bool:
    """Whether nothing but the control plane runs there."""
    taints = parse_taints(node.get("spec") or {}, "taints")
    return any(each.key in _CONTROL_PLANE and each.effect == NO_SCHEDULE for each in taints)


# -- versions ------------------------------------------------------------------------------------------------------


def _definitions(asked: Asked, seen: Seen, definitions: Sequence[Object]) -> list[str]:
    """Custom resources that the run cannot replace, or would work with and cannot."""
    if CRD in seen.unread:
        said = []
    elif asked.with_any("crds"):
        said = [_irreplaceable(body, seen.definitions.get(body["metadata"]["name"])) for body in definitions]
    elif asked.with_any("controller", "scheduler", "extender", "task_backend", *AGENTS):
        said = [_unfit(name, seen.definitions.get(name)) for name in crd_schemas.SCHEMAS]
    else:
        said = []
    return [text for text in said if text]


def _irreplaceable(body: Object, live: Object | None) -> str:
    try:
        plan_crd(body, live)
    except StateError as exc:
        return exc.message
    return ""


def _unfit(name: str, live: Object | None) -> str:
    if live is None:
        return f"CustomResourceDefinition {name} is missing: add crds to the run, or install it with the module crds"
    return crd_schemas.other_schema(name, live)


def _versions(asked: Asked, seen: Seen, found: Findings) -> None:
    """What runs and was made for other custom resources than the run leaves behind."""
    found.problems += [*_agents_of_another_release(asked, seen), *_controllers_of_another_release(asked, seen)]
    for what, version in _versions_of_images(asked, seen):
        found.warnings.append(
            f"{what} says version {version} in its tag, and this collection is {VERSION}: collection and image have to "
            "be of one release"
        )


def _agents_of_another_release(asked: Asked, seen: Seen) -> list[str]:
    """Agents that the run leaves alone are to fit it, and none is put back by it unasked."""
    newer, older = [], []
    for agent in _alive(seen):
        line, told = other_release(agent["version"]), f"{agent['node']} ({agent['version']})"
        if line > 0:
            newer.append(told)
        elif line < 0 and not _takes(asked, agent["node"]):
            older.append(told)
    problems = []
    if newer:
        problems.append(
            f"agents are of a newer release than this collection ({VERSION}): {first(sorted(newer), _NAMED)}; run the "
            "collection of that release, or put them back first with the playbook node_agent of this one"
        )
    if older:
        problems.append(
            f"agents are of an older release than this collection ({VERSION}), and no part of this run: "
            f"{first(sorted(older), _NAMED)}; add their hosts to the run, or upgrade them first with the playbook "
            "node_agent"
        )
    return problems


def _alive(seen: Seen) -> list[Mapping[str, Any]]:
    return [agent for agent in seen.agents if agent["alive"]]


def _takes(asked: Asked, node: str) -> bool:
    """Whether the run installs the agent of that node anew."""
    if asked.with_any("agents_hosts"):
        return asked.node_names is None or node in asked.node_names
    return asked.with_any("agents_daemonset")


def _controllers_of_another_release(asked: Asked, seen: Seen) -> list[str]:
    """A controller that stays as it is while the run brings other custom resources than it knows."""
    if asked.with_any("controller") or not asked.with_any("crds"):
        return []
    return [
        f"{place} is installed for custom resources {schemas}, and this run brings {crd_schemas.as_text()}: add "
        f"{asked.name('controller')} to the run"
        for place, schemas in schemas_of_controllers(seen.deployments)
        if schemas and schemas != crd_schemas.as_text()
    ]


def _versions_of_images(asked: Asked, seen: Seen) -> list[tuple[str, str]]:
    """(what, version) of each image whose tag says another release line: people give tags of their own, too."""
    staying = [each for each in seen.installed if each.image and each.part not in asked.parts]
    pairs = [(f"image {asked.image}", version_of_image(asked.image))]
    pairs += [(f"image {each.image} of {each}, no part of this run,", each.version) for each in staying]
    return [(what, version) for what, version in pairs if other_release(version)]


# -- another installation ------------------------------------------------------------------------------------------


def _elsewhere(asked: Asked, seen: Seen) -> list[str]:
    """Parts that are installed in another namespace. Those that a removal does not have stay as they are."""
    problems = []
    for each in seen.installed:
        if not each.namespace or (asked.state == "absent" and not _concerns(asked, each)):
            continue
        agents = each.part in AGENTS
        place = OF_AGENTS if agents else asked.namespace
        known = each.part not in ("scheduler", "extender") or each.name in asked.schedulers
        if each.namespace != place and known:
            give = "" if agents else f"set {asked.name('namespace')}: {each.namespace}, or "
            problems.append(
                f"{each} is installed in namespace {each.namespace}, and this run is for namespace {place}: a cluster "
                f"has one of it; {give}remove it there first"
            )
    return problems


def _concerns(asked: Asked, each: Installed) -> bool:
    return each.part in asked.parts or (each.part in AGENTS and asked.with_any(*AGENTS))


def _two_agents(asked: Asked, seen: Seen, found: Findings) -> None:
    """A DaemonSet of agents, and agents as services of hosts, on the same nodes."""
    by_daemon_set = covered(daemon_sets(seen.daemon_sets), seen.nodes)
    on_hosts = sorted(agent["node"] for agent in _alive(seen) if agent["node"] not in by_daemon_set)
    if asked.with_any("agents_hosts"):
        both = sorted(by_daemon_set if asked.node_names is None else by_daemon_set & set(asked.node_names))
        if both:
            found.problems.append(
                f"DaemonSet {OF_AGENTS}/berth-agent runs the agents of {first(both, _NAMED)}, and this run has agents "
                f"as services of these hosts ({asked.name('agents_hosts')}): a node has one agent; give "
                f"{asked.name('agents_daemonset')}, or remove the DaemonSet first (playbook node_agent, "
                "node_agent_state: absent, node_agent_service_manager: daemonset)"
            )
    if asked.state == "absent":
        found.problems += _left_without_account(asked, seen, on_hosts)
    elif asked.with_any("agents_daemonset") and on_hosts:
        found.problems.append(
            f"agents run as services of the hosts {first(on_hosts, _NAMED)}, and this run has agents in a DaemonSet "
            f"({asked.name('agents_daemonset')}): a node has one agent; give {asked.name('agents_hosts')}, or remove "
            "them first (playbook node_agent, node_agent_state: absent)"
        )


def _left_without_account(asked: Asked, seen: Seen, on_hosts: Sequence[str]) -> list[str]:
    """Agents on hosts that a removal does not reach: without their account they would go on, and fail."""
    if not asked.with_any(*AGENTS) or not any(each.part in AGENTS for each in seen.installed):
        return []
    reached = set(asked.node_names or ()) if asked.with_any("agents_hosts") else set()
    left = [node for node in on_hosts if node not in reached]
    if not left:
        return []
    told = (
        f"agents run as services of the hosts {first(left, _NAMED)}, which this run does not reach, and their account "
        "would go: remove them first (playbook node_agent, node_agent_state: absent), or add these hosts to the run"
    )
    return [told]
