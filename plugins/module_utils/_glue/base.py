# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of the collection is: an Operation, and the two ways to run one.

An Operation is arguments plus a function from a Context to a result. ``plugins/modules/NAME.py`` runs it as an ordinary
module (`module_main`), ``plugins/action/NAME.py`` inside the controller (plugin_utils/in_process.py). Neither knows
the other.
"""

from __future__ import annotations

import copy
import os
import traceback
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from ..berth_core.errors import BerthError, InputError
from ..berth_core.lifecycle.history import Actor
from .acting import actor_of
from .auth import AUTH_ARGUMENT_SPEC, kubeconfig_secrets, load_auth
from .client import ApiClient

_YEAR = 366 * 86400


class Context:
    """What an Operation may use of the world: its arguments, the API, and a way to warn. No AnsibleModule in sight."""

    def __init__(
        self,
        params: Mapping[str, Any],
        check_mode: bool,
        warn: Callable[[str], None],
        progress: Callable[[str], None] = lambda _text: None,
        environ: Mapping[str, str] | None = None,
        ran: Mapping[str, str] | None = None,
    ) -> None:
        """``ran``: what is known of the task (playbook, task, host, commit), for the history of berths."""
        self.params = params
        self.check_mode = check_mode
        self.warn = warn
        self.progress = progress
        self._environ = os.environ if environ is None else environ
        self._client: ApiClient | None = None
        self._ran = ran or {}
        self._actor: Actor | None = None
        #: the module's name
        self.operation = ""

    @property
    def client(self) -> ApiClient:
        """Made at first use, so that wrong arguments are refused before anybody is asked anything."""
        if self._client is None:
            self._client = ApiClient(load_auth(self.params, self._environ), self.warn)
        return self._client

    def having(
        self,
        params: Mapping[str, Any] | None = None,
        check_mode: bool | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Context:
        """The same run with other arguments: for an operation that runs another one. One client, one actor."""
        made = copy.copy(self)
        made._client, made._actor = self.client, self._actor
        made.params = self.params if params is None else params
        made.check_mode = self.check_mode if check_mode is None else check_mode
        made.warn = self.warn if warn is None else warn
        return made

    @property
    def actor(self) -> Actor:
        """Who changes berths here: asked once, at the first change."""
        if self._actor is None:
            self._actor = actor_of(self.operation, self._ran, self.client)
        return self._actor

    def written(self) -> bool:
        """Whether the API server has carried out a write of this task."""
        return self._client is not None and self._client.written > 0

    def request_counts(self) -> dict[str, int]:
        return dict(sorted(self._client.requests.items())) if self._client else {}


class Operation(NamedTuple):
    """One module. ``run`` returns the result (with ``changed`` and, where it changes things, ``diff``) or raises
    BerthError."""

    name: str
    options: dict[str, dict[str, Any]]
    run: Callable[[Context], dict[str, Any]]
    mutually_exclusive: tuple[tuple[str, ...], ...] = ()
    required_one_of: tuple[tuple[str, ...], ...] = ()
    required_if: tuple[tuple[Any, ...], ...] = ()
    required_together: tuple[tuple[str, ...], ...] = ()
    #: options that name a file on the controller: looked for in files/, decrypted by vault
    controller_files: tuple[str, ...] = ()
    #: called on the controller before anything else; may fill in options that need the collection's own files
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def argument_spec(self) -> dict[str, dict[str, Any]]:
        return {**AUTH_ARGUMENT_SPEC, **self.options}

    def rules(self) -> dict[str, list[Any]]:
        """The rules between options, as AnsibleModule and the validator take them."""
        rules = {
            "mutually_exclusive": self.mutually_exclusive,
            "required_one_of": self.required_one_of,
            "required_if": self.required_if,
            "required_together": self.required_together,
        }
        return {name: [list(rule) for rule in value] for name, value in rules.items()}


def check_seconds(value: Any, option: str) -> None:
    """Refuse a time to wait that is none (InputError)."""
    if value is not None and not 0 <= value <= _YEAR:
        raise InputError(f"{option} is {value}: expected 0 or more seconds, at most {_YEAR} (a year)")


def execute(operation: Operation, context: Context) -> dict[str, Any]:
    """Run it; a refusal becomes a failed result. Nothing else escapes as a traceback in ``msg``.

    A failed result is ``changed`` where something was written, unless the error itself says that it was undone.
    """
    context.operation = operation.name
    try:
        check_seconds(context.params.get("wait_timeout"), "wait_timeout")
        result = operation.run(context)
    except BerthError as exc:
        result = {"failed": True, "changed": context.written(), "msg": exc.message, **exc.details}
    except Exception as exc:  # noqa: BLE001 - a bug in berth: say so in one line, keep the trace where -vvv shows it
        result = {
            "failed": True,
            "changed": context.written(),
            "msg": f"{operation.name}: internal error, please report it: {type(exc).__name__}: {exc}",
            "exception": traceback.format_exc(),
        }
    result.setdefault("changed", False)
    result["requests"] = context.request_counts()
    return result


def module_main(operation: Operation) -> None:
    """The body of every ordinary module's main()."""
    # Not at the top: it costs every play that runs in-process, and needs none of it, an eighth of a second.
    from ansible.module_utils.basic import AnsibleModule

    module = AnsibleModule(argument_spec=operation.argument_spec(), supports_check_mode=True, **operation.rules())
    module.no_log_values |= kubeconfig_secrets(module.params.get("kubeconfig"))
    result = execute(operation, Context(module.params, module.check_mode, module.warn))
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)
