"""Filters, the lookup and the inventory plugin with input that cannot be meant: one error that says what was expected.

All of it in this process; the API server that is named is nobody's port, so that what is refused is refused before.
"""

from __future__ import annotations

import importlib
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader, lookup_loader
from hypothesis import given
from hypothesis import strategies as st

from tests.badinput.test_generated import VALUES

COLLECTION = "ansible_collections.berth.stateful.plugins"
DISK = {"metadata": {"name": "d"}, "spec": {"nodeName": "h", "identity": {"serial": "s", "size": 1}}}
DEVICE = {"path": "/dev/sdb", "type": "disk", "size": 1, "serial": "s", "usable": True}
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
STATIC_POD = {
    "kind": "Pod",
    "metadata": {"name": "kube-scheduler"},
    "spec": {"containers": [{"name": "kube-scheduler", "command": ["kube-scheduler"], "image": "k:v1.36.0"}]},
}
NO_POD: dict[str, Any] = {"kind": "Pod", "metadata": {}}
SERVER = "https://127.0.0.1:9"
Row = tuple[str, tuple[Any, ...], dict[str, Any], tuple[str, ...]]


def filter_row(name: str, /, *args: Any, words: tuple[str, ...], **options: Any) -> Row:
    return name, args, options, words


def quantity_row(value: Any, *words: str) -> Row:
    return filter_row("quantity", value, words=words or ("is not a quantity",))


def disks_row(*words: str, disks: Any = (DISK,), **options: Any) -> Row:
    return filter_row("matching_disks", disks, words=words, **options)


def found_row(*words: str, found: Any = (), **options: Any) -> Row:
    return filter_row("disks_as_host_vars", found, words=words, **{"host": "h", **options})


def extender_row(*words: str, source: Any = None, url: Any = "https://h:1", **options: Any) -> Row:
    given = CONFIGURATION if source is None else source
    return filter_row("with_extender", given, words=words, **{"version": "v1.36.0", "url": url, **options})


