# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter compare_quantities. Called by templates; what a quantity is, berth_core/model/quantity.py says."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils.berth_core.errors import QuantityError
from ..module_utils.berth_core.model.quantity import parse_quantity

DOCUMENTATION = r"""
name: compare_quantities
short_description: Which of two quantities is larger
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Compares exactly, whatever units the two are written in.
positional: _input, other
options:
  _input:
    description: A quantity.
    type: raw
    required: true
  other:
    description: Another one.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Only where the new disk is not smaller
  ansible.builtin.assert:
    that: new_size | berth.stateful.compare_quantities(old_size) >= 0
  vars:
    old_size: 1024Mi
    new_size: 1Gi
"""

RETURN = r"""
_value:
  description: -1 where the first is smaller, 0 where they are the same, 1 where it is larger.
  type: int
"""


def compare_quantities(source: Any, other: Any) -> int:
    """Raises AnsibleFilterError that names the text that is no quantity."""
    try:
        first, second = (parse_quantity(str(one) if isinstance(one, str) else one) for one in (source, other))
    except QuantityError as exc:
        raise AnsibleFilterError(f"compare_quantities: {exc}") from exc
    return int(first > second) - int(first < second)


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"compare_quantities": compare_quantities}
