#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_agent_token
short_description: Get the token of one node's agent, or of a scheduler on its host
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Asks the API server for a token of the agents' service account that is bound to one Node. With it the agent can
    write that node's objects and no other's. When the Node is deleted, the token is worth nothing.
  - Of another O(service_account) it is what a scheduler on a host of the cluster shows.
  - Where the current token is still good, nothing is asked for.
  - Register the result with C(no_log).
options:
  node_name:
    description: The node.
    type: str
    required: true
  current:
    description:
      - The token that the agent has now. It is replaced when it is another node's, or a third of its life is over.
    type: str
  service_account:
    description: Whose token it is.
    type: str
    default: berth-agent
  namespace:
    description: The namespace of that account.
    type: str
    default: berth-system
  life:
    description:
      - How many seconds a new token lives, at least 600.
      - An agent that is started with C(--renew-token) renews it by itself.
    type: int
    default: 604800
attributes:
  check_mode:
    description: Says whether a token would be asked for.
    support: full
  diff_mode:
    description: A token is not shown.
    support: none
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.node_agent
  - module: berth.stateful.scheduler
"""

EXAMPLES = r"""
- name: A token for the agent of n1
  berth.stateful.node_agent_token:
    node_name: n1
  register: token
  no_log: true
"""

RETURN = r"""
token:
  description: A new token; empty where the current one is still good, and in check mode.
  returned: success
  type: str
  sample: eyJhbGciOi...
server:
  description: URL of the API server, as this task reached it.
  returned: success
  type: str
  sample: https://10.0.0.1:6443
ca_data:
  description: Its certificate authority, PEM in base64; empty where the machine's own are used.
  returned: success
  type: str
  sample: LS0tLS1CRUdJTi...
requests:
  description: How many requests the API server was asked, by verb.
  returned: always
  type: dict
  sample: {list: 2}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.node_agent_token import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
