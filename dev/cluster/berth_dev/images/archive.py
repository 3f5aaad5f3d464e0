# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing a container image as a docker-archive tar, which containerd imports. `catalog` calls this.

An archive is manifest.json, a configuration named by its own SHA-256, and the layers, of which there is mostly one. The
same contents give the same bytes: times are zero, names are sorted, owners are root. Format: the Docker Image
Specification v1.2.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Image:
    """What an image says of itself. `name` with its tag, e.g. berth.local/pause:1; `also`: more names of it."""

    name: str
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    workdir: str = "/"
    # Not in the representation, by which archives are cached: their users put them into what they hash themselves.
    also: Sequence[str] = field(default=(), repr=False)
    stop_signal: str = field(default="", repr=False)


def add_file(layer: tarfile.TarFile, path: str, data: bytes, mode: int = 0o644) -> None:
    """A plain file at `path` (no slash in front)."""
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    layer.addfile(entry, io.BytesIO(data))


def add_folder(layer: tarfile.TarFile, path: str, mode: int = 0o755) -> None:
    """An empty folder."""
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    layer.addfile(entry)


def add_link(layer: tarfile.TarFile, path: str, target: str) -> None:
    """A symbolic link."""
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
    layer.addfile(entry)


def add_tree(layer: tarfile.TarFile, root: Path, without: Collection[str] = ()) -> None:
    """Everything under `root`, with modes and numeric owners, without times; devices, sockets and the paths `without`
    left out."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            path = Path(folder, name)
            entry = layer.gettarinfo(str(path), str(path.relative_to(root)))
            if entry.name in without or not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
                continue
            entry.mtime, entry.uname, entry.gname = 0, "", ""
            if entry.isreg():
                with open(path, "rb") as stream:
                    layer.addfile(entry, stream)
            else:
                layer.addfile(entry)


def write(image: Image, layer: Path, target: Path, below: Sequence[Path] = ()) -> None:
    """Make the archive `target` from a layer tar, and those `below` it. Not atomic: the caller renames."""
    layers = {_sha256(path): path for path in (*below, layer)}
    config = json.dumps(_config(image, list(layers)), sort_keys=True).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    names = [f"{digest}/layer.tar" for digest in layers]
    manifest = [{"Config": config_name, "RepoTags": [image.name, *image.also], "Layers": names}]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        add_file(tar, "manifest.json", json.dumps(manifest).encode())
        add_file(tar, config_name, config)
        for name, path in zip(names, layers.values(), strict=True):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            with open(path, "rb") as stream:
                tar.addfile(entry, stream)


def _config(image: Image, digests: Sequence[str]) -> dict[str, object]:
    run = {
        "Entrypoint": list(image.entrypoint) or None,
        "Cmd": list(image.command) or None,
        "Env": [f"{key}={value}" for key, value in image.environment.items()],
        "User": image.user,
        "WorkingDir": image.workdir,
        **({"StopSignal": image.stop_signal} if image.stop_signal else {}),
    }
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]}
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    created = "1970-01-01T00:00:00Z"
    return {"architecture": architecture, "os": "linux", "created": created, "config": run, "rootfs": rootfs}


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
