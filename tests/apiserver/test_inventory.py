"""The inventory plugin and the lookup on a real API server, as ansible-inventory and ansible-playbook run them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.release import __version__ as ansible_version

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LOCAL_DISK
from tests.support.playbook import environment, run_playbook
from tests.support.small_cluster import Gi, small_cluster

pytestmark = [pytest.mark.usefixtures("crds"), pytest.mark.slow]
#: What a template would turn into 42.
HOSTILE = "{{ 6 * 7 }}"
#: A template gives what its expression gives; before, a text.
NATIVE = tuple(map(int, ansible_version.split(".")[:2])) >= (2, 19)


@pytest.fixture
def cluster(api: ApiClient, name: str, namespace: str) -> Iterator[str]:
    with small_cluster(api, name, namespace):
        observed = {"observed": {"devicePath": "/dev/sdz", "health": HOSTILE}}
        api.patch(LOCAL_DISK, f"{name}-5-broken", None, {"status": observed}, subresource="status")
        yield name


def _marked(value: dict[str, Any]) -> Any:
    """ansible-inventory marks what is no template, as all that the plugin gives must be."""
    return value.get("__ansible_unsafe", value)


class Inventory:
    """Inventory files in one folder, and what ansible-inventory says of them."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder, self.kubeconfig = folder, kubeconfig

    def write(self, file: str = "a.berth.yml", **options: Any) -> Path:
        content = {"plugin": "berth.stateful.cluster", "kubeconfig": str(self.kubeconfig), **options}
        (self.folder / file).write_text(yaml.safe_dump(content))
        return self.folder / file

    def listed(self, path: Path, *args: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(path), "--list", *args]
        env = {**environment(self.folder / "record.jsonl"), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1"}
        return subprocess.run(
            command, env=env, text=True, capture_output=True, cwd=self.folder, check=False, timeout=300
        )

    def read(self, path: Path, *args: str) -> dict[str, Any]:
        done = self.listed(path, *args)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout, object_hook=_marked)
        return found

    def refused(self, path: Path) -> str:
        done = self.listed(path)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())


@pytest.fixture
def inventory(control_plane: Any, tmp_path: Path) -> Inventory:
    return Inventory(tmp_path, control_plane.kubeconfig)


def test_nodes_with_their_disks(inventory: Inventory, cluster: str, namespace: str, world: Callable[[], Any]) -> None:
    before = world()
    path = inventory.write(
        label_selectors=[f"test={cluster}"],
        compose={"free_gib": "berth_node.disks.free_bytes // 1024 ** 3"},
        groups={"crowded": "berth_node.disks.free == 0"},
        keyed_groups=[{"key": "berth_node.labels['test']", "prefix": "of"}],
        strict=True,
    )
    found = inventory.read(path)
    assert world() == before
    hosts, (first, second) = found["_meta"]["hostvars"], (f"{cluster}-a", f"{cluster}-b")
    assert sorted(hosts) == [first, second]
    assert (hosts[first]["ansible_host"], hosts[second]["ansible_host"]) == ("192.0.2.1", "192.0.2.2")
    assert (hosts[first]["free_gib"], hosts[second]["free_gib"]) == ((1, 7) if NATIVE else ("1", "7"))
    assert [disk["why_not_free"] for disk in hosts[first]["berth_local_disks"]] == [
        *(None, "held", "retained", "reserved", "faulted", "pending"),
    ]
    assert [row["name"] for row in hosts[first]["berth_berths"]] == ["db-0"]
    assert hosts[first]["berth_local_devices"][0]["free_shares"] == 700
    assert hosts[second]["berth_berths"] == []
    assert sorted(found[f"of_{cluster}"]["hosts"]) == [first, second]
    assert found["berth_nodes_with_free_disks"]["hosts"] == [first, second]
    assert found["berth_nodes_with_bad_disks"]["hosts"] == [first]
    assert found[f"berth_app_{namespace}__db"]["hosts"] == [first]
    assert "crowded" not in found


