#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: crds
short_description: Install, upgrade or remove the custom resources of berth
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Installs the definitions of LocalDisk, LocalDevice and Berth, upgrades them, and waits until the API server
    serves them.
  - An upgrade that drops a version in which objects may still be stored is refused.
  - So is putting the definitions of this release in the place of a newer one's.
  - Removal is refused while there are objects, unless O(force=true); the message says which would be lost.
  - With them come the admission policies that hold who may take and give up locks, ask for wipes and make volumes over
    local disks, and the roles to give to teams (C(berth-app-operator), C(berth-disk-user), C(berth-block-volumes),
    C(berth-disk-wiper), C(berth-update-hold)). No role is bound. They go after the definitions.
  - With these comes the PriorityClass C(berth-hold), of the pods that hold the room of a replica during an update
    (O(berth.stateful.stateful_app#module:update_hold)). One that is there stays as it is, so its value may be
    another. It goes with the rest, unless somebody made it without the label C(app.kubernetes.io/part-of=berth).
  - So does the policy C(berth-node-affinity), by which a pod of a StatefulSet that comes back to its Berth names its
    node. An API server before Kubernetes 1.36 has no MutatingAdmissionPolicy, and goes without it. So does a cluster
    that does not want it (O(node_affinity=false)).
  - Run the module before the controller, the scheduler and the agents of a release. Their rights are part of it.
options:
  state:
    description: Whether the definitions are there.
    type: str
    choices: [present, absent]
    default: present
  definitions:
    description:
      - The CustomResourceDefinitions to manage, as mappings.
      - By default those that this version of the collection brings.
    type: list
    elements: dict
  policies:
    description:
      - The roles, PriorityClasses and admission policies to manage, as mappings.
      - By default those that this version of the collection brings, or none where O(definitions) is given.
    type: list
    elements: dict
  mount_root:
    description:
      - The directory below which agents mount disks. Volumes over local disks have no other paths.
      - By default it stays as it is installed; at first it is V(/var/lib/berth/disks).
    type: path
  node_affinity:
    description:
      - Whether a pod of a StatefulSet that comes back to its Berth names its node. With V(false), the policy
        C(berth-node-affinity) and its binding are removed, and the pod comes home by its volumes alone. Then
        kube-scheduler looks at every node for it.
      - Pods that are there keep the affinity that they were made with.
      - The policy costs the API server up to a quarter of a millisecond of cpu for each Berth of the namespace and pod
        that comes home, so it does not pay where a namespace has many hundreds of Berths.
    type: bool
    default: true
    version_added: 0.2.0
  force:
    description: With O(state=absent), remove the definitions although that deletes every object of theirs.
    type: bool
    default: false
  wait:
    description: Wait until the definitions are served, or gone.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait at most.
    type: int
    default: 60
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
  - module: berth.stateful.storage_class
"""

EXAMPLES = r"""
- name: Install or upgrade the custom resources
  berth.stateful.crds:
    kubeconfig: ~/.kube/config

- name: Pods that come home are looked for on all nodes, because the namespaces have many hundreds of Berths
  berth.stateful.crds:
    node_affinity: false

- name: See what would be lost
  berth.stateful.crds:
    state: absent
  check_mode: true
  register: removal
  ignore_errors: true

- name: Remove them with everything in them
  berth.stateful.crds:
    state: absent
    force: true
"""

RETURN = r"""
crds:
  description: What was done (in check mode, what would be) with each definition.
  returned: success
  type: list
  elements: dict
  sample: [{name: localdisks.berth.dev, action: create, versions: [v1alpha1]}]
  contains:
    name:
      description: The definition's name.
      type: str
    action:
      description: V(create), V(update), V(delete) or V(none).
      type: str
    versions:
      description: The versions that the definition has.
      type: list
      elements: str
policies:
  description: What was done (in check mode, what would be) with each role, PriorityClass, policy and binding.
  returned: success
  type: list
  elements: dict
  sample: [{kind: ValidatingAdmissionPolicy, name: berth-disks, action: create}]
  contains:
    kind:
      description: V(ClusterRole), V(PriorityClass), or a policy or binding, such as V(ValidatingAdmissionPolicy).
      type: str
    name:
      description: Its name.
      type: str
    action:
      description: V(create), V(update), V(delete) or V(none).
      type: str
lost:
  description: The objects, by definition, that removal deletes.
  returned: when O(state=absent), also on refusal
  type: dict
  sample: {localdisks.berth.dev: [h1-d0, h1-d1]}
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 4}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.crds import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
