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
  declared:
    description:
      - The disks that should be there, as O(berth.stateful.local_disk#module:disks) takes them and
        M(berth.stateful.local_disk_plan) returns them (RV(berth.stateful.local_disk_plan#module:declared)).
      - All LocalDisks of the nodes named here, and of O(node_name), are compared. A disk with C(observed) is
        compared with
        that report of the host, else with the status of its LocalDisk.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the LocalDisk.
          - By default made from the node's name and the strongest key of the identity, so that the same disk in the
            same
            node always has the same name.
        type: str
      node_name:
        description: Node that the disk is in. It never changes.
        type: str
      identity:
        description:
          - The keys that tell the disk from all others. All that are given must match.
          - A new LocalDisk needs the size and one of wwn, serial and by_path. The identity of a LocalDisk never
            changes.
        type: dict
        suboptions:
          wwn:
            description: World wide name, as C(lsblk -o WWN) shows it.
            type: str
          serial:
            description: Serial number, as C(lsblk -o SERIAL) shows it.
            type: str
          model:
            description: Model, as C(lsblk -o MODEL) shows it.
            type: str
          size:
            description: Size in bytes, or as a quantity (V(480103981056), V(512Mi)). It must be exact.
            type: str
          by_path:
            description: Name of the link below C(/dev/disk/by-path). It names a slot, not a disk.
            type: str
      storage_class:
        description: StorageClass whose claims the disk can fill.
        type: str
      volume_mode:
        description: Whether pods get a filesystem on the disk, or the bare device.
        type: str
        choices: [Filesystem, Block]
      fs_type:
        description: The filesystem that is made on the disk when a berth first holds it. Not with a V(Block) volume.
        type: str
        choices: [ext4, xfs]
      mount_options:
        description: Options to mount the filesystem with.
        type: list
        elements: str
      reclaim_policy:
        description:
          - What becomes of the data when the berth is given up. V(Delete) asks the node agent to wipe, by
            O(declared[].wipe_method).
          - Nothing in this collection wipes a disk without the node agent.
        type: str
        choices: [Retain, Delete]
      wipe_method:
        description: How thoroughly the node agent wipes a disk with reclaim policy V(Delete).
        type: str
        choices: [signatures, discard, zero, random]
      reserved:
        description: Keep the disk out of every berth.
        type: bool
      labels:
        description:
          - Labels of the LocalDisk, for the disk selectors of applications. Labels that are not named are left
            alone.
        type: dict
      observed:
        description:
          - What the host has just reported of this disk, a record of M(berth.stateful.block_device_info).
          - An empty mapping means that the disk was looked for and not found. When left out, the status is not
            touched.
        type: dict
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
seealso:
  - module: berth.stateful.local_disk
  - module: berth.stateful.local_disk_plan
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
      description: LocalDisks whose settings, identity or state are not what is declared.
      type: list
      elements: dict
    text:
      description: Every difference as one line.
      type: list
      elements: str
    any:
      description: Whether there is any.
      type: bool
  sample:
    missing: [{name: n1-9f86d08188, node: n1, device: "", what: ["it is declared, and there is no such LocalDisk"]}]
    extra: []
    changed: []
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
