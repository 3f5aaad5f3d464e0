# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind StatefulApp and the options of the module stateful_app, each as the other. Pure.

There is one interpretation of both: an object becomes options, and those are read by wanted.parse_app. Called by
berth-controller, and by the module for driver: controller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Union

from ..errors import InputError
from .fsid import DEFAULT_MOUNT_ROOT
from .node_loss import KEEP, STANDING
from .update_budgets import IGNORED
from .update_rules import BUDGETS, COUNTED, IGNORE, ORDERS, STRATEGIES
from .wanted import AppWanted, parse_app

PLAYBOOK, CONTROLLER = "playbook", "controller"
DRIVERS = (PLAYBOOK, CONTROLLER)
#: Held on a StatefulApp by the controller that carries it out: its berths are given up before it goes.
FINALIZER = "berth.dev/stateful-app"
#: Options of the module that say how one run goes, and nothing of the app: the kind has no field for them.
OF_A_RUN = (
    *("name", "namespace", "state", "src", "until", "wait", "wait_timeout", "explain", "driver"),
    *("release_ordinals", "confirm_fenced", "inventory_nodes", "update_hooks", "update_primary_command"),
)

#: option -> field; or (field, the same of a mapping, or of each in a list).
_Table = Mapping[str, Union[str, "tuple[str, _Table]"]]
_PORT: _Table = {"name": "name", "port": "port", "target_port": "targetPort", "protocol": "protocol"}
_SERVICE: _Table = {
    "name": "name",
    "cluster_ip": "clusterIP",
    "publish_not_ready_addresses": "publishNotReadyAddresses",
    "ports": ("ports", _PORT),
}
_DISK: _Table = {
    "name": "name",
    "size": "size",
    "storage_class": "storageClassName",
    "volume_mode": "volumeMode",
    "fs_type": "fsType",
    "selector": "selector",
    "disk_names": "diskNames",
}
_DEVICE: _Table = {"name": "name", "device_class": "deviceClass", "count": "count", "share": "share"}
_SPEC: _Table = {
    "replicas": "replicas",
    "workload": "workload",
    "template": "template",
    "service": ("service", _SERVICE),
    "disks": ("disks", _DISK),
    "devices": ("devices", _DEVICE),
    "topology_spread_constraints": "topologySpreadConstraints",
    "pod_management_policy": "podManagementPolicy",
    "suspended": "suspended",
    "rollback_to": "rollbackTo",
    "restarted_at": "restartedAt",
    "update_on": "updateOn",
    "leave_nodes": "leaveNodes",
    "leave_data": "leaveData",
    "replace": "replace",
    "quorum": "quorum",
    "on_node_loss": "onNodeLoss",
    "mount_root": "mountRoot",
}
_OVERRIDE: _Table = {"ordinal": "ordinal", "strategy": "type", "hold": "hold"}
_UPDATE: _Table = {
    "update_strategy": "type",
    "partition": "partition",
    "max_unavailable": "maxUnavailable",
    "min_ready_seconds": "minReadySeconds",
    "update_order": "order",
    "update_primary_label": "primaryLabel",
    "paused": "paused",
    "pre_pull": "prePull",
    "update_hold": "hold",
    "disruption_budgets": "disruptionBudgets",
    "pause_on_failure": "pauseOnFailure",
    "progress_deadline_seconds": "progressDeadlineSeconds",
    "update_overrides": ("overrides", _OVERRIDE),
}
#: Options that are texts, and in the kind may be numbers.
_TEXTS = ("size", "target_port", "max_unavailable", "rollback_to")
#: What the module fills in where nothing is said.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "service": {"cluster_ip": "None", "publish_not_ready_addresses": False},
    "disks": {"volume_mode": "Filesystem"},
}


def camel(value: str) -> str:
    """A value of an option as Kubernetes writes such values: same_node is SameNode."""
    return "".join(part.capitalize() for part in value.split("_"))


STRATEGY_TYPES: Mapping[str, str] = {strategy: camel(strategy) for strategy in STRATEGIES}
ORDER_TYPES: Mapping[str, str] = {order: camel(order) for order in ORDERS}
BUDGET_TYPES: Mapping[str, str] = {each: camel(each) for each in BUDGETS}
LOSS_TYPES: Mapping[str, str] = {policy: camel(policy) for policy in STANDING}
#: Options whose values are called otherwise in the kind.
_VALUES: Mapping[str, Mapping[str, str]] = {
    "update_strategy": STRATEGY_TYPES,
    "update_order": ORDER_TYPES,
    "disruption_budgets": BUDGET_TYPES,
    "on_node_loss": LOSS_TYPES,
}
COUNTED_TYPES: Mapping[str, str] = {one: camel(one) for one in COUNTED}


def options() -> list[str]:
    """The options of the module that the kind has a field for."""
    return [*_SPEC, *_UPDATE]


# -- an object becomes options


def wanted_of(body: Mapping[str, Any], mount_root: str = DEFAULT_MOUNT_ROOT) -> AppWanted:
    """What a StatefulApp asks for. ``mount_root``: where it names none. Raises InputError in the words of the kind."""
    try:
        return parse_app(options_of(body, mount_root))
    except InputError as exc:
        raise InputError(in_fields(exc.message), **exc.details) from exc


