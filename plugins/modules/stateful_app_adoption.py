#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stateful_app_adoption
short_description: Release an application from berth, to go on as plain Kubernetes
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - With O(state=released) an application of M(berth.stateful.stateful_app) goes on without berth. Its StatefulSet,
    pods, PersistentVolumeClaims and PersistentVolumes stay as they are, and no pod is restarted. Its Berths and their
    locks go.
  - Claims, volumes, StatefulSet, Services and ConfigMaps lose berth's labels and its mark. From then on
    M(berth.stateful.stateful_app) refuses to touch them.
  - No disk is given to anybody else, and none is wiped. Each LocalDisk keeps the data in the replica's name
    (C(spec.retainedFor)), and names the PersistentVolume through which it goes on to be used. While that is there, the
    node agent leaves the filesystem mounted.
  - After a reboot nothing of berth mounts these disks. RV(replicas) has the line of C(/etc/fstab) for each; the role
    C(local_disks) has written the same one where it made the filesystem.
  - Refused, before anything is written, are applications without a StatefulSet, with devices, with a disk that is being
    exchanged, and those that C(berth-controller) carries out.
  - It needs the rights of an administrator, among them to patch PersistentVolumes and to update
    C(localdisks/retained).
options:
  name:
    description: The application.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    default: default
  state:
    description: V(released) - the application is berth's no more.
    type: str
    choices: [released]
    required: true
  mount_root:
    description: Where the hosts mount the filesystems of LocalDisks.
    type: path
    default: /var/lib/berth/disks
  wait_timeout:
    description: How many seconds to wait for one object that goes.
    type: int
    default: 60
attributes:
  check_mode:
    description: Says what would be written, and what would be refused.
    support: full
  diff_mode:
    description: Shows every object that changes, and every Berth that goes.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.stateful_app
  - module: berth.stateful.local_disk
"""

EXAMPLES = r"""
- name: What would be written
  berth.stateful.stateful_app_adoption:
    name: db
    state: released
  check_mode: true
  diff: true

- name: The application goes on without berth
  berth.stateful.stateful_app_adoption:
    name: db
    state: released
  register: out

- name: Each host mounts its disks itself from now on
  ansible.builtin.lineinfile:
    path: /etc/fstab
    line: "{{ item.1.fstab }}"
  delegate_to: "{{ item.0.node }}"
  become: true
  loop: "{{ out.replicas | subelements('disks') }}"
  when: item.1.fstab is not none
"""

RETURN = r"""
replicas:
  description:
    - The replicas that had a Berth when the task began. C(fstab) of a disk is the line that mounts it after a reboot;
      none for a block volume, and for a disk whose lock had gone before.
  returned: success
  type: list
  elements: dict
  sample:
    - name: db-0
      ordinal: 0
      node: n1
      pod: db-0
      disks:
        - claim: data-db-0
          name: n1-a
          volume: n1-a-0a1b2c3d
          fstab: UUID=7f6a5b4c-3d2e-5f10-8a9b-0c1d2e3f4a5b /srv/berth/n1-a xfs nofail,x-berth.localdisk=n1-a 0 0
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {get: 3, list: 8, patch: 10}
"""

from ..module_utils._glue.adoption import OPERATION
from ..module_utils._glue.base import module_main


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
