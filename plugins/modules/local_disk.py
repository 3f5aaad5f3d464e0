#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_disk
short_description: Declare the local disks of nodes as LocalDisk objects
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Creates, changes and deletes LocalDisk objects, one per physical disk, and records what the host reports of them.
  - One task declares any number of disks. All are decided on before the first is written, and nothing is written when
    any of them is refused.
  - Two disks of one node in a task that share a WWN, a serial number or a path are refused, unless another key of both
    tells them apart.
  - The lock of a disk (who holds it) is never touched. A LocalDisk that is held is never deleted.
  - The module talks to the API server alone; the disk itself is never read or written.
options:
  state:
    description:
      - Whether the LocalDisk is there, and for whom.
      - V(absent) is refused while a berth holds the disk, and while the disk keeps the data of a replica.
      - V(reserved) is V(present) with O(reserved=true); O(reserved=false) beside it is refused.
      - V(released) takes the reservation back, and gives up the lock of a berth that is gone. The data stays that
        replica's, and only it gets the disk again, unless O(force_retained=true). Refused while the berth is there.
    type: str
    choices: [present, absent, reserved, released]
    default: present
  force_retained:
    description:
      - With O(state=absent) or O(state=released), forget whose data is on the disk, or with O(wipe), destroy it.
      - Where it is forgotten, the data itself stays on the disk, which is not given out again before it is wiped.
    type: bool
    default: false
  cordon:
    description:
      - Whether the disk is cordoned, as a node can be. Who holds it keeps it; nobody gets it anew.
      - It is for the time of a repair, and nothing that the inventory declares changes it.
    type: bool
  wait:
    description: With O(wipe), wait until the agent has finished.
    type: bool
    default: true
  wait_timeout:
    description: How many seconds to wait. A wipe that takes longer goes on.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Says what would change, without a single write.
    support: full
  diff_mode:
    description: Shows the declaration and the status of every disk that changes.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
  - berth.stateful.disk
  - berth.stateful.disk.list
  - berth.stateful.disk.wipe
seealso:
  - module: berth.stateful.local_disk_plan
  - module: berth.stateful.local_disk_info
  - module: berth.stateful.block_device_info
"""

EXAMPLES = r"""
- name: Declare one disk
  berth.stateful.local_disk:
    node_name: n1
    identity:
      serial: S5H9NS0N986704
      size: 480103981056
    storage_class: fast

- name: Declare all disks of a host, as planned from its inventory
  berth.stateful.local_disk:
    disks: "{{ plan.disks }}"

- name: Keep a disk out of every berth
  berth.stateful.local_disk:
    name: n1-9f86d08188
    reserved: true

- name: Give a disk that fails to nobody anew
  berth.stateful.local_disk:
    name: n1-9f86d08188
    cordon: true

- name: Destroy what is on a disk
  berth.stateful.local_disk:
    name: n1-9f86d08188
    wipe:
      identity:
        serial: S5H9NS0N986704
      method: zero

- name: Forget a disk that nobody holds
  berth.stateful.local_disk:
    name: n1-9f86d08188
    state: absent
"""

RETURN = r"""
actions:
  description: What was done (in check mode, would be done) for each LocalDisk, by name.
  returned: success
  type: dict
  sample: {n1-9f86d08188: created, n1-3fdba35f04: unchanged, n1-8527a891e2: observed}
local_disks:
  description: The LocalDisks as they are afterwards.
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
destroyed:
  description: What the wipe destroys (in check mode, would destroy).
  returned: when O(wipe) is given
  type: dict
  sample:
    disk: n1-9f86d08188
    node: n1
    identity: serial S5H9NS0N986704, size 447.13Gi
    device: /dev/sdb
    size: 447.13Gi
    filesystem: {type: ext4, uuid: 0c7e6a8a-8b0e-5f0e-9b53-0d8f3a1f6a11}
    data_of: nobody on record
wipe:
  description: The outcome, as the agent recorded it; without O(wait) the request.
  returned: when O(wipe) is given, not in check mode
  type: dict
  sample: {requestID: r1, result: Succeeded, method: zero, requestedBy: ops@bastion, bytes: 480103981056}
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.local_disk import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
