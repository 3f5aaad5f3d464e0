# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin cluster. Called by Ansible; what becomes a host is decided in berth_core/app/inventory.py.

Everything that comes from the cluster, or from the cache of what did, is marked unsafe: no value is ever a template.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster
short_description: Nodes, local disks and berths of a cluster as an inventory
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Makes each node a host, with its local disks, devices and berths as host variables, and groups by what they hold.
  - LocalDisks and Berths can be hosts as well, for a play that goes over them. They are reached by their node's
    address.
  - Sends one LIST for each kind of object (nodes, localdisks, localdevices, berths, pods) and never writes.
  - The name of the file ends with C(berth.yml) or C(berth.yaml). Files that it names are relative to its folder.
  - Values from the cluster are never templates, whatever is written in them.
extends_documentation_fragment:
  - berth.stateful.auth.plugin
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [berth.stateful.cluster]
  as_hosts:
    description:
      - Which objects become hosts. V(nodes) under their own names, V(disks) as C(NAME.disk), V(berths) as
        C(NAME.NAMESPACE.berth).
      - The groups are C(berth_nodes), C(berth_nodes_ready), C(berth_nodes_with_free_disks) and
        C(berth_nodes_with_bad_disks); C(berth_disks) and C(berth_disks_PHASE); C(berth_berths) and
        C(berth_berths_PHASE); and for each app C(berth_app_NAMESPACE__APP), with underscores for hyphens.
      - A node has the variables C(berth_node), C(berth_local_disks), C(berth_local_devices) and C(berth_berths), a disk
        C(berth_local_disk), a berth C(berth_berth), both C(berth_node), all as
        M(berth.stateful.resource_list_info) and P(berth.stateful.berths#lookup) return them.
    type: list
    elements: str
    default: [nodes]
  address_types:
    description:
      - Types of node addresses for C(ansible_host), the first one that a node has counts. An empty list leaves
        C(ansible_host) to other inventories.
    type: list
    elements: str
    default: [InternalIP, ExternalIP, Hostname, InternalDNS, ExternalDNS]
  label_selectors:
    description: Label selectors for nodes. Disks and berths of other nodes are left out.
    type: list
    elements: str
    default: []
seealso:
  - module: berth.stateful.resource_list_info
  - plugin: berth.stateful.berths
    plugin_type: lookup
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
# storage.berth.yml: groups by zone, a composed variable, a cache that lives for five minutes
plugin: berth.stateful.cluster
kubeconfig: ~/.kube/config
label_selectors:
  - node-role.kubernetes.io/control-plane!=
compose:
  free_gib: berth_node.disks.free_bytes // 1024 ** 3
  ansible_user: "'root'"
groups:
  crowded: berth_node.disks.free == 0
keyed_groups:
  - key: berth_node.labels['topology.kubernetes.io/zone']
    prefix: zone
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: /tmp/berth-inventory
cache_timeout: 300
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ..module_utils._glue.overview import read_lists
from ..module_utils.berth_core.app.inventory import ADDRESS_TYPES, HOST_KINDS, Host, hosts
from ..module_utils.berth_core.app.overview import overview
from ..module_utils.berth_core.errors import BerthError, InputError
from ..plugin_utils.connecting import connect

#: Of what is cached. What another version has left there is read anew.
_SHAPE = 1
#: Which cluster, and which of its nodes, a cache is of. (Secrets are not among them.)
_CLUSTER = ("kubeconfig", "context", "host", "impersonate_user", "label_selectors")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """See DOCUMENTATION."""

    NAME = "berth.stateful.cluster"

    def verify_file(self, path: str) -> bool:
        """Ansible asks whether a file may be one of this plugin's."""
        return bool(super().verify_file(path)) and path.endswith(("berth.yml", "berth.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Called by Ansible once for each file. Raises AnsibleParserError."""
        super().parse(inventory, loader, path, cache)
        if not isinstance(loader.load_from_file(path), Mapping):
            raise AnsibleParserError(f"{path}: expected a mapping of options, as plugin: {self.NAME}")
        config = self._read_config_data(path)
        try:
            self._refuse_unknown(config)
            kinds, types = self._listed("as_hosts", HOST_KINDS), self._listed("address_types", ADDRESS_TYPES)
            made = hosts(self._overview(path, cache), kinds, types)
        except BerthError as exc:
            raise AnsibleParserError(f"{path}: {exc.message}") from exc
        except AnsibleError as exc:
            raise AnsibleParserError(f"{path}: {exc}") from exc
        for host in made:
            self._add(host)

    def _refuse_unknown(self, config: Any) -> None:
        known: set[str] = set()
        for name, option in self.option_definitions.items():
            known |= {name, *(option.get("aliases") or ())}
        unknown = sorted(set(config) - known)
        if unknown:
            raise InputError(f"unknown option {', '.join(unknown)}: expected some of {', '.join(sorted(known))}")

    def _listed(self, option: str, choices: tuple[str, ...]) -> list[str]:
        chosen = list(self.get_option(option))
        wrong = [str(one) for one in chosen if one not in choices]
        if wrong:
            raise InputError(f"{option} has {', '.join(wrong)}: expected some of {', '.join(choices)}")
        return chosen

    def _overview(self, path: str, cache: bool) -> dict[str, Any]:
        if not self.get_option("cache"):
            return self._read(path)
        key = self._key(path)
        if cache:
            kept = self._cache.get(key) or {}
            if kept.get("shape") == _SHAPE and isinstance(kept.get("overview"), dict):
                found: dict[str, Any] = kept["overview"]
                return found
        found = self._read(path)
        self._cache[key] = {"shape": _SHAPE, "overview": found}
        return found

    def _key(self, path: str) -> str:
        """Another cluster, or other nodes of it, in the same file is another cache."""
        options = {name: self.get_option(name) for name in _CLUSTER}
        if not isinstance(options["kubeconfig"], str) and options["kubeconfig"] is not None:
            options["kubeconfig"] = [one.get("cluster", {}).get("server") for one in options["kubeconfig"]["clusters"]]
        asked = json.dumps(options, default=str, sort_keys=True)
        return f"{self.get_cache_key(path)}_{hashlib.sha256(asked.encode()).hexdigest()[:12]}"

    def _read(self, path: str) -> dict[str, Any]:
        folder = os.path.dirname(os.path.abspath(path))
        client = connect(self.get_option, self.loader, folder, os.environ, self.display.warning)
        selectors = ",".join(self.get_option("label_selectors"))
        return overview(read_lists(client, selectors or None), whole=not selectors)

    def _add(self, host: Host) -> None:
        self.inventory.add_host(host.name)
        for group in host.groups:
            self.inventory.add_group(group)
            self.inventory.add_child(group, host.name)
        for name, value in host.variables.items():
            self.inventory.set_variable(host.name, name, wrap_var(value))
        variables = self.inventory.get_host(host.name).get_vars()
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host.name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host.name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host.name, strict=strict)
