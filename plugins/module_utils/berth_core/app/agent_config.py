# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the text of an agent's configuration file to Settings, or to every problem with its line.

Called by the node agent, and by the module node_agent before it hands a configuration to the agents. The file is taken
or refused as a whole. What a disk entry may say is the inventory's rule (disk_plan).
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Callable, NamedTuple

from ..errors import InputError
from ..model.addresses import is_host, server_of
from ..model.names import SUBDOMAIN_WORDS, is_subdomain
from . import agent_devices, wipe
from .agent_settings import BOUNDS, CHOICES, FROM_COMMAND_LINE, HOSTS, PATHS, URLS, Settings
from .disk_change import SETTINGS, check_settings, read_identity
from .fsid import mount_point
from .identity import Identity, names_same
from .yaml_lines import Problem, read_yaml

_IDENTITY = ("wwn", "serial", "model", "size", "by_path")
_STRONG = ("wwn", "serial", "by_path")
_DISK_CHOICES = {
    "volume_mode": ("Filesystem", "Block"),
    "fs_type": ("ext4", "xfs"),
    "reclaim_policy": ("Retain", "Delete"),
    "wipe_method": wipe.METHODS,
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_SIZE_LIMIT = 1 << 20
_TYPES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a duration (90, 30s, 5m)",
    str: "a text",
}

#: (path of keys, what is wrong)
Finding = typing.Tuple[typing.Any, str]  # noqa: UP006 - evaluated at run time, on Python 3.9


class Checked(NamedTuple):
    """``settings`` is None when there are problems. ``digest``: the first 12 hexadecimal digits of the SHA-256."""

    settings: Settings | None
    digest: str
    problems: list[Problem]


class Libraries(NamedTuple):
    """What the caller imports: the module yaml (PyYAML), and who gives the module jmespath where there is a query."""

    yaml: Any
    jmespath: Callable[[], Any]