def test_disks_and_berths_as_hosts(inventory: Inventory, cluster: str, namespace: str) -> None:
    path = inventory.write(
        as_hosts=["disks", "berths"], label_selectors=[f"test={cluster}"], address_types=["Hostname"]
    )
    found = inventory.read(path)
    hosts = found["_meta"]["hostvars"]
    assert len(hosts) == 7 + 1
    assert found["berth_disks_released"]["hosts"] == [f"{cluster}-3-kept.disk"]
    assert found["berth_berths_reserved"]["hosts"] == [f"db-0.{namespace}.berth"]
    assert sorted(found[f"berth_app_{namespace}__db"]["hosts"]) == [f"db-0.{namespace}.berth", f"{cluster}-2-held.disk"]
    disk = hosts[f"{cluster}-7-other.disk"]
    assert (disk["berth_local_disk"]["size"], disk["berth_node"]["name"]) == (7 * Gi, f"{cluster}-b")
    assert disk["ansible_host"] == "n1"
    assert hosts[f"db-0.{namespace}.berth"]["berth_berth"]["ordinal"] == 0


def test_nothing_from_the_cluster_is_a_template(inventory: Inventory, cluster: str, namespace: str) -> None:
    path = inventory.write(as_hosts=["disks"], label_selectors=[f"test={cluster}"])
    assert f'"__ansible_unsafe": "{HOSTILE}"' in inventory.listed(path).stdout
    said = "{{ hostvars['" + f"{cluster}-5-broken.disk" + "'].berth_local_disk.health }}"
    rows = "{{ query('berth.stateful.berths', 'db', namespace=space, kubeconfig=config) }}"
    nobody = "{{ query('berth.stateful.berths', 'dc', namespace=space, kubeconfig=config) }}"
    tasks = [
        {"ansible.builtin.debug": {"msg": {"health": said, "rows": rows, "nobody": nobody}}},
        {
            "ansible.builtin.debug": {"msg": "{{ query('berth.stateful.berths', kubeconfig='/nowhere') }}"},
            "ignore_errors": True,
        },
    ]
    more = {"space": namespace, "config": str(inventory.kubeconfig), "ansible_connection": "local"}
    run = run_playbook(
        tasks, inventory.folder / "play", "-i", str(path), hosts=f"{cluster}-5-broken.disk", vars=more
    ).ok()
    told = run.tasks[0].result["msg"]
    assert told["health"] == HOSTILE
    assert [(row["name"], row["node"], row["phase"]) for row in told["rows"]] == [("db-0", f"{cluster}-a", "Reserved")]
    assert told["nobody"] == []
    assert "/nowhere does not exist" in run.tasks[1].result["msg"]


def test_the_cache_answers_until_it_is_flushed(inventory: Inventory, cluster: str) -> None:
    cached = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(inventory.folder / "cache"),
    }
    path = inventory.write(label_selectors=[f"test={cluster}"], **cached)
    first = inventory.read(path)
    # Another port: who answers now has it from the cache.
    config = yaml.safe_load(inventory.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (inventory.folder / "kubeconfig").write_text(yaml.safe_dump(config))
    path = inventory.write(label_selectors=[f"test={cluster}"], **cached, kubeconfig="kubeconfig")
    assert "cannot be reached" in inventory.refused(path), "another kubeconfig is not answered from the cache"
    (inventory.folder / "kubeconfig").write_text(inventory.kubeconfig.read_text())
    kept = inventory.read(path)
    assert sorted(kept["_meta"]["hostvars"]) == sorted(first["_meta"]["hostvars"])
    (inventory.folder / "kubeconfig").write_text(yaml.safe_dump(config))
    assert inventory.read(path) == kept, "by whoever is not there"
    flushed = inventory.listed(path, "--flush-cache")
    if "unrecognized arguments: --flush-cache" in flushed.stderr:  # an older ansible-inventory
        shutil.rmtree(inventory.folder / "cache")
        flushed = inventory.listed(path)
    assert flushed.returncode != 0
    assert "https://127.0.0.1:1 (from the kubeconfig" in " ".join(flushed.stderr.split())


def test_what_is_refused(inventory: Inventory) -> None:
    assert "unknown option kubeconfg" in inventory.refused(inventory.write(kubeconfg="x"))
    assert "as_hosts has pods: expected some of nodes, disks, berths" in inventory.refused(
        inventory.write(as_hosts=["pods"], kubeconfig="nowhere", address_types=["InternalIp"])
    ), "before anybody is asked anything"
