"""Options of module node_agent for tests that call it without Ansible, which would fill in the defaults."""

from __future__ import annotations

from typing import Any


def unsaid() -> dict[str, Any]:
    """The options of a DaemonSet that a task leaves out."""
    options = dict.fromkeys(("configurations", "node_selector", "tolerations"))
    return {**options, "default_configuration": "{}\n", "wait": False, "wait_timeout": 300}
