# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter with_extender. Called by templates; what is made is decided in berth_core/config/stock.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..module_utils.berth_core.config.stock import MANAGED, ExtenderAddress
from ..module_utils.berth_core.config.stock import with_extender as render
from ..module_utils.berth_core.errors import InputError
from ..plugin_utils.filtering import of_mapping

DOCUMENTATION = r"""
name: with_extender
short_description: kube-scheduler's configuration with berth's extender in it
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Puts the extender (C(berth-scheduler extend)) into a KubeSchedulerConfiguration of API version
    C(kubescheduler.config.k8s.io/v1), which Kubernetes reads from version 1.25 on.
  - Everything else in the document stays as it is; an extender of the same address is replaced. The outcome is a
    mapping, to be written with C(to_nice_yaml).
positional: _input, version
options:
  _input:
    description: The document that kube-scheduler reads now; an empty one for its defaults.
    type: dict
    required: true
  version:
    description: The cluster's version of Kubernetes.
    type: str
    required: true
  url:
    description: Where the extender listens, C(https://HOST:PORT), or C(http://127.0.0.1:PORT) on kube-scheduler's host.
    type: str
    required: true
  ca_file:
    description: The authority that the extender's certificate is verified against; needed with https. A path on
      kube-scheduler's host, as the two others are.
    type: str
    default: ""
  cert_file:
    description: The certificate that kube-scheduler shows.
    type: str
    default: ""
  key_file:
    description: Its key.
    type: str
    default: ""
  managed:
    description: Pods that ask for this extended resource are the extender's; empty for all pods.
    type: str
    default: berth.dev/local-disk
  ignorable:
    description: Whether kube-scheduler goes on without the extender while it is away.
    type: bool
    default: false
  timeout:
    description: Seconds for one answer; more than the extender's C(--bind-seconds).
    type: int
    default: 30
  weight:
    description: The weight of its scores.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: The file that kube-scheduler's --config names
  ansible.builtin.copy:
    dest: /etc/kubernetes/berth/kube-scheduler.yaml
    mode: "0600"
    content: "{{ current | berth.stateful.with_extender('v1.36.4', url='http://127.0.0.1:9811') | to_nice_yaml }}"
  vars:
    current:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: KubeSchedulerConfiguration
      clientConnection:
        kubeconfig: /etc/kubernetes/scheduler.conf
"""

RETURN = r"""
_value:
  description: The document with the extender.
  type: dict
"""


def with_extender(source: Mapping[str, Any] | None, version: str, url: str, **options: Any) -> dict[str, Any]:
    """Raises AnsibleFilterError that says what was expected."""

    def make(given: Mapping[str, Any]) -> dict[str, Any]:
        try:
            address = ExtenderAddress(str(url), **{"managed": MANAGED, **options})
        except TypeError as exc:  # an option that there is not
            raise InputError(str(exc)) from exc
        return render(str(version), dict(given) or None, address)

    return of_mapping("with_extender", {} if source is None else source, make)


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"with_extender": with_extender}
