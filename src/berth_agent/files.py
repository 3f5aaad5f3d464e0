"""Files of the agent on its host that are replaced whole."""

from __future__ import annotations

import contextlib
import os


def write_atomically(path: str, text: str, mode: int) -> None:
    """The whole text or what was there before, also after a crash. Of one writer: the host's one agent."""
    folder, name = os.path.split(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.new")
    with contextlib.suppress(FileNotFoundError):  # of an agent that was killed in here
        os.unlink(temporary)
    # tempfile, with what it imports, is half a megabyte of an agent that writes a file now and then
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
