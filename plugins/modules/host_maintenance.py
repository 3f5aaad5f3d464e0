#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_maintenance
short_description: Empty a node of its pods with a berth, and bring them home again
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - With O(state=begun) the node is cordoned, its pods with a berth are evicted, and waited for until they are gone. The
    host may be worked on then, rebooted for example. With O(state=ended) the node is waited for, opened again, and
    its pods are waited for until they are Ready on their disks.
  - Every berth is held meanwhile. It keeps its node, its disks and its devices; the StatefulSet's controller makes the
    pod anew at once, and it waits C(Pending) until the node is open. Nothing is moved, and no data is touched.
  - Only the replicas of applications that O(apps) says so of move to other nodes, before the node is cordoned, as with
    O(berth.stateful.stateful_app#module:leave_nodes). They stay there. All of them that cannot move are named before
    anything is changed.
  - The history of each berth tells that its pod was asked to go, and that it is home.
  - Pods go by the Eviction API, which keeps every PodDisruptionBudget. Before the first one goes, all of them are held
    against the budgets together. Where an application has no budget, no more than O(max_unavailable) of its replicas
    are away at once, those that are not Ready elsewhere among them. What may pass is waited for; what cannot pass
    fails the task, and nothing is written.
  - The node's annotation C(berth.dev/maintenance) says who began, when, and whether the cordon is its own. A run that
    died is continued by the same task, and a cordon of somebody else is left alone.
  - Pods of DaemonSets and static pods stay. So do pods without a berth, which are reported; C(kubectl drain) or
    O(evict_others) is for them.
  - Bare pods of M(berth.stateful.stateful_app) (O(berth.stateful.stateful_app#module:workload=Pod)) are evicted as
    well, and nobody makes them anew by themselves; run that module afterwards.
options:
  node:
    description: The Node.
    type: str
    required: true
  state:
    description: Whether the pods are to leave, or to come home.
    type: str
    choices: [begun, ended]
    default: begun
  apps:
    description:
      - What becomes of the replicas on the node, by application. The first rule that matches decides; without one they
        are held.
      - With O(state=ended) nothing moves; what a run that died has asked a StatefulApp for is taken back.
    type: list
    elements: dict
    version_added: 0.2.0
    suboptions:
      app:
        description: The application, as C(NAMESPACE/NAME), or a pattern, as C(shop/*) or C(*/cache-*).
        type: str
        required: true
      policy:
        description:
          - V(move) has the replicas leave the node, one after the other, by PodDisruptionBudgets and the application's
            own C(max_unavailable). Each is Ready on another node before the next one goes.
          - V(hold) has them wait for the node; to say so before a pattern that moves.
        type: str
        choices: [hold, move]
        default: move
      data:
        description:
          - Replicas whose data on the node may be given up, as C(db-2) or C(shop/db-2). The disks keep it, cordoned.
          - A replica that has data and is not named is refused.
        type: list
        elements: str
      options:
        description:
          - The options of M(berth.stateful.stateful_app) that the application's playbook has, for one that is named.
            It is carried out with them. C(src) is a whole path.
          - Needed where no StatefulApp with C(driver) C(controller) says what the application asks for.
        type: dict
  max_unavailable:
    description:
      - How many replicas of one application without a PodDisruptionBudget may be away at once. With V(0) only what has
        a budget goes.
      - For pods with a PodDisruptionBudget that alone decides.
    type: int
    default: 1
  evict_others:
    description: Evict the pods without a berth as well, but for those that nobody would make anew.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to wait until the pods are gone, or home; with O(state=ended), for the node too.
    type: int
    default: 600
attributes:
  check_mode:
    description: Says which pods would go and what would forbid it. Evictions are tried on the API server (C(dryRun)).
    support: full
  diff_mode:
    description: Shows the node, and the pods that go.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.stateful_app
  - module: berth.stateful.disk_replace
"""

EXAMPLES = r"""
- name: Which pods would go, and would they be allowed to
  berth.stateful.host_maintenance:
    node: n1
  check_mode: true
  register: plan

- name: Empty the node
  berth.stateful.host_maintenance:
    node: n1

- name: Work on it
  ansible.builtin.reboot:
  delegate_to: n1

- name: Empty another one; the caches move away, of the database replica 2 alone, and the rest waits
  berth.stateful.host_maintenance:
    node: n2
    apps:
      - app: "*/cache-*" # StatefulApps that berth-controller carries out
        data: [cache-a-0, cache-b-1]
      - app: shop/db
        data: [db-2]
        options:
          src: "{{ playbook_dir }}/db.yml"
          replicas: 3

- name: Bring its pods home
  berth.stateful.host_maintenance:
    node: n1
    state: ended
"""

RETURN = r"""
node:
  description: The Node.
  returned: success
  type: str
  sample: n1
pods:
  description:
    - With O(state=begun), the pods with a berth that were on the node when the task began and are held, and the
      PodDisruptionBudgets that have a say about each.
    - With O(state=ended), those that are home. C(app) to C(budgets) are left out.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      pod: db-0
      disks: [n1-9f86d08188]
      app: db
      ordinal: 0
      workload: StatefulSet db
      comes_back: true
      budgets: [db]
moved:
  description: The replicas that move, in their order; C(data) is V(given up) or V(none).
  returned: with O(state=begun)
  type: list
  elements: dict
  sample:
    - namespace: shop
      app: db
      ordinal: 2
      pod: db-2
      from: n2
      to: n3
      disks: [n2-9f86d08188]
      data: given up
others:
  description: The pods without a berth, those of DaemonSets and static ones left out, and whether they go.
  returned: with O(state=begun)
  type: list
  elements: dict
  sample: [{namespace: default, pod: web-5d9c-x2x7k, workload: Deployment web, evicted: false}]
refused:
  description: In check mode, why the pods could not go now; empty where they could.
  returned: with O(state=begun)
  type: list
  elements: str
  sample: ["PodDisruptionBudget default/db allows 0 now, and 1 would go (default/db-0)"]
left:
  description: Bare pods that nobody makes anew by themselves.
  returned: with O(state=ended)
  type: list
  elements: str
  sample: [default/scribe-0]
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {get: 2, list: 6}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.host_maintenance import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
