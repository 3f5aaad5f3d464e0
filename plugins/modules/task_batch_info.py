#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task_batch_info
short_description: Show batches of tasks and how their tasks ended
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Returns the TaskBatches of a namespace, with counts, failures by reason, and which tasks ended how.
options:
  name:
    description: Only this batch.
    type: str
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
  - module: berth.stateful.task_batch
"""

EXAMPLES = r"""
- name: How far are the batches?
  berth.stateful.task_batch_info:
  register: found

- name: Show what failed, and why
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.reasons }}"
  loop: "{{ found.batches }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
batches:
  description: The batches, by name.
  returned: always
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
      description: The queue that its tasks wait in.
      type: str
    state:
      description: V(Submitted), V(Running), V(Succeeded), V(Failed) or V(Killed).
      type: str
    reason:
      description: Why it waits or has stopped, in one word.
      type: str
    message:
      description: The same for people.
      type: str
    counts:
      description:
        - Tasks by how they ended (C(succeeded), C(failed), C(killed)), how many are C(left), and how many of these have
          a pod (C(running)).
      type: dict
    progress:
      description:
        - How many have C(ended) of the C(total), how many end C(per_second) since the first one began, and the
          C(seconds_left) at that rate. What is not known is null.
      type: dict
      sample: {ended: 3210, total: 10000, per_second: 41.2, seconds_left: 165}
    reasons:
      description: Failed tasks by C(reason) and C(exit_code), with C(count) and an C(example), the most frequent first.
      type: list
      elements: dict
    indexes:
      description: By state, which tasks ended so, as ranges of indexes.
      type: dict
      sample: {Succeeded: 0-16,18-99, Failed: "17"}
    failures:
      description: The last failures, with C(index), C(pod), C(node), C(message) and the last of the C(log).
      type: list
      elements: dict
    started_at:
      description: When its first task began.
      type: str
    finished_at:
      description: When it ended.
      type: str
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {list: 1}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.task_batch import INFO


def main() -> None:
    module_main(INFO)


if __name__ == "__main__":
    main()
