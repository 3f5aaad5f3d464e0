#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: task
short_description: Run a task to completion, one pod a try
version_added: 0.2.0
author:
  - The berth authors (@berth-dev)
description:
  - Submits a Task, which berth-tasks carries out, waits for its end, kills it or removes it.
  - A task is known by its name and its content. The same again changes nothing and returns what has become of it.
    Another template while it runs has a new pod take over.
  - With other content, one that has ended is refused. Remove it first, or give another name.
options:
  name:
    description: The task's name, a DNS-1123 label of at most 52 characters.
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
      - V(absent) removes the Task with its pods, and what is known of its end.
    type: str
    choices: [present, killed, absent]
    default: present
  template:
    description:
      - The pod template, a mapping with C(metadata) (labels and annotations are used) and C(spec).
      - Required with O(state=present). C(restartPolicy) is V(Never), or left out.
    type: dict
  queue:
    description:
      - The TaskQueue of the namespace that it waits in. Left out, V(default), which needs no object.
      - One that is not there is refused, and in check mode warned of, since the play may be going to make it.
    type: str
  priority:
    description: Of two tasks of one queue the higher one starts first.
    type: int
  retries:
    description: How many failed tries are made good by another one, 0 to 100. Disrupted tries do not count.
    type: int
  retry_exit_codes:
    description: Exit codes that are worth a retry. Left out, every one is.
    type: list
    elements: int
  gang:
    description:
      - Tasks of its queue with the same gang of which a minimum starts together, or none. With
        C(schedulerName=berth-scheduler) in O(template) their pods are bound together, too.
      - Submit its members with O(wait=false). The first one waits for the others.
    type: dict
    suboptions:
      name:
        description: The gang's name, a DNS-1123 label of at most 52 characters.
        type: str
        required: true
      min_count:
        description: So many start together, 1 to 1000. Those that have ended since this one was submitted count.
        type: int
        required: true
  keep_failed_pod:
    description: Whether the pod of the last failed try stays, for inspection.
    type: bool
  wait:
    description: Whether to wait until it has ended. One that fails, or is killed, fails the module then.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait.
    type: int
    default: 600
attributes:
  check_mode:
    description: Can run in check mode and say what would change, without a single write.
    support: full
  diff_mode:
    description: Shows what changes of the Task.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.task_info
"""

EXAMPLES = r"""
- name: Hash a file, and try twice more where that exits with 75
  berth.stateful.task:
    name: hash
    retries: 2
    retry_exit_codes: [75]
    template:
      spec:
        containers:
          - name: main
            image: registry.example.com/tools:1
            command: [sha256sum, /etc/hostname]
            resources:
              requests: {cpu: 100m, memory: 64Mi}
  register: hash

- name: Show what it said
  ansible.builtin.debug:
    var: hash.task.log

- name: Remove it
  berth.stateful.task:
    name: hash
    state: absent
"""

RETURN = r"""
task:
  description: How far the task is. Empty when it is absent.
  returned: success, and when a task that was waited for has failed
  type: dict
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
requests:
  description: How many requests were sent to the API server, by verb.
  returned: always
  type: dict
  sample: {get: 1}
"""

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import module_main
from ansible_collections.berth.stateful.plugins.module_utils._glue.task import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