def options_of(body: Mapping[str, Any], mount_root: str = DEFAULT_MOUNT_ROOT) -> dict[str, Any]:
    """The options that say the same."""
    spec, meta = body["spec"], body["metadata"]
    found = {**dict.fromkeys(options()), **_to_options(spec, _SPEC)}
    found.update(_to_options(spec.get("updateStrategy") or {}, _UPDATE))
    for option, names in _VALUES.items():
        values = {name: value for value, name in names.items()}
        found[option] = values.get(found[option], found[option])
    strategies = {name: value for value, name in STRATEGY_TYPES.items()}
    found["update_overrides"] = _overriding(found["update_overrides"], strategies)
    counted = {name: value for value, name in COUNTED_TYPES.items()}
    found["update_on"] = [counted.get(one, one) for one in found["update_on"] or ()]
    found["mount_root"] = found["mount_root"] or mount_root
    found["template"] = _scaled_here(found["template"])
    for option, defaults in _DEFAULTS.items():
        value = found[option]
        if isinstance(value, list):
            found[option] = [{**defaults, **one} for one in value]
        elif value is not None:
            found[option] = {**defaults, **value}
    generation = meta.get("generation")
    return {**found, "name": meta["name"], "namespace": meta["namespace"], "generation": generation}


def _overriding(given: Any, called: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """Overrides whose strategies have their other names; None: there are none."""
    return [
        {**one, **({"strategy": called.get(str(one["strategy"]), one["strategy"])} if one.get("strategy") else {})}
        for one in given or ()
    ] or None


def _to_options(fields: Mapping[str, Any], table: _Table) -> dict[str, Any]:
    found = {}
    for option, place in table.items():
        field, below = (place, None) if isinstance(place, str) else place
        value = fields.get(field)
        if value is None:
            continue
        if below is not None:
            value = [_to_options(one, below) for one in value] if isinstance(value, list) else _to_options(value, below)
        found[option] = str(value) if option in _TEXTS else value
    return found


def _scaled_here(template: Any) -> Any:
    """Without the ``replicas`` of a StatefulSet in it: how many there are says the StatefulApp, which may be scaled."""
    if not isinstance(template, Mapping):
        return template
    if template.get("kind") == "List" and isinstance(template.get("items"), list):
        return {**template, "items": [_scaled_here(one) for one in template["items"]]}
    if template.get("kind") == "StatefulSet" and isinstance(template.get("spec"), Mapping):
        return {**template, "spec": {key: value for key, value in template["spec"].items() if key != "replicas"}}
    return template


# -- options become an object


def manifest_of(params: Mapping[str, Any], driver: str) -> dict[str, Any]:
    """The StatefulApp that asks for what these options ask for.

    How many replicas there are is left open where no option says it: somebody else may scale.
    """
    spec = {"driver": driver, **_to_fields(params, _SPEC)}
    if spec.get("mountRoot") == DEFAULT_MOUNT_ROOT:
        del spec["mountRoot"]  # as the controller is set up
    if not spec.get("suspended"):
        spec.pop("suspended", None)
    if "updateOn" in spec:
        spec["updateOn"] = sorted(COUNTED_TYPES.get(one, one) for one in spec["updateOn"])
    if not spec.get("updateOn"):
        spec.pop("updateOn", None)
    spec.pop("onNodeLoss", None)
    if params.get("on_node_loss") not in (None, KEEP):
        spec["onNodeLoss"] = LOSS_TYPES[str(params["on_node_loss"])]
    called = {option: names.get(str(params.get(option))) for option, names in _VALUES.items()}
    # off is the default
    switches = {option: params.get(option) or None for option in ("update_hold", "pause_on_failure")}
    overrides = {"update_overrides": _overriding(params.get("update_overrides"), STRATEGY_TYPES)}
    update = _to_fields({**params, **called, **switches, **overrides}, _UPDATE)
    if update:
        spec["updateStrategy"] = update
    return {"metadata": {"name": params["name"], "namespace": params["namespace"]}, "spec": spec}


def _to_fields(found: Mapping[str, Any], table: _Table) -> dict[str, Any]:
    fields = {}
    for option, place in table.items():
        field, below = (place, None) if isinstance(place, str) else place
        value = found.get(option)
        if value is None:
            continue
        if below is not None:
            value = [_to_fields(one, below) for one in value] if isinstance(value, list) else _to_fields(value, below)
        fields[field] = value
    return fields


# -- words


def _names() -> dict[str, str]:
    """What is called otherwise in the kind: option, or value of update_strategy -> field, or value."""
    found = {
        value: name for names in (*_VALUES.values(), COUNTED_TYPES) for value, name in names.items() if "_" in value
    }
    for table in (_SPEC, _SERVICE, _PORT, _DISK, _DEVICE):
        for option, place in table.items():
            field = place if isinstance(place, str) else place[0]
            if field != option:
                found[option] = field
    for option, place in _UPDATE.items():
        found[option] = f"updateStrategy.{place if isinstance(place, str) else place[0]}"
    found[IGNORED] = f"{found['disruption_budgets']}: {BUDGET_TYPES[IGNORE]}"
    return found


_NAMES = _names()
#: But not where it is a field of the manifest's own updateStrategy.
_OPTION = re.compile(
    rf"(?<![\w-])(?<!rollingUpdate\.)(?:{'|'.join(map(re.escape, sorted(_NAMES, reverse=True)))})(?![\w-])"
)


def in_fields(message: str) -> str:
    """A refusal of the module's options, with the names that the fields of the kind have."""
    return _OPTION.sub(lambda found: _NAMES[found[0]], message)


def with_budgets_in_fields(message: str) -> str:
    """A line about PodDisruptionBudgets, whose other words are no options, with the kind's way to go past them."""
    return message.replace(IGNORED, _NAMES[IGNORED])
