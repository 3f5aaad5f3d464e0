"""Processes that have imported a daemon, and fork for each one that a test starts: importing takes most of what a start
costs, and tests start hundreds.

What runs is the daemon's own `__main__` in a process of its own, with the arguments, the environment and the log that
the test gives; it is signalled and killed as any other. Only the imports are shared. The first daemon of a kind is
started as it is outside of tests.

    python -m tests.daemons.controller.prepared MODULE [IMPORT...]    the server for MODULE, which imports these before;
                                                                      standard input is its socket, at whose end it ends
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.daemons.controller.world import Started

ROOT = Path(__file__).parents[3]
#: A daemon, or what runs in its place and imports it (tests/support/wire.py); others are started anew each time.
DAEMONS, IN_PLACE = ("berth_controller", "berth_scheduler", "berth_tasks"), "tests.support.wire"
#: What is imported when arguments have been read: by the command, or by the daemon that has none.
LATER = {
    "berth_tasks": ("uvloop",),
    "run": ("uvloop", "berth_kube.http1_fast", "berth_kube.json_fast"),
    "extend": ("berth_scheduler.extender.command", "berth_scheduler.simulate"),
}
_LONGEST = 1 << 17


class Forked:
    """A daemon that was forked: what tests of daemons use of subprocess.Popen."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = self._told()
        self.returncode: int | None = None
        self._lock = threading.Lock()  # its end is told once, and may be asked for by several threads

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("the daemon", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._answers], [], [], timeout)[0]:
                self.returncode = self._told()
                self._answers.close()
            return self.returncode

    def _told(self) -> int:
        told = self._answers.recv(_LONGEST)
        assert told, "the process that prepares daemons has died: see its messages in the test's output"
        return int(told)


class Server:
    """One process that has imported a module and others. It ends with the process that started it."""

    def __init__(self, module: str, others: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-m", "tests.daemons.controller.prepared", module, *others]
        with theirs:
            self._process = subprocess.Popen(argv, cwd=ROOT, stdin=theirs, stdout=subprocess.DEVNULL)
        atexit.register(self._stop)

    def start(self, argv: Sequence[str], environment: Mapping[str, str], log: int) -> Forked:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"argv": list(argv), "environment": dict(environment)}).encode()
        with theirs, self._lock:
            socket.send_fds(self._socket, [request], [theirs.fileno(), log])
        return Forked(mine)

    def _stop(self) -> None:
        self._socket.close()
        self._process.wait(30)


#: By what is imported. None: one daemon of the kind was started, and a second may never come.
_servers: dict[tuple[str, ...], Server | None] = {}


def started(argv: Sequence[str], own: Mapping[str, str], log: int) -> Started:
    """As `world.anew`, by a process that has the imports; the first of a kind as that does."""
    from tests.daemons.controller.world import anew  # not in the server, which has no use for it

    kind = _imports(argv, own)
    if kind in _servers:
        server = _servers[kind] or Server(kind[0], kind[1:])
        _servers[kind] = server
        return server.start(argv, {**os.environ, "PYTHONPATH": str(ROOT), **own}, log)
    if kind:
        _servers[kind] = None
    return anew(argv, own, log)


def _imports(argv: Sequence[str], own: Mapping[str, str]) -> tuple[str, ...]:
    """What a server for it imports. Nothing: none is of use, or the environment says where Python finds modules."""
    module = argv[0]
    daemon = own.get("DAEMON", "") if module == IN_PLACE else module
    if daemon not in DAEMONS or "PYTHONPATH" in own:
        return ()
    main = (f"{daemon}.__main__",) if module == IN_PLACE else ()
    return module, *main, *LATER.get(module, ()), *LATER.get(argv[1], ())


# -- the server -----------------------------------------------------------------------------------------------------


def prepare(module: str, *others: str) -> None:
    """Import all of it but what runs as `__main__`, as which each daemon has it anew."""
    for name in others:
        importlib.import_module(name)
    main = f"{module}.__main__" if hasattr(importlib.import_module(module), "__path__") else module
    importlib.import_module(main)
    del sys.modules[main]


def serve() -> dict[str, Any] | None:
    """Fork for each request until the socket ends: the request in a process that is to be a daemon, then None."""
    control = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        data, descriptors, _flags, _address = socket.recv_fds(control, _LONGEST, 2)
        if not data:
            return None
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _watch(*descriptors)
            return dict(json.loads(data))
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(answers: int, log: int) -> None:
    """Return in a process of its own, whose number and end are told. It has the log and nothing else of this one."""
    process = os.fork()
    if process == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, max(nothing, log, answers) + 1)
        return
    os.close(log)
    with socket.socket(fileno=answers) as connection, contextlib.suppress(BrokenPipeError):
        connection.send(str(process).encode())
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        connection.send(str(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status).encode())
        connection.recv(1)  # until that is read nobody else gets its number
    os._exit(0)


def become(request: dict[str, Any]) -> None:
    """Be the daemon, to its end."""
    os.environ.clear()
    os.environ.update(request["environment"])
    random.seed()
    sys.argv = request["argv"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def main() -> None:
    prepare(*sys.argv[1:])
    request = serve()
    if request is not None:
        become(request)


if __name__ == "__main__":
    main()
