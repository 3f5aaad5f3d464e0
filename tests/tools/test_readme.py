"""README.md: a path for each reader, as in `make help`; pictures and links that are there; an app that is spread."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support import pages

README = pages.ROOT / "README.md"
READERS = ["Try it", "Install it on a cluster", "Operate it", "Write a plugin", "Work on it"]


def tokens() -> Iterator[Token]:
    for token in MarkdownIt().enable("table").parse(README.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def links() -> list[str]:
    said = [str(token.attrs.get("href") or token.attrs.get("src") or "") for token in tokens()]
    return [link for link in said if link and not link.startswith("https://")]


def test_a_path_for_each_reader_in_the_readme_and_in_make_help() -> None:
    titles = re.findall(r"^## (.*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert [title for title in titles if title in READERS] == READERS
    command = ["make", "--no-print-directory", "help"]
    helped = subprocess.run(command, cwd=pages.ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    assert re.findall(r"^(\S.*):$", helped, re.MULTILINE) == READERS
    told = re.findall(r"^([a-z-]+):.*## ", (pages.ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"^  make ([a-z-]+) ", helped, re.MULTILINE)) == sorted(told), "of a reader that is none"


@pytest.mark.parametrize("link", sorted(set(links())))
def test_links_lead_somewhere(link: str) -> None:
    """Those of the other pages are followed by `make docs-site`."""
    file, hashed, anchor = link.partition("#")
    path = pages.ROOT / file if file else README
    assert path.is_file()
    assert not hashed or anchor in pages.anchors(path)


def test_pictures_say_what_is_on_them() -> None:
    images = [token for token in tokens() if token.type == "image"]
    assert [Path(str(image.attrs["src"])).suffix for image in images] == [".svg", ".png"]
    assert all(len(image.content) > 40 for image in images), "what somebody reads who does not see them"
    (root,) = (ET.parse(path).getroot() for path in (pages.ROOT / "docs/images").glob("*.svg"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [part for part in root.iter() if "script" in part.tag or part.get("href")], "it loads and runs nothing"


def test_the_application_is_spread_over_hosts() -> None:
    plays = [play for each in pages.of_kind("playbook") if each.page == README for play in each.documents[0]]
    (app,) = (
        role["vars"]
        for play in plays
        for role in play.get("roles", ())
        if isinstance(role, dict) and role["role"] == "berth.stateful.stateful_app"
    )
    (constraint,) = app["stateful_app_topology_spread_constraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"
    assert constraint["whenUnsatisfiable"] == "DoNotSchedule"
    assert constraint["labelSelector"]["matchLabels"] == {"berth.dev/app": app["stateful_app_name"]}
