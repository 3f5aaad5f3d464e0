#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task_info
short_description: Show tasks and how they ended
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Returns the Tasks of a namespace, with state, exit code and the last of the log.
options:
  name:
    description: Only this task.
    type: str
  namespace:
    description: The namespace.
    type: str
    default: default
  states:
    description: Only tasks in one of these states, as V(Failed).
    type: list
    elements: str
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
  - module: berth.stateful.task
"""

EXAMPLES = r"""
- name: Which tasks have failed?
  berth.stateful.task_info:
    states: [Failed]
  register: failed

- name: Show why
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.message }}"
  loop: "{{ failed.tasks }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
tasks:
  description: The tasks, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    namespace:
      description: Its namespace.
      type: str
    queue:
      description: The queue that it waits in.
      type: str
    state:
      description: V(Submitted), V(Running), V(Updated), V(Succeeded), V(Failed) or V(Killed).
      type: str
    tries:
      description: How many tries have ended.
      type: int
    failures:
      description: Those of them that count.
      type: int
    reason:
      description: Why it is so, in one word.
      type: str
    message:
      description: The same for people.
      type: str
    pod:
      description: The pod of the last try that is told of.
      type: str
    node:
      description: Its node.
      type: str
    exit_code:
      description: The exit code of the last try that ended.
      type: int
    log:
      description: The last of its log.
      type: str
    termination_message:
      description: What the container of that try has left in its C(terminationMessagePath), at most 4 KiB.
      type: str
    started_at:
      description: When that try began.
      type: str
    finished_at:
      description: When the task ended.
      type: str
counts:
  description: How many of them are in each state.
  returned: success
  type: dict
  sample: {Submitted: 0, Running: 2, Updated: 0, Succeeded: 7, Failed: 1, Killed: 0}
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.task import INFO


def main() -> None:
    module_main(INFO)


if __name__ == "__main__":
    main()
