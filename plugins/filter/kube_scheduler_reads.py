# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter kube_scheduler_reads. Called by templates; what is read is decided in berth_core/config/static_pod.py."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable

from ..module_utils.berth_core.config.static_pod import reads
from ..plugin_utils.filtering import of_mapping

DOCUMENTATION = r"""
name: kube_scheduler_reads
short_description: What the static pod of kube-scheduler reads
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Reads the manifest of kube-scheduler's static pod, as kubeadm makes it.
  - What P(berth.stateful.kube_scheduler_pod#filter) has put in is left out.
positional: _input
options:
  _input:
    description: The manifest, as an object.
    type: dict
    required: true
seealso:
  - plugin: berth.stateful.with_extender
    plugin_type: filter
  - plugin: berth.stateful.kube_scheduler_pod
    plugin_type: filter
"""

EXAMPLES = r"""
- name: The configuration of a kube-scheduler that has only flags
  ansible.builtin.debug:
    msg: "{{ (manifest | from_yaml | berth.stateful.kube_scheduler_reads).document }}"
"""

RETURN = r"""
_value:
  description: What it reads.
  type: dict
  contains:
    version:
      description: The version of its image; empty where the image does not tell.
      type: str
    file:
      description: The file of the host that its C(--config) names; empty where it names none.
      type: str
    document:
      description: A KubeSchedulerConfiguration that says what its flags say that do not hold beside C(--config).
      type: dict
"""


def kube_scheduler_reads(manifest: Any) -> dict[str, Any]:
    """Raises AnsibleFilterError that says what was expected."""
    return of_mapping("kube_scheduler_reads", manifest, lambda given: asdict(reads(given)))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"kube_scheduler_reads": kube_scheduler_reads}
