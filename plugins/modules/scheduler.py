#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler
short_description: Install or remove berth-scheduler, or the extender behind the stock scheduler, in the cluster
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Applies a scheduler as a Deployment, with its account and rights, its configuration and a disruption budget, and
    waits until one of its pods leads; or, with O(mode=extender), the extender of the stock scheduler, and waits until
    all of its pods answer; or, with O(mode=service), what a scheduler on hosts needs in the cluster.
  - Several schedulers of different names are side by side, each with a Lease and rights of its own. The stock scheduler
    goes on with all other pods, and places the pods of this one.
  - What is there under these names and is not that scheduler's is never written over or removed.
  - Nothing is written before the API server has taken a dry run of every object that would be, in check mode too.
options:
  state:
    description:
      - V(present) writes what differs, and nothing else.
      - V(absent) removes what V(present) made, all but the namespace, and the scheduler's Lease; first of all the
        policies of O(assign_pods), so that nothing waits for a scheduler that is gone.
      - V(unassigned) removes only those policies, and waits until no pod waits for the scheduler. The role does so
        before it stops a scheduler that runs on hosts.
    type: str
    choices: [present, unassigned, absent]
    default: present
  mode:
    description:
      - V(daemon) places the pods that name it.
      - V(extender) is asked by the stock scheduler about the pods that want local disks.
        P(berth.stateful.with_extender#filter) makes that one's configuration.
      - V(service) runs on hosts, where P(berth.stateful.scheduler#role) puts it. Here it gets its account and rights.
    type: str
    choices: [daemon, service, extender]
    default: daemon
    version_added: 0.2.0
  name:
    description:
      - What pods give as their C(schedulerName); also the name of the Lease and of all objects.
      - By default C(berth-scheduler), with O(mode=extender) C(berth-scheduler-extender).
    type: str
  namespace:
    description: Where it runs. Made if it is not there.
    type: str
    default: berth-system
  image:
    description: Its image, as C(deploy/Containerfile) makes it. Needed with O(state=present), unless O(mode=service).
    type: str
  replicas:
    description: How many pods; one leads, the others are ready to.
    type: int
    default: 2
  config:
    description:
      - A C(KubeSchedulerConfiguration) of C(kubescheduler.config.k8s.io/v1); C(apiVersion) and C(kind) may be left out.
      - One of its profiles has the scheduler's name; a single profile without a name gets it. The Lease is filled in.
      - It is checked before anything is written, with the plugins of the collection and O(outside_plugins).
      - By default one profile with the default plugins and Coscheduling.
      - Another configuration replaces the pods one after the other.
    type: dict
  outside_plugins:
    description:
      - Names of plugins that the image brings and O(config) may name. Their arguments are checked by the scheduler
        itself, which does not start with wrong ones.
    type: list
    elements: str
  page_port:
    description:
      - Port at which each pod serves the page of M(berth.stateful.report), live, on its loopback alone.
        C(kubectl port-forward) brings it to whoever may do that.
      - By default it is not served.
    type: int
    default: 0
    version_added: 0.2.0
  tls:
    description:
      - What an extender serves with, and whom it answers, as PEM texts. They become the Secret of its name; another one
        replaces the pods one after the other.
      - Without it the Secret has to be there, with C(tls.crt), C(tls.key) and C(ca.crt).
    type: dict
    version_added: 0.2.0
    suboptions:
      certificate:
        description: Its certificate, for the address of its Service.
        type: str
        required: true
      key:
        description: The key of the certificate.
        type: str
        required: true
      client_ca:
        description: The authority of the stock scheduler's client certificate. Whoever has one of it may bind pods.
        type: str
        required: true
  cluster_ip:
    description:
      - The address of an extender's Service, free and of the cluster's range for them, so that its certificate can be
        made before. By default the cluster chooses one.
    type: str
    version_added: 0.2.0
  assign_pods:
    description:
      - Pods of namespaces with the label C(berth.dev/scheduler=NAME), NAME being O(name), are given the scheduler when
        they are made, unless somebody wrote another C(schedulerName) than C(default-scheduler), which is what the API
        server fills in where nobody wrote one.
      - A pod with that label is given no other scheduler than that of its own label;
        C(berth.dev/scheduler=default-scheduler) leaves it to the stock one. Pods of C(kube-system) and of O(namespace)
        are left as they are.
      - It is a MutatingAdmissionPolicy, which Kubernetes has from 1.36 on. It is made when the scheduler leads, and the
        task ends when API servers have taken it up.
      - V(false) removes it; without a value it is left as it is. See O(state=absent) for its removal.
    type: bool
    version_added: 0.2.0
  assign_storage_classes:
    description:
      - With O(assign_pods=true) also pods of any other namespace that bring a volume of one of these StorageClasses
        with them (C(ephemeral)).
      - A policy sees the pod alone. Of a claim that a pod names it does not see the class, so that pods with claims of
        their own, as a StatefulSet makes them, are assigned by their namespace's label.
    type: list
    elements: str
    version_added: 0.2.0
  wait:
    description:
      - Wait until every pod is new and Ready and one of them holds the Lease; an extender's are Ready when they answer.
      - With O(mode=service) until one of its processes leads, which somebody has to start.
      - With O(state=absent) until the pods are gone.
    type: bool
    default: true
  wait_timeout:
    description: Seconds.
    type: int
    default: 300
  given_back:
    description:
      - With O(mode=extender) and O(state=absent), the names of the Nodes whose kube-scheduler the play has given its
        own configuration back before, or in check mode would have.
      - An extender that any other kube-scheduler was told to ask by P(berth.stateful.scheduler#role) is not removed.
    type: list
    elements: str
    version_added: 0.2.0
  force:
    description: Remove it although pods wait for it, or a kube-scheduler asks it.
    type: bool
    default: false
  manifests:
    description: The objects. By default those of the collection (C(deploy/scheduler), C(deploy/extender)).
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
  - berth.stateful.daemon.pods
seealso:
  - module: berth.stateful.crds
  - module: berth.stateful.kube_scheduler_info
  - module: berth.stateful.placement_info
  - module: berth.stateful.report
"""

EXAMPLES = r"""
- name: A scheduler for the pods that name it
  berth.stateful.scheduler:
    image: registry.example.com/berth:0.2.0

- name: Another one beside it, which fills nodes one after the other
  berth.stateful.scheduler:
    name: packing-scheduler
    image: registry.example.com/berth:0.2.0
    config:
      profiles:
        - pluginConfig:
            - name: NodeResourcesFit
              args:
                scoringStrategy:
                  type: MostAllocated

- name: It places the pods of every namespace that is labelled berth.dev/scheduler=berth-scheduler
  berth.stateful.scheduler:
    image: registry.example.com/berth:0.2.0
    assign_pods: true

- name: Behind the stock scheduler
  berth.stateful.scheduler:
    mode: extender
    image: registry.example.com/berth:0.2.0
    cluster_ip: 10.96.0.210
    tls:
      certificate: "{{ lookup('ansible.builtin.file', 'extender.crt') }}"
      key: "{{ lookup('ansible.builtin.file', 'extender.key') }}"
      client_ca: "{{ lookup('ansible.builtin.file', 'kube-scheduler-ca.crt') }}"

- name: Account and rights of one that runs on control-plane hosts (the role puts it there)
  berth.stateful.scheduler:
    mode: service
    wait: false

- name: Gone again, unless pods wait for it
  berth.stateful.scheduler:
    name: packing-scheduler
    state: absent
"""

RETURN = r"""
leader:
  description: The pod that leads; with O(mode=service) the host, empty where none does.
  returned: with O(state=present) and O(mode=service); with O(mode=daemon) and O(wait=true), not in check mode
  type: str
  sample: berth-scheduler-6d5f8c7b9d-x2x7k
scheduler_names:
  description: The names of its profiles, which pods give as their C(schedulerName).
  returned: with O(state=present), unless O(mode=extender)
  type: list
  elements: str
  sample: [berth-scheduler]
configuration:
  description: The file that it reads.
  returned: with O(state=present) and O(mode=service)
  type: str
url:
  description:
    - Where the stock scheduler asks an extender, by its cluster IP; in check mode by its name, where it has none yet.
  returned: with O(state=present) and O(mode=extender)
  type: str
  sample: https://10.96.0.210:9811
waiting:
  description: Pods that wait for it, C(namespace/name).
  returned: with O(state=absent) and O(state=unassigned)
  type: list
  elements: str
  sample: [default/db-0]
asking:
  description: Nodes whose kube-scheduler was told to ask the extender, which therefore stays.
  returned: where it is refused for that
  type: list
  elements: str
  sample: [cp1]
policies:
  description: The admission policies of O(assign_pods), and what was done with each.
  returned: unless O(mode=extender)
  type: list
  elements: dict
  contains:
    kind:
      description: Its kind.
      type: str
    name:
      description: Its name.
      type: str
    action:
      description: One of C(create), C(update), C(delete), C(none).
      type: str
  sample: [{kind: MutatingAdmissionPolicy, name: berth-scheduler-namespaces, action: create}]
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {get: 13}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.scheduler import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
