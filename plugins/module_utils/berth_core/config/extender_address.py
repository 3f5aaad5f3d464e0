# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an extender is, and how it is known: its `urlPrefix` and `tlsConfig`, taken apart.

kube-scheduler finds out with the first pod; here a wrong one is refused with its path when the file is read, by front
ends that call `SchedulerConfiguration.check`. `parse` takes what kube-scheduler takes.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from ..errors import InputError
from ..model.fields import boolean, string
from .connections import Extender
from .reading import only, wrong

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]\s]+)(?::([0-9]{1,5}))?(/[^?#\s]*)?")
_KINDS = ("cert", "key", "ca")
_TEXTS = ("serverName", *(f"{kind}File" for kind in _KINDS), *(f"{kind}Data" for kind in _KINDS))


class Pem(NamedTuple):
    """PEM text as a file, or as data: one of the two."""

    path: str | None
    data: bytes | None


class Address(NamedTuple):
    """`trust`: the authorities, None for the machine's own. `pair`: certificate and key that the client shows."""

    host: str
    port: int
    prefix: str
    https: bool
    server_name: str
    insecure: bool
    trust: Pem | None
    pair: tuple[Pem, Pem] | None


def address_of(extender: Extender, path: str) -> Address:
    """Take it apart. Raises InputError with the path of what is wrong."""
    found = _URL.fullmatch(extender.url_prefix)
    port = int(found[3] or (443 if found[1] == "https" else 80)) if found else 0
    if found is None or not 0 < port < 65536:
        raise wrong(f"{path}.urlPrefix", "http(s)://HOST[:PORT][/PATH]", extender.url_prefix)
    tls, where = dict(extender.tls), f"{path}.tlsConfig"
    only(tls, ("insecure", *_TEXTS), where)
    name, *pems = (string(tls, field, f"{where}.{field}") for field in _TEXTS)
    cert, key, trust = (_pem(*one, f"{where}.{kind}Data") for kind, one in zip(_KINDS, zip(pems[:3], pems[3:])))
    insecure = boolean(tls, "insecure", f"{where}.insecure")
    if insecure and trust is not None:
        raise InputError(f"{where}: expected an authority or insecure, got both", field=where)
    if (cert is None) != (key is None):
        raise InputError(f"{where}: expected a certificate with its key, got one of them", field=where)
    pair = (cert, key) if cert is not None and key is not None else None
    prefix = (found[4] or "").rstrip("/")
    return Address(found[2].strip("[]"), port, prefix, found[1] == "https", name, insecure, trust, pair)


def _pem(file: str, data: str, path: str) -> Pem | None:
    """Data goes before a file, as in kube-scheduler."""
    if not data:
        return Pem(file, None) if file else None
    try:
        return Pem(None, base64.b64decode(data, validate=True))
    except ValueError as exc:
        raise InputError(f"{path}: expected base64: {exc}", field=path) from exc