FILTERS: tuple[Row, ...] = (
    *(quantity_row(text) for text in ("", " ", "10 GB", "1.2.3", "Gi", "1gi", "--1", "1e", "0x10", "\u0663", "1_000")),
    *(quantity_row(value) for value in (None, True, [], {}, ["1"], b"1", math.nan, math.inf, -math.inf)),
    quantity_row("1e4000"),
    quantity_row("9" * 5000),
    filter_row("quantity", "1", "gib", words=("unit is 'gib'", "1 or milli")),
    filter_row("quantity", "1", None, words=("unit is None",)),
    filter_row("quantity", "1", ["1"], words=("unit is ",)),
    filter_row("quantity_text", "x", words=("is not a quantity",)),
    filter_row("quantity_text", None, words=("is not a quantity",)),
    filter_row("quantity_text", math.nan, words=("is not a quantity",)),
    filter_row("quantity_text", "1", "gib", words=("unit is 'gib'", "bytes or cpu")),
    filter_row("quantity_text", "1", ["bytes"], words=("unit is ", "bytes or cpu")),
    filter_row("compare_quantities", "1", "y", words=("'y'",)),
    filter_row("compare_quantities", "x", "1", words=("'x'",)),
    filter_row("compare_quantities", "1", None, words=("is not a quantity",)),
    filter_row("compare_quantities", {}, "1", words=("is not a quantity",)),
    disks_row("expected a list of LocalDisks", disks="all"),
    disks_row("expected a list of LocalDisks", disks=None),
    disks_row("expected a list of LocalDisks", disks={"a": 1}),
    disks_row("expected a list of LocalDisks", disks=[1]),
    disks_row("metadata.name", disks=[{}]),
    disks_row("spec.nodeName", disks=[{"metadata": {"name": "d"}, "spec": {}}]),
    disks_row("metadata", disks=[{"metadata": "d"}]),
    disks_row("spec.claimRef", disks=[{**DISK, "spec": {**DISK["spec"], "claimRef": "x"}}]),
    disks_row("size", size="big"),
    disks_row("size", size=[1]),
    disks_row("size", size=-1),
    disks_row("volume_mode is 'Raw'", "Filesystem or Block", volume_mode="Raw"),
    disks_row("fs_type", fs_type=["ext4"]),
    disks_row("storage_class", storage_class={"a": 1}),
    disks_row("matchLabels", selector={"matchLabels": ["a"]}),
    disks_row("selector", selector="a=b"),
    disks_row("sice", sice="1Gi"),
    disks_row("explain", explain="perhaps"),
    found_row("_input is no list", found="all"),
    found_row("_input is no list", found=None),
    found_row("_input is no list", found=[1]),
    found_row("path of a block device is 'None'", found=[{}]),
    found_row("size of a block device is 'True'", found=[{**DEVICE, "size": True}]),
    found_row("by_path of a block device", found=[{**DEVICE, "by_path": "x"}]),
    found_row("known is no list", known={"serial": "s"}),
    found_row("known is no list", known=["s"]),
    found_row("by_path", "a/b", found=[DEVICE], known=[{"by_path": "a/b"}]),
    found_row("storage_class is 'Fast!'", storage_class="Fast!"),
    found_row("storage_class", storage_class=["fast"]),
    found_row("nothing was changed", "serial", found=[DEVICE], before="berth_disks: []"),
    found_row("is not YAML", found=[DEVICE], before="a: ["),
    filter_row("kube_scheduler_pod", "x", words=("expected a mapping", "str")),
    filter_row("kube_scheduler_pod", None, words=("expected a mapping",)),
    filter_row("kube_scheduler_pod", {}, "/etc/a.yaml", words=("expected a Pod, got None",)),
    filter_row(
        "kube_scheduler_pod", {"kind": "Pod", "spec": "x"}, "/etc/a.yaml", words=("got Pod without metadata or spec",)
    ),
    filter_row("kube_scheduler_pod", {**NO_POD, "spec": {"containers": [1]}}, "/etc/a.yaml", words=("container",)),
    filter_row("kube_scheduler_pod", STATIC_POD, "relative", words=("relative",)),
    filter_row("kube_scheduler_reads", [], words=("expected a mapping",)),
    filter_row("kube_scheduler_reads", {}, words=("expected a Pod, got None",)),
    filter_row("kube_scheduler_reads", {**NO_POD, "spec": {"containers": "x"}}, words=("container",)),
    filter_row(
        *("kube_scheduler_reads", {**NO_POD, "spec": {"containers": [{"name": "kube-scheduler", "command": 7}]}}),
        words=("command",),
    ),
    extender_row("expected a mapping", source="x"),
    extender_row("extenders", source={**CONFIGURATION, "extenders": "x"}),
    extender_row("KubeSchedulerConfiguration", "got Pod", source={"kind": "Pod"}),
    extender_row("version", version="latest"),
    extender_row("the extender's address", url="nowhere"),
    extender_row("the extender's address", url=""),
    extender_row("the extender's address", url=7),
)


def call(name: str, *args: Any, **options: Any) -> Any:
    return getattr(importlib.import_module(f"{COLLECTION}.filter.{name}"), name)(*args, **options)


@pytest.mark.parametrize("row", FILTERS, ids=lambda row: f"{row[0]} {row[1]!s:.40} {row[2]!s:.40}")
def test_a_filter_names_what_it_cannot_take(row: Row) -> None:
    name, args, options, words = row
    with pytest.raises(AnsibleFilterError, match=f"^{name}: ") as refused:
        call(name, *args, **options)
    told = str(refused.value)
    assert "\n" not in told
    assert len(told) < 500
    for word in words:
        assert word in told


NAMES = (
    *("quantity", "quantity_text", "compare_quantities", "matching_disks", "kube_scheduler_pod", "with_extender"),
    "disks_as_host_vars",
)


@given(name=st.sampled_from(NAMES), first=VALUES, second=VALUES)
def test_no_value_has_a_filter_end_in_another_error(name: str, first: Any, second: Any) -> None:
    told = f"{name}: "
    try:
        if name == "matching_disks":
            call(name, first if isinstance(first, list) else [first, DISK], selector=second)
        elif name == "disks_as_host_vars":
            call(name, [{**DEVICE, "serial": first, "by_path": [first]}], "h", known=second, before=first)
        elif name == "with_extender":
            call(name, first, version="v1.36.0", url=second)
        else:
            call(name, *((first, second) if name == "compare_quantities" else (first,)))
    except AnsibleFilterError as exc:
        told = str(exc)
    assert told.startswith(f"{name}: ")


