#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_scheduler_info
short_description: Tell which stock kube-schedulers are Ready, and with which configuration; wait until they are
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Reads the mirrors of kube-scheduler's static pods, as kubeadm makes them, in the namespace C(kube-system).
options:
  node_names:
    description: Only the kube-schedulers of these nodes, which have to be there. By default all.
    type: list
    elements: str
    aliases: [node_name]
  configuration:
    description:
      - The digest of the configuration that they should have, as P(berth.stateful.kube_scheduler_pod#filter) has put it
        in; an empty one for pods into which nothing was put.
    type: str
  wait:
    description: Wait until each of them is Ready, and has O(configuration) where it is given.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 180
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
  - module: berth.stateful.scheduler
"""

EXAMPLES = r"""
- name: Which versions of kube-scheduler are there
  berth.stateful.kube_scheduler_info:
  register: stock

- name: Wait for the one whose file has changed
  berth.stateful.kube_scheduler_info:
    node_name: cp1
    configuration: "{{ (content | hash('sha256'))[:12] }}"
    wait: true
"""

RETURN = r"""
schedulers:
  description: One row per node.
  returned: success
  type: list
  elements: dict
  sample:
    - node: cp1
      name: kube-scheduler-cp1
      ready: true
      version: v1.36.4
      configuration: 0f343b0931126
      problem: ""
unready:
  description: Why each that is not as asked for is not, a line each.
  returned: success
  type: list
  elements: str
  sample: []
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.kube_scheduler_info import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
