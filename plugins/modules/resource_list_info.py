#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_list_info
short_description: What every node has, what is free, and who holds what
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Shows nodes, local disks and local devices with what is given out taken off, as the engine that places replicas sees
    them.
  - A berth counts against its node from the moment it is Reserved, pod or no pod.
  - Sends one LIST for each kind (nodes, pods, LocalDisks, LocalDevices, Berths) and never writes.
options:
  nodes:
    description: Only these nodes, and what is in them.
    type: list
    elements: str
    aliases: [names]
  label_selectors:
    description: Only nodes with these labels, and what is in them.
    type: list
    elements: str
  query:
    description: A JMESPath expression over RV(resources); its outcome is RV(result).
    type: str
attributes:
  check_mode:
    description: Never changes anything.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
requirements:
  - numpy >= 1.22
  - jmespath (for O(query))
seealso:
  - module: berth.stateful.local_disk_info
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: Everything
  berth.stateful.resource_list_info:
  register: found

- name: Free disks of the class fast, the largest first
  berth.stateful.resource_list_info:
    query: "reverse(sort_by(disks[?free && storage_class == 'fast'], &size))[].{disk: name, node: node, bytes: size}"
  register: fast

- name: Who holds what on one node
  berth.stateful.resource_list_info:
    nodes: [h1]
    query: "disks[?holder].{disk: name, berth: holder.berth, claim: holder.claim}"
"""

RETURN = r"""
resources:
  description: The resource list. CPU in thousandths of a core, memory and storage in bytes, all else counted.
  returned: success
  type: dict
  contains:
    nodes:
      description: The nodes, by name.
      type: list
      elements: dict
      contains:
        name:
          description: The node's name.
          type: str
        schedulable:
          description: Whether it is not cordoned.
          type: bool
        taints:
          description: Its taints.
          type: list
          elements: str
        labels:
          description: Its labels.
          type: dict
        allocatable:
          description: What can be given out.
          type: dict
          sample: {cpu: 4000, memory: 8589934592, pods: 110}
        requested:
          description: What pods and berths have.
          type: dict
        free:
          description: What is left.
          type: dict
        disks:
          description: Counts and bytes of its disks.
          type: dict
          sample: {total: 3, free: 2, held: 1, retained: 0, bytes: 1207959552, free_bytes: 805306368}
        devices:
          description: Counts of its devices and their shares.
          type: dict
          sample: {total: 1, free: 1, shares: 1000, free_shares: 400}
        berths:
          description: The berths on it, NAMESPACE/NAME.
          type: list
          elements: str
    disks:
      description: The LocalDisks, by name.
      type: list
      elements: dict
      contains:
        name:
          description: The LocalDisk's name.
          type: str
        node:
          description: The node that it is in.
          type: str
        size:
          description: Bytes.
          type: int
        free:
          description: Whether any berth can have it.
          type: bool
        why_not_free:
          description:
            - V(held), V(retained), V(reserved), V(pending), V(faulted), V(missing), V(unhealthy), V(terminating),
              V(in_use), V(wiping), V(cordoned), V(stale), or nothing.
            - V(stale) - its lock, or the word whose data it keeps, was taken off, and its agent has not looked since.
          type: str
        holder:
          description: Who holds it, as namespace, berth, app, ordinal and claim.
          type: dict
        retained_for:
          description: Whose data is on it although nobody holds it, by names and uids.
          type: dict
        identity:
          description: The keys that tell it from all other disks (wwn, serial, by_path).
          type: dict
    devices:
      description: The LocalDevices, by name.
      type: list
      elements: dict
      contains:
        name:
          description: The LocalDevice's name.
          type: str
        node:
          description: The node that it is in.
          type: str
        device_class:
          description: Its class.
          type: str
        shares:
          description: Thousandths of a device.
          type: int
        free_shares:
          description: Those that can be given out.
          type: int
        holders:
          description: Who holds shares of it.
          type: list
          elements: dict
    totals:
      description: The same counts over everything that is shown.
      type: dict
    unreadable:
      description:
        - What is in none of the other lists because a field of it cannot be read, in the whole cluster.
        - What such an object may hold counts as taken. A Berth or pod takes all that its node has.
      type: list
      elements: dict
      contains:
        kind:
          description: The kind of the object.
          type: str
        namespace:
          description: Its namespace; empty for kinds of the cluster.
          type: str
        name:
          description: Its name.
          type: str
        why:
          description: Object, field, value, and what was expected.
          type: str
result:
  description: What O(query) finds.
  returned: when O(query) is given
  type: raw
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 5}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.resource_list import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
