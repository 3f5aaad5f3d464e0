#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: installation_check
short_description: Refuse an installation or removal of berth that the cluster or the inventory does not fit
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Looks at the cluster and at the nodes that the inventory's hosts stand for, before anything is written, and fails
    with everything that is in the way, all at once.
  - Rights that the account lacks, hosts that are no nodes, custom resources and agents of another release,
    StorageClasses of another provisioner, parts of berth in another namespace, and agents that would run twice on a
    node.
  - With O(state=absent) also what still needs berth - apps, claims, locks, pods that name its scheduler, and tasks.
  - It writes nothing. The rights are asked for by SelfSubjectAccessReview, one for each right; one is enough for a
    cluster-admin.
options:
  state:
    description: Whether the parts are to be installed or removed.
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description: Where controller, scheduler, extender and task backend run. Agents are always in C(berth-system).
    type: str
    default: berth-system
  parts:
    description:
      - What is installed or removed.
      - V(agents_hosts) are agents as services of the hosts, V(agents_daemonset) are those that the cluster runs. Only
        one of them is possible.
    type: list
    elements: str
    choices: [crds, storage_classes, controller, agents_hosts, agents_daemonset, scheduler, extender, task_backend]
    required: true
  storage_classes:
    description: The StorageClasses that are made or removed, with the options of M(berth.stateful.storage_class).
    type: list
    elements: dict
    suboptions:
      name:
        description: The name of the StorageClass.
        type: str
        required: true
      state:
        description: Not looked at; O(state) holds for all of them.
        type: str
        choices: [present, absent]
        default: present
      default:
        description: See O(berth.stateful.storage_class#module:default).
        type: bool
      provisioner:
        description: A class that is there with another one is refused.
        type: str
        default: local.berth.dev
      parameters:
        description: See O(berth.stateful.storage_class#module:parameters).
        type: dict
      reclaim_policy:
        description: A class that is there with another one is refused.
        type: str
        choices: [Retain, Delete]
        default: Retain
      volume_binding_mode:
        description: A class that is there with another one is refused.
        type: str
        choices: [WaitForFirstConsumer, Immediate]
        default: WaitForFirstConsumer
      allow_volume_expansion:
        description: See O(berth.stateful.storage_class#module:allow_volume_expansion).
        type: bool
      mount_options:
        description: See O(berth.stateful.storage_class#module:mount_options).
        type: list
        elements: str
      labels:
        description: See O(berth.stateful.storage_class#module:labels).
        type: dict
      annotations:
        description: See O(berth.stateful.storage_class#module:annotations).
        type: dict
  node_names:
    description:
      - The names of the Nodes that the hosts of the inventory stand for. Left out, hosts and nodes are not compared.
      - A host that is no node is refused; with O(state=absent) it is a warning.
    type: list
    elements: str
  nodes_without_host:
    description:
      - What a node means for which no host stands, with O(state=present). Nodes of the control plane, those with the
        taint C(node-role.kubernetes.io/control-plane:NoSchedule), do not count.
    type: str
    choices: [warn, fail, ignore]
    default: warn
  image:
    description: The image that is installed. One whose tag says another release than the collection's is a warning.
    type: str
  scheduler_name:
    description:
      - The name of the scheduler of this installation. Schedulers of other names may be in other namespaces.
      - By default C(berth-scheduler).
    type: str
  assign_pods:
    description:
      - Whether the scheduler is given pods, by O(berth.stateful.scheduler#module:assign_pods).
      - With O(state=present) an API server that has no MutatingAdmissionPolicy (before Kubernetes 1.36) is refused.
    type: bool
    default: false
  option_names:
    description:
      - What a person has written for an option of this module or for one of its O(parts), for the messages.
        P(berth.stateful.berth#role) gives its variables, so that a refusal names what is to be changed.
    type: dict
    version_added: 0.2.0
  manifests:
    description: The objects of each folder of C(deploy), by its name. By default those of the collection.
    type: dict
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
seealso:
  - module: berth.stateful.crds
  - module: berth.stateful.controller
  - module: berth.stateful.node_agent
  - module: berth.stateful.scheduler
  - module: berth.stateful.storage_class
"""

EXAMPLES = r"""
- name: Everything that is in the way, before anything is written
  berth.stateful.installation_check:
    parts: [crds, storage_classes, controller, agents_hosts]
    storage_classes:
      - name: berth-local
    node_names: "{{ groups['berth_hosts'] }}"
    image: registry.example.com/berth:0.2.0

- name: Whether berth could be removed
  berth.stateful.installation_check:
    state: absent
    parts: [crds, controller, agents_hosts]
"""

RETURN = r"""
problems:
  description: Everything that is in the way, a sentence each. The message has them all.
  returned: always
  type: list
  elements: str
  sample: []
missing_rights:
  description: The rights that the account lacks, as an administrator grants them.
  returned: always
  type: list
  elements: str
  sample: [create clusterroles.rbac.authorization.k8s.io, create deployments.apps in namespace berth-system]
hosts_without_node:
  description: Names in O(node_names) that no Node has.
  returned: always
  type: list
  elements: str
  sample: [h4]
nodes_without_host:
  description: Nodes that are not in O(node_names). With O(state=absent) none.
  returned: always
  type: list
  elements: str
  sample: [h9]
parts:
  description:
    - Which parts of berth the cluster has, a row for each place and version. Of living agents, by what they say of
      themselves, C(part) is V(agents).
  returned: always
  type: list
  elements: dict
  sample:
    - part: crds
      name: localdisks.berth.dev
      version: schema 4
    - part: controller
      name: berth-controller
      namespace: berth-system
      version: 0.2.0
      image: registry.example.com/berth:0.2.0
    - part: agents
      name: berth-agent
      version: 0.2.0
      nodes: [h1, h2, h3]
requests:
  description: How many requests the API server was asked, by verb. Those that ask for rights are C(dry_run).
  returned: always
  type: dict
  sample: {dry_run: 1, get: 1, list: 8}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.installation_check import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
