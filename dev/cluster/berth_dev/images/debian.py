# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images made of Debian packages: PostgreSQL, and Python for the project's own programs. `catalog` calls me,
and `qemu` takes debootstrap from me.

debootstrap builds a minimal system with the packages; documentation and package lists are left out. Needs root and the
package archive of the machine's own /etc/apt, and takes a minute: only made when it is asked for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import BuildError
from . import archive

DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists")


@dataclass(frozen=True)
class DebianImage:
    """A Debian system of a `suite` with `packages`. `finish` changes the tree before it is packed."""

    image: archive.Image
    suite: str
    packages: tuple[str, ...]
    finish: Callable[[Path], None]

    def key(self) -> bytes:
        """What asks for a new image when it changes: all that we add, not the packages' versions of the day."""
        return "\0".join((self.suite, *self.packages, *DROPPED, POSTGRES)).encode()

    def fill(self, layer: tarfile.TarFile, scratch: Path) -> None:
        """Build the tree in the scratch folder and pack it."""
        root = scratch / "root"
        debootstrap(self.suite, self.packages, root)
        self.finish(root)
        for name in DROPPED:
            shutil.rmtree(root / name, ignore_errors=True)
        archive.add_tree(layer, root)


def images() -> dict[str, DebianImage]:
    """The images of this kind by short name."""
    postgresql = archive.Image(
        "berth.local/postgresql:15",
        entrypoint=("/usr/local/bin/berth-postgres",),
        environment={"PATH": "/usr/lib/postgresql/15/bin:/usr/bin:/bin", "PGDATA": "/data/pgdata", "LANG": "C.UTF-8"},
        user="postgres",
    )
    berth = archive.Image("berth.local/berth:dev", entrypoint=("/usr/bin/python3",), environment={"LANG": "C.UTF-8"})
    disks = ("e2fsprogs", "xfsprogs", "util-linux", "mount", "udev", "smartmontools")
    return {
        "postgresql": DebianImage(postgresql, "bookworm", ("postgresql-15",), _postgresql),
        "berth": DebianImage(berth, "bookworm", ("python3", "python3-venv", *disks), _as_it_is),
    }


def _as_it_is(root: Path) -> None:
    """Nothing is to be changed."""


POSTGRES = """\
#!/bin/sh
# Make a database in $PGDATA the first time, then run the server in the foreground.
set -eu
[ -s "$PGDATA/PG_VERSION" ] || initdb --username=postgres --auth-local=trust --auth-host=scram-sha-256 >&2
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
"""


def _postgresql(root: Path) -> None:
    """The start script; Debian's own cluster, which its package makes at once, goes."""
    script = root / "usr/local/bin/berth-postgres"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(POSTGRES)
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
