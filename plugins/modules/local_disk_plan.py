#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_disk_plan
short_description: Say what the inventory of a host means for its disks
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Compares the disks that the inventory declares for a host with those that the host reports and with the LocalDisks
    that there are, and says for each disk whether it is adopted, kept, missing, refused, or extra. Nothing is
    changed.
  - A selector never adopts a disk that carries a partition table, a filesystem or another signature, that is mounted,
    held, faulted, read-only or removable, or that carries the running system.
  - An entry of O(disks) that names such a disk by its WWN or serial number adopts it; it is not given out as long
    as it
    carries anything. A disk in use (mounted, swap, held by the kernel) or the system's own may only be declared with
    C(reserved=true).
  - A disk that is a LocalDisk of the node already stays one, whatever berth has put on it since.
  - An identity that is weak (model and size alone), ambiguous (the same serial number twice) or not there is
    refused with
    the list of candidates.
  - What a declaration does not mention has its default, C(volume_mode=Filesystem), C(fs_type=ext4),
    C(reclaim_policy=Retain), C(wipe_method=signatures) (which leaves the data on the disk), C(reserved=false), no
    StorageClass and no mount options.
options:
  node_name:
    description: The node that the host is.
    type: str
    required: true
  block_devices:
    description: What the host reports, RV(berth.stateful.block_device_info#module:block_devices).
    type: list
    elements: dict
    required: true
  only_compare:
    description:
      - The plan is for a comparison and is not carried out. Then an entry of O(disks) is not refused because its disk,
        a LocalDisk already, is in use by something else by now; M(berth.stateful.local_disk_info) tells that as drift.
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
  - berth.stateful.disk.inventory
seealso:
  - module: berth.stateful.block_device_info
  - module: berth.stateful.local_disk
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: What is there
  berth.stateful.block_device_info:
  register: found

- name: What would be done
  berth.stateful.local_disk_plan:
    node_name: "{{ inventory_hostname }}"
    disks:
      - serial: S5H9NS0N986704
        storage_class: fast
    selectors:
      - query: "[?type == 'disk' && !rotational && size > `100000000000`]"
        storage_class: fast
    block_devices: "{{ found.block_devices }}"
  delegate_to: localhost
  register: plan
"""

RETURN = r"""
disks:
  description: The disks as M(berth.stateful.local_disk) takes them; of undeclared LocalDisks only what was observed.
  returned: success
  type: list
  elements: dict
declared:
  description: Those of RV(disks) that the inventory declares.
  returned: success
  type: list
  elements: dict
plan:
  description: One row per disk that was declared, found by a selector, or is a LocalDisk of the node.
  returned: always
  type: list
  elements: dict
  sample:
    - action: adopt
      disk: n1-9f86d08188
      device: /dev/sdb
      size: 480103981056
      source: berth_disks[0]
      why: ""
table:
  description: The plan as the lines of a table.
  returned: always
  type: list
  elements: str
extra:
  description: Names of the LocalDisks that the inventory does not declare any more.
  returned: success
  type: list
  elements: str
held:
  description: Those of RV(extra) that a berth holds, or that keep a replica's data.
  returned: success
  type: list
  elements: str
free:
  description: The others of RV(extra), as O(berth.stateful.local_disk#module:disks) takes them.
  returned: success
  type: list
  elements: dict
refusals:
  description: Why entries are refused.
  returned: when entries are refused, which fails the task
  type: list
  elements: str
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.local_disk_plan import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
