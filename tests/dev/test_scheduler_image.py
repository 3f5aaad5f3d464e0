"""What goes into the scheduler's image, without making it; tests/integration/test_scheduler.py runs it."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import pytest

from berth_dev.errors import BuildError
from berth_dev.images import scheduler

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
