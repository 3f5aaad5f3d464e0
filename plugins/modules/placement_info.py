#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: placement_info
short_description: Where a pod or an app would go, and why
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Asks the engine that places replicas, and shows the verdict of every node with its reasons, every score before and
    after it was normalized, the best nodes, and what would make it fit.
  - Sends one LIST for each kind of object and never writes. A pod or app that does not fit is an answer, not a failure.
  - An app is judged as M(berth.stateful.stateful_app) would choose, a pod as C(berth-scheduler) would.
options:
  pod:
    description: A pod's manifest. Its claims are looked for in the cluster, and in O(claims).
    type: dict
  pod_name:
    description: A pod of O(namespace) that waits for a node.
    type: str
  claims:
    description: PersistentVolumeClaims, as manifests, that would be made with O(pod).
    type: list
    elements: dict
  name:
    description: The application's name; needed with a pod template. A replica that has a Berth goes back to it.
    type: str
  namespace:
    description: The namespace of the app, of O(pod_name), or of a manifest that names none.
    type: str
    default: default
  replicas:
    description: How many replicas or pods of that kind, one after the other; each counts for those after it. By default
      as many as a StatefulSet in O(template) or O(src) says, or 1.
    type: int
  template:
    description: The pod template of an app, as for M(berth.stateful.stateful_app).
    type: dict
  src:
    description: YAML file with a pod, a pod template, or a StatefulSet with its Services and ConfigMaps. Looked for in
      C(files/), decrypted by vault.
    type: path
  disks:
    description: The local disks of every replica of the app, beside the C(volumeClaimTemplates) of a StatefulSet.
    type: list
    elements: dict
    suboptions:
      name:
        description: The volume's name, which a container of the template mounts.
        type: str
        required: true
      size:
        description: The least size, as a quantity.
        type: str
        required: true
      storage_class:
        description: The StorageClass of the disk; any class by default.
        type: str
      volume_mode:
        description: A filesystem, or the raw device.
        type: str
        choices: [Filesystem, Block]
        default: Filesystem
      fs_type:
        description: The filesystem that the disk must be declared with; any by default.
        type: str
        choices: [ext4, xfs]
      selector:
        description: A label selector (C(matchLabels), C(matchExpressions)) over LocalDisks.
        type: dict
      disk_names:
        description: Pins the choice to these LocalDisks, at least one for each replica.
        type: list
        elements: str
  devices:
    description: The devices of every replica of the app.
    type: list
    elements: dict
    suboptions:
      name:
        description: The claim's name.
        type: str
        required: true
      device_class:
        description: The class of the LocalDevices.
        type: str
        required: true
      count:
        description: How many whole devices; 1 by default. Excludes O(devices[].share).
        type: int
      share:
        description: Thousandths of one device.
        type: int
  topology_spread_constraints:
    description: As in a pod's C(spec.topologySpreadConstraints).
    type: list
    elements: dict
  configuration:
    description:
      - A KubeSchedulerConfiguration whose profile is asked. By default all built-in plugins with their weights.
      - Its extenders are not asked; what they manage and the scheduler is to ignore is ignored.
    type: dict
  scheduler_name:
    description: Which profile of O(configuration); the first by default.
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
seealso:
  - module: berth.stateful.stateful_app
  - module: berth.stateful.resource_list_info
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: Why does this pod wait
  berth.stateful.placement_info:
    namespace: shop
    pod_name: cart-2
  register: found

- name: Whether three replicas would fit, before anything is made
  berth.stateful.placement_info:
    name: db
    replicas: 3
    disks:
      - name: data
        size: 200Mi
        storage_class: berth-local
    template:
      spec:
        containers:
          - name: db
            image: berth.local/busybox:1
            volumeMounts:
              - name: data
                mountPath: /data
  register: plan
  failed_when: not plan.fits

- name: A pod as another scheduler's profile would place it
  berth.stateful.placement_info:
    src: pod.yaml
    configuration: "{{ lookup('ansible.builtin.file', 'scheduler.yaml') | from_yaml }}"
    scheduler_name: packed
"""

RETURN = r"""
fits:
  description: Whether all of them have a place.
  returned: success
  type: bool
fitting:
  description: How many have one.
  returned: success
  type: int
placements:
  description: One entry for each replica or pod.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The pod's name.
      type: str
    namespace:
      description: Its namespace.
      type: str
    ordinal:
      description: The replica of an app; null for a pod.
      type: int
    fits:
      description: Whether there is a place for it.
      type: bool
    node:
      description: The node that is chosen, or null.
      type: str
    berth_node:
      description: The node of its own Berth, where it has one. No other node is looked at then.
      type: str
    disks:
      description: The LocalDisk that is chosen for each claim.
      type: dict
      sample: {data: h1-0a1b2c3d4e}
    devices:
      description: The LocalDevices and their shares that are chosen for each claim.
      type: dict
      sample: {gpu: [{name: h1-gpu-0, shares: 500}]}
    volumes:
      description: The PersistentVolume that is chosen for each claim that waits for its pod.
      type: dict
    best_nodes:
      description: The nodes with the highest total. The one whose name sorts first is chosen.
      type: list
      elements: str
    message:
      description: Why it does not fit, in one text; empty where it does.
      type: str
    hints:
      description: What would make it fit, the fewest changes first.
      type: list
      elements: str
    preemption:
      description: The node, and the pods of lower priority that would have to go, where that would help; else null.
      type: dict
      sample: {node: h1, victims: [default/batch-1]}
    nodes:
      description:
        - The verdict on each node by its name. C(fits) with C(total) and, by plugin, C(raw), C(normalized) (0 to
          100), C(weight) and C(weighted); or the C(plugin) that refused it first, its C(reasons), and whether something
          could leave the node and make it fit (C(resolvable)).
      type: dict
      sample:
        h1:
          fits: true
          total: 588
          scores:
            TaintToleration: {raw: 0, normalized: 100, weight: 3, weighted: 300}
        h2: {fits: false, plugin: NodeResourcesFit, reasons: [Insufficient cpu], resolvable: true}
    local_disks:
      description: The verdict on each LocalDisk for each claim, as claim, name, node, fits, reason and detail.
      type: list
      elements: dict
    local_devices:
      description: The same for each LocalDevice.
      type: list
      elements: dict
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 16}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.placement_info import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
