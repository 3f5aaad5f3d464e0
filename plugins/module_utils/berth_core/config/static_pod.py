# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-scheduler's static pod, as kubeadm makes it: what it reads now, and the same pod reading berth's file.

Called by the filters kube_scheduler_reads and kube_scheduler_pod. A manifest comes in and goes out as an object; what
is put in says what was there before, so that it can be taken out again without anybody remembering.
"""

from __future__ import annotations

import copy
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .plugin_args import API_VERSION
from .stock import KIND

#: Which configuration a pod was started with: the kubelet starts it anew when that changes, and its mirror tells it.
DIGEST = "berth.dev/configuration"
#: What --config named before berth's file, as the container sees it.
BEFORE = "berth.dev/configuration-before"
VOLUME = "berth-configuration"
_CONTAINER = "kube-scheduler"
#: Flags that kube-scheduler ignores beside --config (cmd/kube-scheduler/app/options/deprecated.go) -> field, type.
#: Those of the leader election hold beside it.
_FLAGS: Mapping[str, tuple[tuple[str, ...], type]] = {
    "kubeconfig": (("clientConnection", "kubeconfig"), str),
    "kube-api-content-type": (("clientConnection", "contentType"), str),
    "kube-api-qps": (("clientConnection", "qps"), float),
    "kube-api-burst": (("clientConnection", "burst"), int),
    "profiling": (("enableProfiling",), bool),
    "contention-profiling": (("enableContentionProfiling",), bool),
}
Object = dict[str, Any]


@dataclass(frozen=True)
class Reads:
    """``version``: of its image; empty: the image does not tell. ``file``: the file on the host that its own --config
    names; empty: none. ``document``: what its flags say, for where there is no file."""

    version: str
    file: str
    document: Object


def reads(pod: Mapping[str, Any]) -> Reads:
    """What that pod reads without berth's file. Raises InputError for what is no such pod."""
    plain = without_file(pod)
    container = _container(plain)
    version = re.search(r":(v?1\.\d+[^@]*)", str(container.get("image") or ""))
    config = _flag(container, "config")
    return Reads(version.group(1) if version else "", _on_host(plain, config) if config else "", _document(container))


def with_file(pod: Mapping[str, Any], file: str, digest: str) -> Object:
    """The pod reading that file, whose folder is mounted where it is on the host. Twice is once."""
    if not re.fullmatch(r"(/[^/\s]+){2,}", file):
        raise InputError(f"file is {file!r}: expected a whole path in a folder of its own")
    made = without_file(pod)
    container, folder = _container(made), posixpath.dirname(file)
    notes = made["metadata"].setdefault("annotations", {})
    notes[DIGEST] = digest
    if _flag(container, "config"):
        notes[BEFORE] = _flag(container, "config")
    _set_config(container, file)
    mount = {"name": VOLUME, "mountPath": folder, "readOnly": True}
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    volume = {"name": VOLUME, "hostPath": {"path": folder, "type": "Directory"}}
    made["spec"]["volumes"] = [*(made["spec"].get("volumes") or ()), volume]
    return made


def without_file(pod: Mapping[str, Any]) -> Object:
    """The pod as it was before `with_file`; any other is as it is."""
    made = copy.deepcopy(dict(pod))
    container = _container(made)
    notes = made["metadata"].get("annotations") or {}
    if DIGEST not in notes:
        return made
    del notes[DIGEST]
    _set_config(container, notes.pop(BEFORE, ""))
    for holder, key in ((container, "volumeMounts"), (made["spec"], "volumes")):
        holder[key] = [one for one in holder.get(key) or () if one.get("name") != VOLUME]
        if not holder[key]:
            del holder[key]
    if not notes:
        del made["metadata"]["annotations"]
    return made


def _container(pod: Mapping[str, Any]) -> Object:
    if pod.get("kind") != "Pod" or not isinstance(pod.get("metadata"), dict) or not isinstance(pod.get("spec"), dict):
        parts = "" if pod.get("kind") != "Pod" else " without metadata or spec"
        raise InputError(f"kube-scheduler's manifest: expected a Pod, got {pod.get('kind')}{parts}")
    containers = pod["spec"].get("containers") or []
    found = [one for one in containers if isinstance(one, dict) and one.get("name") == _CONTAINER]
    if len(found) != 1 or not isinstance(found[0].get("command"), list):
        raise InputError(f"kube-scheduler's manifest: expected one container {_CONTAINER} with a command")
    container: Object = found[0]
    return container


def _words(container: Mapping[str, Any]) -> list[str]:
    return [str(one) for key in ("command", "args") for one in container.get(key) or ()]


def _flag(container: Mapping[str, Any], name: str) -> str:
    """The value of a flag, of the last where it stands several times; empty: it is not there."""
    words, found = _words(container), ""
    for index, word in enumerate(words):
        if word == f"--{name}":
            found = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("--") else "true"
        elif word.startswith(f"--{name}="):
            found = word.partition("=")[2]
    return found


def _set_config(container: Object, file: str) -> None:
    """Put the file where --config stands, or at the end; empty: take the flag out."""
    flag = "--config"
    for key in ("command", "args"):
        words = container.get(key) or []
        for index, word in enumerate(words):
            length = 2 if word == flag else 1 if str(word).startswith(f"{flag}=") else 0
            if length:
                words[index : index + length] = [f"{flag}={file}"] if file else []
                return
    if file:
        (container["args"] if container.get("args") else container["command"]).append(f"{flag}={file}")


def _document(container: Mapping[str, Any]) -> Object:
    document: Object = {"apiVersion": API_VERSION, "kind": KIND}
    for name, (path, kind) in _FLAGS.items():
        value = _flag(container, name)
        if not value:
            continue
        holder = document
        for key in path[:-1]:
            holder = holder.setdefault(key, {})
        try:
            holder[path[-1]] = value == "true" if kind is bool else kind(value)
        except ValueError:
            raise InputError(f"kube-scheduler's manifest: --{name} is {value!r}: expected a number") from None
    return document


def _on_host(pod: Mapping[str, Any], file: str) -> str:
    """A path of the container as the host has it."""
    paths = {
        str(one.get("name")): str((one.get("hostPath") or {}).get("path") or "")
        for one in pod["spec"].get("volumes") or ()
    }
    mounts = sorted(_container(pod).get("volumeMounts") or (), key=lambda one: -len(str(one["mountPath"])))
    for mount in mounts:
        inside, outside = str(mount["mountPath"]).rstrip("/"), paths.get(str(mount["name"]))
        if outside and (file == inside or file.startswith(f"{inside}/")):
            return outside.rstrip("/") + file[len(inside) :]
    raise InputError(f"kube-scheduler's manifest: --config is {file}, which no hostPath holds")
