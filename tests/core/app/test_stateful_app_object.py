"""The kind StatefulApp and the options of stateful_app say the same, in either direction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from berth_core.app.stateful_app_object import (
    CONTROLLER,
    DRIVERS,
    LOSS_TYPES,
    OF_A_RUN,
    ORDER_TYPES,
    STRATEGY_TYPES,
    in_fields,
    manifest_of,
    options,
    options_of,
    wanted_of,
)
from berth_core.app.wanted import parse_app
from berth_core.errors import InputError
from tests.core.app.samples import GOOD, changed

ROOT = Path(__file__).resolve().parents[3]
CRD = yaml.safe_load((ROOT / "deploy/crds/statefulapps.berth.dev.yaml").read_text(encoding="utf-8"))
SPEC = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
TEMPLATE = GOOD["template"]
SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db", "labels": {"team": "a"}},
    "spec": {"replicas": 7, "minReadySeconds": 3, "template": {"metadata": {"labels": {"a": "b"}}, **TEMPLATE}},
}
ROLLING = {
    **SET,
    "spec": {**SET["spec"], "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
}
DELETED = {**SET, "spec": {**SET["spec"], "updateStrategy": {"type": "OnDelete"}}}
ASKED = [
    {},
    {"replicas": 0, "pod_management_policy": "Parallel", "mount_root": "/srv/disks"},
    {"partition": 1, "max_unavailable": "2"},
    {"template": ROLLING},
    {"template": ROLLING, "partition": 1, "max_unavailable": "2"},
    {"template": DELETED, "paused": True},
    {"update_strategy": "same_node", "partition": 1, "max_unavailable": "25%"},
    {"update_strategy": "in_place_only", "update_order": "primary_last", "update_primary_label": "role=primary"},
    {"update_strategy": "in_place_only", "min_ready_seconds": 5, "paused": True, "suspended": True},
    {"paused": False, "suspended": False},
    {"pre_pull": False},
    {"update_hold": True, "update_strategy": "same_node"},
    {"update_hold": False},
    {"disruption_budgets": "ignore"},
    {"disruption_budgets": "respect"},
    {"pause_on_failure": True, "progress_deadline_seconds": 30},
    {"quorum": 2},
    {"update_overrides": [{"ordinal": 2, "strategy": "same_node"}, {"ordinal": 0, "hold": True}]},
    {"update_overrides": []},
    {"on_node_loss": "rebuild"},
    {"on_node_loss": "keep"},
    {"update_on": ["config_maps", "secrets"]},
    {"update_on": []},
    {"rollback_to": "previous"},
    {"rollback_to": "3"},
    {
        "service": {
            "name": "dbs",
            "cluster_ip": "auto",
            "publish_not_ready_addresses": True,
            "ports": [{"name": "sql", "port": 5432, "target_port": "5432", "protocol": "TCP"}],
        }
    },
    {
        "disks": [
            {
                "name": "data",
                "size": "1Gi",
                "storage_class": "fast",
                "volume_mode": "Filesystem",
                "fs_type": "xfs",
                "selector": {"matchLabels": {"kind": "nvme"}},
                "disk_names": ["a", "b", "c"],
            }
        ]
    },
    {
        "devices": [
            {"name": "gpu", "device_class": "gpu", "share": 500},
            {"name": "nic", "device_class": "n", "count": 2},
        ]
    },
    {"topology_spread_constraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
    {"template": SET},
    {"template": {"apiVersion": "v1", "kind": "List", "items": [SET]}},
]


def app(**spec):
    """A StatefulApp as the API server has it: with the schema's defaults."""
    body = manifest_of(changed(), CONTROLLER)
    return {**body, "spec": {"replicas": 1, "workload": "StatefulSet", **body["spec"], **spec}}


@pytest.mark.parametrize("more", ASKED)
def test_an_object_asks_for_what_the_options_ask_for(more: dict) -> None:
    asked = changed(**{**more, "replicas": more.get("replicas", 7 if "template" in more else 3)})
    body = manifest_of(asked, CONTROLLER)
    wanted = parse_app(asked)
    assert wanted_of(body) == replace(wanted, given=replace(wanted.given, replicas=None))
    assert not set(body["spec"]) - set(SPEC)


def test_the_size_of_a_manifest_does_not_hold_a_scaled_app_back() -> None:
    assert wanted_of(app(template=SET, replicas=2)).replicas == 2
    assert SET["spec"]["replicas"] == 7, "what is given is not changed"


def test_how_many_there_are_is_left_to_others_where_nobody_says_it() -> None:
    assert "replicas" not in manifest_of(changed(replicas=None), CONTROLLER)["spec"]


