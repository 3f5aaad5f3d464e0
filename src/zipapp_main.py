"""The first file that Python runs in build/berth-agent.pyz (tools/zipapp.py puts me there as __main__.py).

A service manager that gives us a cache (CACHE_DIRECTORY, systemd's CacheDirectory=) gets the modules unpacked and
compiled there, once for each version: that saves a second at each start, and 4 MB for as long as the agent runs.
"""

from __future__ import annotations

import os
import sys

ARCHIVE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    """Become the agent."""
    if sys.version_info < (3, 9):  # noqa: UP036 - said to those who have an older one
        sys.exit(f"berth-agent needs Python 3.9 or newer, and this is {sys.version.split()[0]}")
    # only the pure-Python files of multidict are here
    os.environ.setdefault("MULTIDICT_NO_EXTENSIONS", "1")
    cache = os.environ.get("CACHE_DIRECTORY", "")
    if cache and os.path.isfile(ARCHIVE) and sys.argv[1:2] == ["run"]:
        try:
            folder = unpacked(cache.split(":")[0])
        except OSError as exc:
            sys.stderr.write(f"berth-agent: nothing is unpacked in {cache}: {exc}\n")
        else:
            os.execv(sys.executable, [sys.executable, "-I", folder, *sys.argv[1:]])  # noqa: S606 - ourselves
    from berth_agent.__main__ import main as agent

    sys.exit(agent())


def unpacked(cache: str) -> str:
    """The folder with this archive's modules, complete: made beside its place and then renamed."""
    import compileall
    import hashlib
    import shutil
    import tempfile
    import zipfile

    with open(ARCHIVE, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    folder = os.path.join(cache, f"{digest}-{sys.implementation.cache_tag}")
    if os.path.isdir(folder):
        return folder
    for name in os.listdir(cache):  # of older versions, and of starts that were killed
        shutil.rmtree(os.path.join(cache, name), ignore_errors=True)
    scratch = tempfile.mkdtemp(dir=cache)
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(scratch)
    compileall.compile_dir(scratch, quiet=2)
    os.rename(scratch, folder)
    return folder


if __name__ == "__main__":
    main()
