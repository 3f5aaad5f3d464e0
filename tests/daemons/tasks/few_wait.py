"""berth-tasks whose batches let few elements wait: a thousand pods for one test would take a minute."""

from __future__ import annotations

import sys

from berth_core.tasks import progress
from berth_tasks.__main__ import main

FEW = 4

if __name__ == "__main__":
    progress.WINDOW = FEW
    sys.exit(main())
