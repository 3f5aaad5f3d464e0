"""`make deps` installs all that the hosts of the development cluster ask for, and nothing when all is there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from berth_dev.hosts import commands

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tools" / "debian-packages.txt"


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("debian_packages", ROOT / "tools" / "debian_packages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_list_holds_what_hosts_need() -> None:
    # make itself is started by python3
    assert set(commands.PACKAGES.values()) - {"python3"} <= set(tool().listed(str(LIST)))


def test_missing_packages_are_found_and_installed_ones_are_not() -> None:
    assert tool().missing(["dpkg", "no-such-package-as-this"]) == ["no-such-package-as-this"]


def test_nothing_is_done_when_nothing_is_missing(tmp_path: Path) -> None:
    wanted = tmp_path / "list"
    wanted.write_text("dpkg   # always there\n\n# a comment\n")
    command = [sys.executable, str(ROOT / "tools" / "debian_packages.py"), str(wanted)]
    # Without a PATH to apt-get, an attempt to install would fail.
    answer = subprocess.run(command, env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, "")
