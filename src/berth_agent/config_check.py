"""The check of a configuration's text, with the libraries that the agent brings. Called by `config` and __main__."""

from __future__ import annotations

import jmespath
import yaml

from berth_core.app import agent_config
from berth_core.app.agent_config import Checked


def check_text(text: str) -> Checked:
    """Read a whole file. The problems are in the order of their lines."""
    return agent_config.check_text(text, agent_config.Libraries(yaml, lambda: jmespath))
