# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter quantity. Called by templates; what a quantity is, berth_core/model/quantity.py says."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils.berth_core.errors import QuantityError
from ..module_utils.berth_core.model.quantity import bytes_, cpu_milli

DOCUMENTATION = r"""
name: quantity
short_description: A Kubernetes quantity as a number
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Reads a quantity as the API server does, exactly. What is finer than the unit is rounded up.
  - Numbers compare with each other, so that V(1000Mi) and V(1Gi) need no thought.
positional: _input, unit
options:
  _input:
    description: The quantity, as V(500m), V(1.5Gi), V(1e3) or a number.
    type: raw
    required: true
  unit:
    description: V(1) for bytes and counts, V(milli) for thousandths, as of a CPU.
    type: str
    choices: ["1", milli]
    default: "1"
"""

EXAMPLES = r"""
- name: Refuse what would not fit
  ansible.builtin.assert:
    that:
      - wanted | berth.stateful.quantity <= '1Ti' | berth.stateful.quantity
      - ('250m' | berth.stateful.quantity('milli')) == 250
  vars:
    wanted: 500Gi
"""

RETURN = r"""
_value:
  description: The number in that unit.
  type: int
"""

_UNITS: dict[str, Callable[[Any], int]] = {"1": bytes_, "milli": cpu_milli}


def quantity(source: Any, unit: Any = "1") -> int:
    """Raises AnsibleFilterError that names the text and what was expected."""
    read = _UNITS.get(str(unit))
    if read is None:
        raise AnsibleFilterError(f"quantity: unit is {unit!r}: expected 1 or milli")
    try:
        return read(str(source) if isinstance(source, str) else source)
    except QuantityError as exc:
        raise AnsibleFilterError(f"quantity: {exc}") from exc


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"quantity": quantity}
