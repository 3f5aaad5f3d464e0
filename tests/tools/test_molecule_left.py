"""What an earlier run of molecule has left is found, so that a run without leftovers need not begin with `destroy`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from berth_dev.state import default_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a past."""
    for name in ("XDG_STATE_HOME", "ANSIBLE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def left() -> bool:
    """What it says of this checkout."""
    done = subprocess.run([sys.executable, "tools/molecule_left.py"], cwd=ROOT, capture_output=True, check=False)
    assert done.stderr == b""
    return done.returncode == 0


def test_nothing(home: Path) -> None:
    assert not left()


def test_a_cluster_by_the_name_that_molecules_configuration_gives_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load((ROOT / "extensions" / "molecule" / "config.yml").read_text(encoding="utf-8"))
    name = config["provisioner"]["inventory"]["host_vars"]["localhost"]["dev_cluster_name"]
    monkeypatch.setenv("MOLECULE_PROJECT_DIRECTORY", str(ROOT))
    folder = default_folder(Templar(DataLoader()).template(trust_as_template(name)))
    folder.mkdir(parents=True)
    assert left()
    folder.rename(folder.with_name("molecule-of-another"))
    assert not left()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    default_folder(folder.name).mkdir(parents=True)
    assert left()


def test_molecules_word_for_it(home: Path) -> None:
    state = home / ".ansible" / "tmp" / "molecule.AbCd" / "state.yml"
    state.parent.mkdir(parents=True)
    state.write_text("# Molecule managed\n\n---\nconverged: false\ncreated: false\ndriver: null\n")
    assert not left()
    state.write_text("# Molecule managed\n\n---\nconverged: false\ncreated: true\ndriver: default\n")
    assert left()
