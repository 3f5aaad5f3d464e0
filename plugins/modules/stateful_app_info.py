#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stateful_app_info
short_description: Show where the replicas of a stateful application are
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Returns the berths of an application with node, disks, devices, phase and pod, locks in its name that have no
    berth, and the revisions of its pod template.
options:
  name:
    description: The application's name.
    type: str
    required: true
  namespace:
    description: The namespace.
    type: str
    default: default
  inventory_nodes:
    description: The nodes that the inventory has hosts for. Replicas that are not Ready on any other node are RV(lost).
    type: list
    elements: str
    version_added: 0.2.0
attributes:
  check_mode:
    description: Never writes.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.stateful_app
"""

EXAMPLES = r"""
- name: Where is it?
  berth.stateful.stateful_app_info:
    name: db
  register: db

- name: Show which templates it has had, and who runs which
  ansible.builtin.debug:
    msg: "{{ item.number }}: {{ item.images.values() | join(', ') }}, {{ item.pods | join(', ') }}"
  loop: "{{ db.revisions }}"
  loop_control:
    label: "{{ item.name }}"

- name: Show who changed what
  ansible.builtin.debug:
    msg: "{{ item.time }} {{ item.from }} -> {{ item.to }} ({{ item.by.component }} {{ item.by.user }})"
  loop: "{{ db.history }}"
  loop_control:
    label: "{{ item.app }}-{{ item.ordinal }}"

- name: Show the nodes
  ansible.builtin.debug:
    msg: "{{ db.berths | items2dict(key_name='name', value_name='node') }}"
"""

RETURN = r"""
exists:
  description: Whether anything of the application is there.
  returned: success
  type: bool
workload:
  description: V(StatefulSet) or V(Pod), where there is one.
  returned: success
  type: str
berths:
  description: The berths, as M(berth.stateful.stateful_app) returns them.
  returned: success
  type: list
  elements: dict
ready:
  description: How many replicas are Ready.
  returned: success
  type: int
stale_locks:
  description: LocalDisks that are held in the application's name by a berth that is gone.
  returned: success
  type: list
  elements: str
lost:
  description: Replicas that are not Ready and whose node is lost.
  returned: success
  type: list
  elements: dict
  contains:
    ordinal:
      description: The replica.
      type: int
    pod:
      description: Its pod.
      type: str
    node:
      description: The node of its berth.
      type: str
    disks:
      description: The LocalDisks of its berth there.
      type: list
      elements: str
    why:
      description: What is wrong with the node.
      type: str
    since:
      description: Since when, where the cluster says it.
      type: str
    fenced:
      description: By what it is proven that nothing of the replica runs there; null where nothing proves it.
      type: str
    decision:
      description: V(keep); this module decides nothing.
      type: str
  sample:
    - ordinal: 2
      pod: db-2
      node: n3
      disks: [n3-9f86d08188]
      why: Ready is Unknown (NodeStatusUnknown)
      since: "2026-01-01T00:00:00Z"
      fenced:
      decision: keep
revisions:
  description: The pod templates that the application has had, the oldest first. Of bare pods those that a pod bears.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: What O(berth.stateful.stateful_app#module:rollback_to) takes; null for bare pods, which have no way
        back.
      type: int
    name:
      description: The ControllerRevision, or the hash that bare pods bear.
      type: str
    created:
      description: When it was made first.
      type: str
    age:
      description: Seconds since then.
      type: int
    images:
      description: The image of each container.
      type: dict
    current:
      description: Whether it is the template that the workload has now.
      type: bool
    pods:
      description: The pods that run it.
      type: list
      elements: str
    updating:
      description: Those of them that are on their way to another.
      type: list
      elements: str
    differs:
      description: The fields in which the current template differs from it; null for bare pods.
      type: list
      elements: str
    in_place:
      description: Whether a running pod can be brought from it to the current template; null for bare pods.
      type: bool
  sample:
    - number: 1
      name: db-5f7d9c6b4
      created: "2026-01-01T00:00:00Z"
      age: 3600
      images: {db: "berth.local/busybox:1"}
      current: false
      pods: [db-0, db-1]
      updating: []
      differs: ["spec.containers[db].image"]
      in_place: true
stateful_app:
  description: The driver and the status of the StatefulApp of that name (counts, revisions, conditions); null where
    there is none. Where C(observedGeneration) is less than C(generation), the status is of an earlier spec; with the
    driver C(playbook) a run of M(berth.stateful.stateful_app) is due then. Where berth-controller is to carry it out
    and is not there, a warning says so.
  returned: success
  type: dict
update_paused:
  description: For which failure an update is paused, with C(pod), C(why) and C(since)
    (O(berth.stateful.stateful_app#module:pause_on_failure)); null where none has failed.
  returned: success
  type: dict
history:
  description: What changed the berths, by ordinal and then by time. Of each ordinal the latest twenty changes of its
    phase and of its template. After the berth is gone it is what the disks that keep its data tell.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: The replica's namespace.
      type: str
    app:
      description: Its application.
      type: str
    ordinal:
      description: Its ordinal.
      type: int
    time:
      description: When, in UTC.
      type: str
    from:
      description: The phase, the revision or the disks before; empty where there were none.
      type: str
    to:
      description: Likewise afterwards.
      type: str
    why:
      description: Why, where it is more than that the step before was done.
      type: str
    count:
      description: How often the same change was made in a row by the same actor; the time is that of the last one.
      type: int
    by:
      description: Who; C(component) (the module or daemon), and where Ansible ran C(user) (of the API), C(playbook),
        C(task), C(host) and C(commit) as far as they were known.
      type: dict
  sample:
    - namespace: default
      app: db
      ordinal: 0
      time: "2026-01-01T00:00:00.000000Z"
      from: Bound
      to: Created
      why: ""
      count: 1
      by: {component: stateful_app, user: ops, playbook: site.yml, task: The database, host: control, commit: ""}
requests:
  description: The requests to the API server, by verb.
  returned: always
  type: dict
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.stateful_app import INFO


def main() -> None:
    module_main(INFO)


if __name__ == "__main__":
    main()
