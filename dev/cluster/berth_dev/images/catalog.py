# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of the cluster: what each is made of, and the cache of what was made. `hosts` and `cli` call this.

    <cache>/images/<name>-<hash of what goes in>.tar
    <cache>/images/set-<hash>/     hard links to the archives that every host has: pause and busybox

Every archive is complete or absent: written beside its place, then renamed, under a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..build import cache_folder
from ..errors import BuildError
from . import archive, cached, debian

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Fill = Callable[[tarfile.TarFile, Path], None]


@dataclass(frozen=True)
class Recipe:
    """How an image is made. `inputs`: bytes that, changed, ask for a new one. `fill`: writes the layer (and may use a
    scratch folder). `below`: makes the layers that lie below it."""

    image: archive.Image
    inputs: Callable[[], bytes]
    fill: Fill
    below: Callable[[Path], Sequence[Path]] = lambda _scratch: ()


def recipes(bin_dir: Path) -> dict[str, Recipe]:
    """Every image by its short name."""
    busybox = Path("/usr/bin/busybox")
    return {
        "pause": Recipe(
            archive.Image("berth.local/pause:1", entrypoint=("/pause",), user="65535:65535"),
            lambda: _contents(bin_dir / "pause"),
            lambda layer, _scratch: archive.add_file(layer, "pause", _contents(bin_dir / "pause"), 0o755),
        ),
        "busybox": Recipe(
            archive.Image("berth.local/busybox:1", command=("sh",), environment={"PATH": PATH}),
            lambda: _contents(busybox),
            lambda layer, _scratch: _busybox(layer, busybox),
        ),
        **{name: Recipe(d.image, d.key, d.fill, d.below) for name, d in debian.images().items()},
    }


def default_set(bin_dir: Path) -> Path:
    """The folder with the archives that every host loads at its first start."""
    made = [ensure(name, bin_dir) for name in ("pause", "busybox")]
    digest = hashlib.sha256("".join(path.name for path in made).encode()).hexdigest()[:12]
    folder = made[0].parent / f"set-{digest}"
    if not folder.exists():
        with _locked():
            if not folder.exists():
                scratch = Path(tempfile.mkdtemp(prefix=".set-", dir=folder.parent))
                for path in made:
                    os.link(path, scratch / path.name)
                scratch.rename(folder)
    return folder


def _silent(line: str) -> None:
    """No progress is wanted."""


def ensure(name: str, bin_dir: Path, progress: Callable[[str], None] = _silent) -> Path:
    """The archive of that image, made now if it is not in the cache. BuildError for an unknown name or a failure."""
    known = recipes(bin_dir)
    if name not in known:
        raise BuildError(f"image {name!r}: expected one of {', '.join(known)}")
    return ensure_recipe(name, known[name], progress)


def archive_of(name: str, recipe: Recipe) -> Path:
    """Where its archive is, or will be."""
    key = hashlib.sha256(repr(recipe.image).encode() + b"\0" + recipe.inputs()).hexdigest()[:12]
    return cache_folder() / "images" / f"{name}-{key}.tar"


def ensure_recipe(name: str, recipe: Recipe, progress: Callable[[str], None] = _silent) -> Path:
    """The same for an image that is in nobody's list; `name` is that of its file."""
    target = archive_of(name, recipe)
    if not cached.used(target):
        with _locked():
            if not cached.used(target):
                progress(f"making image {recipe.image.name} (minutes, where it is made of Debian packages)")
                _make(recipe, target)
                cached.prune(target.parent, name)
    return target


def _make(recipe: Recipe, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        layer = Path(scratch, "layer.tar")
        with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as tar:
            recipe.fill(tar, Path(scratch))
        done = Path(scratch, "image.tar")
        archive.write(recipe.image, layer, done, recipe.below(Path(scratch)))
        done.rename(target)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    folder = cache_folder() / "images"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        hint = "apt-get install -y busybox-static" if path.name == "busybox" else "run up once, which builds it"
        raise BuildError(f"{path}: is missing; {hint}") from None


def _busybox(layer: tarfile.TarFile, program: Path) -> None:
    """The program, a link for each of its tools, and what programs expect of a root."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    for folder in ("bin", "etc", "root", "usr", "usr/bin", "var", "proc", "sys", "dev"):
        archive.add_folder(layer, folder)
    archive.add_folder(layer, "tmp", 0o1777)
    archive.add_file(layer, "bin/busybox", program.read_bytes(), 0o755)
    archive.add_file(layer, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    archive.add_file(layer, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    for tool in sorted(set(listed.stdout.split()) - {"busybox"}):
        archive.add_link(layer, f"bin/{tool}", "busybox")
