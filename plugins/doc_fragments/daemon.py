# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of modules that install a daemon, as module_utils/_glue/daemon.py and installing.py read them."""

from __future__ import annotations


class ModuleDocFragment:
    # A daemon of which there is one in a cluster.
    DOCUMENTATION = r"""
options:
  namespace:
    description: Where it runs. Made if it is not there.
    type: str
    default: berth-system
  image:
    description: Its image, as C(deploy/Containerfile) makes it. Needed with O(state=present).
    type: str
  replicas:
    description: How many pods; one leads, the others are ready to.
    type: int
    default: 2
  log_level:
    description: What it logs.
    type: str
    choices: [debug, info, warning, error]
    default: info
  wait:
    description:
      - Wait until every pod is new and Ready and one of them holds the Lease.
      - With O(state=absent) until the pods are gone.
    type: bool
    default: true
  wait_timeout:
    description: Seconds.
    type: int
    default: 300
"""

    # The pods of any daemon.
    PODS = r"""
options:
  priority_class:
    description: PriorityClass of the pods. It has to exist.
    type: str
    default: system-cluster-critical
  resources:
    description: Requests and limits of the container; by default as the manifest says.
    type: dict
  node_selector:
    description: Labels of the nodes on which it runs.
    type: dict
  tolerations:
    description: Tolerations of the pods; by default as the manifest says.
    type: list
    elements: dict
"""
