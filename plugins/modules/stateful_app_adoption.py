#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stateful_app_adoption
short_description: Bring a StatefulSet over local volumes under berth, or release an application from berth
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - With O(state=adopted) a StatefulSet whose claims are bound to local PersistentVolumes (of
    sig-storage-local-static-provisioner, or made by hand) comes under berth. Its pods, claims and volumes stay, and no
    pod is restarted. From then on M(berth.stateful.stateful_app) takes it with the same manifest.
  - Each volume has to be the root of one filesystem (ext4 or xfs) on a whole disk that is declared as a LocalDisk and
    was seen by its node's agent (or the role C(local_disks)) where the volume has it mounted. A LocalDisk that carries
    a filesystem is declared by its identity. Volumes of mode V(Block), LVM and partitions are refused.
  - All that is in the way is told at once, and nothing is written then. Among it are a volume without C(spec.local) or
    of more than one node, a disk that is held, keeps somebody's data, is cordoned or is to be wiped, a StatefulSet that
    another controller owns, and a pod that is not Ready.
  - The LocalDisks keep the data in the replicas' names first, so that no disk is nobody's for a moment; then Berths,
    locks, and berth's mark on claims and volumes; then labels on StatefulSet and pods. The StatefulSet gets
    C(updateStrategy) V(OnDelete), so that its controller restarts nothing for them. A run that died is continued by the
    next one.
  - The host goes on to mount these filesystems itself (C(/etc/fstab)), and the node agent leaves them alone. It never
    formats them.
  - A volume's reclaim policy becomes V(Retain).
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
  - Not released, before anything is written, are applications without a StatefulSet, with devices, with a disk that is
    being exchanged, and those that C(berth-controller) carries out.
  - It needs the rights of an administrator, among them to patch PersistentVolumes and to update
    C(localdisks/retained).
options:
  name:
    description: The application; with O(state=adopted) the StatefulSet.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    default: default
  state:
    description:
      - V(adopted) - the StatefulSet is berth's from now on.
      - V(released) - the application is berth's no more.
    type: str
    choices: [adopted, released]
    required: true
  template:
    description:
      - With O(state=adopted), the manifest that M(berth.stateful.stateful_app) is going to be given, a StatefulSet or a
        List of it with its Services and ConfigMaps. It has to be what runs. Services and ConfigMaps of it that are
        there get berth's labels, too, and the first run of M(berth.stateful.stateful_app) changes nothing.
      - Without it the StatefulSet that runs is taken, with the Service that it names. The first run of
        M(berth.stateful.stateful_app) then writes down from what manifest it was made, and restarts nothing either
        where the manifest says the same.
    type: dict
  src:
    description: A YAML file with the same, on the controller.
    type: path
  local_disks:
    description:
      - With O(state=adopted), the LocalDisks of claims that are not to be found by their mount point, for example
        because two LocalDisks show it.
    type: list
    elements: dict
    suboptions:
      ordinal:
        description: Of the replica.
        type: int
        required: true
      claim:
        description: The name of its volumeClaimTemplate; it may be left out where there is one.
        type: str
      name:
        description: The LocalDisk.
        type: str
        required: true
  mount_root:
    description: Where the hosts mount the filesystems of LocalDisks.
    type: path
    default: /var/lib/berth/disks
  wait_timeout:
    description: How many seconds to wait for one object that goes, or for the StatefulSet's controller.
    type: int
    default: 60
attributes:
  check_mode:
    description: Says what would be written, and what would be refused.
    support: full
  diff_mode:
    description: Shows every object that changes, and every Berth that comes or goes.
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
- name: What would be written, and what is in the way
  berth.stateful.stateful_app_adoption:
    name: db
    state: adopted
    src: db.yaml
  check_mode: true
  diff: true

- name: The StatefulSet comes under berth
  berth.stateful.stateful_app_adoption:
    name: db
    state: adopted
    src: db.yaml

- name: It is changed by berth from now on
  berth.stateful.stateful_app:
    name: db
    src: db.yaml

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
    - With O(state=released) the replicas that had a Berth when the task began. C(fstab) of a disk is the line that
      mounts it after a reboot; none for a block volume, for a disk whose lock had gone before, and for a filesystem
      that the host mounts itself.
    - With O(state=adopted) all replicas. In place of C(fstab) a disk has C(mount_point), where its host mounts it
      itself, and C(filesystem_uuid); both are none where berth has made the volume.
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
