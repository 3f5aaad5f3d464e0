"""Make or refresh a virtual environment with exactly the pinned packages. `make` calls me; I never touch an environment that is current.

    python3 tools/venv.py .venv requirements-dev.txt [--editable]

Standard library only, and old syntax: the python3 that starts me may be older than the one that I look for.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

# ansible-core 2.19 runs on these; python3 first, so that a machine's own choice wins.
CANDIDATES = ("python3", "python3.13", "python3.12", "python3.11")
OLDEST, NEWEST = (3, 11), (3, 13)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version_of(python):
    """The (major, minor) of an interpreter that can make virtual environments, None where it does not run or cannot."""
    probe = [python, "-c", "import ensurepip, sys; print(*sys.version_info[:2])"]
    try:
        answer = subprocess.run(probe, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return tuple(int(part) for part in answer.stdout.split())


def find_python():
    """The first interpreter in the range that this project is tested with."""
    seen = []
    for name in CANDIDATES:
        version = version_of(name) if shutil.which(name) else None
        seen.append("%s: %s" % (name, version and ".".join(map(str, version)) or "absent or without venv"))
        if version and OLDEST <= version <= NEWEST:
            return name
    sys.exit(
        "no Python %d.%d to %d.%d that can make virtual environments (%s); on Debian and Ubuntu: apt-get install python3-venv"
        % (OLDEST + NEWEST + ("; ".join(seen),))
    )


def fingerprint(paths):
    """One hash over the contents of the files that decide what the environment holds."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as handle:
            digest.update(handle.read() + b"\0")
    return digest.hexdigest()


def link_collection(venv):
    """Make the source tree visible to Ansible as berth.stateful: <venv>/collections is a collections path."""
    parent = os.path.join(venv, "collections", "ansible_collections", "berth")
    link = os.path.join(parent, "stateful")
    os.makedirs(parent, exist_ok=True)
    if os.path.islink(link) and os.path.realpath(link) == ROOT:
        return
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(os.path.relpath(ROOT, os.path.realpath(parent)), link)


def install(venv, requirements, editable):
    """Bring the environment to the pinned versions."""
    python = os.path.join(venv, "bin", "python")
    if version_of(python) is None:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.check_call([find_python(), "-m", "venv", venv])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    subprocess.check_call(pip + ["--requirement", requirements])
    if editable:
        subprocess.check_call(pip + ["--no-build-isolation", "--no-deps", "--editable", ROOT])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("venv")
    parser.add_argument("requirements")
    parser.add_argument("--editable", action="store_true", help="install this project too, and link the collection")
    options = parser.parse_args()
    inputs = [options.requirements, os.path.abspath(__file__)] + ([os.path.join(ROOT, "pyproject.toml")] if options.editable else [])
    # The location is part of it: a moved or copied environment has the old path in its scripts.
    wanted = fingerprint(inputs) + " " + os.path.abspath(options.venv)
    stamp = os.path.join(options.venv, ".stamp")
    current = os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == wanted
    if not (current and version_of(os.path.join(options.venv, "bin", "python"))):
        print("making %s from %s" % (options.venv, options.requirements), flush=True)
        if os.path.exists(stamp):
            os.unlink(stamp)
        install(options.venv, options.requirements, options.editable)
        with open(stamp, "w", encoding="utf-8") as handle:
            handle.write(wanted)
    if options.editable:
        link_collection(options.venv)


if __name__ == "__main__":
    main()
