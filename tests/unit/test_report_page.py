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
from tests.support import showcase
from tests.support.chromium import chromium
from tests.support.pictures import read_png, unlike

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "report"
#: The picture in README.md.
SHOWN = ROOT / "docs" / "images" / "report.png"
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


@pytest.mark.slow
def test_the_picture_in_the_readme_is_the_page_as_it_is(tmp_path: Path) -> None:
    lists = showcase.cluster()
    page = render(overview(living(lists)), cluster_drift(lists), history(lists), "berth", "2026-03-04 09:30 UTC")
    file, shot = tmp_path / "berth.html", SHOTS / SHOWN.name
    file.write_text(page)
    SHOTS.mkdir(parents=True, exist_ok=True)
    shot.unlink(missing_ok=True)
    done = chromium(f"--screenshot={shot}", "--hide-scrollbars", f"{file.as_uri()}#theme=light", profile=tmp_path / "p")
    assert shot.is_file(), done.stderr
    share = unlike(read_png(SHOWN), read_png(shot))
    assert share < 0.002, (
        f"{share:.1%} differ; when that is meant: cp {shot.relative_to(ROOT)} {SHOWN.relative_to(ROOT)}"
    )


def test_pictures_differ_where_an_eye_sees_it() -> None:
    shown = read_png(SHOWN)
    assert unlike(shown, shown) == 0
    assert unlike(shown, shown[:-1]) == 1
    shade, word = shown.copy(), shown.copy()
    shade[::2] -= shade[::2] // 40
    word[690:870] = shown[0, 0]
    assert unlike(shown, shade) == 0, "another anti-aliasing"
    assert unlike(shown, word) > 0.002, "a table without its rows"
