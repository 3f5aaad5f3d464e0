# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of hosts and of servers, checked before anybody connects. Whether a name resolves is not asked.

Called by the check of the agent's configuration and by the daemons' options and kubeconfigs.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

#: Also with underscores, which resolvers take; the last part is no number, or it would be half an IPv4 address.
_PART = r"[A-Za-z0-9_](?:[-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)(?:{_PART}\.)*(?![0-9]+\.?\Z){_PART}\.?")


class Server(NamedTuple):
    """``port``: 443 or 80 where none is given. ``prefix``: the path without a slash at its end."""

    host: str
    port: int
    prefix: str
    tls: bool


def is_host(text: str) -> bool:
    """Tell whether a text is an IP address or could be a host's name."""
    return _is_ip(text) or bool(_HOST.fullmatch(text))


def server_of(text: str) -> Server | None:
    """Read ``https://HOST[:PORT][/PREFIX]``, or http; None for what is no such address."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # half an IPv6 address; a port that is none
        return None
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not is_host(host) or parts.username:
        return None
    tls = parts.scheme == "https"
    return Server(host, port or (443 if tls else 80), parts.path.rstrip("/"), tls)


def uri_password(rest: str) -> str:
    """By what a connection URI of libpq has a password, as libpq takes it apart; ``rest``: behind the scheme."""
    for before in (rest.partition("/")[0], rest.partition("?")[0]):  # a password may have either, too
        user, at, _hosts = before.partition("@")
        if at and ":" in user:
            return "USER:PASSWORD@"
    keys = (unquote(one.partition("=")[0]).strip() for one in re.split("[?&]", rest)[1:])
    return next((f"{key}=" for key in keys if key in ("password", "sslpassword")), "")


def _is_ip(text: str) -> bool:
    address, _percent, _scope = text.partition("%")
    try:
        return ipaddress.ip_address(address).version == 6 or address == text  # IPv4 knows no scope
    except ValueError:
        return False
