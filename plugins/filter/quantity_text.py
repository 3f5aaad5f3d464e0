# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter quantity_text. Called by templates; how a size is written, berth_core/model/quantity.py says."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils.berth_core.errors import QuantityError
from ..module_utils.berth_core.model.quantity import bytes_, cpu_milli, format_bytes, format_cpu

DOCUMENTATION = r"""
name: quantity_text
short_description: A number or quantity as people write it
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Writes bytes with the largest binary unit and at most two decimals, rounded down, so that nothing looks larger
    than it is; or a CPU in cores, or in thousandths where it is not whole.
positional: _input, unit
options:
  _input:
    description: A number, or a quantity such as V(1536Mi).
    type: raw
    required: true
  unit:
    description: What is written. A number is in bytes for V(bytes), in cores for V(cpu).
    type: str
    choices: [bytes, cpu]
    default: bytes
"""

EXAMPLES = r"""
- name: The room that is left, for people
  ansible.builtin.debug:
    msg: "{{ 1610612736 | berth.stateful.quantity_text }} and {{ 0.5 | berth.stateful.quantity_text('cpu') }}"
    # 1.5Gi and 500m
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""


def quantity_text(source: Any, unit: str = "bytes") -> str:
    """Raises AnsibleFilterError that names the text and what was expected."""
    plain = str(source) if isinstance(source, str) else source
    try:
        if unit == "bytes":
            return format_bytes(bytes_(plain))
        if unit == "cpu":
            return format_cpu(cpu_milli(plain))
    except QuantityError as exc:
        raise AnsibleFilterError(f"quantity_text: {exc}") from exc
    raise AnsibleFilterError(f"quantity_text: unit is {unit!r}: expected bytes or cpu")


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"quantity_text": quantity_text}
