# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images made of Debian packages: PostgreSQL, and Python for the project's own programs. `catalog` calls this,
and `qemu` takes debootstrap from it.

debootstrap builds a minimal system with the packages; documentation and package lists are left out. Needs root and the
package archive of the machine's own /etc/apt, and takes a minute: only made when it is asked for.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import io
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..build import cache_folder
from ..errors import BuildError
from . import archive, scheduler

PROJECT = Path(__file__).resolve().parents[4]
#: Where the daemons' packages are in their image.
DAEMONS = "opt/berth/agent"
#: Raised when `finish` does something else with the same contents.
MANNER = "compiled by hash"
DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists")


@dataclass(frozen=True)
class DebianImage:
    """A Debian system of a `suite` with `packages`. `finish` puts ``ours()`` into the tree before it is packed.

    The system without the project's programs is kept apart in the cache: a changed program costs seconds. `apart`: it
    is a layer of its own in the image too, so that a host which has one image of it unpacks no more of another than
    what `finish` has added; that changes nothing of the system then.
    """

    image: archive.Image
    suite: str
    packages: tuple[str, ...]
    ours: Callable[[], bytes]
    finish: Callable[[Path, bytes], None]
    apart: bool = False

    def key(self) -> bytes:
        """What asks for a new image when it changes: all that is added, not the packages' versions of the day."""
        manner = f"{MANNER}, in two layers" if self.apart else MANNER
        return "\0".join((manner, self.suite, *self.packages, *DROPPED)).encode() + b"\0" + self.ours()

    def fill(self, layer: tarfile.TarFile, scratch: Path) -> None:
        """Build the tree in the scratch folder and pack it, or what is new in it."""
        root = scratch / "root"
        with tarfile.open(self._system(scratch)) as system:
            trusted = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
            system.extractall(root, numeric_owner=True, **trusted)  # type: ignore[arg-type]  # noqa: S202 - made here
            known = {entry.name: entry for entry in system.getmembers()} if self.apart else {}
        self.finish(root, self.ours())
        if touched := sorted(name for name, entry in known.items() if _touched(root / name, entry)):
            raise BuildError(f"{self.image.name}: its system was to stay as it is; changed: {', '.join(touched[:5])}")
        archive.add_tree(layer, root, without=known)

    def below(self, scratch: Path) -> tuple[Path, ...]:
        """The layers below what `fill` writes."""
        return (self._system(scratch),) if self.apart else ()

    def _system(self, scratch: Path) -> Path:
        """The archive of the system alone. The caller holds the lock of the cache."""
        digest = hashlib.sha256("\0".join((self.suite, *self.packages, *DROPPED)).encode()).hexdigest()[:12]
        target = cache_folder() / "images" / f"system-{digest}.tar"
        if not target.exists():
            root, done = scratch / "system", scratch / "system.tar"
            debootstrap(self.suite, self.packages, root)
            for name in DROPPED:
                shutil.rmtree(root / name, ignore_errors=True)
            with tarfile.open(done, "w", format=tarfile.GNU_FORMAT) as tar:
                archive.add_tree(tar, root)
            done.rename(target)
        return target


