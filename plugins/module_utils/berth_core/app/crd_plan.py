# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do with each CustomResourceDefinition: create, update, nothing, or refuse. Carried out by
the module crds.

Unlike other objects a CRD's spec is wholly berth's: a property or a rule that a new release no longer has must go, so
that specs are compared exactly, after what the API server fills in by itself. Asks no API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError, StateError
from .compare import differences, prune

_META_KEYS = ("labels", "annotations")
#: The number of a definition's schema, raised with every change of it. A definition without it is older than all.
SCHEMA = "berth.dev/schema"


class CrdChange(NamedTuple):
    """One object's fate. ``before`` and ``after`` hold only what manifests speak of: no server defaults, no status."""

    name: str
    action: str  # create | update | none
    before: dict[str, Any]
    after: dict[str, Any]
    live: Mapping[str, Any] | None


def check_definitions(definitions: Sequence[Any]) -> None:
    """Refuse what is not a list of distinct CustomResourceDefinitions (InputError)."""
    seen: set[str] = set()
    for index, body in enumerate(definitions):
        where = f"definitions[{index}]"
        if not isinstance(body, Mapping) or body.get("kind") != "CustomResourceDefinition":
            kind = body.get("kind") if isinstance(body, Mapping) else type(body).__name__
            raise InputError(f"{where} is a {kind}; expected a CustomResourceDefinition of apiextensions.k8s.io/v1")
        name, spec = (body.get("metadata") or {}).get("name"), body.get("spec")
        if (
            not name
            or not isinstance(spec, Mapping)
            or not isinstance(spec.get("versions"), list)
            or not spec.get("names")
        ):
            raise InputError(f"{where} ({name or 'without a name'}) lacks metadata.name, spec.names or spec.versions")
        if name in seen:
            raise InputError(f"{where}: {name} is defined twice; keep one")
        seen.add(name)


def plan_crd(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> CrdChange:
    """Compare one definition with what is installed.

    Raises StateError where the update cannot be: a version with stored objects would go, the scope would change, the
    definition is being removed, or it is a newer release's.
    """
    name, after = str(desired["metadata"]["name"]), _ours(desired)
    if live is None:
        return CrdChange(name, "create", {}, after, None)
    if live["metadata"].get("deletionTimestamp"):
        raise StateError(
            f"CustomResourceDefinition {name} is being removed, together with its objects; "
            "wait until it is gone and run again",
            crd=name,
        )
    _refuse_older(name, desired, live)
    _refuse_dropped_versions(name, desired, live)
    if live["spec"].get("scope") != desired["spec"].get("scope"):
        raise StateError(
            f"CustomResourceDefinition {name}: the scope is {live['spec'].get('scope')} and cannot become "
            f"{desired['spec'].get('scope')}; remove the CRD (with all its objects) first",
            crd=name,
        )
    before = {
        "metadata": prune(_ours(live)["metadata"], after["metadata"]),
        "spec": _without_defaults(live["spec"], desired["spec"]),
    }
    same = not differences(after, before) and not differences(before, after)
    return CrdChange(name, "none" if same else "update", before, after, live)


def updated(change: CrdChange) -> dict[str, Any]:
    """The whole object to PUT: what is berth's, the live metadata (with its resourceVersion) with berth's labels and
    annotations added."""
    live = change.live or {}
    metadata = dict(live["metadata"])
    metadata.pop("managedFields", None)
    for key in _META_KEYS:
        if change.after["metadata"].get(key):
            metadata[key] = {**(metadata.get(key) or {}), **change.after["metadata"][key]}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], **change.after, "metadata": metadata}


def established(live: Mapping[str, Any]) -> bool:
    """Whether the API server serves the definition's kind. Raises StateError where it says that it never will."""
    conditions = {item.get("type"): item for item in (live.get("status") or {}).get("conditions") or []}
    names = conditions.get("NamesAccepted", {})
    if names.get("status") == "False" and names.get("reason"):
        raise StateError(
            f"CustomResourceDefinition {live['metadata']['name']}: the names are not accepted: "
            f"{names.get('message') or names['reason']}; remove the definition that uses them, or change the names",
            crd=live["metadata"]["name"],
            reason=names["reason"],
        )
    return bool(conditions.get("Established", {}).get("status") == "True")


def loss_message(lost: Mapping[str, Sequence[str]], shown: int = 10) -> str:
    """``3 localdisks.berth.dev (a, b, c), 1 berths.berth.dev (default/x)``: counts, and the first names of each."""
    return ", ".join(f"{len(names)} {crd} ({_first(names, shown)})" for crd, names in lost.items() if names)


def _first(names: Sequence[str], shown: int) -> str:
    more = [f"and {len(names) - shown} more"] if len(names) > shown else []
    return ", ".join([*names[:shown], *more])


def _ours(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: body["metadata"][key] for key in _META_KEYS if body["metadata"].get(key)}
    return {"metadata": metadata, "spec": body["spec"]}


def _without_defaults(live: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    """The live spec less what the API server adds to every definition that does not say otherwise."""
    spec = dict(live)
    if "conversion" not in desired and spec.get("conversion") == {"strategy": "None"}:
        del spec["conversion"]
    names = dict(spec.get("names") or {})
    kind = str(names.get("kind", ""))
    for key, default in (("singular", kind.lower()), ("listKind", f"{kind}List")):
        if key not in desired["names"] and names.get(key) == default:
            del names[key]
    spec["names"] = names
    return spec


def _refuse_older(name: str, desired: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    """The API server drops what a schema does not know from whatever is written after it."""
    ours, theirs = schema_of(desired), schema_of(live)
    if theirs > ours:
        raise StateError(
            f"CustomResourceDefinition {name} has schema {theirs}, of a newer release; this one brings schema {ours}, "
            "and what objects hold of the newer one would be lost. Leave it as it is, or run the newer release",
            crd=name,
        )


def schema_of(body: Mapping[str, Any]) -> int:
    """The number of a definition's schema."""
    number = str((body["metadata"].get("annotations") or {}).get(SCHEMA, ""))
    return int(number) if number.isdecimal() else 0


def _refuse_dropped_versions(name: str, desired: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    kept = {version.get("name") for version in desired["spec"]["versions"]}
    stored = (live.get("status") or {}).get("storedVersions") or []
    dropped = [version for version in stored if version not in kept]
    if dropped:
        raise StateError(
            f"CustomResourceDefinition {name}: objects may be stored in {_list(dropped)}, which the new definition "
            f"({_list(sorted(map(str, kept)))}) no longer has; keep the version, or rewrite all "
            "objects in a new one and take "
            "the old out of status.storedVersions first",
            crd=name,
            stored_versions=list(stored),
        )


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
