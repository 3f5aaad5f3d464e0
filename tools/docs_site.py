"""The documentation site: the pages, and the plugins' documentation by antsibull-docs. Called by `make docs-site`.

    python tools/docs_site.py build/tree build/site

The first folder is a collections path with this collection (tools/snapshot.py), the pages are taken from it. Every
warning is an error: a link that leads nowhere, a page that no list names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

COLLECTION = "berth.stateful"


def lay_out(collection: Path, source: Path) -> None:
    """What Sphinx reads: the pages, and its own two files beside them."""
    shutil.copytree(collection / "docs", source)
    for file in (source / "site").iterdir():
        file.rename(source / file.name)
    (source / "site").rmdir()


def describe_plugins(collections: Path, target: Path) -> None:
    """One page for each plugin and role. The folder must be its owner's alone, antsibull-docs insists."""
    target.mkdir(mode=0o700)
    command = ["antsibull-docs", "collection", "--use-current", "--fail-on-error", "--squash-hierarchy"]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections)}
    subprocess.run([*command, "--dest-dir", str(target), COLLECTION], env=environment, check=True)


def main() -> int:
    collections, site = (Path(argument).resolve() for argument in sys.argv[1:])
    shutil.rmtree(site, ignore_errors=True)
    source = site / "source"
    lay_out(collections / "ansible_collections" / Path(*COLLECTION.split(".")), source)
    describe_plugins(collections, source / "collections")
    return subprocess.call(["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", str(source), str(site / "html")])


if __name__ == "__main__":
    sys.exit(main())
