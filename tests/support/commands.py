"""The commands that a page shows, run as a reader would: each block in the reader's folder, beside the page's files.

What cannot be run as it stands is in `INSTEAD`, with the reason and with what is run in its place. All else is run as
it is written (tests/integration/test_page_commands.py, molecule's scenario install).

`python -m tests.support.commands PAGE tarball=PATH` prints a page as JSON, by its headings: for playbooks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support import pages

#: The page whose commands a scenario of molecule runs.
IN_ONE_RUN = pages.ROOT / "docs/guides/in_one_run.md"
#: The pages whose every command is run.
RUN = (
    *(pages.ROOT / name for name in ("README.md", "docs/guides/install.md", "docs/guides/quickstart.md")),
    IN_ONE_RUN,
)


class Other(NamedTuple):
    """Why a command is not run as it is written, and what is: nothing, where that is empty."""

    reason: str
    command: str = ""


_CHECKOUT = "cd {root}"
_NO_STAGES = "its stages would write over those of the `make test` that runs this; its last one is what it is for"
_NO_GALAXY = "no test asks Galaxy: the tarball of this checkout stands for what it would send"
_REQUIREMENTS = "~/.ansible/collections/ansible_collections/berth/stateful/requirements.txt"
INSTEAD: Mapping[str, Other] = {
    "git clone https://github.com/berth-dev/berth.stateful && cd berth.stateful": Other(
        "no test asks the repository's host: this checkout stands for the clone", _CHECKOUT
    ),
    "make demo": Other(_NO_STAGES, "make -C {root} demo-play"),
    "make demo-down": Other("a reader is in the checkout", "make -C {root} demo-down"),
    "ansible-galaxy collection install berth.stateful": Other(
        _NO_GALAXY, "ansible-galaxy collection install --offline {tarball}"
    ),
    "ansible-galaxy collection install --upgrade berth.stateful": Other(
        _NO_GALAXY, "ansible-galaxy collection install --upgrade --offline {tarball}"
    ),
    f"pip install --upgrade -r {_REQUIREMENTS}": Other(
        "the newest packages would take the place of those that all tests run with", f"pip install -r {_REQUIREMENTS}"
    ),
    "make collection": Other(
        "a stage of `make test` has this name and runs it", "mkdir -p build/collection && cp {tarball} build/collection"
    ),
    "podman build -f deploy/Containerfile -t registry.example.com/berth:0.2.0 .": Other(
        "tests/image builds that file, without podman and its registry"
    ),
    "podman push registry.example.com/berth:0.2.0": Other("there is no registry"),
}


def blocks(page: Path) -> Iterator[list[str]]:
    """The commands of each block, without their comments."""
    for example in pages.examples(page):
        if example.language == "console":
            yield _commands(example)


def _commands(example: pages.Example) -> list[str]:
    return [line.partition(" # ")[0].strip() for line in example.text.splitlines() if line.strip()]


def as_run(command: str, places: Mapping[str, object]) -> str:
    """The command, or what stands for it here. ``places``: what `INSTEAD` names in braces."""
    return INSTEAD[command].command.format(**places) if command in INSTEAD else command


def typed(page: Path, places: Mapping[str, object]) -> dict[str, dict[str, list[str]]]:
    """What is under each heading: its commands, as they are run, and its texts of YAML."""
    return {
        title: {
            "commands": [
                as_run(line, places) for each in shown if each.language == "console" for line in _commands(each)
            ],
            "yaml": [each.text for each in shown if each.language == "yaml"],
        }
        for title, shown in pages.sections(page).items()
    }


class Reader:
    """Somebody with an empty home and a folder of his own, who does what pages say."""

    def __init__(self, folder: Path, programs: Path, **places: object) -> None:
        """``programs``: where ansible-playbook is. ``places``: what `INSTEAD` names in braces."""
        self.home, self.folder, self._places = folder / "home", folder / "work", places
        own = folder / "bin"
        for path in (self.home, self.folder, own):
            path.mkdir()
        self.programs = own
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = os.pathsep.join((str(own), str(programs), os.environ["PATH"]))
        # And what `make test` watches with: which files of the checkout his commands open.
        watched = {name: value for name, value in os.environ.items() if name == "BERTH_READS"}
        given = {"HOME": str(self.home), "PATH": path, "XDG_CACHE_HOME": cache, "LANG": "C.UTF-8"}
        self._environment = given | watched

    def read(self, page: Path) -> list[str]:
        """Write the page's files and run its blocks; what each of them printed. AssertionError where one fails."""
        for name, text in pages.files(page).items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        return [self.run([as_run(command, self._places) for command in block]) for block in blocks(page)]

    def run(self, commands: list[str]) -> str:
        """One shell for all of them, which ends at the first that fails."""
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", "\n".join(commands)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{commands}:\n{done.stdout}"
        return done.stdout


if __name__ == "__main__":
    name, *given = sys.argv[1:]
    print(json.dumps(typed(pages.ROOT / name, dict(each.split("=", 1) for each in given))))
