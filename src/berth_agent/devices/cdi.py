"""What a prepared claim gives to containers, as a CDI specification; written and removed whole. Called by `prepare`.

One file for each claim, so that two claims on one device have their own share in their own environment. A file is
complete or absent: it is written beside its place, synced and renamed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from berth_core.app.device_claim import DRIVER, Grant

from ..files import write_atomically
from .device import Device

KIND = f"{DRIVER}/claim"
#: The first with annotations, which is what containerd 1.7 and 2.x read.
VERSION = "0.6.0"
CLAIM_ANNOTATION = "berth.dev/claim"
_PREFIX = f"{DRIVER}-claim_"
_UID = re.compile(r"[0-9A-Za-z-]{1,64}")


class Claimed(NamedTuple):
    """A claim as the kubelet names it, and the device claim of the berth that it stands for."""

    namespace: str
    name: str
    uid: str
    claim: str


def cdi_name(claimed: Claimed, grant: Grant) -> str:
    return f"{claimed.uid}-{grant.request.replace('/', '_')}-{grant.device}"


def cdi_id(claimed: Claimed, grant: Grant) -> str:
    """How the kubelet names the device to the container runtime."""
    return f"{KIND}={cdi_name(claimed, grant)}"


def specification(claimed: Claimed, given: Sequence[tuple[Grant, Device]]) -> dict[str, Any]:
    """The CDI document: the device nodes of each device, and for every container that gets one, what it got."""
    devices = [
        {
            "name": cdi_name(claimed, grant),
            "containerEdits": {
                "deviceNodes": [{"path": node.path, "hostPath": node.host_path} for node in device.nodes],
                # The runtime takes no device without edits.
                "env": [f"{_prefix(claimed)}=1"],
            },
        }
        for grant, device in given
    ]
    env = [f"{name}={value}" for name, value in sorted(_environment(claimed, given).items())]
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        "annotations": {CLAIM_ANNOTATION: f"{claimed.namespace}/{claimed.name}"},
        "devices": devices,
        "containerEdits": {"env": env},
    }


def _prefix(claimed: Claimed) -> str:
    return "BERTH_DEVICE_" + re.sub(r"[^A-Z0-9]", "_", claimed.claim.upper())


def _environment(claimed: Claimed, given: Sequence[tuple[Grant, Device]]) -> dict[str, str]:
    """Several devices of one claim: their values, with a comma between them, in the order of the requests."""
    values: dict[str, list[str]] = {}
    for grant, device in given:
        prefix = _prefix(claimed)
        own = {
            f"{prefix}_UUID": grant.uuid,
            f"{prefix}_SHARES": str(grant.shares),
            f"{prefix}_TOTAL_SHARES": str(grant.total),
        }
        if device.nodes:
            own[f"{prefix}_PATH"] = device.nodes[0].path
        for name, value in {**device.env, **own}.items():
            values.setdefault(name, []).append(value)
    return {name: ",".join(each) for name, each in values.items()}


def path_of(root: str, uid: str) -> str:
    """The file of a claim. Raises ValueError for a uid that is none: it becomes part of a path."""
    if not _UID.fullmatch(uid):
        raise ValueError(f"{uid!r} is not the uid of a ResourceClaim")
    return os.path.join(root, f"{_PREFIX}{uid}.json")


def write(root: str, uid: str, document: Mapping[str, Any]) -> None:
    """Write a claim's file unless it says just that already."""
    path, text = path_of(root, uid), json.dumps(document, sort_keys=True, indent=1) + "\n"
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        if file.read() == text:
            return
    write_atomically(path, text, 0o644)


def remove(root: str, uid: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path_of(root, uid))


def there(root: str) -> list[str]:
    """The uids of the claims that have a file."""
    with contextlib.suppress(FileNotFoundError):
        names = sorted(os.listdir(root))
        return [name[len(_PREFIX) : -5] for name in names if name.startswith(_PREFIX) and name.endswith(".json")]
    return []


def claim_of(root: str, uid: str) -> tuple[str, str]:
    """Namespace and name of the claim that a file is for, as it says itself; empty where it does not."""
    try:
        with open(path_of(root, uid), encoding="utf-8") as file:
            said = json.load(file)["annotations"][CLAIM_ANNOTATION]
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""
    namespace, _slash, name = str(said).partition("/")
    return namespace, name
