# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the API server for plugins that run on the controller beside modules: inventory and lookup.

They take the options of modules, in the same precedence; what an action plugin does for a kubeconfig that a task
names (find the file, decrypt it) is done here for the plugins that have no task.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleError
from ansible.parsing.vault import is_encrypted_file

from ..module_utils._glue.auth import AUTH_ARGUMENT_SPEC, load_auth, with_absolute_paths
from ..module_utils._glue.client import ApiClient

_FILES = ("ca_cert", "client_cert", "client_key")


def connect(
    option: Callable[[str], Any], loader: Any, folder: str, environ: Mapping[str, str], warn: Callable[[str], None]
) -> ApiClient:
    """A client by the plugin's options (``option`` returns one by its name); relative files are in ``folder``.

    Raises BerthError, or AnsibleError for a vault-encrypted kubeconfig that cannot be read.
    """
    params = {name: in_the_clear(option(name)) for name in AUTH_ARGUMENT_SPEC}
    for name in _FILES:
        if isinstance(params[name], str):
            params[name] = _in(folder, params[name])
    path = params["kubeconfig"]
    if isinstance(path, str) and os.pathsep not in path:
        params["kubeconfig"] = decrypted(_in(folder, path), loader)
    return ApiClient(load_auth(params, environ), warn)


def _in(folder: str, path: str) -> str:
    return os.path.join(folder, os.path.expanduser(path))


def in_the_clear(value: Any) -> Any:
    """The value with its vaulted texts decrypted.

    Before ansible-core 2.19 these are objects of a class of their own until somebody takes them for a text.
    """
    if getattr(value, "__ENCRYPTED__", False):
        return str(value)
    if isinstance(value, dict):
        return {key: in_the_clear(one) for key, one in value.items()}
    return [in_the_clear(one) for one in value] if isinstance(value, list) else value


def decrypted(path: str, loader: Any) -> Any:
    """The path; of a vaulted kubeconfig the content: its secrets are never written to a file in the clear."""
    try:
        with open(path, "rb") as stream:
            vaulted = is_encrypted_file(stream)
    except OSError:  # not there, or not to be read: the kubeconfig's own reader says so
        return path
    if not vaulted:
        return path
    try:
        content = loader.load_from_file(path)
    except AnsibleError as exc:
        raise AnsibleError(f"the vault-encrypted kubeconfig {path} cannot be read: {exc}") from exc
    return with_absolute_paths(content, os.path.dirname(os.path.abspath(path)))
