"""One version: galaxy.yml says it, and whatever else names a version or the image says the same.

The image is built by tests/image/test_containerfile.py, which starts every manifest's pod with it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import berth_agent
from berth_core.app import release
from tests.image.test_containerfile import PODS

ROOT = Path(__file__).resolve().parents[2]
VERSION = str(yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"])
IMAGE = f"registry.example.com/berth:{VERSION}"
BUILD = f"podman build -f deploy/Containerfile -t {IMAGE} ."
#: Where users read the name of an image: manifests, pages, examples of roles and plugins.
SHOWN = ("README.md", "deploy/**/*", "docs/**/*.md", "roles/**/*", "playbooks/**/*", "plugins/modules/*.py")
#: berth's image by any name, in any registry but that of the development cluster.
NAMED = re.compile(r"\b(?!berth\.local/)[\w.-]+\.\w+/berth(?:-\w+)?:[\w.-]+\b")


def images() -> Iterator[tuple[str, str]]:
    """Each name of an image of berth with the file that says it."""
    for path in sorted(path for pattern in SHOWN for path in ROOT.glob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            yield from ((str(path.relative_to(ROOT)), name) for name in NAMED.findall(path.read_text(encoding="utf-8")))


def test_the_package_and_the_agent_have_the_version_of_the_collection() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert berth_agent.VERSION == VERSION
    assert release.VERSION == VERSION


def test_there_is_one_image_with_one_tag() -> None:
    named = list(images())
    assert {name for _file, name in named} == {IMAGE}, [(file, name) for file, name in named if name != IMAGE]


@pytest.mark.parametrize("manifest", sorted(path.relative_to(ROOT) for path in ROOT.glob("deploy/*/*.yaml")), ids=str)
def test_manifests_name_the_image_that_is_built(manifest: Path) -> None:
    found = re.findall(r"^\s*(?:- )?image: (.*)$", (ROOT / manifest).read_text(), re.MULTILINE)
    started = {f"deploy/{one}" for one in PODS}
    assert found == ([IMAGE] if str(manifest) in started else []), "a pod that tests/image does not start"


@pytest.mark.parametrize("file", ["docs/guides/install.md", "deploy/Containerfile"])
def test_the_command_that_builds_it_is_there(file: str) -> None:
    assert BUILD in (ROOT / file).read_text()


def test_nothing_was_added_in_a_version_that_is_not_there() -> None:
    for path in ROOT.glob("plugins/*/*.py"):
        for added in re.findall(r"version_added: (\S+)", path.read_text(encoding="utf-8")):
            assert Version(added.strip("'\"")) <= Version(VERSION), path
