#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_class
short_description: Manage a StorageClass for local disks
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Makes, changes or removes one StorageClass.
  - The defaults are those that volumes on local disks need, berth's provisioner and binding when the first pod comes.
options:
  name:
    description: The name of the StorageClass.
    type: str
    required: true
  state:
    description:
      - Whether the StorageClass is there. V(absent) leaves existing volumes and the claims that are bound to them as
        they are, with a warning that names some of the claims. They cannot grow while the class is gone.
      - V(absent) is refused while claims that are not bound name the class, for nobody would bind them.
    type: str
    choices: [present, absent]
    default: present
  default:
    description:
      - Whether claims that name no class get this one.
      - Left out, the class keeps what it has.
    type: bool
  provisioner:
    description:
      - Who makes volumes of the class. It cannot be changed later.
      - V(local.berth.dev) is berth's. M(berth.stateful.stateful_app) makes the claims of its apps bound, and all other
        claims of the class are bound by berth-controller or berth-scheduler. Where neither runs, those wait.
      - Of a class with V(kubernetes.io/no-provisioner) only M(berth.stateful.stateful_app) makes volumes.
        The controller and the scheduler leave its other claims alone. Those wait for volumes made by hand.
      - Any other name is that of somebody else's driver.
      - A class that is there with another provisioner is refused. Give that one by name to keep the class as it is.
    type: str
    default: local.berth.dev
  parameters:
    description: Parameters of the provisioner. They cannot be changed later.
    type: dict
  reclaim_policy:
    description:
      - What becomes of a dynamically provisioned volume when its claim is deleted. It cannot be changed later.
      - With V(Delete) a LocalDisk that says V(Delete) too is wiped, by its own
        O(berth.stateful.local_disk#module:wipe_method). By default that removes signatures and leaves the data.
    type: str
    choices: [Retain, Delete]
    default: Retain
  volume_binding_mode:
    description: When claims of the class are bound. It cannot be changed later.
    type: str
    choices: [WaitForFirstConsumer, Immediate]
    default: WaitForFirstConsumer
  allow_volume_expansion:
    description: Whether volumes of the class may grow. Left out, the class keeps what it has.
    type: bool
  mount_options:
    description: Mount options of provisioned volumes. Left out, the class keeps what it has.
    type: list
    elements: str
  labels:
    description: Labels to have. Other labels are left alone.
    type: dict
  annotations:
    description: Annotations to have. Other annotations are left alone.
    type: dict
  force:
    description:
      - Remove it although claims that are not bound name it. They wait until there is a class of its name again, as
        after a removal that makes way for a class with other parameters.
    type: bool
    default: false
    version_added: 0.2.0
attributes:
  check_mode:
    description: Can run in check mode and say what would change, without a single write.
    support: full
  diff_mode:
    description: Shows what changes, without what the API server adds by itself.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.crds
"""

EXAMPLES = r"""
- name: A class for fast local disks
  berth.stateful.storage_class:
    name: fast
    labels:
      tier: nvme

- name: Make it the default
  berth.stateful.storage_class:
    name: fast
    default: true

- name: Keep a class that an earlier release made as it is
  berth.stateful.storage_class:
    name: berth-local
    provisioner: kubernetes.io/no-provisioner

- name: Gone again, unless claims wait for it
  berth.stateful.storage_class:
    name: fast
    state: absent
"""

RETURN = r"""
storage_class:
  description: The StorageClass as it is (in check mode, what is asked of it); nothing when it is absent.
  returned: success
  type: dict
claims:
  description: Claims that name the class and are not bound, C(namespace/name).
  returned: with O(state=absent)
  type: list
  elements: str
  sample: [default/data-db-0]
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.storage_class import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
