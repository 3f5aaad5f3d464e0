#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: The cluster as one page to look at
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Writes one self-contained HTML file. Nodes with their local disks and devices, who holds each, its health, what is
    free; every berth; TaskBatches, where the account may list them; what has drifted or is held by nobody; who changed
    each replica, and what happened lately.
  - The page has a search, is light or dark, and asks the network for nothing; its own policy forbids it. Whatever the
    cluster says is shown as text, never run.
  - Sends one LIST for each kind of object and writes nothing to the cluster. The file is replaced whole, and left alone
    where nothing but its time would change.
options:
  dest:
    description: The file, on the host that the task runs on. Its folder must be there.
    type: path
    required: true
  mode:
    description: Its permissions, in octal digits. The page tells much about the cluster.
    type: str
    default: "0600"
  title:
    description: The page's title.
    type: str
    default: berth
  declared:
    description:
      - The disks that should be there, as RV(berth.stateful.local_disk_plan#module:declared). LocalDisks of the nodes
        named in it are compared with it; without it each is compared with what was seen of it.
    type: list
    elements: dict
  history:
    description: How many of the latest events the page tells, and how many changes of all replicas.
    type: int
    default: 200
attributes:
  check_mode:
    description: Reads the cluster, and writes no file.
    support: full
  diff_mode:
    description: Shows the page's figures.
    support: partial
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
requirements:
  - numpy >= 1.22
seealso:
  - module: berth.stateful.resource_list_info
  - module: berth.stateful.local_disk_info
"""

EXAMPLES = r"""
- name: A page of the cluster
  berth.stateful.report:
    dest: /var/www/html/berth.html
    mode: "0644"
    title: Storage of the east cluster
"""

RETURN = r"""
dest:
  description: The file.
  returned: success
  type: str
size:
  description: Its size in bytes.
  returned: success
  type: int
summary:
  description: The page's figures.
  returned: success
  type: dict
  sample: {nodes: 3, berths: 3, findings: 0, disks: 6, free_disks: 3, free_bytes: 1610612736}
findings:
  description: What has drifted, or is held by nobody, each with C(kind), C(object), C(node) and C(what).
  returned: success
  type: list
  elements: dict
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 7}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.report import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
