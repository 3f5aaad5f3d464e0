#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_agent
short_description: Install or remove what the node agents need in the cluster
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Applies the service account of the agents, their rights, and the policy that holds each agent to its own node's
    objects; with O(daemonset) the agents themselves, as a DaemonSet.
  - Agents on hosts, as a service, are the business of the role P(berth.stateful.node_agent#role), which uses this
    module.
  - Nothing is removed while disks are held, unless it is forced.
  - Nothing is written before the API server has taken a dry run of every object that would be.
options:
  state:
    description:
      - V(present) writes what differs, and nothing else.
      - V(absent) removes it again, all but the namespace; with O(node_name) only the Lease of that node's agent.
    type: str
    choices: [present, absent]
    default: present
  node_name:
    description: With O(state=absent), the one node whose agent is gone.
    type: str
  force:
    description: Remove although disks are held or agents live. Held disks stay held, and their data stays.
    type: bool
    default: false
  manifests:
    description: The objects. By default those of the collection (C(deploy/agent)).
    type: list
    elements: dict
  daemonset:
    description: Run the agents as a DaemonSet. Without it a DaemonSet that is there is left alone.
    type: dict
    suboptions:
      image:
        description: Image of the agent.
        type: str
        required: true
      default_configuration:
        description:
          - Text of the configuration of nodes that have none of their own.
          - This text and those of O(daemonset.configurations) are checked as C(berth-agent check-config) does it,
            before anything is written. Disk selectors want the Python package jmespath for that.
        type: str
        default: "{}\n"
      configurations:
        description: Node name to text of its configuration.
        type: dict
      node_selector:
        description: Labels of the nodes that get an agent; by default as the manifest says.
        type: dict
      tolerations:
        description: Tolerations of the pods; by default as the manifest says.
        type: list
        elements: dict
      wait:
        description:
          - Wait until Kubernetes has replaced every pod. It replaces one after the other, and none before the last one
            has published its node; where one does not, the others keep the agent that works, and the task fails.
          - It then names the pod, its node and the last line that its agent wrote, and returns RV(previous), which
            takes the roll-out back.
        type: bool
        default: false
      wait_timeout:
        description: Seconds.
        type: int
        default: 300
attributes:
  check_mode:
    description: Says what would change, without a single write.
    support: full
  diff_mode:
    description: Shows each object before and after.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.node_agent_info
  - module: berth.stateful.node_agent_token
"""

EXAMPLES = r"""
- name: What agents need, whoever starts them
  berth.stateful.node_agent:

- name: Agents as a DaemonSet
  berth.stateful.node_agent:
    daemonset:
      image: registry.example.com/berth:0.2.0
      configurations:
        n1: |
          disks:
            - serial: S5H9NS0N986704
              storage_class: fast

- name: Another image, and back to what was there where it does not come up
  block:
    - berth.stateful.node_agent:
        daemonset:
          image: "{{ newer_image }}"
          wait: true
      register: agents
  rescue:
    - berth.stateful.node_agent:
        daemonset: "{{ agents.previous | combine({'wait': true}) }}"
      when: agents.previous

- name: The agent of a node that is gone for good
  berth.stateful.node_agent:
    state: absent
    node_name: n1
"""

RETURN = r"""
held:
  description: The disks that are held.
  returned: with O(state=absent)
  type: list
  elements: dict
  sample: [{name: n1-9f86d08188, node: n1, holder: default/db-0}]
previous:
  description:
    - What O(daemonset) would say of the DaemonSet that was there before; null where there was none.
    - Handed to O(daemonset), it brings image, configurations, selector and tolerations back.
  returned: with O(daemonset), also where waiting failed
  type: dict
  sample: {image: "registry.example.com/berth:0.2.0", default_configuration: "{}\n", configurations: {}}
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 2}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.node_agent import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