def check_text(text: str, libraries: Libraries) -> Checked:
    """Read a whole file. The problems are in the order of their lines."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    if len(text) > _SIZE_LIMIT:
        return Checked(None, digest, [Problem(1, f"is {len(text)} characters long: expected at most {_SIZE_LIMIT}")])
    document = read_yaml(text, libraries.yaml)
    problems = list(document.problems)
    value = {} if document.value is None and not problems else document.value
    if not problems and not isinstance(value, dict):
        problems.append(Problem(1, "is not a mapping: expected keys as node, disks, intervals"))
    if isinstance(value, dict):
        findings = [*_section("", Settings, value), *_disks(value, libraries), *_classes(value), *_together(value)]
        problems += [Problem(_line(document.lines, path), what) for path, what in findings]
    if problems:
        return Checked(None, digest, sorted(set(problems)))
    return Checked(_build(Settings, value), digest, [])


def _line(lines: Mapping[Any, int], path: Any) -> int:
    """The line of a path, or of the nearest thing around it."""
    while path not in lines and path:
        path = path[:-1]
    return lines.get(path, 1)


def _section(name: str, kind: type, value: Mapping[str, Any]) -> Iterator[Finding]:
    """Unknown keys and wrong types of one section."""
    types = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)} - (set(FROM_COMMAND_LINE) if not name else set())
    for key, given in value.items():
        path = (name, key) if name else (key,)
        if key not in known:
            yield path, f"{'.'.join(path)} is not known: expected one of {', '.join(sorted(known))}"
        elif given is None:
            continue
        elif dataclasses.is_dataclass(types[key]):
            if isinstance(given, Mapping):
                yield from _section(key, types[key], given)
            else:
                yield path, f"{key} is {_kind(given)}: expected a mapping"
        else:
            yield from ((path, f"{'.'.join(path)} {what}") for what in _scalar(name, key, types[key], given))


def _scalar(section: str, key: str, wanted: Any, given: Any) -> Iterator[str]:
    if wanted not in _TYPES:  # a list of entries
        if not isinstance(given, list):
            yield f"is {_kind(given)}: expected a list"
        return
    value = _convert(wanted, given)
    if value is None:
        yield f"is {given!r}: expected {_TYPES[wanted]}"
        return
    least, most = BOUNDS.get((section, key), (float("-inf"), float("inf")))
    if wanted in (int, float) and not least <= value <= most:
        yield f"is {given}: expected between {least:g} and {most:g}"
    choices = CHOICES.get((section, key))
    if choices and value not in choices:
        yield f"is {given!r}: expected one of {', '.join(choices)}"
    if isinstance(value, str):
        yield from _text(section, key, value)


def _text(section: str, key: str, value: str) -> Iterator[str]:
    """What is wrong with the name, address or path that a text is."""
    if (section, key) in HOSTS and value and not is_host(value):
        yield f"is {value!r}: expected an IP address, or a name that resolves to one"
    if (section, key) == ("", "node") and value and not is_subdomain(value):
        yield f"is {value!r}, which no Node can be named: expected {SUBDOMAIN_WORDS}"
    if (section, key) in URLS and value and server_of(value) is None:
        yield f"is {value!r}: expected an address as https://HOST:PORT/PATH"
    if (section, key) in PATHS and not _is_path(value, section, key):
        yield f"is {value!r}: expected an absolute path without '..'"


def _is_path(value: str, section: str, key: str) -> bool:
    """Whether it is an absolute path; or nothing, where the default is nothing."""
    if not value:
        whole = Settings()
        return not getattr(getattr(whole, section) if section else whole, key)
    return value.startswith("/") and value.isprintable() and ".." not in value.split("/")


def _convert(wanted: type, given: Any) -> Any:
    """The value as that type; None when it is not of it. A bool is no number, and a number is no text."""
    if wanted is float:
        if isinstance(given, bool):
            return None
        found = _DURATION.fullmatch(str(given)) if isinstance(given, (int, float, str)) else None
        return float(found.group(1)) * _SECONDS[found.group(2)] if found else None
    fits = isinstance(given, wanted) and (wanted is bool or not isinstance(given, bool))
    return given if fits else None


def _entries(value: Mapping[str, Any], key: str) -> Iterator[tuple[int, Any]]:
    given = value.get(key)
    return iter(enumerate(given if isinstance(given, list) else ()))


def _disks(value: Mapping[str, Any], libraries: Libraries) -> Iterator[Finding]:
    for index, entry in _entries(value, "disks"):
        yield from _disk("disks", index, entry, ("name", *_IDENTITY))
        if isinstance(entry, Mapping) and not any(entry.get(key) for key in _STRONG):
            yield ("disks", index), f"disks[{index}] names no disk: expected at least one of {', '.join(_STRONG)}"
    yield from _twice(value)
    for index, entry in _entries(value, "disk_selectors"):
        yield from _disk("disk_selectors", index, entry, ("query",))
        if isinstance(entry, Mapping):
            yield from _query(index, entry.get("query"), libraries)


def _twice(value: Mapping[str, Any]) -> Iterator[Finding]:
    """Entries that name a disk, or give a LocalDisk's name, that an entry before them has."""
    before: list[tuple[int, Identity]] = []
    names: dict[str, int] = {}
    for index, entry in _entries(value, "disks"):
        if not isinstance(entry, Mapping):
            continue
        name = entry.get("name")
        if isinstance(name, str) and name and names.setdefault(name, index) != index:
            path, first = ("disks", index, "name"), names[name]
            yield path, f"disks[{index}]: name is {name!r}, as of disks[{first}]: expected another name for each disk"
        try:
            identity = read_identity({each: str(entry[each]) for each in _IDENTITY if entry.get(each)}, "")
        except InputError:
            continue
        same = next((other for other, known in before if names_same(identity, known)), None)
        if same is None:
            before.append((index, identity))
        else:
            told = f"disks[{index}] ({identity.describe()}) names the disk of disks[{same}]"
            yield ("disks", index), f"{told}: expected one entry for each disk; remove one, or add its wwn to both"


