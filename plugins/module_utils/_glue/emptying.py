# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas that move away before a node is cordoned: each application by its own driver, one after the other.

Called by host_maintenance. Whose replicas do is decided in berth_core.app.emptying, how each moves by stateful_app
(leave_nodes), which is run here, or by berth-controller, which is asked. All is looked at before the first write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..berth_core.app.emptying import (
    App,
    Rule,
    app_of,
    apps_that_move,
    asked_by,
    asking,
    asking_no_more,
    berths_of,
    by_controller,
    half_way,
    in_rule,
    manager_of,
    rules_of,
    still_here,
)
from ..berth_core.app.stateful_app_object import options_of
from ..berth_core.errors import BerthError, InputError
from ..berth_core.model.resources import BERTH, STATEFUL_APP
from . import stateful_app
from .app import wait
from .app.by_controller import warn_without_controller
from .app.options import OPTIONS
from .app.sources import load_template
from .auth import AUTH_ARGUMENT_SPEC
from .base import Context
from .telling import History

#: What the history of a berth is told where berth-controller is asked.
LEAVES = "asked to leave its node"
Object = Mapping[str, Any]


class Leaver(NamedTuple):
    """An application whose replicas leave. ``body``: its StatefulApp, where berth-controller carries it out."""

    app: App
    rule: Rule
    body: Object | None
    params: dict[str, Any]
    foreseen: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of the result."""
        whose = {"namespace": self.app.namespace, "app": self.app.name}
        return [{**whose, **row} for row in self.foreseen.get("moved", ())]


class Emptying:
    """``leavers`` and ``refused`` are known after `look`."""

    def __init__(self, context: Context) -> None:
        self._context, self._client = context, context.client
        self._node = str(context.params["node"])
        self._rules = rules_of(context.params["apps"])
        self._manager = manager_of(self._node)
        self._asked: list[Object] = []
        #: those of the rules, whether they can leave or not
        self.apps: list[App] = []
        self.leavers: list[Leaver] = []
        self.refused: list[str] = []

    def look(self) -> None:
        """Whose replicas leave, where each would go, and what forbids it. Writes nothing but dry runs."""
        if not self._rules:
            return
        known = self._list()
        for app, rule in apps_that_move(self._rules, self._berths(), known, self._manager):
            self.apps.append(app)
            self._look_at(app, rule, known)

    def look_behind(self) -> None:
        """What a run that died has left; writes nothing."""
        if self._rules:
            self._list()

    def half_way(self) -> list[str]:
        """What is said of replicas that were leaving, of a run that died, where nobody asks for it any more."""
        asked = [app_of(one) for one in self._asked]
        mine = [one.app for one in self._rules if one.app is not None and one.options is not None]
        if not asked and not mine:
            return []
        return half_way(asked, mine, self._berths(), self._node, self._context.check_mode)

    def _list(self) -> Sequence[Object]:
        known = self._client.list(STATEFUL_APP)
        self._asked = [one for one in known if asked_by(one, self._manager)]
        return known

    def _look_at(self, app: App, rule: Rule, known: Sequence[Object]) -> None:
        try:
            self.leavers.append(self._leaver(app, rule, by_controller(app, rule, known, self._node)))
        except BerthError as exc:
            self.refused.append(in_rule(exc.message, rule))

    def _leaver(self, app: App, rule: Rule, body: Object | None) -> Leaver:
        given = {"leave_nodes": [self._node], "leave_data": rule.data_of(app)}
        if body is None:
            params = _checked(rule, app, {**given, "wait_timeout": self._context.params["wait_timeout"]})
            self._known(app, rule)
        else:
            warn_without_controller(self._context)
            params = {**_defaults(), **options_of(body), **given}
        quiet = self._context if self._context.check_mode else self._context.having(warn=_nothing)
        return Leaver(app, rule, body, params, stateful_app.foresee(quiet.having(params, check_mode=True)))

    def _known(self, app: App, rule: Rule) -> None:
        """An application that is not there would be made by what is given here."""
        if not self._client.list(BERTH, app.namespace, fields=f"spec.app={app.name}"):
            raise InputError(f"{rule.where} names application {app}, which has no replica: make it first, or mend it")

    @property
    def pending(self) -> bool:
        """Whether anything is to be written."""
        return bool(self._asked) or any(self._leaves(one) for one in self.leavers)

    def _leaves(self, one: Leaver) -> bool:
        """What a playbook's application has to do else comes with it, as what a run that died has left."""
        return bool(one.rows) or (one.body is None and bool(one.foreseen["changed"]))

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for one in self.leavers for row in one.rows]

    def carry_out(self) -> None:
        """Until the last of them is Ready elsewhere. Raises BerthError with what is in the way."""
        for one in self.leavers:
            if one.body is not None:
                self._ask(one, one.body)
            else:  # also where none leaves: one that has left in a run that died may not be Ready yet
                stateful_app.carry_out_alone(self._context.having(one.params))

    def _ask(self, one: Leaver, body: Object) -> None:
        """Have berth-controller do it. One that a run before has asked is waited for, too."""
        mine = berths_of(one.app, self._berths())
        if not mine and not asked_by(body, self._manager):
            return
        History(self._context).tell(mine, LEAVES, f"Node {self._node} is emptied for maintenance")
        asked = self._client.apply(
            STATEFUL_APP, asking(body, self._node, one.params["leave_data"]), manager=self._manager
        )
        self._asked.append(asked)
        name = one.app.name
        wait.until(
            self._client,
            STATEFUL_APP,
            one.app.namespace,
            None,
            float(self._context.params["wait_timeout"]),
            lambda seen: still_here(seen.get(name), self._node, self._berths()),
            f"the replicas of {one.app} to leave Node {self._node}",
            self._context.progress,
        )

    def end(self) -> None:
        """The node is cordoned: nothing is placed there, and StatefulApps need not say so any more."""
        for body in self._asked:
            self._client.apply(STATEFUL_APP, asking_no_more(body), manager=self._manager)
        self._asked = []

    def _berths(self) -> list[dict[str, Any]]:
        return list(self._client.list(BERTH, fields=f"spec.nodeName={self._node}"))


