# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the pods of a node may go: PodDisruptionBudgets, and how many replicas of an application are away already.

Asked by the module host_maintenance before it evicts, all pods of the node together. The API server judges each
eviction once more, and one that a budget forbids is not carried out: what is said here is said before the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..model.fields import mapping, objects
from ..model.taint import CORDON, parse_tolerations, tolerated
from .budgets import Budget, budgets_of
from .host_maintenance import Held, comes_back, key_of
from .maintenance_mark import BEGUN, mark_of
from .observed import ended, ready

Object = Mapping[str, Any]


class Refusal(NamedTuple):
    """``passing``: it may pass by itself, so it is waited for."""

    text: str
    passing: bool


class Around(NamedTuple):
    """What is looked at beside the node. ``pods``: all of the namespaces of those that go. ``berths``: of their apps,
    on other nodes. ``nodes``: those that are maintained, this one among them."""

    budgets: Sequence[Object]
    pods: Sequence[Object]
    berths: Sequence[Object]
    nodes: Sequence[Object]


def refusals(
    node: Object, held: Sequence[Held], others: Sequence[Object], around: Around, most_away: int
) -> list[Refusal]:
    """Why the pods of the node may not go now; empty where they may. ``others``: pods without a berth that are to go,
    too. ``most_away``: how many replicas of an app without a budget may be away at once."""
    budgets = [Budget.of(one) for one in around.budgets]
    pods = [*(one.pod for one in held), *others]
    found = [*_never(held, pods, budgets), *_by_budget(pods, budgets)]
    free = [one for one in held if not budgets_of(one.pod, budgets)]
    return [*found, *_by_quorum(node, held, around), *_by_app(node, free, around, most_away)]


def _never(held: Sequence[Held], pods: Sequence[Object], budgets: Sequence[Budget]) -> list[Refusal]:
    """What no waiting mends."""
    found = []
    for one in held:
        if not one.app and not comes_back(one.pod):
            found.append(
                f"pod {one.key} mounts a claim on this node, and nobody makes it anew: end it yourself "
                f"(kubectl delete pod {one.key.name} -n {one.key.namespace}), and make it again afterwards"
            )
        elif tolerated(CORDON, parse_tolerations(mapping(one.pod, "spec"), f"pod {one.key}: spec.tolerations")):
            found.append(
                f"pod {one.key} tolerates {CORDON}, so it would come back at once: take that toleration out of its "
                "template"
            )
    for pod in pods:
        several = budgets_of(pod, budgets)
        if len(several) > 1:
            names = ", ".join(str(one.key) for one in several)
            found.append(f"pod {key_of(pod)} has several PodDisruptionBudgets ({names}): the API server evicts none")
    return [Refusal(text, False) for text in found]


def _by_budget(pods: Sequence[Object], budgets: Sequence[Budget]) -> list[Refusal]:
    found = []
    for budget in budgets:
        # One that is not Ready is no healthy one less, and one that goes already was counted.
        covered = [key_of(pod) for pod in pods if budget.covers(pod) and ready(pod)]
        if len(covered) > budget.allowed:
            names = ", ".join(map(str, covered))
            most = f", and never more than {budget.most}" if len(covered) > budget.most else ""
            found.append(
                Refusal(
                    f"PodDisruptionBudget {budget.key} allows {budget.allowed} now{most}, and {len(covered)} would go "
                    f"({names})",
                    len(covered) <= budget.most,
                )
            )
    return found


