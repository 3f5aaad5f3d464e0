"""Agent and scheduler as one file: the same bytes from the same sources, for every Python that is supported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import zipapp

PYTHONS = [shutil.which(f"python3.{minor}") for minor in range(9, 15)]


@pytest.fixture(scope="module")
def agent() -> Path:
    """Where `make agent` puts it: made from the same sources, it lies there already."""
    return zipapp.build()


def run(python: str, agent: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", **environment}
    command = [python, "-I", "-W", "error", str(agent), *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def works(python: str) -> bool:
    """A shim may be there for a Python that is not."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    entries = [("b.py", b"2"), ("a.py", b"1")]
    one, two = tmp_path / "one.pyz", tmp_path / "two.pyz"
    zipapp.write(one, dict(entries))
    zipapp.write(two, dict(reversed(entries)))
    assert one.read_bytes() == two.read_bytes()


def test_what_is_made_from_the_same_already_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    real = zipapp.write

    def write(target: Path, entries: dict[str, bytes]) -> None:
        written.append(target)
        real(target, entries)

    monkeypatch.setattr(zipapp, "write", write)
    target, record = tmp_path / "agent.pyz", tmp_path / ".agent.pyz.made"
    first = zipapp.build(target, zipapp.TARGET.parent).read_bytes()
    zipapp.build(target, zipapp.TARGET.parent)
    assert len(written) == 1

    # Whatever is not as it was is made: the file changed, cut off or gone, its record unreadable or gone.
    for spoil in (
        lambda: target.write_bytes(first[:-1] + b"?"),
        lambda: target.write_bytes(first[:1000]),
        target.unlink,
        lambda: record.write_bytes(b"\xff"),
        record.unlink,
    ):
        spoil()
        before = len(written)
        assert zipapp.build(target, zipapp.TARGET.parent).read_bytes() == first
        assert len(written) == before + 1

    # Other sources, and another daemon at the same place.
    monkeypatch.setattr(zipapp, "ours", lambda daemon: iter([("__main__.py", b"other")]))
    assert zipapp.build(target, zipapp.TARGET.parent).read_bytes() != first
    assert sorted(path.name for path in tmp_path.iterdir()) == [".agent.pyz.made", "agent.pyz"]


