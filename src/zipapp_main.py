"""The first file that Python runs in berth-agent.pyz and berth-scheduler.pyz: __main__.py there (tools/zipapp.py).

A service manager that gives the agent a cache (CACHE_DIRECTORY, systemd's CacheDirectory=) gets the modules unpacked
and compiled there, once for each version: that saves a second at each start, and 4 MB for as long as the daemon runs.
The scheduler has compiled modules, which Python takes from no archive: without a cache it is unpacked for the one run.
"""

from __future__ import annotations

import os
import sys

ARCHIVE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    """Become the daemon."""
    if sys.version_info < (3, 9):  # noqa: UP036 - said to those who have an older one
        sys.exit(f"berth needs Python 3.9 or newer, and this is {sys.version.split()[0]}")
    packed = os.path.isfile(ARCHIVE)
    made_for = _made_for() if packed else ""
    # only the pure-Python files of multidict are here
    os.environ.setdefault("MULTIDICT_NO_EXTENSIONS", "1")
    cache = os.environ.get("CACHE_DIRECTORY", "")
    if cache and packed and sys.argv[1:2] == ["run"]:
        try:
            folder = unpacked(cache.split(":")[0])
        except OSError as exc:
            sys.stderr.write(f"{os.path.basename(ARCHIVE)}: nothing is unpacked in {cache}: {exc}\n")
        else:
            os.execv(sys.executable, [sys.executable, "-I", folder, *sys.argv[1:]])  # noqa: S606 - this program itself
    sys.exit(_unpacked_once() if made_for else _daemon())


def _daemon() -> int:
    """The one that is here."""
    if os.path.isfile(ARCHIVE) or os.path.isdir(os.path.join(ARCHIVE, "berth_agent")):
        from berth_agent.__main__ import main as agent

        return agent()
    from berth_scheduler.__main__ import main as scheduler

    return scheduler()


def _made_for() -> str:
    """Of which Python and processor the compiled modules are; empty: there are none. Refuses any other."""
    from zipimport import zipimporter

    try:
        wanted = zipimporter(ARCHIVE).get_data("MADE_FOR").decode()
    except OSError:
        return ""
    here = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {os.uname().machine}"
    if wanted != here:
        sys.exit(f"{ARCHIVE} is made for {wanted}, and this is {here}: build it for that (tools/zipapp.py)")
    return wanted


def _unpacked_once() -> int:
    """Run it from a folder that is gone afterwards; its exit status."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="berth-") as scratch:
        command = [sys.executable, "-I", unpacked(scratch, compiled=False), *sys.argv[1:]]
        return subprocess.run(command, check=False).returncode


def unpacked(cache: str, compiled: bool = True) -> str:
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
    if compiled:
        compileall.compile_dir(scratch, quiet=2)
        _written(scratch)  # it stays: what a power cut leaves of it would be taken for complete
    os.rename(scratch, folder)
    return folder


def _written(folder: str) -> None:
    """All of it is on the disk. Of this folder alone: a sync of everything would wait for disks that are dead."""
    for parent, _folders, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


if __name__ == "__main__":
    main()
