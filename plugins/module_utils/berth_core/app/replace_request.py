# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``replace``: replicas that get another berth because somebody asks for it, by ordinal and the node of the berth that
goes. Called by leaving.py, by whose rules they leave. Pure.

A request stays in a playbook and is read again by each run. It is carried out when the replica is on another node; and
where the choice fell on the same node again, by the mark of the new Berth, which names the requests that it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import InputError, StateError
from ..model.names import check_subdomain, shown

Object = Mapping[str, Any]

#: On a Berth: the nodes that requests for another place of its replica named when it was chosen, with commas between.
ANNOTATION = "berth.dev/replaced"


def read(given: Iterable[str], replicas: Mapping[str, int], places: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The option, checked: (ordinal, node of the berth that goes). Raises InputError.

    ``replicas``: ordinals by what names them; ``places``: of leave_data, which may say the node as well.
    """
    found, known = [], list(places)
    for index, one in enumerate(given):
        replica, at, node = str(one).partition("@")
        if replica not in replicas:
            raise InputError(
                f"replace[{index}] is {shown(one)}: expected a replica of this app, by name or ordinal, and the node "
                f"of the berth that it leaves, such as {next(iter(replicas), 'db-0')}@NODE"
            )
        ordinal = replicas[replica]
        nodes = [node] if at else [place for whose, place in known if whose == ordinal]
        if at:
            check_subdomain(node, f"replace[{index}], the node after @,")
        elif len(nodes) != 1:
            raise InputError(
                f"replace[{index}] is {shown(one)}: name the node, too, whose berth it leaves ({replica}@NODE), so "
                "that the same task run again moves nobody"
            )
        found.append((ordinal, nodes[0]))
    return sorted(set(found))


def is_open(requests: Iterable[tuple[int, str]], record: Object) -> bool:
    """Whether a request asks for another berth than this one."""
    ordinal, node = record["spec"]["ordinal"], str(record["spec"]["nodeName"])
    return (ordinal, node) in requests and node not in _answered(record)


def answered(requests: Iterable[tuple[int, str]], ordinal: int, before: Object | None) -> tuple[str, ...]:
    """The nodes that the mark of a new Berth names. ``before``: the one in whose place it is made."""
    own = {node for whose, node in requests if whose == ordinal}
    return tuple(sorted(own | set(_answered(before) if before is not None else ())))


def done_before(requests: Iterable[tuple[int, str]], berths: Iterable[Object]) -> list[str]:
    """What is told of requests whose replica is on the node that they name, and which were carried out before."""
    return [
        f"replace: {record['metadata']['name']}@{record['spec']['nodeName']} was carried out before, and moves nobody "
        f"again. To ask for it once more, take the mark off its Berth: kubectl --namespace "
        f"{record['metadata']['namespace']} annotate berth {record['metadata']['name']} {ANNOTATION}-"
        for record in berths
        if (record["spec"]["ordinal"], record["spec"]["nodeName"]) in requests and not is_open(requests, record)
    ]


def marked(body: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """The new Berth with its mark; the same where there is nothing to tell."""
    if nodes:
        meta = body["metadata"]
        meta["annotations"] = {**(meta.get("annotations") or {}), ANNOTATION: ",".join(nodes)}
    return body


def why(pod: str, node: str) -> str:
    """For the history of the berth that goes."""
    return f"another berth was asked for (replace: {pod}@{node})"


def with_data(namespace: str, name: str, held: Sequence[tuple[str, str, Sequence[str]]]) -> StateError:
    """The refusal for replicas (pod, node, LocalDisks) whose data nobody gives up."""
    told = "; ".join(f"{pod} on node {node} (LocalDisk {', '.join(disks)})" for pod, node, disks in held)
    names = ", ".join(f"{pod}@{node}" for pod, node, _disks in held)
    return StateError(
        f"{namespace}/{name}: replace asks for another berth for replicas that have data where they are: {told}. It "
        "does not come along: a replica begins empty where it goes. Where the app has it from its other replicas, or "
        f"from a backup, give it up by name and node with leave_data: [{names}]; the disks keep it. Nothing was changed"
    )


def _answered(record: Object) -> list[str]:
    text = (record["metadata"].get("annotations") or {}).get(ANNOTATION)
    return [node for node in str(text or "").split(",") if node]
