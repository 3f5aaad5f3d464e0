"""A policy of TaskQueues from outside: of the queues that name it, the one in which most tasks wait is served next.

# pyproject.toml of the package that it is installed with
[project.entry-points."berth.task_policies"]
longest = "longest_line:longest"

# a TaskQueue
spec: {policy: longest}
"""

from __future__ import annotations

from berth_core.tasks.policies import Line, Turn


def longest(line: Line) -> Turn:
    """Rank 0, as `fair` has it: beside queues of that policy, those of this one come first while tasks wait in them."""
    return Turn(0, -line.waiting)
