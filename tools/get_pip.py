"""Stands where ansible-test expects a downloaded get-pip script. Same command line; all comes from the package index.

Copied by `make sanity` into the cache of ansible-test when that has none of its own; ansible-test then runs it with
the interpreter of each environment that it makes.
"""

from __future__ import annotations

import subprocess
import sys

# Options of the original that pip itself does not know.
OWN_OPTIONS = ("--no-setuptools", "--no-wheel")


def main() -> int:
    # In a process of its own: ensurepip switches pip's configuration files off for the process that it runs in.
    subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"], stdout=subprocess.DEVNULL)
    wanted = [argument for argument in sys.argv[1:] if argument not in OWN_OPTIONS]
    return subprocess.call([sys.executable, "-m", "pip", "install", "--upgrade", *wanted])


if __name__ == "__main__":
    sys.exit(main())
