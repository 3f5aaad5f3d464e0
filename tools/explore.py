"""Property tests with new examples, round after round, until the time is over: `make explore MINUTES=30`.

Each round runs every test that Hypothesis feeds, with a seed of its own, so that tests with a fixed number of examples
see new ones too, and tests/daemons/scheduler/test_strange_objects.py throws other objects at a cluster. It stops at the
first failure, whose report shows the smallest example and how to repeat it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="how long rounds are begun")
    parser.add_argument("--seed", type=int, help="one round with this seed: what a failed round printed")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files and folders; all if none")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    rounds = 0
    while rounds == 0 or (options.seed is None and time.monotonic() < until):
        seed = secrets.randbelow(2**32) if options.seed is None else options.seed
        rounds += 1
        print(f"round {rounds}: --seed {seed}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis", f"--hypothesis-seed={seed}"]
        environment = {**os.environ, "BERTH_HYPOTHESIS": "explore"}
        status = subprocess.call([*command, *options.tests], env=environment, stdin=subprocess.DEVNULL)
        if status:
            print(f"repeat it: {sys.executable} tools/explore.py --seed {seed}", flush=True)
            return status
    print(f"{rounds} rounds, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
