# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup berths: where the replicas of apps are. Called by Ansible; rows: berth_core/app/overview.py."""

from __future__ import annotations

DOCUMENTATION = r"""
name: berths
short_description: Where the replicas of an app are, and what they hold
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Reads the Berths of the named apps, of all apps where none is named, with one LIST. Never writes.
  - The phase is the one that is recorded. M(berth.stateful.stateful_app_info) derives it from all objects.
  - Values from the cluster are never templates, whatever is written in them.
extends_documentation_fragment:
  - berth.stateful.auth.plugin
options:
  _terms:
    description: Names of apps.
    type: list
    elements: str
  namespace:
    description: Of this namespace only.
    type: str
  node:
    description: On this node only.
    type: str
notes:
  - Files that the options name are relative to the working directory.
seealso:
  - module: berth.stateful.stateful_app_info
"""

EXAMPLES = r"""
- name: The nodes of a database
  ansible.builtin.debug:
    msg: "{{ query('berth.stateful.berths', 'db', namespace='shop') | map(attribute='node') }}"

- name: Who would notice if this node went away
  ansible.builtin.debug:
    msg: "{{ query('berth.stateful.berths', node='h1') | map(attribute='app') | unique }}"
"""

RETURN = r"""
_list:
  description:
    - One entry for each Berth, by namespace, app and ordinal, with C(namespace), C(name), C(app), C(ordinal), C(node),
      C(disks) (C(claim), C(name)), C(devices) (C(claim), C(name), C(shares)), C(phase),
      C(pod) and C(workload) (C(StatefulSet pg); of claims without an app alone).
  type: list
  elements: dict
"""

import os
from typing import Any

from ansible.errors import AnsibleError, AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible.utils.unsafe_proxy import wrap_var

from ..module_utils.berth_core.app.overview import berth_row
from ..module_utils.berth_core.errors import BerthError
from ..module_utils.berth_core.model.berth import CLAIM_APP
from ..module_utils.berth_core.model.names import check_label, check_subdomain
from ..module_utils.berth_core.model.resources import BERTH
from ..plugin_utils.connecting import connect


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Called by Ansible. Raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            self._refuse_strange(terms)
            client = connect(self.get_option, self._loader, os.getcwd(), os.environ, Display().warning)
            records = client.list(BERTH, self.get_option("namespace"))
        except BerthError as exc:
            raise AnsibleLookupError(f"berth.stateful.berths: {exc.message}") from exc
        except AnsibleError as exc:
            raise AnsibleLookupError(f"berth.stateful.berths: {exc}") from exc
        apps, node = {str(term) for term in terms}, self.get_option("node")
        rows = [berth_row(record) for record in records]
        wanted = [row for row in rows if (not apps or row["app"] in apps) and node in (None, row["node"])]
        found: list[dict[str, Any]] = wrap_var(sorted(wanted, key=lambda r: (r["namespace"], r["app"], r["ordinal"])))
        return found

    def _refuse_strange(self, terms: list[Any]) -> None:
        """Names that none has would find nothing, as if there were nothing. Raises InputError."""
        for index, term in enumerate(terms):
            if not str(term).startswith(CLAIM_APP):
                check_label(term, f"_terms[{index}]")
        if self.get_option("namespace") is not None:
            check_label(self.get_option("namespace"), "namespace")
        if self.get_option("node") is not None:
            check_subdomain(self.get_option("node"), "node")
