# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the project puts into the scheduler image: the packages, and from this environment the libraries they stand on.

`debian` calls this. deploy/Containerfile makes the same contents with pip, where there is a registry.
"""

from __future__ import annotations

import compileall
import io
import py_compile
import re
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ..errors import BuildError

PROJECT = Path(__file__).resolve().parents[4]
#: Where it is in the image, and its PYTHONPATH.
FOLDER = "opt/berth/lib"
PACKAGES = ("plugins/module_utils/berth_core", "src/berth_kube", "src/berth_scheduler")
#: Those of the extras `scheduler` and `fast` of pyproject.toml, and what the engine itself needs.
DISTRIBUTIONS = ("h11", "httptools", "msgspec", "numpy", "prometheus-client", "PyYAML", "uvloop")


def packed() -> bytes:
    """Everything as one archive: the same sources and libraries give the same bytes. BuildError for what is missing."""
    content = io.BytesIO()
    # Not deflated: it is unpacked at once, and read each time somebody asks whether the image is there already.
    with zipfile.ZipFile(content, "w") as archive:
        for name, path in sorted({**dict(_libraries()), **dict(_packages())}.items()):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), path.read_bytes())
    return content.getvalue()


def unpack(root: Path, archive: bytes) -> None:
    """Into the tree of the image, and compiled there."""
    _same_python(root)
    folder = root / FOLDER
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
    # By hash: the archive has no times, and files that are compiled for another time are not used.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder, quiet=2, stripdir=str(root), invalidation_mode=mode)


def _packages() -> Iterator[tuple[str, Path]]:
    for package in (PROJECT / name for name in PACKAGES):
        for path in package.rglob("*.py"):
            yield str(path.relative_to(package.parent)), path


def _libraries() -> Iterator[tuple[str, Path]]:
    """What runs, and under which licence; no tests, headers or stubs, which are most of numpy's files."""
    for name in DISTRIBUTIONS:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            raise BuildError(f"{name} is not installed: the image takes it from this environment") from None
        for file in files:
            runs = file.suffix == ".py" or re.search(r"\.so(\.|$)", file.name)
            told = ".dist-info" in file.parts[0] and re.search(r"licen[cs]e|copying", str(file), re.IGNORECASE)
            if (runs and "tests" not in file.parts and ".." not in file.parts) or told:
                yield str(file), Path(str(file.locate()))


def _same_python(root: Path) -> None:
    """The compiled libraries are those of one minor version of Python."""
    ours = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    theirs = sorted(path.name for path in (root / "usr/bin").glob("python3.[0-9]*") if path.name[8:].isdigit())
    if ours not in theirs:
        found = ", ".join(theirs) or "no Python"
        raise BuildError(
            f"the image has {found}, and the libraries of this environment are for {ours}: make the environment with it"
        )