def test_an_object_has_no_hooks_to_go_with_any_strategy() -> None:
    """Its schema knows none, and the module does not write them; with driver: controller they are refused first."""
    update = SPEC["updateStrategy"]["properties"]
    assert not [name for name in (*SPEC, *update) if "hook" in name.lower()]
    asked = {"update_strategy": "reschedule", "update_hooks": {"before": ["true"]}}
    body = manifest_of(changed(**asked), CONTROLLER)
    assert body["spec"]["updateStrategy"] == {"type": "Reschedule"}
    wanted = wanted_of(app(**{**body["spec"], "replicas": 2}))
    assert wanted.update is not None
    assert (wanted.update.strategy, wanted.update.hooks) == ("reschedule", None)


def test_a_mount_root_that_nobody_has_chosen_is_the_controllers() -> None:
    body = manifest_of(changed(mount_root="/var/lib/berth/disks"), CONTROLLER)
    assert "mountRoot" not in body["spec"]
    assert wanted_of(body, "/data/disks").mount_root == "/data/disks"
    assert wanted_of(app(mountRoot="/srv/d"), "/data/disks").mount_root == "/srv/d"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"disks": []}, "disks is empty"),
        ({"disks": [{"name": "data", "size": "lots"}]}, "disks[0].size (data)"),
        ({"disks": [{"name": "data", "size": "1Gi", "storageClassName": "Not A Name"}]}, "disks[0].storageClassName"),
        ({"disks": [{"name": "data", "size": "1Gi", "diskNames": ["a"]}]}, "diskNames are given for 3 replicas"),
        ({"service": {"clusterIP": "nowhere"}}, "service.clusterIP is 'nowhere'"),
        ({"updateStrategy": {"type": "SameNode", "partition": 9}}, "updateStrategy.partition is 9"),
        ({"updateStrategy": {"type": "SameNode", "maxUnavailable": 0}}, "updateStrategy.maxUnavailable is '0'"),
        (
            {"template": ROLLING, "updateStrategy": {"partition": 2}},
            "updateStrategy.partition is 2, and spec.updateStrategy.rollingUpdate.partition of the StatefulSet in",
        ),
        ({"template": DELETED}, "spec.updateStrategy.type of the StatefulSet in template or src is OnDelete, "),
        ({"template": DELETED}, "(updateStrategy.type), or that none is for now (updateStrategy.paused: true)"),
        ({"template": {"spec": {"containers": []}}}, "template.spec has no containers"),
        ({"devices": [{"name": "g", "deviceClass": "A B"}]}, "devices[0].deviceClass"),
        ({"mountRoot": "here"}, "mount root 'here'"),
    ],
)
def test_a_refusal_has_the_names_of_the_kind(spec: dict, words: str) -> None:
    with pytest.raises(InputError) as told:
        wanted_of(app(replicas=3, **spec))
    assert words in told.value.message
    assert not [name for name in ("disk_names", "storage_class", "max_unavailable") if name in told.value.message]


def test_a_rollback_is_asked_for_by_name_or_number() -> None:
    assert manifest_of(changed(rollback_to="db-5f6"), CONTROLLER)["spec"]["rollbackTo"] == "db-5f6"
    assert "rollbackTo" not in manifest_of(changed(), CONTROLLER)["spec"]
    assert options_of(app(rollbackTo=3))["rollback_to"] == "3", "as kubectl users write a number"
    assert options_of(app())["rollback_to"] is None
    assert in_fields("rollback_to is 7") == "rollbackTo is 7"


def test_what_becomes_of_a_lost_replica_is_said_where_it_is_not_the_default() -> None:
    assert "onNodeLoss" not in manifest_of(changed(on_node_loss="keep"), CONTROLLER)["spec"]
    body = manifest_of(changed(on_node_loss="rebuild"), CONTROLLER)
    assert body["spec"]["onNodeLoss"] == "Rebuild"
    assert options_of(body)["on_node_loss"] == "rebuild"
    assert SPEC["onNodeLoss"]["enum"] == list(LOSS_TYPES.values())


def test_words_that_are_no_options_stay_as_they_are() -> None:
    text = "StorageClass fast-same_node-x does not exist; /var/lib/disk_names_here; template.spec"
    assert in_fields(text) == text


def test_the_schema_knows_the_same_values() -> None:
    assert SPEC["driver"]["enum"] == list(DRIVERS)
    assert SPEC["updateStrategy"]["properties"]["type"]["enum"] == list(STRATEGY_TYPES.values())
    assert SPEC["updateStrategy"]["properties"]["order"]["enum"] == list(ORDER_TYPES.values())
    assert SPEC["workload"]["enum"] == ["StatefulSet", "Pod"]


def test_every_option_that_says_something_of_an_app_has_a_field() -> None:
    from ansible_collections.berth.stateful.plugins.module_utils._glue.app.options import OPTIONS

    assert sorted({*options(), *OF_A_RUN}) == sorted(OPTIONS)
    fields = {place.split(".")[0] for place in map(in_fields, options())}
    assert fields | {"driver"} == set(SPEC)
