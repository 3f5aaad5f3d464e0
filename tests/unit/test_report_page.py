"""The report's page in a real browser: its script runs under its policy, it searches, it is dark, and it looks like it.

Screenshots are kept under build/report.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from berth_core.app.cluster_drift import cluster_drift, living
from berth_core.app.history import history
from berth_core.app.html_report import render
from berth_core.app.overview import overview
from tests.core.app.report_world import cluster
from tests.support.chromium import chromium

SHOTS = Path(__file__).resolve().parents[2] / "build" / "report"
HOSTILE = "</script><script>document.title='broken in'</script>"


@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    lists = cluster(HOSTILE)
    file = tmp_path / "berth.html"
    file.write_text(render(overview(living(lists)), cluster_drift(lists), history(lists), "berth", "now"))
    SHOTS.mkdir(parents=True, exist_ok=True)

    shown = chromium("--dump-dom", f"{file.as_uri()}#q=broken+shop%2Fdb-0&theme=dark", profile=tmp_path / "one")
    assert shown.returncode == 0, shown.stderr
    root = re.search(r"<html [^>]*>", shown.stdout)
    assert root, shown.stdout[:500]
    assert re.search(r'data-ready="\d+"', root.group()), "the script has run to its end"
    assert 'data-shown="1"' in root.group(), "of the two nodes one has both words"
    assert 'data-theme="dark"' in root.group()
    assert "<title>berth</title>" in shown.stdout
    assert "Content Security Policy" not in shown.stderr, shown.stderr

    for theme in ("light", "dark"):
        shot = SHOTS / f"{theme}.png"
        shot.unlink(missing_ok=True)
        done = chromium(f"--screenshot={shot}", f"{file.as_uri()}#theme={theme}", profile=tmp_path / "two")
        assert shot.is_file(), done.stderr
    assert (SHOTS / "light.png").read_bytes() != (SHOTS / "dark.png").read_bytes()