def test_every_python_that_is_here_runs_it(agent: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("node: h1\ndevice_classes: [{name: gpu, source: nvml}]\n")
    bad.write_text("node: h1\nnodes: h2\n")
    for python in {sys.executable, *(each for each in PYTHONS if each and works(each))}:
        assert run(python, agent, "check-config", str(good)).returncode == 0, python
        refused = run(python, agent, "check-config", str(bad))
        assert (refused.returncode, refused.stderr.splitlines()[0].startswith(f"{bad}:2: nodes is not known")) == (
            2,
            True,
        )
        assert "--kubeconfig" in run(python, agent, "run", "--help").stdout


@pytest.fixture(scope="module")
def without_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without pip, as that of Ansible is where a distribution's package or uv has installed it."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def build_with(python: Path, folder: Path, path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), str(zipapp.ROOT / "tools" / "zipapp.py"), str(folder / "agent.pyz"), str(folder / "cache")]
    env = {"PATH": path, "HOME": str(folder), **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_without_pip_it_says_what_to_do(without_pip: Path, tmp_path: Path) -> None:
    refused = build_with(without_pip, tmp_path, str(tmp_path))
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    for words in (f"neither {without_pip} nor the system has pip", "python3-pip", "node_agent_zipapp"):
        assert words in refused.stderr
    assert not (tmp_path / "agent.pyz").exists()


def test_the_systems_pip_does_where_ansible_s_own_python_has_none(without_pip: Path, tmp_path: Path) -> None:
    """It is found, and asked; what it answers without an index is told, and nothing is left half-made."""
    path = str(Path(sys.executable).parent)
    refused = build_with(without_pip, tmp_path, path, PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null")
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    for words in ("No matching distribution found", "pip could not fetch", "node_agent_zipapp"):
        assert words in refused.stderr
    assert list((tmp_path / "cache").iterdir()) == []


def test_with_a_cache_it_is_unpacked_once_and_older_versions_go(agent: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "older").mkdir(parents=True)
    for _each in range(2):
        assert "--kubeconfig" in run(sys.executable, agent, "run", "--help", CACHE_DIRECTORY=str(cache)).stdout
    (folder,) = cache.iterdir()
    assert list((folder / "berth_agent" / "__pycache__").glob("agent.*.pyc"))
    missing = run(sys.executable, agent, "run", "--help", CACHE_DIRECTORY=str(tmp_path / "none"))
    assert "--kubeconfig" in missing.stdout  # it runs all the same, and says why not from there
    assert "nothing is unpacked" in missing.stderr


@pytest.fixture(scope="module")
def scheduler() -> Path:
    """For this Python and processor; packing numpy takes longer than all that is asked of it."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    target = zipapp.TARGET.with_name("berth-scheduler.pyz")
    return zipapp.build(target, daemon=zipapp.scheduler(python, os.uname().machine))


#: argv: archive, cache. Unpacks, and notes at the rename which of the files were not synced before.
UNSYNCED = """
import os, runpy, sys
archive, cache = sys.argv[1:]
sync, move, synced, left = os.fsync, os.rename, set(), []

def fsync(descriptor):
    sync(descriptor)
    synced.add(os.fstat(descriptor).st_ino)

def rename(source, target):
    for parent, folders, names in os.walk(source):
        paths = [parent, *(os.path.join(parent, name) for name in names)]
        left.extend(path for path in paths if os.stat(path).st_ino not in synced)
    move(source, target)

os.fsync, os.rename = fsync, rename
folder = runpy.run_path(archive, run_name="looked at")["unpacked"](cache)
print(sum(len(names) for _parent, _folders, names in os.walk(folder)), left)
"""


def test_all_of_the_cache_is_on_the_disk_before_it_has_its_name(agent: Path, tmp_path: Path) -> None:
    """A name without the content is what a power cut may leave else, and each later start would take it."""
    argv = [sys.executable, "-I", "-c", UNSYNCED, str(agent), str(tmp_path)]
    count, left = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split(maxsplit=1)
    assert (int(count) > 100, left.strip()) == (True, "[]")


def test_the_scheduler_brings_what_is_compiled_and_unpacks_itself(scheduler: Path, tmp_path: Path) -> None:
    # Without a cache it leaves nothing behind.
    shown = run(sys.executable, scheduler, "run", "--help", TMPDIR=str(tmp_path))
    assert (shown.returncode, "--renew-token" in shown.stdout, list(tmp_path.iterdir())) == (0, True, [])
    wrong = run(sys.executable, scheduler, "run", "--port", "x", CACHE_DIRECTORY=str(tmp_path))
    assert (wrong.returncode, "--port (or BERTH_SCHEDULER_PORT)" in wrong.stderr) == (2, True)
    (folder,) = tmp_path.iterdir()
    # From there alone: nothing of this environment is seen.
    told = "import sys; sys.path[:0] = sys.argv[1:]; import numpy, uvloop, httptools, msgspec; print(numpy.__file__)"
    command = [sys.executable, "-I", "-S", "-c", told, str(folder)]
    loaded = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert loaded.stdout.startswith(str(folder)), loaded.stderr


def test_a_scheduler_for_another_python_says_so(tmp_path: Path) -> None:
    """Before it takes anything else of its archive, so there is nothing else in this one."""
    other = tmp_path / "other.pyz"
    zipapp.write(other, {"__main__.py": zipapp.MAIN.read_bytes(), "MADE_FOR": b"Python 3.99 on s390x"})
    refused = run(sys.executable, other, "run", "--help")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is made for Python 3.99 on s390x, and this is Python 3." in refused.stderr


def test_what_no_wheel_is_pinned_for_is_not_built(tmp_path: Path) -> None:
    asked = ["--scheduler", "3.9,s390x", str(tmp_path / "s.pyz"), str(tmp_path)]
    command = [sys.executable, str(zipapp.ROOT / "tools/zipapp.py"), *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "Traceback" in done.stderr, list(tmp_path.iterdir())) == (1, False, [])
    assert "the scheduler is not built: pip could not fetch" in done.stderr
    assert "for Python 3.9 on s390x" in done.stderr
