"""The alerts as Prometheus's own tool reads and tries them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import pages

HERE = Path(__file__).parent
RULES = HERE.parents[1] / "deploy" / "monitoring" / "rules.yaml"
DOCUMENTATION = str(yaml.safe_load((pages.ROOT / "galaxy.yml").read_text())["documentation"])
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="prometheus is not installed (make deps)")
@pytest.mark.parametrize("arguments", [("check", "rules", RULES), ("test", "rules", HERE / "monitoring_rules.yaml")])
def test_promtool_finds_the_rules_right(arguments: tuple[str | Path, ...]) -> None:
    command = [str(PROMTOOL), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_an_alert_says_how_bad_it_is_and_its_address_is_a_heading_of_a_page(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert {"summary", "description"} <= rule["annotations"].keys()
    url, anchor = rule["annotations"]["runbook_url"].split("#")
    assert url.startswith(f"{DOCUMENTATION}/")
    assert anchor in pages.anchors(pages.ROOT / "docs" / url.removeprefix(f"{DOCUMENTATION}/"))
