"""Runs one stateful_app operation in a process of its own, so that a test can kill it at any write or break its writes.

usage: runner.py PARAMS_JSON; environment:
RUN_KILL_AT=N, RUN_KILL_WHEN=before|after, RUN_CONFLICT=1, RUN_CHECK=1, RUN_HOLD=FILE
Prints the result as JSON. The faults are at the wire: the real operation talks to the real API server.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / ".venv" / "collections"))

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator  # noqa: E402

from ansible_collections.berth.stateful.plugins.module_utils._glue import client as client_module  # noqa: E402
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute  # noqa: E402
from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import OPERATION  # noqa: E402
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ConflictError  # noqa: E402

KILL_AT = int(os.environ.get("RUN_KILL_AT", "0"))
BEFORE = os.environ.get("RUN_KILL_WHEN") == "before"
_real_once = client_module.ApiClient._once
_written = 0


def _once(self, verb, method, *arguments):
    """The wire, with the fault that was asked for."""
    global _written
    if method == "GET":
        return _real_once(self, verb, method, *arguments)
    _written += 1
    if os.environ.get("RUN_CONFLICT"):
        raise ConflictError("somebody else wrote first", 409, "Conflict")
    if _written == KILL_AT and BEFORE:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = _real_once(self, verb, method, *arguments)
    if _written == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def main() -> None:
    client_module.ApiClient._once = _once
    checked = ArgumentSpecValidator(OPERATION.argument_spec(), **OPERATION.rules()).validate(json.loads(sys.argv[1]))
    if checked.error_messages:
        sys.exit("; ".join(checked.error_messages))
    hold = os.environ.get("RUN_HOLD")
    if hold:  # all runners of a race start at one moment
        print("ready", file=sys.stderr, flush=True)
        while not Path(hold).exists():
            time.sleep(0.005)
    context = Context(checked.validated_parameters, bool(os.environ.get("RUN_CHECK")), lambda text: None)
    result = execute(OPERATION, context)
    print(json.dumps({**result, "writes": _written}))


if __name__ == "__main__":
    main()
