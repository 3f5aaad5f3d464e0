# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is what is wanted already there? Compares a desired object with a live one, without asking the API server to try.

Called by every module before it writes: no difference, no request. The arguments are never changed.
``desired`` is a subset of ``live``: what it does not mention (server defaults, status, others' fields) is not berth's.

The rules, which are those of the API server's own encoding:

- mappings: every key of ``desired`` must agree; ``None`` means that the key must be absent;
- lists: same length, compared by index; mappings inside them as subsets;
- quantities (``1Gi`` and ``1024Mi``) are equal by value below the keys of `QUANTITY_KEYS`, nowhere else;
- an empty list, an empty map of `MAP_KEYS`, and a zero value of `ZERO_KEYS` equal an absent key,
  as the server leaves them out.

Held together: ``differences(desired, live) == []`` exactly when ``prune(live, desired) == desired``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from ..errors import QuantityError
from ..model.quantity import parse_quantity

#: From the outside to a field: keys, and indices of lists.
Path = tuple[Union[str, int], ...]
#: Below these keys a text may be a quantity: resources.requests.cpu, capacity.storage, emptyDir.sizeLimit ...
QUANTITY_KEYS = frozenset({"resources", "capacity", "storage", "requests", "limits", "overhead", "sizeLimit"})
#: Below these keys everything is the user's own text, whatever it is called.
VERBATIM_KEYS = frozenset(
    {"metadata", "labels", "annotations", "matchLabels", "nodeSelector", "selector", "data", "stringData", "parameters"}
)
#: Fields whose Go type is a map: empty ones are not written back (an empty structure, as in emptyDir: {}, is).
MAP_KEYS = frozenset(
    {
        "labels", "annotations", "matchLabels", "nodeSelector", "selector", "data", "binaryData", "stringData",
        "parameters", "requests", "limits", "capacity", "overhead", "podLabels",
    }
)  # fmt: skip
#: Fields whose Go type is a plain bool, number or string with omitempty (no pointer): zero values are not written back.
ZERO_KEYS = frozenset(
    {
        "hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly",
        "publishNotReadyAddresses", "paused", "unschedulable", "minReadySeconds", "hostPort", "hostIP", "value",
        "subPath", "subPathExpr", "hostname", "subdomain", "nodeName", "volumeName", "priorityClassName",
        "serviceAccountName", "serviceAccount", "medium", "workingDir", "key", "operator", "effect",
        "mountPath", "namespace", "generateName", "loadBalancerIP", "externalName", "fsType",
    }
)  # fmt: skip


def differences(desired: Any, live: Any) -> list[str]:
    """The paths (``spec.containers[0].image``) at which ``live`` is not what ``desired`` asks; empty if it is.

    Both are JSON values as the API has them. The order is that of ``desired``.
    """
    return [told(path) for path in paths(desired, live)]


def paths(desired: Any, live: Any) -> list[Path]:
    """The same paths, in steps."""
    return list(_differences(desired, live, (), None))


def prune(live: Any, desired: Any) -> Any:
    """``live`` restricted to what ``desired`` speaks of: the "before" of a diff whose "after" is ``desired``.

    Where both mean the same in another spelling, it is spelt as in ``desired``, so that a diff shows changes only.
    """
    return _prune(live, desired, None)


def _differences(desired: Any, live: Any, path: Path, amounts: bool | None) -> Iterator[Path]:
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        for name, value in desired.items():
            yield from _difference_at(str(name), value, live, path, amounts)
    elif isinstance(desired, list) and isinstance(live, list):
        if len(desired) != len(live):
            yield path
            return
        for index, (want, have) in enumerate(zip(desired, live)):
            yield from _differences(want, have, (*path, index), amounts)
    elif not _same(desired, live, amounts):
        yield path


def _difference_at(name: str, value: Any, live: Mapping[str, Any], path: Path, amounts: bool | None) -> Iterator[Path]:
    where, have = (*path, name), live.get(name)
    if have is None:
        if not means_absent(name, value):
            yield where
    elif value is None:
        if not means_absent(name, have):
            yield where
    else:
        yield from _differences(value, have, where, _amounts(name, amounts))


def _prune(live: Any, desired: Any, amounts: bool | None) -> Any:
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        kept = {}
        for name, value in desired.items():
            have = live.get(name)
            if have is None or value is None:
                if means_absent(name, value if have is None else have):
                    kept[name] = value
                elif have is not None:
                    kept[name] = have
            else:
                kept[name] = _prune(have, value, _amounts(name, amounts))
        return kept
    if isinstance(desired, list) and isinstance(live, list):
        paired = [_prune(have, want, amounts) for have, want in zip(live, desired)]
        return paired + live[len(paired) :]
    return desired if _same(desired, live, amounts) else live


def _amounts(name: str, amounts: bool | None) -> bool | None:
    """Whether quantities are looked for below ``name``; the outermost key that says so decides (None: none has yet)."""
    if amounts is not None:
        return amounts
    if name in VERBATIM_KEYS:
        return False
    return True if name in QUANTITY_KEYS else None


def means_absent(name: str, value: Any) -> bool:
    """Whether the server leaves a field with this value out of what it stores."""
    if value is None or value == []:
        return True
    if value == {}:
        return name in MAP_KEYS
    return name in ZERO_KEYS and value in ("", 0, False)


def _same(desired: Any, live: Any, amounts: bool | None) -> bool:
    if isinstance(desired, bool) or isinstance(live, bool):
        return desired is live
    if desired == live:
        return True
    if not amounts or not isinstance(desired, (str, int, float)) or not isinstance(live, (str, int, float)):
        return False
    try:
        return bool(parse_quantity(desired) == parse_quantity(live))
    except QuantityError:
        return False


def told(path: Path) -> str:
    """The path as people read it."""
    found = ""
    for step in path:
        if isinstance(step, int):
            found += f"[{step}]"
        elif any(sign in step for sign in "./[]'\""):
            found += f"[{step!r}]"
        else:
            found += f".{step}" if found else step
    return found
