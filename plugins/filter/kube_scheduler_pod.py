# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter kube_scheduler_pod. Called by templates; what is made is decided in berth_core/config/static_pod.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..module_utils.berth_core.config.static_pod import with_file, without_file
from ..plugin_utils.filtering import of_mapping

DOCUMENTATION = r"""
name: kube_scheduler_pod
short_description: The static pod of kube-scheduler, reading another configuration
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Puts C(--config), the folder of that file and an annotation with its digest into the manifest of kube-scheduler's
    static pod, as kubeadm makes it. Another digest has the kubelet start it anew.
  - Without a file, takes out again what it has put in; what was there before is there again.
positional: _input, file, digest
options:
  _input:
    description: The manifest, as an object.
    type: dict
    required: true
  file:
    description: The file, a whole path on the host.
    type: str
    default: ""
  digest:
    description: What tells its contents from others'.
    type: str
    default: ""
seealso:
  - plugin: berth.stateful.with_extender
    plugin_type: filter
  - plugin: berth.stateful.kube_scheduler_reads
    plugin_type: filter
"""

EXAMPLES = r"""
- name: The manifest as it should be
  ansible.builtin.set_fact:
    wanted: "{{ manifest | from_yaml | berth.stateful.kube_scheduler_pod(file, digest) }}"
  vars:
    file: /etc/kubernetes/berth/kube-scheduler.yaml
    digest: "{{ (content | hash('sha256'))[:12] }}"

- name: As it was before
  ansible.builtin.set_fact:
    wanted: "{{ manifest | from_yaml | berth.stateful.kube_scheduler_pod }}"
"""

RETURN = r"""
_value:
  description: The manifest.
  type: dict
"""


def kube_scheduler_pod(manifest: Any, file: str = "", digest: str = "") -> dict[str, Any]:
    """Raises AnsibleFilterError that says what was expected."""

    def make(given: Mapping[str, Any]) -> dict[str, Any]:
        return with_file(given, str(file), str(digest)) if file else without_file(given)

    return of_mapping("kube_scheduler_pod", manifest, make)


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"kube_scheduler_pod": kube_scheduler_pod}