def _nothing(_text: str) -> None:
    pass


def _defaults() -> dict[str, Any]:
    return {name: spec.get("default") for name, spec in OPTIONS.items()}


def _checked(rule: Rule, app: App, ours: Mapping[str, Any]) -> dict[str, Any]:
    """The rule's options, as stateful_app takes them. Raises InputError."""
    from ansible.module_utils.common.arg_spec import ArgumentSpecValidator  # what is not asked for costs nothing

    operation, given = stateful_app.OPERATION, rule.options or {}
    whose = sorted(given.keys() & AUTH_ARGUMENT_SPEC.keys())
    if whose:
        raise InputError(f"{rule.where}.options: {', '.join(whose)} cannot stand here: the task's own options say it")
    options = {**ours, **given, "name": app.name, "namespace": app.namespace, "wait": True}
    checked = ArgumentSpecValidator(operation.argument_spec(), **operation.rules()).validate(options)
    if checked.error_messages:
        raise InputError(f"{rule.where}.options ({app}): {'; '.join(checked.error_messages)}")
    return dict(checked.validated_parameters)


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """On the controller: read each ``src`` there, for whoever runs the module where that file is not."""
    apps = arguments.get("apps")
    if not isinstance(apps, Sequence) or isinstance(apps, str):
        return arguments
    return {**arguments, "apps": [_with_template(one, f"apps[{index}]") for index, one in enumerate(apps)]}


def _with_template(rule: Any, where: str) -> Any:
    options = rule.get("options") if isinstance(rule, Mapping) else None
    src = options.get("src") if isinstance(options, Mapping) else None
    if not isinstance(options, Mapping) or not isinstance(src, str):
        return rule
    path = os.path.expanduser(src)
    if not os.path.isabs(path):
        beside = "{{ playbook_dir }}/" + os.path.basename(src)
        raise InputError(f"{where}.options.src is {src}: expected a whole path, such as {beside}")
    others = {key: value for key, value in options.items() if key != "src"}
    return {**rule, "options": {**others, "template": load_template(None, path)}}
