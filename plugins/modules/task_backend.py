#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task_backend
short_description: Install or remove berth-tasks in the cluster
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Applies the task backend C(berth-tasks), which runs Tasks to completion with one pod a try, as a Deployment with its
    account and rights, and waits until one of its pods leads.
  - It runs tasks in the namespaces that O(namespaces) names, and in those in which somebody else has bound the
    ClusterRole C(berth-task-runner) to its account.
  - There is one task backend in a cluster; objects and Lease are called C(berth-tasks). One with a Lease in another
    namespace does not work while that one does.
  - What is there under these names and is not the backend's is never written over or removed. What was applied from
    C(deploy/tasks) by hand is the backend's.
  - Nothing is written before the API server has taken a dry run of every object that would be, in check mode too.
  - Custom resources of another release are refused by name, before anything is written.
options:
  state:
    description:
      - V(present) writes what differs, and nothing else.
      - V(absent) removes what V(present) made, all but the namespace, and the backend's Lease. Tasks and TaskQueues
        stay.
      - V(absent) is refused while there are Tasks that have not ended, for nobody else runs them or records how they
        end.
    type: str
    choices: [present, absent]
    default: present
  flags:
    description:
      - More flags of C(berth-tasks), without the dashes - C(workers), C(policy), C(ceiling), C(store),
        C(poll-interval), C(running-after), C(pending-after), C(log-lines), C(log-format), C(filler-margin),
        C(filler-interval), C(filler-rest). C(berth-tasks --help) says what they are.
      - C(ceiling) is what all tasks together may reserve at one time, as in C(cpu=64,memory=256Gi,pods=500).
      - C(store) is the URI of a PostgreSQL, without a password, instead of the SQLite file that each pod has on its own
        volume and that goes with it; empty, nothing is kept.
      - They are checked before anything is written. Others replace the pods one after the other.
    type: dict
  store_secret:
    description:
      - A Secret in O(namespace) for C(store) of O(flags). Its keys are variables of the pods, as C(PGPASSWORD), and
        files in C(/etc/berth-tasks/store), as C(ca.crt). It has to exist.
      - Pods that run read it when they are replaced.
    type: str
  namespaces:
    description:
      - In which namespaces it may run tasks. In each of them a RoleBinding C(berth-task-runner) is made; the namespace
        has to exist.
      - A RoleBinding that was made by this option goes where its namespace is not named any more, which is refused
        while Tasks there have not ended.
      - Left out, the RoleBindings stay as they are. Those that somebody else made always do.
    type: list
    elements: str
  force:
    description: Remove it, or take a namespace from it, although Tasks there have not ended.
    type: bool
    default: false
  manifests:
    description: The objects. By default those of the collection (C(deploy/tasks)).
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
  - module: berth.stateful.task
  - module: berth.stateful.task_info
  - module: berth.stateful.controller
"""

EXAMPLES = r"""
- name: The custom resources that it watches
  berth.stateful.crds:

- name: Two pods, of which one leads, and tasks in two namespaces
  berth.stateful.task_backend:
    image: registry.example.com/berth:0.2.0
    namespaces: [default, nightly]

- name: Queues by priority, a longer end of each log, and a part of the cluster for all tasks together
  berth.stateful.task_backend:
    image: registry.example.com/berth:0.2.0
    flags:
      policy: priority
      log-lines: 100
      ceiling: cpu=64,memory=256Gi,pods=500

- name: What it knows of its pods lies in PostgreSQL, wherever the pod that leads next runs
  berth.stateful.task_backend:
    image: registry.example.com/berth:0.2.0
    flags:
      store: postgresql://berth@db.example.com/berth?sslmode=verify-full&sslrootcert=/etc/berth-tasks/store/ca.crt
    store_secret: berth-tasks-store

- name: Gone again, unless Tasks have not ended
  berth.stateful.task_backend:
    state: absent
"""

RETURN = r"""
leader:
  description: The pod that leads.
  returned: with O(state=present) and O(wait=true), not in check mode
  type: str
  sample: berth-tasks-6d5f8c7b9d-x2x7k
namespaces:
  description: Where it runs tasks, by RoleBindings that this module has made.
  returned: with O(state=present)
  type: list
  elements: str
  sample: [default, nightly]
tasks:
  description: Tasks that have not ended, C(namespace/name).
  returned: with O(state=absent)
  type: list
  elements: str
  sample: [default/hash]
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {get: 15}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.task_backend import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
