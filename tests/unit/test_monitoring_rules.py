"""The alerts as Prometheus's own tool reads and tries them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RULES = HERE.parents[1] / "deploy" / "monitoring" / "rules.yaml"
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="prometheus is not installed (make deps)")
@pytest.mark.parametrize("arguments", [("check", "rules", RULES), ("test", "rules", HERE / "monitoring_rules.yaml")])
def test_promtool_finds_the_rules_right(arguments: tuple[str | Path, ...]) -> None:
    command = [str(PROMTOOL), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
