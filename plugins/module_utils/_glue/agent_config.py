# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configurations that the module node_agent hands to a DaemonSet's agents, checked as the agents themselves do it.

Called by node_agent before anybody is asked. The check is agent_config's, and so `berth-agent check-config`'s.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..berth_core.app.agent_config import Libraries, check_text
from ..berth_core.errors import InputError
from . import query

try:
    import yaml
except ImportError:  # only the controller reads YAML, and Ansible brings it there
    yaml = None

_TOLD = 5


def check_configurations(default: str, of_nodes: Mapping[str, str]) -> None:
    """Raises InputError that names the option, the node and the lines of each file that agents would refuse."""
    refused = _problems(default, None, "daemonset.default_configuration")
    for node, text in sorted(of_nodes.items()):
        refused += _problems(text, node, f"daemonset.configurations of node {node}")
    if refused:
        more = f"; and {len(refused) - _TOLD} more" if len(refused) > _TOLD else ""
        raise InputError(
            f"{'; '.join(refused[:_TOLD])}{more}. An agent would refuse it (berth-agent check-config); nothing was "
            "written",
            problems=refused,
        )


def _problems(text: str, node: str | None, option: str) -> list[str]:
    """``node``: whose file it is; None for the one of all nodes that have none of their own."""
    checked = check_text(text, Libraries(yaml, query.library))
    if checked.settings is None:
        return [f"{option}: {problem}" for problem in checked.problems]
    named = checked.settings.node
    if named and named != node:
        expected = f"{node}, or no node" if node else "no node, because many nodes have this file"
        return [f"{option}: node is {named!r}: expected {expected}"]
    return []