def _disk(key: str, index: int, entry: Any, own: tuple[str, ...]) -> Iterator[Finding]:
    where = f"{key}[{index}]"
    if not isinstance(entry, Mapping):
        yield (key, index), f"{where} is {_kind(entry)}: expected a mapping"
        return
    known = (*own, *SETTINGS, "labels")
    for option, given in entry.items():
        path = (key, index, option)
        if option not in known:
            yield path, f"{where}: {option} is not known: expected one of {', '.join(sorted(known))}"
        elif given is not None:
            yield from ((path, f"{where}: {option} {what}") for what in _disk_option(option, given))
    try:
        read_identity({each: str(entry[each]) for each in _IDENTITY if entry.get(each)}, where)
        check_settings(entry, where)
    except InputError as exc:
        yield (key, index), exc.message


def _disk_option(option: str, given: Any) -> Iterator[str]:
    if option == "reserved":
        if not isinstance(given, bool):
            yield f"is {given!r}: expected true or false"
    elif option in ("mount_options", "labels"):
        if not isinstance(given, list if option == "mount_options" else dict):
            yield f"is {_kind(given)}: expected a {'list' if option == 'mount_options' else 'mapping'}"
    elif option == "size":
        if isinstance(given, bool) or not isinstance(given, (str, int)):
            yield f"is {given!r}: expected a quantity, as 480Gi"
    elif option == "name" and isinstance(given, str) and given and not is_subdomain(given):
        yield f"is {given!r}, which no LocalDisk can be named: expected {SUBDOMAIN_WORDS}"
    elif not isinstance(given, str):
        yield f"is {given!r}, which YAML does not read as a text: write it in quotes"
    elif option in _DISK_CHOICES and given not in _DISK_CHOICES[option]:
        yield f"is {given!r}: expected one of {', '.join(_DISK_CHOICES[option])}"


def _query(index: int, query: Any, libraries: Libraries) -> Iterator[Finding]:
    where, path = f"disk_selectors[{index}]", ("disk_selectors", index, "query")
    if not query:
        yield path, f"{where}: query is missing: expected a JMESPath expression over the host's block devices"
    elif isinstance(query, str):
        jmespath = libraries.jmespath()
        try:
            jmespath.compile(query)
        except jmespath.exceptions.JMESPathError as exc:
            yield path, f"{where}: query {query!r} is not a JMESPath expression: {' '.join(str(exc).split())}"


def _classes(value: Mapping[str, Any]) -> Iterator[Finding]:
    for index, entry in _entries(value, "device_classes"):
        path, where = ("device_classes", index), f"device_classes[{index}]"
        if not isinstance(entry, Mapping):
            yield path, f"{where} is {_kind(entry)}: expected a mapping"
        else:
            yield from ((path, f"{where}: {what}") for what in agent_devices.problems(entry))


def _together(value: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with two values that are right by themselves."""
    metrics, usage = _mapping(value.get("metrics")), _mapping(value.get("usage"))
    root = value.get("mount_root")
    if isinstance(root, str) and root.startswith("/"):
        try:
            mount_point("disk", root)
        except InputError as exc:
            yield ("mount_root",), f"mount_root: {exc.message}"
    if bool(metrics.get("tls_certificate")) != bool(metrics.get("tls_key")):
        yield ("metrics",), "metrics: tls_certificate and tls_key go together: only one is given"
    if usage.get("store") == "prometheus" and not usage.get("url"):
        yield ("usage",), "usage: store prometheus needs url, the address of remote write"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _build(kind: type, value: Mapping[str, Any]) -> Any:
    """The dataclass of a section that has no problems."""
    types, made = typing.get_type_hints(kind), {}
    for key, given in value.items():
        if given is None:
            continue
        if dataclasses.is_dataclass(types[key]):
            made[key] = _build(types[key], given)
        else:
            made[key] = _convert(types[key], given) if types[key] in _TYPES else tuple(given)
    return kind(**made)


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {dict: "a mapping", list: "a list", str: "a text"}
    return kinds.get(type(value), repr(value))
