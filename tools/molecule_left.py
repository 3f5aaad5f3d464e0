"""Exit status 0 where an earlier run of molecule has left something: its cluster, or its word that there is one.

    python3 tools/molecule_left.py && molecule destroy

A run that was killed leaves them. To find neither takes molecule itself more than two seconds of a processor, in each
of its stages.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import sys


def cluster(checkout: str) -> pathlib.Path:
    """The folder of the scenarios' cluster, named as in extensions/molecule/config.yml."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return pathlib.Path(base, "berth-dev", f"molecule-{hashlib.sha256(checkout.encode()).hexdigest()[:8]}")


def said_created() -> bool:
    """Of any checkout: molecule's folders bear a name that only molecule can compute. Too much costs a `destroy`."""
    home = os.environ.get("ANSIBLE_HOME") or os.path.join(os.path.expanduser("~"), ".ansible")
    states = pathlib.Path(home, "tmp").glob("molecule.*/state.yml")
    return any("\ncreated: true\n" in state.read_text(encoding="utf-8") for state in states)


if __name__ == "__main__":
    sys.exit(0 if cluster(os.getcwd()).exists() or said_created() else 1)
