# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others have changed in a StatefulSet that berth applies, and which of it the next apply takes back. Pure.

A server-side apply sets each field that it names, whoever has set it, and leaves what it does not name: an annotation,
a container or an environment variable more. So what others have changed is taken back, and told; what they have added
stays, and is a part of the template by which pods are made. Who has set a field, the API server says (managedFields).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .compare import Path, paths
from .compare import told as told_path

Object = Mapping[str, Any]
#: The field manager of both drivers, playbook and controller.
OURS = "berth"
#: The lists of a pod template that an apply merges, and what tells their elements apart (x-kubernetes-list-map-keys;
#: a test holds them against the API server's own schema). An apply replaces any other list.
KEYS: Mapping[str, tuple[str, ...]] = {
    "claims": ("name",),
    "containers": ("name",),
    "env": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ports": ("containerPort", "protocol"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
#: What the API server takes for a key that is left out.
_DEFAULTS = {"protocol": "TCP"}
#: How much of a value is told.
_LONGEST = 128


class Owner(NamedTuple):
    """A field manager, and when it wrote last."""

    manager: str
    at: str


class Change(NamedTuple):
    """One field: ``have`` is there (None: it was taken out), ``wanted`` is asked for. ``by``: None where nobody says
    so."""

    field: str
    have: str | None
    wanted: str
    by: Owner | None

    def told(self, when: bool = True) -> str:
        """For people. ``when``: with the time of the change."""
        if self.have is None:
            return f"{self.field} was taken out"
        at = f" at {self.by.at}" if when and self.by is not None and self.by.at else ""
        value = f" to {self.have}" if self.have else ""
        return f"{self.field} was set{value} by {self.by.manager if self.by is not None else 'somebody'}{at}"

    def told_back(self, when: bool = True) -> str:
        """The same, with what it becomes again."""
        return f"{self.told(when)}{f' (becomes {self.wanted})' if self.wanted else ''}"


def aligned(live: Any, desired: Any, name: str = "") -> Any:
    """``live`` with the lists that an apply merges as ``desired`` has them: without what others have added, in its
    order, and with None for what is missing. The arguments are never changed."""
    if isinstance(live, Mapping) and isinstance(desired, Mapping):
        return {key: aligned(one, desired[key], str(key)) if key in desired else one for key, one in live.items()}
    if not (isinstance(live, list) and isinstance(desired, list) and name in KEYS):
        return live
    keys = [_key(one, name) for one in desired]
    there = {_key(one, name): one for one in live}
    if None in keys or None in there or len(set(keys)) != len(keys) or len(there) != len(live):
        return live  # nothing that an API server would keep
    return [aligned(there[key], want) if key in there else None for key, want in zip(keys, desired)]


def differing(desired: Any, live: Any) -> list[Path]:
    """The fields that an apply of ``desired`` changes."""
    return paths(desired, aligned(live, desired))


def taken_back(desired: Object, live: Object, asked_before: bool, before: Object | None = None) -> list[Change]:
    """What others have changed and an apply of ``desired`` takes back; its size is nobody's, that follows the app's.

    ``asked_before``: just this was asked for when berth applied it last. Then what is missing was taken out; else it
    may be new, and ``before``, the template of then where it is known, tells. Before berth has applied a template,
    nothing of it is taken back.
    """
    entries = _entries(live)
    if not asked_before and not any(_is_ours(one) and _holds_template(one) for one in entries):
        return []
    there, found = aligned(live, desired), []
    then = desired if asked_before else aligned({"spec": {"template": before or {}}}, desired)
    for path in paths(desired, there):
        have = _at(there, path)
        owners = _owners(entries, path, desired) if have is not None else []
        others = owners and OURS not in [one.manager for one in owners]
        taken_out = have is None and _at(then, path) is not None
        if path != ("spec", "replicas") and (others or taken_out or (asked_before and not entries)):
            found.append(_change(path, desired, have, _at(desired, path), owners))
    return found


def names_more(desired: Object, live: Object) -> bool:
    """Whether ``desired`` has a field that is not there: a new one, or one that somebody has taken out."""
    there = aligned(live, desired)
    return any(_at(there, path) is None for path in paths(desired, there))


def changed(ours: Object, there: Object, live: Object) -> list[Change]:
    """What makes ``there`` out of ``ours``, changes and additions. ``live``: the whole object, with its managers."""
    entries = _entries(live)
    found: dict[str, Change] = {}
    for model, other in ((ours, there), (there, ours)):
        for path in differing(model, other):
            name = _named(path, model)
            have = _at(aligned(there, model), path)
            found.setdefault(name, _change(path, model, have, None, _owners(entries, path, model)))
    return list(found.values())


def told(changes: Iterable[Change]) -> str:
    """All of them, in a sentence."""
    return "; ".join(one.told() for one in changes)


def told_back(changes: Iterable[Change], when: bool = True) -> str:
    """All of them, and what they become again. Without ``when`` the same changes have the same words."""
    return "; ".join(one.told_back(when) for one in changes)


def _change(path: Path, model: Object, have: Any, wanted: Any, owners: Sequence[Owner]) -> Change:
    last = max(owners, key=lambda one: one.at) if owners else None
    return Change(_named(path, model), None if have is None else _shown(have, path), _shown(wanted, path), last)


def _shown(value: Any, path: Path) -> str:
    """A value in a message; nothing of lists and maps, and of what containers are given in their environment: there
    people put passwords."""
    if value is None or isinstance(value, (Mapping, list)) or "env" in path:
        return ""
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# -- the way to a field


def _key(element: Any, name: str) -> tuple[Any, ...] | None:
    if not isinstance(element, Mapping):
        return None
    return tuple(element.get(key, _DEFAULTS.get(key)) for key in KEYS[name])


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _walk(path: Path, model: Object) -> Iterator[tuple[str, tuple[Any, ...] | int | None]]:
    """(name of a field, None), or (name of a list, the key of its element; its index where it has no key)."""
    value: Any = model
    name = ""
    for step in path:
        if isinstance(step, int):
            value = value[step]
            yield name, (_key(value, name) if name in KEYS else None) or step
        else:
            value, name = value.get(step) if isinstance(value, Mapping) else None, step
            yield name, None


def _named(path: Path, model: Object) -> str:
    """The path with the keys of elements in the place of their numbers: ``spec.containers[main].image``."""
    found = ""
    plain: list[str | int] = []
    for name, key in _walk(path, model):
        if isinstance(key, tuple):
            found, plain = f"{_join(found, plain)}[{'/'.join(str(one) for one in key)}]", []
        else:
            plain.append(name if key is None else key)
    return _join(found, plain)


def _join(found: str, plain: Sequence[str | int]) -> str:
    rest = told_path(tuple(plain))
    return f"{found}.{rest}" if found and rest and not rest.startswith("[") else found + rest


# -- who has set it


def _entries(live: Object) -> list[Object]:
    return [one for one in live["metadata"].get("managedFields") or () if not one.get("subresource")]


def _is_ours(entry: Object) -> bool:
    return entry.get("manager") == OURS


def _holds_template(entry: Object) -> bool:
    return "f:template" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def _owners(entries: Iterable[Object], path: Path, model: Object) -> list[Owner]:
    """Whose entries name the field, or else what is replaced with it as a whole."""
    steps = list(_walk(path, model))
    depths = [(_depth(one.get("fieldsV1"), steps), one) for one in entries]
    deepest = max((depth for depth, _one in depths), default=0)
    return [
        Owner(str(one.get("manager") or "somebody"), str(one.get("time") or ""))
        for depth, one in depths
        if depth == deepest > 0
    ]


def _depth(fields: Any, steps: Sequence[tuple[str, tuple[Any, ...] | int | None]]) -> int:
    """How many steps of the way to the field they name; 0: they have nothing of it.

    Where they end before the field, a map or a list is theirs that is replaced as a whole; or one that was empty, in
    which somebody else may have the field.
    """
    for depth, (name, key) in enumerate(steps):
        if not fields or isinstance(key, int):
            return depth
        fields = fields.get(f"f:{name}") if key is None else _element(fields, name, key)
        if fields is None:
            return 0
    return len(steps)


def _element(fields: Object, name: str, key: tuple[Any, ...]) -> Any:
    for text, below in fields.items():
        if text.startswith("k:"):
            named = json.loads(text[2:])
            if tuple(named.get(one, _DEFAULTS.get(one)) for one in KEYS[name]) == key:
                return below
    return None
