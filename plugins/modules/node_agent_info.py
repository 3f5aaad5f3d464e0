#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_agent_info
short_description: Tell which node agents live, and with which configuration; wait until they are Ready
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Reads the Leases that the agents renew, and with them what each says of itself.
  - Lists the disks that are held on their nodes too, which is what keeps an agent from being removed.
options:
  node_names:
    description: Only these nodes, whether their agents have been heard of or not. By default all agents.
    type: list
    elements: str
    aliases: [node_name]
  configuration:
    description: The configuration that should be in force, as the first 12 hexadecimal digits of the file's SHA-256.
    type: str
  version:
    description: The version that the agents should have.
    type: str
  wait:
    description: Wait until every agent lives, is Ready, and has O(configuration) and O(version) where they are given.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 180
attributes:
  check_mode:
    description: Changes nothing anyway.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.node_agent
"""

EXAMPLES = r"""
- name: Which agents are there
  berth.stateful.node_agent_info:
  register: agents

- name: Wait for one
  berth.stateful.node_agent_info:
    node_name: n1
    wait: true
"""

RETURN = r"""
agents:
  description: One row per node.
  returned: always
  type: list
  elements: dict
  sample:
    - node: n1
      alive: true
      ready: true
      holder: n1-4f0c
      renewed: "2026-01-02T03:04:05.000000Z"
      version: 0.2.0
      configuration: 0f343b0931126
      configuration_since: "2026-01-02T03:00:00Z"
      conditions: [{type: Ready, status: "True", reason: Published}]
unready:
  description: Why each agent that is not as asked for is not, a line each.
  returned: success
  type: list
  elements: str
  sample: []
held:
  description: The disks of these nodes that are held.
  returned: success
  type: list
  elements: dict
  sample: [{name: n1-9f86d08188, node: n1, holder: default/db-0}]
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 2}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.node_agent_info import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
