"""A process that has imported Ansible and the collection, and forks for each `ansible-playbook` that a test runs.

Importing takes most of the CPU time of a playbook with one task. What runs is Ansible's own command in a process of its
own, with the environment, folder, arguments and output that the test gives; only the imports are shared. Ansible reads
its settings while it is imported, so there is one such process for each environment that differs in more than what
modules look at (`GIVEN`). molecule, the tarball's tests and the pages' commands start the real program.

    python -m tests.support.prepared_ansible       the server; standard input is its socket, at whose end it ends
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

#: What a run's environment may have of its own: nothing of it is read while Ansible is imported.
GIVEN = ("K8S_AUTH_", "KUBE", "BERTH_", "PYTEST_CURRENT_TEST")
COLLECTION = "ansible_collections.berth.stateful.plugins"


class Server:
    """One process for an environment. It ends with the process that started it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.prepared_ansible"],
                cwd=Path(__file__).parents[2],
                env=environment,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self._stop)

    def run(
        self, arguments: list[str], environment: Mapping[str, str], folder: Path, timeout: float
    ) -> tuple[int, str]:
        """The exit status and the output. Raises subprocess.TimeoutExpired, after its process was killed."""
        mine, theirs = socket.socketpair()
        with mine, tempfile.TemporaryFile() as output:
            with theirs, self._lock:
                socket.send_fds(self._socket, [b"x"], [theirs.fileno(), output.fileno()])
            request = {"arguments": arguments, "environment": dict(environment), "folder": str(folder)}
            status = _ask(mine, request, timeout)
            output.seek(0)
            text = output.read().decode(errors="replace")
        if status is None:
            raise subprocess.TimeoutExpired(arguments, timeout, text)
        return status, text

    def _stop(self) -> None:
        self._socket.close()
        self._process.wait(30)


#: By the fixed part of the environment. None: one playbook has been run in it, and a second may never come.
_servers: dict[frozenset[tuple[str, str]], Server | None] = {}
_starting = threading.Lock()


def server(environment: Mapping[str, str]) -> Server | None:
    """The server for an environment. None at the first request; the second for the same environment starts it."""
    fixed = {key: value for key, value in environment.items() if not key.startswith(GIVEN)}
    kind = frozenset(fixed.items())
    with _starting:
        if kind not in _servers:
            _servers[kind] = None
        elif _servers[kind] is None:
            _servers[kind] = Server(fixed)
        return _servers[kind]


def _ask(connection: socket.socket, request: dict[str, Any], timeout: float) -> int | None:
    """The exit status; None: it was killed because the time was over."""
    connection.sendall(json.dumps(request).encode() + b"\n")
    answers = connection.makefile("r")
    process = _number(answers.readline())
    connection.settimeout(timeout)
    try:
        return _number(answers.readline())
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        return None


def _number(answer: str) -> int:
    if not answer:
        raise RuntimeError("the process that prepares Ansible has died: see its messages in the test's output")
    return int(answer)


# -- the server -----------------------------------------------------------------------------------------------------


def prepare(modules: Iterable[str]) -> None:
    """Import Ansible's command and these modules of the collection."""
    importlib.import_module("ansible.cli.playbook")
    for name in ("strategy.linear", "connection.local", "connection.ssh", "shell.sh", "callback.default"):
        importlib.import_module(f"ansible.plugins.{name}")
    from ansible import constants
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

    _AnsibleCollectionFinder(paths=constants.COLLECTIONS_PATHS)._install()
    for name in modules:
        importlib.import_module(f"{COLLECTION}.{name}")
    _AnsibleCollectionFinder._remove()  # each run installs its own


def serve() -> None:
    """Fork for each request until the socket ends."""
    control = socket.socket(fileno=os.dup(0))
    folder = Path(os.environ["ANSIBLE_COLLECTIONS_PATH"]) / COLLECTION.replace(".", "/") / "action"
    prepare(f"action.{file.stem}" for file in sorted(folder.glob("[!_]*.py")))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        data, descriptors, _flags, _address = socket.recv_fds(control, 1, 2)
        if not data:
            return
        if os.fork() == 0:
            control.close()
            _watch(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(answers: int, output: int) -> NoReturn:
    """Run it in a process of its own, and tell how it ended, whatever became of it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=answers) as connection:
        request = json.loads(connection.makefile("r").readline())
        process = os.fork()
        if process == 0:
            connection.close()
            _become(request, output)
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(f"{process}\n".encode())
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], output: int) -> NoReturn:
    """Be `ansible-playbook`. What the server has to clean up at its end is not this process's."""
    atexit._clear()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.closerange(3, max(nothing, output) + 1)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    random.seed()
    status = 250
    with _own_folder():
        try:
            sys.argv = ["ansible-playbook", *request["arguments"]]
            from ansible.cli.playbook import PlaybookCLI

            PlaybookCLI.cli_executor(sys.argv)
        except SystemExit as exc:
            status = int(exc.code or 0)
        # Whatever it is: this fork has to reach os._exit, or it would go on as a second server.
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@contextlib.contextmanager
def _own_folder() -> Any:
    """Ansible's temporary folder, which it makes while it is imported."""
    from ansible import constants

    constants.DEFAULT_LOCAL_TMP = tempfile.mkdtemp(prefix=f"ansible-local-{os.getpid()}")
    try:
        yield
    finally:
        shutil.rmtree(constants.DEFAULT_LOCAL_TMP, ignore_errors=True)


if __name__ == "__main__":
    serve()