def _touched(path: Path, entry: tarfile.TarInfo) -> bool:
    """Whether what was unpacked of a system is no longer what its archive has; a folder may have got more entries."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return True
    if entry.issym():
        return not path.is_symlink() or os.readlink(path) != entry.linkname
    same = stat.S_ISDIR(now.st_mode) if entry.isdir() else stat.S_ISREG(now.st_mode) and now.st_mtime == entry.mtime
    return not same or stat.S_IMODE(now.st_mode) != entry.mode


def images() -> dict[str, DebianImage]:
    """The images of this kind by short name."""
    postgresql = archive.Image(
        "berth.local/postgresql:15",
        entrypoint=("/usr/local/bin/berth-postgres",),
        environment={"PATH": "/usr/lib/postgresql/15/bin:/usr/bin:/bin", "PGDATA": "/data/pgdata", "LANG": "C.UTF-8"},
        user="postgres",
    )
    berth = archive.Image(
        "berth.local/berth:dev",
        entrypoint=("/usr/bin/python3",),
        environment={"LANG": "C.UTF-8", "PYTHONPATH": f"/{DAEMONS}"},
        user="65532:65532",
    )
    places = archive.Image(
        "berth.local/berth-scheduler:dev",
        entrypoint=("/usr/bin/python3", "-m", "berth_scheduler"),
        environment={"LANG": "C.UTF-8", "PYTHONPATH": f"/{scheduler.FOLDER}"},
        user="65532:65532",
    )
    disks = ("e2fsprogs", "xfsprogs", "util-linux", "mount", "udev", "smartmontools")
    packages = ("python3", *disks)
    # Daemons and scheduler are on one system, and where one of them is the other mostly comes too.
    return {
        "postgresql": DebianImage(postgresql, "bookworm", ("postgresql-15",), POSTGRES.encode, _postgresql),
        "berth": DebianImage(berth, "bookworm", packages, daemons_archive, _daemons, apart=True),
        # The agent's system as it is: one of its own would be made by another minute of debootstrap.
        "scheduler": DebianImage(places, "bookworm", packages, scheduler.packed, scheduler.unpack, apart=True),
    }


def _daemons(root: Path, zipapp: bytes) -> None:
    """Unpacked and compiled: /opt/berth/agent is what the DaemonSet runs, and where the Deployment's package is."""
    folder = root / DAEMONS
    with tempfile.TemporaryFile() as file:
        file.write(zipapp)
        with zipfile.ZipFile(file) as packed:
            packed.extractall(folder)  # noqa: S202 - made here
    # By hash: the archive has no times, and files that are compiled for another time are not used.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder, quiet=2, stripdir=str(root), invalidation_mode=mode)


def daemons_archive() -> bytes:
    """The agent's zipapp and, beside what all stand on, two more daemons' packages and the library of their metrics."""
    found = importlib.util.find_spec("prometheus_client")
    if found is None or found.origin is None:
        raise BuildError("prometheus-client is not installed: the image takes it from this environment")
    content = io.BytesIO(agent_archive())
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as packed:
        daemons = [PROJECT / "src" / name for name in ("berth_controller", "berth_tasks")]
        for package in (*daemons, Path(found.origin).parent):
            for path in sorted(package.rglob("*.py")):
                # A fixed time: the same sources give the same image.
                name = zipfile.ZipInfo(str(path.relative_to(package.parent)), (1980, 1, 1, 0, 0, 0))
                packed.writestr(name, path.read_bytes())
    return content.getvalue()


def agent_archive() -> bytes:
    """The agent's zipapp, built from the sources beside this. BuildError where that fails."""
    tool = PROJECT / "tools/zipapp.py"
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "berth-agent.pyz")
        done = subprocess.run([sys.executable, str(tool), str(target)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"the agent cannot be built by {tool}: {done.stderr.strip()[-500:]}")
        return target.read_bytes()


POSTGRES = """\
#!/bin/sh
# Make a database in $PGDATA the first time, then run the server in the foreground.
set -eu
[ -s "$PGDATA/PG_VERSION" ] || initdb --username=postgres --auth-local=trust --auth-host=scram-sha-256 >&2
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
"""


def _postgresql(root: Path, start: bytes) -> None:
    """The start script; Debian's own cluster, which its package makes at once, goes."""
    script = root / "usr/local/bin/berth-postgres"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_bytes(start)
    script.chmod(0o755)
    shutil.rmtree(root / "var/lib/postgresql/15", ignore_errors=True)


def mirror() -> str:
    """The package archive that this machine uses: the first in /etc/apt."""
    for file in sorted(Path("/etc/apt").rglob("*.list")) + sorted(Path("/etc/apt").rglob("*.sources")):
        found = re.search(r"^(?:deb\s+(?:\[[^]]*\]\s*)?|URIs:\s*)(\S+)", file.read_text(), re.MULTILINE)
        if found:
            return found[1]
    raise BuildError("no package archive is named below /etc/apt: the image is made from this machine's own archive")


def debootstrap(suite: str, packages: tuple[str, ...], root: Path) -> None:
    """Make the system in `root`. BuildError with the last that debootstrap said."""
    program = shutil.which("debootstrap", path="/usr/sbin:/usr/bin")
    if program is None:
        raise BuildError("program debootstrap is missing on this machine: apt-get install -y debootstrap")
    argv = [program, "--variant=minbase", f"--include={','.join(packages)}", suite, str(root), mirror()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise BuildError(f"debootstrap of {suite} with {', '.join(packages)} failed: {tail}")
