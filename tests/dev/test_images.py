"""Images are made on this machine, without a registry, and run on the hosts."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from berth_dev import build, images
from berth_dev.cluster import Cluster
from berth_dev.errors import BuildError
from berth_dev.images import archive, cached, catalog, debian

from .hosts_help import apply, eventually, logs, pod, running, ssh


def test_the_default_set_is_made_once(tmp_path: Path, monkeypatch: Any) -> None:
    programs = build.ensure_binaries()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = images.default_set(programs)
    names = sorted(path.name.split("-")[0] for path in folder.iterdir())
    assert names == ["busybox", "pause"]
    files = {path: path.stat().st_ino for path in folder.iterdir()}
    assert images.default_set(programs) == folder
    assert {path: path.stat().st_ino for path in folder.iterdir()} == files
    assert not [path for path in (tmp_path / "berth-dev/images").iterdir() if path.name.startswith((".making", ".set"))]


def test_an_archive_holds_what_its_configuration_says(tmp_path: Path) -> None:
    with tarfile.open(images.ensure("busybox", build.ensure_binaries())) as tar:
        (entry,) = json.load(tar.extractfile("manifest.json") or io.BytesIO())
        assert entry["RepoTags"] == ["berth.local/busybox:1"]
        with tarfile.open(fileobj=tar.extractfile(entry["Layers"][0])) as layer:
            assert layer.getmember("bin/sh").linkname == "busybox"
            assert layer.getmember("bin/busybox").mode & 0o111


def test_images_of_one_system_have_it_as_a_layer_of_its_own(tmp_path: Path, monkeypatch: Any) -> None:
    """A host that has one of them unpacks no more of another than what differs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def system(_suite: str, _packages: Sequence[str], root: Path) -> None:
        # As debootstrap, which takes a minute.
        (root / "bin").mkdir(parents=True)
        (root / "bin/sh").write_text("system")
        (root / "sbin").symlink_to("bin")
        (root / "opt").mkdir()

    def make(name: str, finish: Callable[[Path, bytes], Any]) -> tuple[list[str], list[list[str]]]:
        """Digests and names of the layers."""
        image = debian.DebianImage(archive.Image(f"berth.local/{name}:1"), "x", (), name.encode, finish, apart=True)
        made = catalog.ensure_recipe(name, catalog.Recipe(image.image, image.key, image.fill, image.below))
        with tarfile.open(made) as whole:
            (entry,) = json.load(whole.extractfile("manifest.json") or io.BytesIO())
            config = json.load(whole.extractfile(entry["Config"]) or io.BytesIO())
            names = []
            for layer in entry["Layers"]:
                with tarfile.open(fileobj=whole.extractfile(layer)) as tree:
                    names.append(tree.getnames())
        assert [f"sha256:{layer.partition('/')[0]}" for layer in entry["Layers"]] == config["rootfs"]["diff_ids"]
        return entry["Layers"], names

    monkeypatch.setattr(debian, "debootstrap", system)
    one, ours = make("one", lambda root, said: (root / "opt/ours").write_bytes(said))
    other, theirs = make("other", lambda root, said: (root / "opt/theirs").write_bytes(said))
    assert ours == [["bin", "opt", "sbin", "bin/sh"], ["opt/ours"]]
    assert theirs == [ours[0], ["opt/theirs"]]
    assert one[0] == other[0]
    assert one[1] != other[1]

    def link(root: Path, _said: bytes) -> None:
        (root / "sbin").unlink()
        (root / "sbin").symlink_to("usr/sbin")

    for touched, finish in (
        ("bin/sh", lambda root, _said: (root / "bin/sh").unlink()),
        ("bin/sh", lambda root, _said: (root / "bin/sh").write_text("ours")),
        ("bin/sh", lambda root, _said: (root / "bin/sh").chmod(0o700)),
        ("opt", lambda root, _said: (root / "opt").chmod(0o700)),
        ("sbin", link),
    ):
        with pytest.raises(BuildError, match=f"bad:1: its system was to stay as it is; changed: {touched}$"):
            make("bad", finish)


