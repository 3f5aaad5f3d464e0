"""Make or refresh a virtual environment with exactly the pinned packages; a current one stays untouched.

    python3 tools/venv.py .venv requirements-dev.txt [--editable]

Called by `make`. Standard library and syntax of 3.9: the python3 that starts it may be older than the one needed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

# ansible-core 2.19 runs on these. The distribution's own first: it is built with profile-guided optimization. What
# pyenv compiles is not, and takes a third more CPU time for the same tests.
CANDIDATES = ("/usr/bin/python3", "python3", "python3.13", "python3.12", "python3.11")
OLDEST, NEWEST = (3, 11), (3, 13)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Says which files a stage of `make test` reads; only there, where the variable is set.
READS = os.path.join(ROOT, "tools", "berth_reads.py")
READS_LINE = 'import os; os.environ.get("BERTH_READS") and __import__("berth_reads")\n'


def version_of(python: str) -> tuple[int, ...] | None:
    """The (major, minor) of an interpreter that can make virtual environments, None where it does not run or cannot."""
    probe = [python, "-c", "import ensurepip, sys; print(*sys.version_info[:2])"]
    try:
        answer = subprocess.run(probe, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return tuple(int(part) for part in answer.stdout.split())


def find_python() -> str:
    """The first interpreter in the range that this project is tested with."""
    seen = []
    for name in CANDIDATES:
        version = version_of(name) if shutil.which(name) else None
        seen.append(f"{name}: {'.'.join(map(str, version)) if version else 'absent or without venv'}")
        if version and OLDEST <= version <= NEWEST:
            return name
    sys.exit(
        f"no Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]} that can make virtual environments "
        f"({'; '.join(seen)}); on Debian and Ubuntu: apt-get install python3-venv"
    )


def fingerprint(paths: list[str]) -> str:
    """One hash over the contents of the files that decide what the environment holds."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as handle:
            digest.update(handle.read() + b"\0")
    return digest.hexdigest()


def read(path: str) -> str:
    """The text of a file, empty where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as handle:
        return handle.read()


def link_collection(venv: str) -> None:
    """Make the source tree visible to Ansible as berth.stateful: <venv>/collections is a collections path."""
    parent = os.path.join(venv, "collections", "ansible_collections", "berth")
    link = os.path.join(parent, "stateful")
    os.makedirs(parent, exist_ok=True)
    if os.path.islink(link) and os.path.realpath(link) == ROOT:
        return
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(os.path.relpath(ROOT, os.path.realpath(parent)), link)


def install(venv: str, requirements: str, editable: bool) -> None:
    """Bring the environment to the pinned versions."""
    python = os.path.join(venv, "bin", "python")
    if version_of(python) is None:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.check_call([find_python(), "-m", "venv", venv])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    subprocess.check_call([*pip, "--requirement", requirements])
    watch_reads(python)
    if editable:
        subprocess.check_call([*pip, "--no-build-isolation", "--no-deps", "--editable", ROOT])


def watch_reads(python: str) -> None:
    """Put the module that notes what is opened where every process of the environment imports it at its start."""
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(ask, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    shutil.copy(READS, packages)
    with open(os.path.join(packages, "berth_reads.pth"), "w", encoding="utf-8") as handle:
        handle.write(READS_LINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("venv")
    parser.add_argument("requirements")
    parser.add_argument("--editable", action="store_true", help="install this project too, and link the collection")
    options = parser.parse_args()
    inputs = [options.requirements, os.path.abspath(__file__), READS]
    if options.editable:
        inputs.append(os.path.join(ROOT, "pyproject.toml"))
    # The location is part of it: a moved or copied environment has the old path in its scripts.
    wanted = fingerprint(inputs) + " " + os.path.abspath(options.venv)
    stamp = os.path.join(options.venv, ".stamp")
    current = read(stamp) == wanted
    if not (current and version_of(os.path.join(options.venv, "bin", "python"))):
        print(f"making {options.venv} from {options.requirements}", flush=True)
        if os.path.exists(stamp):
            os.unlink(stamp)
        install(options.venv, options.requirements, options.editable)
        with open(stamp, "w", encoding="utf-8") as handle:
            handle.write(wanted)
    if options.editable:
        link_collection(options.venv)


if __name__ == "__main__":
    main()
