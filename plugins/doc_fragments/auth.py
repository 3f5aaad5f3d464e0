# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The authentication options of every module that talks to the API server, as module_utils/_glue/auth.py reads them."""

from __future__ import annotations

_OPTIONS = """
options:
  kubeconfig:
    description:
      - Path to a kubeconfig file (or several, joined as in E(KUBECONFIG)), or the kubeconfig itself as a mapping.
      - A relative path is looked for in C(files/) of the role and play, and a vault-encrypted file is decrypted.
      - Also taken from E(K8S_AUTH_KUBECONFIG).
    type: raw
  context:
    description: The kubeconfig's context. Also taken from E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description: URL of the API server. Also taken from E(K8S_AUTH_HOST).
    type: str
  api_key:
    description: Bearer token. It replaces the kubeconfig's own credentials. Also taken from E(K8S_AUTH_API_KEY).
    type: str
  username:
    description: User name for basic authentication. Also taken from E(K8S_AUTH_USERNAME).
    type: str
  password:
    description: Password for basic authentication. Also taken from E(K8S_AUTH_PASSWORD).
    type: str
  validate_certs:
    description: Whether the API server's certificate is verified (default yes). Also taken from E(K8S_AUTH_VERIFY_SSL).
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description: File of the certificate authority. Also taken from E(K8S_AUTH_SSL_CA_CERT).
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description: File of the client certificate. Also taken from E(K8S_AUTH_CERT_FILE).
    type: path
    aliases: [cert_file]
  client_key:
    description: File of the client certificate's key. Also taken from E(K8S_AUTH_KEY_FILE).
    type: path
    aliases: [key_file]
  proxy:
    description: URL of an HTTP proxy. Also taken from E(K8S_AUTH_PROXY).
    type: str
  no_proxy:
    description: Comma separated names that bypass the proxy. Also taken from E(K8S_AUTH_NO_PROXY).
    type: str
  proxy_headers:
    description: Headers for the proxy. Also taken from E(K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH) and its siblings.
    type: dict
    suboptions:
      proxy_basic_auth:
        description: C(user:password) for the proxy.
        type: str
      basic_auth:
        description: C(user:password) for the API server.
        type: str
      user_agent:
        description: The User-Agent header.
        type: str
  persist_config:
    description:
      - Whether refreshed tokens are written back to the kubeconfig.
      - Also taken from E(K8S_AUTH_PERSIST_CONFIG).
    type: bool
  impersonate_user:
    description: User to act as. Also taken from E(K8S_AUTH_IMPERSONATE_USER).
    type: str
  impersonate_groups:
    description: Groups to act as. Also taken from E(K8S_AUTH_IMPERSONATE_GROUPS), comma separated.
    type: list
    elements: str
requirements:
  - python >= 3.9
  - kubernetes >= 24.2.0
"""


class ModuleDocFragment:
    DOCUMENTATION: str = f"""{_OPTIONS}\
notes:
  - With a local connection, without C(become) and without C(async), the module runs inside the controller process, in
    about a twentieth of the time of a separate one. The Python packages that it needs are then those of the interpreter
    that runs Ansible; where that has no C(kubernetes), the module runs in its own interpreter as everywhere else.
  - A vault-encrypted kubeconfig is decrypted in memory, never into a file.
"""

    #: for plugins of the controller (inventory, lookup), which no action plugin stands before
    PLUGIN: str = f"""{_OPTIONS}\
notes:
  - A vault-encrypted kubeconfig is decrypted in memory, never into a file.
"""