def test_of_each_image_the_last_archives_stay(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "berth-dev/images"
    folder.mkdir(parents=True)
    a_day_ago = time.time() - 86400
    for name in ("x-1", "x-2", "x-3", "x-4", "x-y-1", "system-1"):
        (folder / f"{name}.tar").touch()
        os.utime(folder / f"{name}.tar", (a_day_ago, a_day_ago + int(name[-1])))

    def fill(layer: tarfile.TarFile, _scratch: Path) -> None:
        archive.add_folder(layer, "new")

    made = catalog.ensure_recipe("x", catalog.Recipe(archive.Image("berth.local/x:1"), lambda: b"", fill))
    left = {path.name for path in folder.glob("*.tar")}
    assert left == {made.name, "x-3.tar", "x-4.tar", "x-y-1.tar", "system-1.tar"}
    assert (cached.used(made), cached.used(folder / "x-1.tar")) == (True, False), "who wants that one makes it anew"


def test_what_was_used_a_short_time_ago_stays() -> None:
    last_use = {Path(f"x-{number}.tar"): 1000.0 + number for number in range(5)}
    assert cached.superfluous(last_use, 1000.0 + cached.IN_USE) == set()
    assert cached.superfluous(last_use, 1001.5 + cached.IN_USE) == {Path("x-0.tar"), Path("x-1.tar")}


def test_an_unknown_image_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(BuildError, match=r"image 'redis': expected one of pause, busybox, postgresql, berth"):
        images.ensure("redis", build.ensure_binaries())


def test_a_failed_making_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(layer: tarfile.TarFile, scratch: Path) -> None:
        (scratch / "half").write_text("half")
        raise BuildError("the package archive does not answer")

    recipe = catalog.Recipe(archive.Image("berth.local/x:1"), lambda: b"", fail)
    monkeypatch.setattr(catalog, "recipes", lambda bin_dir: {"x": recipe})
    with pytest.raises(BuildError, match="does not answer"):
        images.ensure("x", tmp_path)
    assert [path.name for path in (tmp_path / "berth-dev/images").iterdir()] == [".lock"]


def test_the_package_archive_is_the_machine_s_own() -> None:
    assert debian.mirror().startswith("http")


@pytest.mark.slow
def test_postgresql_runs_and_keeps_its_rows(dev_cluster: Cluster) -> None:
    dev_cluster.hosts.load_image("postgresql")
    ssh(dev_cluster, "h1", "mkdir -p /var/lib/berth/pg && chmod 777 /var/lib/berth/pg")
    volumes = [{"name": "data", "hostPath": {"path": "/var/lib/berth/pg"}}]

    def database(name: str) -> dict[str, Any]:
        body = pod(name, "h1", "", volumes=volumes, mounts=[{"name": "data", "mountPath": "/data"}])
        container = body["spec"]["containers"][0]
        container["image"] = "berth.local/postgresql:15"
        del container["command"]
        return body

    def sql(name: str, text: str) -> str:
        argv = ("exec", name, "--", "psql", "-h", "/tmp", "-U", "postgres", "-Atc", text)
        return str(eventually(lambda: dev_cluster.kubectl(*argv), 30, text)).strip()

    apply(dev_cluster, database("pg-1"))
    running(dev_cluster, "pg-1")
    eventually(lambda: "ready to accept connections" in logs(dev_cluster, "pg-1"), 30, "the database is up")
    assert sql("pg-1", "create table t as select 42 as x") == "SELECT 1"
    dev_cluster.kubectl("delete", "pod", "pg-1", "--grace-period=5", "--wait=true")
    apply(dev_cluster, database("pg-2"))
    running(dev_cluster, "pg-2")
    assert sql("pg-2", "select x from t") == "42"
    dev_cluster.kubectl("delete", "pod", "pg-2", "--wait=true")
