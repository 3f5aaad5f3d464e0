#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controller
short_description: Install or remove berth-controller in the cluster
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Applies the controller, which binds claims of the provisioner C(local.berth.dev) to local disks, as a Deployment
    with its account and rights and the CSIDriver of that name, and waits until one of its pods leads.
  - There is one controller in a cluster; objects and Lease are called C(berth-controller).
  - What is there under these names and is not the controller's is never written over or removed. What was applied from
    C(deploy/controller) by hand is the controller's.
  - Nothing is written before the API server has taken a dry run of every object that would be, in check mode too.
  - Custom resources of another release are refused by name, before anything is written. An image of another release
    does not start, and says so; the pods that are there go on.
options:
  state:
    description:
      - V(present) writes what differs, and nothing else.
      - V(absent) removes what V(present) made, all but the namespace, and the controller's Lease, and what it told the
        stock scheduler of free disks (CSIStorageCapacity).
      - V(absent) is refused while claims need it - those of the provisioner that wait for a disk, and those whose
        volumes exist, for nobody else gives their disks up.
    type: str
    choices: [present, absent]
    default: present
  flags:
    description:
      - More flags of C(berth-controller), without the dashes - C(workers), C(resync), C(mount-root),
        C(orphan-interval), C(orphan-report-after), C(orphan-repair-after), C(log-format).
        C(berth-controller --help) says what they are.
      - They are checked before anything is written. Others replace the pods one after the other.
    type: dict
  force:
    description: Remove it although claims need it.
    type: bool
    default: false
  manifests:
    description: The objects. By default those of the collection (C(deploy/controller)).
    type: list
    elements: dict
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
  - berth.stateful.daemon
  - berth.stateful.daemon.pods
seealso:
  - module: berth.stateful.crds
  - module: berth.stateful.storage_class
  - module: berth.stateful.scheduler
"""

EXAMPLES = r"""
- name: The custom resources that it watches
  berth.stateful.crds:

- name: Two pods, of which one leads
  berth.stateful.controller:
    image: registry.example.com/berth:0.2.0

- name: One that logs more, and looks for orphans every five minutes
  berth.stateful.controller:
    image: registry.example.com/berth:0.2.0
    log_level: debug
    flags:
      log-format: json
      orphan-interval: 300

- name: Gone again, unless claims need it
  berth.stateful.controller:
    state: absent
"""

RETURN = r"""
leader:
  description: The pod that leads.
  returned: with O(state=present) and O(wait=true), not in check mode
  type: str
  sample: berth-controller-6d5f8c7b9d-x2x7k
claims:
  description: Claims that need it, C(namespace/name).
  returned: with O(state=absent)
  type: list
  elements: str
  sample: [default/data-db-0]
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {get: 15}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.controller import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
