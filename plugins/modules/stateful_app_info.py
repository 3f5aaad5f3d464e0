#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stateful_app_info
short_description: Show where the replicas of a stateful application are
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Returns the berths of an application with node, disks, devices, phase and pod, and locks in its name that have no
    berth.
options:
  name:
    description: The application's name.
    type: str
    required: true
  namespace:
    description: The namespace.
    type: str
    default: default
attributes:
  check_mode:
    description: Never writes.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.stateful_app
"""

EXAMPLES = r"""
- name: Where is it?
  berth.stateful.stateful_app_info:
    name: db
  register: db

- name: Show the nodes
  ansible.builtin.debug:
    msg: "{{ db.berths | items2dict(key_name='name', value_name='node') }}"
"""

RETURN = r"""
exists:
  description: Whether anything of the application is there.
  returned: success
  type: bool
workload:
  description: V(StatefulSet) or V(Pod), where there is one.
  returned: success
  type: str
berths:
  description: The berths, as M(berth.stateful.stateful_app) returns them.
  returned: success
  type: list
  elements: dict
ready:
  description: How many replicas are Ready.
  returned: success
  type: int
stale_locks:
  description: LocalDisks that are held in the application's name by a berth that is gone.
  returned: success
  type: list
  elements: str
requests:
  description: The requests to the API server, by verb.
  returned: always
  type: dict
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.stateful_app import INFO


def main() -> None:
    module_main(INFO)


if __name__ == "__main__":
    main()
