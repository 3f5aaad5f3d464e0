"""Without numpy everything can be imported, and the first snapshot says in words what is missing."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["numpy"] = None  # as on a host where it was never installed
from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import InputError
from berth_core.plugins.table import DEFAULT_PROFILE
try:
    Snapshot.from_objects()
except InputError as error:
    sys.stdout.write(error.message)
"""


def test_numpy_that_is_missing_is_named():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the Python library numpy (1.22 or newer) is needed")
    assert "pip install numpy" in done.stdout
