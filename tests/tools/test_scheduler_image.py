"""What goes into the scheduler's image, without making it; tests/integration/scheduler/test_scheduler.py runs it."""

from __future__ import annotations

import io
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from berth_dev.errors import BuildError
from berth_dev.images import scheduler

ROOT = Path(__file__).resolve().parents[2]
OURS = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def test_the_same_sources_and_libraries_give_the_same_bytes() -> None:
    packed = scheduler.packed()
    assert packed == scheduler.packed()
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert {"berth_scheduler/__main__.py", "berth_core/errors.py", "berth_kube/client.py", "numpy/__init__.py"} <= set(
        names
    )
    assert [name for name in names if name.startswith("numpy/_core/_multiarray_umath.")]
    assert [name for name in names if "LICENSE" in name]
    assert not [name for name in names if "/tests/" in name or name.startswith(("berth_agent", "/", ".."))]


def test_libraries_of_another_python_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match=f"the image has no Python, and the libraries of this environment are for {OURS}"
    ):
        scheduler.unpack(tmp_path, b"")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3.1").touch()
    with pytest.raises(BuildError, match=r"the image has python3\.1, and"):
        scheduler.unpack(tmp_path, b"")


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "DISTRIBUTIONS", ("no-such-library",))
    with pytest.raises(BuildError, match="no-such-library is not installed"):
        scheduler.packed()


def test_the_containerfile_makes_the_same_contents_of_what_is_there() -> None:
    text = (ROOT / "deploy/Containerfile").read_text()
    copied = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = re.search(r"'\.\[(.*)\]'", text)
    assert asked is not None
    # Of the task backend, which this image does not have.
    extras = [project["optional-dependencies"][name] for name in asked[1].split(",") if name != "postgresql"]
    wanted = {re.split(r"[<>=]", one)[0] for listed in [project["dependencies"], *extras] for one in listed}
    assert wanted == set(scheduler.DISTRIBUTIONS)
