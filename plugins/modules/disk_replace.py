#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: disk_replace
short_description: Bring a replica from a failing disk to a new one in the same node
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - From "this disk is failing" to "the replica runs on the new disk", in steps. The old disk is cordoned, the replica
    stopped, its claim and volume taken away, the lock released; the new disk is declared by its identity and waited
    for, takes the old one's place in the berth, and the pod comes back on it.
  - Every step begins with a look at what is there. A run that was interrupted, or that waited in vain for the disk, is
    continued by the same task.
  - Nothing is wiped. The old disk keeps its data in the replica's name, is cordoned, and stays so.
  - The new disk comes up empty. The application rebuilds or restores its data; the task is done when its pod is Ready.
  - The node's agent finds the new disk, makes its filesystem and mounts it. Do not change the same application with
    M(berth.stateful.stateful_app) meanwhile.
  - The disk of a PersistentVolumeClaim that a StatefulSet makes from its C(volumeClaimTemplates), and that berth's
    controller or scheduler bound, is replaced as well. Claim and pod are deleted, the StatefulSet's controller makes
    them anew, and the new claim is given the new disk. A claim that nobody would make again (of a bare pod or a
    Deployment) is refused, and nothing is changed.
  - Where the app names a quorum (O(berth.stateful.stateful_app#module:quorum)), a replica that is Ready is not stopped
    while fewer others are Ready.
  - Pods of an app with O(berth.stateful.stateful_app#module:workload=Pod) do not come back by themselves; use
    O(until=bound) and run M(berth.stateful.stateful_app) then.
options:
  name:
    description: LocalDisk of the old disk.
    type: str
    required: true
  until:
    description:
      - How far to go. V(stopped) - the replica has stopped. V(released) - the old disk may be pulled. V(adopted) - the
        new disk is there. V(bound) - it is locked and bound. V(running) - the pod is Ready on it.
    type: str
    choices: [stopped, released, adopted, bound, running]
    default: running
  mount_root:
    description: Folder below which the node's filesystems are mounted.
    type: path
    default: /var/lib/berth/disks
  wait_timeout:
    description: How many seconds to wait in each step that waits.
    type: int
    default: 600
attributes:
  check_mode:
    description: Lists the steps that are left, without a single write.
    support: full
  diff_mode:
    description: Shows the two disks and the steps between them.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
  - berth.stateful.disk.new
seealso:
  - module: berth.stateful.local_disk
"""

EXAMPLES = r"""
- name: What would be done
  berth.stateful.disk_replace:
    name: n1-9f86d08188
    new:
      identity:
        serial: S5H9NS0N990001
        size: 480103981056
  check_mode: true

- name: Stop the replica and release the disk, so that it can be pulled
  berth.stateful.disk_replace:
    name: n1-9f86d08188
    new: &new
      identity:
        serial: S5H9NS0N990001
        size: 480103981056
    until: released

- name: Wait for the new disk, and bring the replica back on it
  berth.stateful.disk_replace:
    name: n1-9f86d08188
    new: *new
    wait_timeout: 3600
"""

RETURN = r"""
steps:
  description: The steps that were left when the task began, in order.
  returned: success
  type: list
  elements: dict
  sample: [{step: cordon, what: the old disk is given to nobody anew}]
done:
  description: The steps that were carried out, but for those of a claim that berth-controller was faster with.
  returned: success
  type: list
  elements: str
  sample: [cordon, begin, stop, unbind, release]
replica:
  description:
    - Whose disk it is; null for a disk that is nobody's.
    - For a claim without an app, C(app) is its StatefulSet and C(claim) the name of the template.
  returned: success
  type: dict
  sample: {namespace: default, app: db, ordinal: 0, claim: data, pod: db-0}
old:
  description: The old LocalDisk.
  returned: success
  type: str
  sample: n1-9f86d08188
new:
  description: The new LocalDisk.
  returned: success
  type: str
  sample: n1-3fdba35f04
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {get: 12, list: 3}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.disk_replace import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
