"""Writes down which files of the checkout the Python processes of a stage open, so that its inputs can be checked.

tools/venv.py puts this module into the environments, with a .pth file that imports it where BERTH_READS is set:
CHECKOUT/build/reads/STAGE.txt, one path a line, from the checkout. What another program opens is seen where a Python
process starts it with the path as an argument.
"""

from __future__ import annotations

import os
import sys

FILE = os.environ.get("BERTH_READS", "")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(FILE))) + os.sep
#: The collection's folder: the link to the checkout in .venv, a copy of the tree, an installed tarball.
COLLECTION = os.path.join("ansible_collections", "berth", "stateful") + os.sep
#: Programs that copy the whole tree. What is used of the copy is seen when it is opened there.
COPIERS = ("snapshot.py", "ansible-galaxy", "_in_process.py", "tests.support.execution_environment")

_seen: set[str] = set()


def path_in_checkout(path: str) -> str | None:
    """The path from the checkout of a file that was opened; None for one that is not of the checkout."""
    path = os.path.abspath(path)
    if COLLECTION in path:
        path = path.rpartition(COLLECTION)[2]
    elif path.startswith(ROOT):
        path = path[len(ROOT) :]
    else:
        return None
    folder, cached, name = path.rpartition("__pycache__" + os.sep)
    return f"{folder}{name.split('.')[0]}.py" if cached else path


def opened(event: str, arguments: tuple[object, ...]) -> list[str]:
    """The paths that an audit event says are read."""
    if event == "open":
        path, flags = arguments[0], arguments[2]
        writes = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
        return [] if writes or not isinstance(path, (str, bytes)) else [os.fsdecode(path)]
    if event == "cpython.run_file":
        return [str(arguments[0])]
    if event == "subprocess.Popen":
        words = arguments[1] if isinstance(arguments[1], (list, tuple)) else [arguments[1]]
        named = [os.fsdecode(word) for word in words if isinstance(word, (str, bytes, os.PathLike))]
        folder = os.fsdecode(arguments[2]) if isinstance(arguments[2], (str, bytes, os.PathLike)) else "."
        return [os.path.join(folder, word) for word in named if os.sep in word]
    return []


def _write(path: str) -> None:
    """Opened for each line: a daemon that closes all its descriptors must not lose a descriptor of its own to this."""
    descriptor = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, os.fsencode(path) + b"\n")
    finally:
        os.close(descriptor)


def hook(event: str, arguments: tuple[object, ...]) -> None:
    """What sys.addaudithook calls. It never raises: that would end what is being watched."""
    if event not in ("open", "cpython.run_file", "subprocess.Popen"):
        return
    try:
        for path in opened(event, arguments):
            if path not in _seen:
                _seen.add(path)
                name = path_in_checkout(path)
                if name is not None and not name.startswith(("build" + os.sep, ".")):
                    _write(name)
    except Exception:  # noqa: BLE001, S110 a file that cannot be written down must not end the process
        pass


if FILE and not any(word.endswith(COPIERS) for word in sys.orig_argv[:3]):
    sys.addaudithook(hook)
