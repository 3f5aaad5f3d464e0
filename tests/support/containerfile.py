"""Builds deploy/Containerfile where no image registry and no container engine is: its instructions on Debian's tree.

`python -m tests.support.containerfile` makes the image and prints its archive. The base
comes from the development cluster's cache, with every package that the file asks for, the wheels from the index.
Instructions that the file does not use are refused.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from berth_dev.images import archive, catalog, debian

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy/Containerfile"
NAME = "berth.local/release:dev"
PACKAGES = (
    *("python3", "e2fsprogs", "xfsprogs", "util-linux", "mount", "udev", "smartmontools"),
    *("python3-venv", "ca-certificates"),
)
#: How this machine reaches the package index.
_REACH = ("PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "https_proxy", "HTTPS_PROXY", "no_proxy")
#: As a container engine does: devices, processes, and the machine's names and authorities.
_RUN = """\
mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" &&
for name in resolv.conf hosts; do
    [ -f "$1/etc/$name" ] && [ ! -L "$1/etc/$name" ] || { rm -f "$1/etc/$name"; : > "$1/etc/$name"; }
done &&
mount --bind /etc/resolv.conf "$1/etc/resolv.conf" && mount --bind /etc/hosts "$1/etc/hosts" &&
mount --bind /etc/ssl/certs "$1/etc/ssl/certs" && exec chroot "$1" /bin/sh -c "cd '$2' && $3"
"""


@dataclass
class Stage:
    """A tree, and what the file says of it so far."""

    tree: Path
    folder: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": catalog.PATH})


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(INSTRUCTION, rest) of each; lines that end in a backslash go on."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            word, rest = line.split(None, 1)
            yield word.upper(), rest.strip()


def context() -> list[Path]:
    """The files of the tree that the file copies."""
    copied = [
        rest.split()[:-1] for word, rest in instructions(FILE.read_text()) if word == "COPY" and "--from" not in rest
    ]
    found = [path for names in copied for name in names for path in (ROOT / name, *sorted((ROOT / name).rglob("*")))]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def build(base: Path, scratch: Path) -> Stage:
    """The last stage, on a base that stands for the build argument's, and which it takes for itself."""
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    now = Stage(base)
    said = list(instructions(FILE.read_text()))
    for number, (word, rest) in enumerate(said):
        if word == "ARG":
            arguments.update([rest.split("=", 1)])
        elif word == "FROM":
            source, name = [*rest.split(" AS "), f"last-{len(stages)}"][:2]
            origin = stages[source] if source in stages else Stage(base)
            assert source in stages or source.strip("${}") in arguments, f"{source}: expected a stage or an argument"
            now = stages[name] = Stage(scratch / name, environment=dict(origin.environment))
            if any(source in re.split("[ =]", later) for _word, later in said[number + 1 :]):
                subprocess.run(["cp", "-a", "--reflink=auto", str(origin.tree), str(now.tree)], check=True)
            else:  # nobody else begins with it
                origin.tree.rename(now.tree)
        else:
            _carry_out(now, stages, word, rest)
    return now


def _carry_out(now: Stage, stages: dict[str, Stage], word: str, rest: str) -> None:
    if word == "RUN":
        reach = {key: os.environ[key] for key in _REACH if key in os.environ}
        argv = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", _RUN, "sh", str(now.tree), now.folder, rest]
        done = subprocess.run(argv, env={**reach, **now.environment}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"RUN {rest}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    elif word == "COPY":
        *names, target = [each for each in rest.split() if not each.startswith("--from=")]
        found = re.search(r"--from=(\S+)", rest)
        _copy(
            stages[found[1]].tree if found else ROOT,
            names,
            now.tree / os.path.join(now.folder, target).lstrip("/"),
            target,
        )
    elif word == "WORKDIR":
        now.folder = rest
        (now.tree / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "ENV":
        now.environment.update(one.split("=", 1) for one in shlex.split(rest))
    elif word == "USER":
        now.user = rest
    elif word == "ENTRYPOINT":
        now.entrypoint = tuple(json.loads(rest))
    else:
        raise AssertionError(f"{word}: add it to tests/support/containerfile.py")


def _copy(source: Path, names: list[str], target: Path, said: str) -> None:
    """A folder's contents, or a file under its new name or into a folder that ends in a slash."""
    for name in names:
        path = source / name.lstrip("/")
        if path.is_dir():
            shutil.copytree(
                path,
                target,
                symlinks=True,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__") if source == ROOT else None,
            )
        else:
            into = target / path.name if said.endswith("/") else target
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, into)


def packed() -> bytes:
    """What the image is made of, the same bytes for the same contents."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for path in (FILE, Path(__file__), *context()):
            target.writestr(zipfile.ZipInfo(str(path.relative_to(ROOT)), (1980, 1, 1, 0, 0, 0)), path.read_bytes())
    return content.getvalue()


def make() -> Path:
    """The image as a docker-archive; what it says of itself is in it."""

    def finish(root: Path, _contents: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=root.parent) as scratch:
            made = build(root, Path(scratch))
            said = {"user": made.user, "entrypoint": made.entrypoint, "environment": made.environment}
            assert said == {"user": IMAGE.user, "entrypoint": IMAGE.entrypoint, "environment": dict(IMAGE.environment)}
            made.tree.rename(root)

    system = debian.DebianImage(IMAGE, "bookworm", PACKAGES, packed, finish)
    return catalog.ensure_recipe("release", catalog.Recipe(IMAGE, system.key, system.fill))


def _image() -> archive.Image:
    """What the file's end says of the image."""
    last = dict(instructions(FILE.read_text()))
    environment = {"PATH": catalog.PATH, **dict(one.split("=", 1) for one in shlex.split(last["ENV"]))}
    entrypoint = tuple(json.loads(last["ENTRYPOINT"]))
    return archive.Image(NAME, entrypoint=entrypoint, environment=environment, user=last["USER"])


IMAGE = _image()


def unpack(image: Path, folder: Path) -> None:
    """The tree of a docker-archive with one layer."""
    with tarfile.open(image) as whole:
        (layer,) = json.load(whole.extractfile("manifest.json"))[0]["Layers"]
        with tarfile.open(fileobj=whole.extractfile(layer)) as tree:
            trusted = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
            tree.extractall(folder, numeric_owner=True, **trusted)


if __name__ == "__main__":
    print(make())
