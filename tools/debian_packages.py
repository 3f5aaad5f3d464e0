"""Install the Debian packages that are listed and missing. Called by `make deps`.

    python3 tools/debian_packages.py tools/debian-packages.txt

With none missing it needs neither root nor network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def listed(path: str) -> list[str]:
    """Package names of a list with `#` comments."""
    with open(path, encoding="utf-8") as handle:
        lines = [line.split("#", 1)[0].strip() for line in handle]
    return [line for line in lines if line]


def missing(names: list[str]) -> list[str]:
    """Those that dpkg does not know as installed."""
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *names]
    known = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
    installed = {line.split()[0] for line in known.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def apt(*arguments: str) -> int:
    """Run apt-get without questions; its exit status."""
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    return subprocess.call(["apt-get", "-q", "-y", *arguments], env=environment, stdin=subprocess.DEVNULL)


def main() -> None:
    if not shutil.which("dpkg-query"):
        sys.exit(f"not a Debian or Ubuntu machine: install by hand what {sys.argv[1]} names")
    wanted = missing(listed(sys.argv[1]))
    if not wanted:
        return
    if os.geteuid() != 0:
        sys.exit(f"missing packages; as root: apt-get install --no-install-recommends {' '.join(wanted)}")
    print(f"installing {' '.join(wanted)}", flush=True)
    command = ["install", "--no-install-recommends", *wanted]
    # The package lists of a fresh machine are empty or stale: only then are they fetched.
    if apt(*command) != 0 and (apt("update") != 0 or apt(*command) != 0):
        sys.exit(f"apt-get could not install {' '.join(wanted)}")


if __name__ == "__main__":
    main()
