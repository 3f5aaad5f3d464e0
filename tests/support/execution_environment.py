"""A minimal execution environment: Debian's Python, ansible-core and what the installed collection asks for, no more.

`python -m tests.support.execution_environment` makes the image where no registry is, and prints its archive; the system
below comes from the development cluster's cache, the packages by pip, in the versions that the tests have.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from berth_dev.images import archive, catalog, debian

from .tarball import ROOT, install

NAME = "berth.local/execution-environment:dev"
FOLDER = "opt/ansible"
COLLECTION = "ansible_collections/berth/stateful"
IMAGE = archive.Image(
    NAME,
    command=("ansible-playbook", "--version"),
    environment={
        "PATH": f"/{FOLDER}/lib/bin:{catalog.PATH}",
        "PYTHONPATH": f"/{FOLDER}/lib",
        "ANSIBLE_COLLECTIONS_PATH": f"/{FOLDER}/collections",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
    },
)
#: Python, and what bindep.txt asks for of Debian.
PACKAGES = ("python3", "openssh-client")


def make() -> Path:
    """The image as a docker-archive."""
    with tempfile.TemporaryDirectory() as folder:
        collection = packed(install(Path(folder)))
    made = debian.DebianImage(IMAGE, "bookworm", PACKAGES, lambda: collection, finish)
    return catalog.ensure_recipe("execution-environment", catalog.Recipe(IMAGE, made.key, made.fill))


def packed(collections: Path) -> bytes:
    """The installed collection and the pinned versions, the same bytes for the same contents."""
    files = {str(path.relative_to(collections)): path for path in collections.rglob("*") if path.is_file()}
    files["pins.txt"] = ROOT / "requirements-dev.txt"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for name, path in sorted(files.items()):
            # When and from which tarball it was installed is left out.
            if not name.endswith(("/MANIFEST.json", "/FILES.json", "/GALAXY.yml")):
                target.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), path.read_bytes())
    return content.getvalue()


def finish(root: Path, contents: bytes) -> None:
    """Put the collection into the tree, and beside it what it asks for."""
    folder = root / FOLDER
    with zipfile.ZipFile(io.BytesIO(contents)) as files:
        files.extractall(folder / "collections")
    pins = folder / "collections" / "pins.txt"
    asked = folder / "collections" / COLLECTION / "requirements.txt"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder / "lib")]
    subprocess.run([*argv, "--constraint", str(pins), "--requirement", str(asked), "ansible-core"], check=True)
    pins.unlink()
    for program in (folder / "lib" / "bin").iterdir():
        # pip names the Python that it runs on.
        _first, _line, rest = program.read_text(encoding="utf-8").partition("\n")
        program.write_text(f"#!/usr/bin/python3\n{rest}", encoding="utf-8")


if __name__ == "__main__":
    print(make())
