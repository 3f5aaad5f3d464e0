"""Manifests in the documentation, as the API server takes them; and inventories, as ansible-inventory reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources
from tests.support import pages
from tests.support.kube import AUTOSCALER
from tests.support.pages import Example
from tests.support.playbook import environment
from tests.support.small_cluster import put

OURS = (kind for kind in vars(resources).values() if isinstance(kind, resources.Resource))
KINDS = {kind.kind: kind for kind in (*OURS, AUTOSCALER)}
#: What the examples change is there before: the disk of docs/guides/disk_life.md, with the identity that it repeats.
THERE = {"n1-9f86d08188": {"serial": "S5H9NS0N986704", "size": 480103981056}}


@pytest.fixture
def disks(api: ApiClient, crds: None) -> Iterator[None]:
    for name, identity in THERE.items():
        put(api, resources.LOCAL_DISK, name, spec={"nodeName": "n1", "identity": identity})
    yield
    for name in THERE:
        api.delete(resources.LOCAL_DISK, name)


@pytest.mark.usefixtures("disks")
@pytest.mark.parametrize("example", pages.of_kind("manifest"), ids=lambda example: example.id)
def test_manifests_are_taken_by_the_api_server(example: Example, api: ApiClient) -> None:
    """By a server-side apply in a dry run: schemas, rules and admission, and no field that they do not know."""
    for document in example.documents:
        kind, meta = KINDS[document["kind"]], document["metadata"]
        assert document["apiVersion"] == kind.api_version
        where = {"namespace": meta.get("namespace", "default")} if kind.namespaced else {}
        got = api.apply(kind, {**document, "metadata": {**meta, **where}}, dry_run=True, manager="documentation")
        assert got["metadata"]["name"] == meta["name"]


def inventory(options: dict[str, Any], file: Path, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """The file with the test's cluster for its own; where it keeps a cache, below it."""
    options["kubeconfig"] = str(kubeconfig)
    if "cache_connection" in options:
        options["cache_connection"] = str(file.parent / "cache")
    file.write_text(yaml.safe_dump(options))
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(file), "--list"]
    env = {**environment(file.parent / "record.jsonl"), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1"}
    return subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=300)


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("example", pages.of_kind("inventory"), ids=lambda example: example.id)
def test_inventories_are_read(example: Example, tmp_path: Path, control_plane: Any) -> None:
    for options in example.documents:
        done = inventory(options, tmp_path / "example.berth.yml", control_plane.kubeconfig)
        assert done.returncode == 0, done.stderr
        assert "_meta" in json.loads(done.stdout)
