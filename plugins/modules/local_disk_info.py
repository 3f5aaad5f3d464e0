#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_disk_info
short_description: List LocalDisks and report their drift from what is declared
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Lists LocalDisk objects, filtered and queried, with a single request.
  - Given the declared disks, reports which are missing, which are there without being declared, and which differ;
    it can
    fail the play then.
options:
  names:
    description: Only these LocalDisks.
    type: list
    elements: str
    aliases: [name]
  node_name:
    description: Only the disks of this node.
    type: str
  storage_class:
    description: Only disks of this StorageClass.
    type: str
  phase:
    description: Only disks in this phase.
    type: str
    choices: [Pending, Available, Locked, InUse, Released, Faulted, Missing]
  label_selectors:
    description: Only disks whose labels match all of these, as V(tier=fast), V(rack in (a,b\)), V(!spare).
    type: list
    elements: str
  query:
    description: JMESPath expression over the list of LocalDisks; what it finds is returned as RV(result).
    type: str
  fail_on_drift:
    description: Fail, with the list, when the declared disks and the LocalDisks differ.
    type: bool
    default: false
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
  - berth.stateful.disk.declared
seealso:
  - module: berth.stateful.local_disk
  - module: berth.stateful.local_disk_plan
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: Names and sizes of the free disks of a class
  berth.stateful.local_disk_info:
    storage_class: fast
    phase: Available
    query: "[].{name: metadata.name, size: status.capacity}"

- name: Fail when this host's disks are not those of the inventory
  berth.stateful.local_disk_info:
    node_name: n1
    declared: "{{ plan.declared }}"
    fail_on_drift: true
"""

RETURN = r"""
local_disks:
  description: The LocalDisks, sorted by name.
  returned: success
  type: list
  elements: dict
  sample:
    - metadata: {name: n1-9f86d08188, labels: {tier: fast}}
      spec:
        nodeName: n1
        identity: {serial: S5H9NS0N986704, size: 480103981056}
        storageClassName: fast
        volumeMode: Filesystem
        fsType: ext4
      status: {phase: Available, capacity: 447.13Gi, observed: {devicePath: /dev/sdb}}
result:
  description: What O(query) found.
  returned: when O(query) is given
  type: raw
drift:
  description: The differences; a failed task returns them too.
  returned: when O(declared) is given
  type: dict
  contains:
    missing:
      description: Declared disks without a LocalDisk, and LocalDisks whose disk is not in its node.
      type: list
      elements: dict
    extra:
      description: LocalDisks that are not declared.
      type: list
      elements: dict
    changed:
      description: LocalDisks whose settings or identity are not what is declared, or that are faulted.
      type: list
      elements: dict
    unexpected_filesystem:
      description: LocalDisks that carry a signature (filesystem, partition table) that belongs to nobody on record.
      type: list
      elements: dict
    held_elsewhere:
      description: LocalDisks that something on the host holds or has mounted, and no berth.
      type: list
      elements: dict
    text:
      description: Every difference as one line.
      type: list
      elements: str
    diff:
      description: Declared against observed, the lines of a unified diff.
      type: list
      elements: str
    any:
      description: Whether there is any.
      type: bool
  sample:
    missing: [{name: n1-9f86d08188, node: n1, device: "", what: ["it is declared, and there is no such LocalDisk"]}]
    extra: []
    changed: []
    unexpected_filesystem: []
    held_elsewhere: []
    diff: ["--- declared", "+++ observed", "@@ -1,2 +0,0 @@", "-LocalDisk n1-9f86d08188 (n1)", "-  storage_class: fast"]
    text: ["missing: LocalDisk n1-9f86d08188 (n1): it is declared, and there is no such LocalDisk"]
    any: true
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.local_disk_info import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