LOOKUP: tuple[tuple[list[Any], dict[str, Any], tuple[str, ...]], ...] = (
    ([], {"host": "nowhere"}, ("host 'nowhere'", "https://NAME:PORT")),
    ([], {"host": "https://h:99999"}, ("host",)),
    ([], {"api_key": "a\nb"}, ("api_key", "line break")),
    ([], {"kubeconfig": "/no/such"}, ("/no/such",)),
    ([], {"kubeconfig": "/"}, ("/",)),
    ([], {"kubeconfig": {"clusters": 7}}, ("kubeconfig",)),
    ([], {"context": "nope", "kubeconfig": {"clusters": [], "contexts": []}}, ("nope",)),
    ([], {"ca_cert": "/no/such.pem"}, ("/no/such.pem",)),
    ([], {"namespace": "A B"}, ("namespace is 'A B'", "DNS-1123 label")),
    ([], {"namespace": ""}, ("namespace is ''",)),
    ([], {"node": "Node 1"}, ("node is 'Node 1'", "DNS-1123 subdomain")),
    (["My App"], {}, ("'My App'", "DNS-1123")),
    (["db", 7.5], {}, ("_terms[1]", "'7.5'", "DNS-1123")),
    ([""], {}, ("''", "DNS-1123")),
    ([["db"]], {}, ("['db']",)),
    (["x" * 300], {}, ("300 characters",)),
)


@pytest.mark.parametrize(("terms", "options", "words"), LOOKUP, ids=lambda value: f"{value!s:.50}")
def test_the_lookup_names_what_it_cannot_take(
    terms: list[Any], options: dict[str, Any], words: tuple[str, ...]
) -> None:
    access = {} if "kubeconfig" in options else {"host": SERVER, "api_key": "x"}
    plugin, began = lookup_loader.get("berth.stateful.berths", loader=DataLoader()), time.monotonic()
    with pytest.raises(AnsibleError) as refused:
        plugin.run(terms, {}, **{**access, **options})
    told = str(refused.value)
    for word in words:
        assert word in told
    assert time.monotonic() - began < 3


INVENTORY: tuple[tuple[Any, tuple[str, ...]], ...] = (
    ({"as_hosts": ["disk"]}, ("as_hosts has disk", "nodes, disks, berths")),
    ({"as_hosts": "all"}, ("as_hosts has all",)),
    ({"as_hosts": [{"a": 1}]}, ("as_hosts",)),
    ({"as_hosts": {"a": 1}}, ("as_hosts",)),
    ({"address_types": ["IP"]}, ("address_types has IP", "InternalIP")),
    ({"address_types": [7]}, ("address_types has 7",)),
    ({"hosts": []}, ("unknown option hosts", "as_hosts")),
    ({"host": "nowhere"}, ("host 'nowhere'",)),
    ({"host": "ftp://h"}, ("host",)),
    ({"api_key": "\u00e9"}, ("api_key",)),
    ({"kubeconfig": "missing.kube", "host": None, "api_key": None}, ("missing.kube",)),
    ({"ca_cert": "missing.pem"}, ("missing.pem",)),
    ({"label_selectors": {"a": {"b": 1}}}, ("label_selectors",)),
    ({"plugin": "berth.stateful.other"}, ("berth.stateful.other",)),
    ([1], ("expected a mapping of options", "plugin: berth.stateful.cluster")),
    ("text", ("expected a mapping of options",)),
    ("{{", ("expected a mapping of options",)),
)


@pytest.mark.parametrize(("options", "words"), INVENTORY, ids=lambda value: f"{value!s:.50}")
def test_the_inventory_plugin_names_the_file_and_what_is_wrong(
    options: Any, words: tuple[str, ...], tmp_path: Path
) -> None:
    file, began = tmp_path / "x.berth.yml", time.monotonic()
    access = {"plugin": "berth.stateful.cluster", "host": SERVER, "api_key": "x"}
    file.write_text(yaml.safe_dump({**access, **options}) if isinstance(options, dict) else json.dumps(options))
    with pytest.raises(AnsibleError) as refused:
        inventory_loader.get("berth.stateful.cluster").parse(InventoryData(), DataLoader(), str(file), cache=False)
    told = str(refused.value)
    for word in words:
        assert word in told
    assert "Traceback" not in told
    assert time.monotonic() - began < 3