def _by_app(node: Object, held: Sequence[Held], around: Around, most_away: int) -> list[Refusal]:
    """Without a budget: of each application at most so many away, those of this node among them."""
    here: dict[tuple[str, str], list[Held]] = {}
    for one in held:
        here.setdefault((one.key.namespace, one.app or one.workload), []).append(one)
    found = []
    for (namespace, name), going in sorted(here.items()):
        away = _away_of_app(node, going, around) if going[0].app else _away_of_workload(node, going, around)
        if len(going) + len(away) <= most_away or not any(ready(one.pod) for one in going):
            continue  # a replica that is not Ready takes nothing away by going
        told = f"{', '.join(away)} away already, " if away else ""
        names = ", ".join(one.key.name for one in going)
        found.append(
            Refusal(
                f"of {namespace}/{name.rpartition(' ')[2]} no more than {most_away} may be away (max_unavailable), and "
                f"there are {told}{names} here; a PodDisruptionBudget that covers its pods decides instead",
                len(going) <= most_away,
            )
        )
    return found


def _by_quorum(node: Object, held: Sequence[Held], around: Around) -> list[Refusal]:
    """Of each application whose Berths name a quorum: so many are Ready elsewhere, whatever a budget allows."""
    here: dict[tuple[str, str], list[Held]] = {}
    for one in held:
        if one.app:
            here.setdefault((one.key.namespace, one.app), []).append(one)
    found = []
    for (namespace, name), going in sorted(here.items()):
        records = [
            one for one in around.berths if (one["metadata"]["namespace"], one["spec"]["app"]) == (namespace, name)
        ]
        quorum = max((int(one["spec"].get("quorum") or 0) for one in records), default=0)
        elsewhere = [one for one in records if one["spec"]["nodeName"] != node["metadata"]["name"]]
        away = _away_of_app(node, going, around)
        if len(elsewhere) - len(away) >= quorum or not any(ready(one.pod) for one in going):
            continue  # a replica that is not Ready takes nothing away by going
        told = f" ({', '.join(away)} {'is' if len(away) == 1 else 'are'} not)" if away else ""
        found.append(
            Refusal(
                f"of {namespace}/{name} {quorum} replicas have to stay Ready (quorum), and without "
                f"{', '.join(one.key.name for one in going)} {len(elsewhere) - len(away)} are{told}",
                len(elsewhere) >= quorum,
            )
        )
    return found


def _away_of_app(node: Object, going: Sequence[Held], around: Around) -> list[str]:
    """Replicas elsewhere that are not Ready, or that go from a node which is maintained, too."""
    first, pods = going[0], {key_of(pod): pod for pod in around.pods}
    closed = maintained(node, around.nodes)
    found = []
    for record in around.berths:
        spec, key = record["spec"], key_of(record)
        if (key.namespace, spec["app"]) != (first.key.namespace, first.app):
            continue
        if spec["nodeName"] == node["metadata"]["name"]:
            continue
        if spec["nodeName"] in closed or not ready(pods.get(key)):
            found.append(key.name)
    return sorted(found)


def _away_of_workload(node: Object, going: Sequence[Held], around: Around) -> list[str]:
    first, closed, names = going[0], maintained(node, around.nodes), {one.key for one in going}
    found = []
    for pod in around.pods:
        key = key_of(pod)
        if key in names or key.namespace != first.key.namespace or ended(pod):
            continue
        if _controller(pod) != _controller(first.pod):
            continue
        if not ready(pod) or mapping(pod, "spec").get("nodeName") in closed:
            found.append(key.name)
    return sorted(found)


def _controller(pod: Object) -> str:
    owners = objects(mapping(pod, "metadata"), "ownerReferences")
    return next((str(one.get("uid")) for one in owners if one.get("controller")), "")


def maintained(node: Object, nodes: Iterable[Object]) -> set[str]:
    """Other nodes whose pods go, or have gone. Who marks its node looks afterwards: of two at once both see it."""
    found = set()
    for other in nodes:
        mark = mark_of(other)
        if other["metadata"]["name"] != node["metadata"]["name"] and mark is not None and mark.state == BEGUN:
            found.add(str(other["metadata"]["name"]))
    return found


def gives_way(node: Object, nodes: Iterable[Object]) -> bool:
    """Whether of two nodes that wait for each other this one is to be opened again: the first by name goes on."""
    return any(other < node["metadata"]["name"] for other in maintained(node, nodes))
