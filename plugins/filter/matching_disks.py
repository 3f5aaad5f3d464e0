# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter matching_disks. Called by templates; which disks a claim can use, the engine says (app/disk_match.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils.berth_core.app.disk_match import matching_disks as match
from ..module_utils.berth_core.errors import BerthError

DOCUMENTATION = r"""
name: matching_disks
short_description: Which LocalDisks a replica could use
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Asks the engine that places replicas which of these LocalDisks a claim could have, by the rules of
    O(berth.stateful.stateful_app#module:disks). A disk that is held, keeps data, or is not well is none of them.
positional: _input
options:
  _input:
    description: LocalDisks, as RV(berth.stateful.local_disk_info#module:local_disks) has them.
    type: list
    elements: dict
    required: true
  selector:
    description: A label selector (C(matchLabels), C(matchExpressions)).
    type: dict
  size:
    description: The least size, as a quantity.
    type: str
    default: "0"
  storage_class:
    description: The StorageClass; any by default.
    type: str
  volume_mode:
    description: A filesystem, or the raw device.
    type: str
    choices: [Filesystem, Block]
    default: Filesystem
  fs_type:
    description: The filesystem that the disk must be declared with; any by default.
    type: str
  explain:
    description: Return every disk with what is against it, instead of the disks that match.
    type: bool
    default: false
seealso:
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: All disks
  berth.stateful.local_disk_info:
  register: found

- name: How many large, fast ones a replica could still have
  ansible.builtin.debug:
    msg: "{{ found.local_disks | berth.stateful.matching_disks(selector=fast, size='500Gi') | length }}"
  vars:
    fast:
      matchLabels:
        tier: fast

- name: What is against the others
  ansible.builtin.debug:
    msg: "{{ found.local_disks | berth.stateful.matching_disks(size='500Gi', explain=true) }}"
"""

RETURN = r"""
_value:
  description:
    - The LocalDisks that match, as they were given; with O(explain) one entry for each, with C(name), C(node),
      C(fits), C(reason) and C(detail).
  type: list
  elements: dict
"""


def matching_disks(source: Any, **options: Any) -> list[dict[str, Any]]:
    """Raises AnsibleFilterError that says what was expected."""
    if not isinstance(source, Sequence) or not all(isinstance(one, Mapping) for one in source):
        raise AnsibleFilterError("matching_disks: expected a list of LocalDisks")
    try:
        return match(source, **options)
    except (BerthError, TypeError) as exc:
        raise AnsibleFilterError(f"matching_disks: {exc}") from exc


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"matching_disks": matching_disks}
