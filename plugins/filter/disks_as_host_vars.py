# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter disks_as_host_vars. Called by the playbook discover; what becomes an entry, app/discovered.py says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import yaml
from ansible.errors import AnsibleFilterError

from ..module_utils.berth_core.app.discovered import host_vars
from ..module_utils.berth_core.errors import BerthError, InputError

DOCUMENTATION = r"""
name: disks_as_host_vars
short_description: The disks that a host reports as a file of its host_vars
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Makes the text of a file with C(berth_disks), by identity, from what M(berth.stateful.block_device_info) reports. A
    person goes over it; the role P(berth.stateful.local_disks#role) or the agent takes it.
  - A disk that is blank and used by nobody becomes an entry, by its WWN and serial number, or by its slot where it has
    neither. One that is mounted, held, faulted or carries anything is written as a comment with the reason. One that
    carries the running system is not written at all.
  - What O(before) and O(known) name already, be it in a comment, is left as it is. Lines are added at the end, and
    none is changed. A file that they cannot be added to is refused, with the entries.
positional: _input
options:
  _input:
    description: What the host reports, RV(berth.stateful.block_device_info#module:block_devices).
    type: list
    elements: dict
    required: true
  host:
    description: The host's name, for the file's first lines.
    type: str
    required: true
  before:
    description: The file as it is; empty where there is none.
    type: str
    default: ""
  known:
    description: The entries of C(berth_disks) that the host has, from wherever.
    type: list
    elements: dict
    default: []
  storage_class:
    description: The StorageClass of the new entries; none by default.
    type: str
    default: ""
seealso:
  - module: berth.stateful.block_device_info
"""

EXAMPLES = r"""
- name: Look at the disks
  berth.stateful.block_device_info:
  register: found

- name: What would stand in host_vars
  ansible.builtin.debug:
    msg: "{{ (found.block_devices | berth.stateful.disks_as_host_vars(inventory_hostname)).text }}"
"""

RETURN = r"""
_value:
  description:
    - The file as RV(ignore:text), empty where there is nothing to write, the new entries as RV(ignore:added), and the
      disks that are no entries as RV(ignore:left), each with C(disk) and C(why).
  type: dict
"""


def disks_as_host_vars(
    source: Any,
    host: Any,
    before: Any = "",
    known: Any = (),
    storage_class: Any = "",
) -> dict[str, Any]:
    """Raises AnsibleFilterError that names what was wrong and what was expected."""
    for name, value in (("_input", source), ("known", known)):
        if not isinstance(value, Sequence) or not all(isinstance(one, Mapping) for one in value):
            raise AnsibleFilterError(f"disks_as_host_vars: {name} is no list of mappings: expected {_EXPECTED[name]}")
    try:
        made = host_vars(str(host), source, str(before), known, str(storage_class), _load)
    except BerthError as exc:
        raise AnsibleFilterError(f"disks_as_host_vars: {exc.message}") from exc
    return {"text": made.text, "added": made.added, "left": [one._asdict() for one in made.left]}


_EXPECTED = {"_input": "the block_devices of block_device_info", "known": "entries as in berth_disks"}


def _load(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise InputError(f"the file is not YAML that can be added to: {' '.join(str(exc).split())}") from None


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"disks_as_host_vars": disks_as_host_vars}
