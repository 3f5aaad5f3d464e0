#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task_batch
short_description: Run many tasks of one template to completion
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Submits a TaskBatch, which berth-tasks carries out, waits for its end, kills it or removes it.
  - It is one object for up to 100,000 tasks of one pod a try, as an array with an index or as a list whose items may
    need others.
  - A batch is known by its name and its content. The same again changes nothing and returns what has become of it.
  - With other content, one that has ended is refused. Remove it first, or give another name.
options:
  name:
    description: The batch's name, a DNS-1123 label of at most 45 characters.
    type: str
    required: true
  namespace:
    description: The namespace.
    type: str
    default: default
  state:
    description:
      - V(present) submits it.
      - V(killed) has its pods go. It does not come back.
      - V(absent) removes the TaskBatch with its pods, and what is known of its end.
    type: str
    choices: [present, killed, absent]
    default: present
  template:
    description:
      - The pod template, a mapping with C(metadata) (labels and annotations are used) and C(spec).
      - Required with O(state=present). C(restartPolicy) is V(Never), or left out.
    type: dict
  count:
    description:
      - An array of so many tasks, 1 to 100000. Each finds its index, from 0, in the variable E(BERTH_TASK_INDEX).
      - With O(state=present) either this, O(items) or O(items_src) is required.
    type: int
  items:
    description:
      - A list of tasks, up to 10000 and 1 MiB as JSON. A longer list is several batches, or an array whose tasks read
        their part of a file.
    type: list
    elements: dict
    suboptions:
      name:
        description: What others need it by. Left out, its place in the list, from 0.
        type: str
      args:
        description: In place of the arguments of the template's first container.
        type: list
        elements: str
      env:
        description: Variables of every container, each a string.
        type: dict
      needs:
        description: Names of items that are to succeed first. Where one fails, this one fails without running.
        type: list
        elements: str
  items_src:
    description:
      - The items from a file of the controller instead, with the same fields and limits. The ending of its name says
        what it is, V(.jsonl) (one JSON object a line), V(.json) or V(.yaml) (a list), or V(.csv).
      - CSV has a header with the columns C(name), C(args) and C(needs) (words as a shell takes them), and C(env.NAME)
        for each variable. An empty cell is left out.
      - When one line is wrong, nothing is submitted.
    type: path
  gang:
    description:
      - A minimum of its tasks starts together, or none. With C(schedulerName=berth-scheduler) in O(template) their pods
        are bound together, too.
      - Excludes C(needs) of O(items).
    type: dict
    suboptions:
      min_count:
        description: So many start together, 1 to 1000, and no more than may run at one time.
        type: int
        required: true
  parallelism:
    description: The most that run at one time. Left out, what the queue may have.
    type: int
  max_failures:
    description: After more failed tasks than this nothing more is started. Left out, there is no limit.
    type: int
  queue:
    description:
      - The TaskQueue of the namespace that its tasks wait in. Left out, V(default), which needs no object.
      - One that is not there is refused, and in check mode warned of, since the play may be going to make it.
    type: str
  priority:
    description: Of two tasks of one queue the higher one starts first.
    type: int
  retries:
    description: How many failed tries of a task are made good by another one, 0 to 100. Disrupted tries do not count.
    type: int
  retry_exit_codes:
    description: Exit codes that are worth a retry. Left out, every one is.
    type: list
    elements: int
  wait:
    description: Whether to wait until it has ended. One with failed or killed tasks fails the module then.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Can run in check mode and say what would change, without a single write.
    support: full
  diff_mode:
    description: Shows what changes of the TaskBatch.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.task_batch_info
  - module: berth.stateful.task
"""

EXAMPLES = r"""
- name: Hash a thousand parts, a hundred at a time
  berth.stateful.task_batch:
    name: hashes
    count: 1000
    parallelism: 100
    retries: 2
    template:
      spec:
        containers:
          - name: main
            image: registry.example.com/tools:1
            command: [sh, -c, 'sha256sum "/parts/$BERTH_TASK_INDEX"']
            resources:
              requests: {cpu: 100m, memory: 64Mi}
  register: hashes

- name: Say which of them failed
  ansible.builtin.debug:
    msg: "{{ hashes.batch.indexes.Failed | default('none') }}"

- name: Two that come first, and one that needs both
  berth.stateful.task_batch:
    name: report
    items:
      - {name: east, args: [east]}
      - {name: west, args: [west]}
      - {name: sum, args: [sum], needs: [east, west]}
    template:
      spec:
        containers:
          - name: main
            image: registry.example.com/report:1
            resources:
              requests: {cpu: 100m, memory: 64Mi}

- name: One task for each line of a file
  berth.stateful.task_batch:
    name: customers
    items_src: customers.jsonl # {"name": "c1", "args": ["--customer", "1"]}
    max_failures: 20
    template:
      spec:
        containers:
          - name: main
            image: registry.example.com/report:1
            resources:
              requests: {cpu: 100m, memory: 64Mi}

- name: Remove it
  berth.stateful.task_batch:
    name: report
    state: absent
"""

RETURN = r"""
batch:
  description: How far the batch is. Empty when it is absent.
  returned: success, and when a batch that was waited for has failed
  type: dict
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
  sample: {get: 1}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.task_batch import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
