# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules task and task_batch share: an object that is submitted, waited for, killed and removed.

It is known by its name and its content: the same again changes nothing, whatever has become of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from ..berth_core.app.compare import differences
from ..berth_core.errors import ForbiddenError, NotFoundError, StateError
from ..berth_core.model.names import check_label, first
from ..berth_core.model.resources import TASK_QUEUE, Resource
from ..berth_core.tasks import states
from ..berth_core.tasks.task import DEFAULT_QUEUE
from .app import wait
from .base import Context
from .objects import diff_entry

Object = Mapping[str, Any]
#: Where the objects are.
PLACE: dict[str, dict[str, Any]] = {"namespace": {"type": "str", "default": "default"}}
#: Options that both modules have, beside those of their own.
OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    **PLACE,
    "state": {"type": "str", "choices": ["present", "killed", "absent"], "default": "present"},
    "template": {"type": "dict"},
    "queue": {"type": "str"},
    "priority": {"type": "int"},
    "retries": {"type": "int"},
    "retry_exit_codes": {"type": "list", "elements": "int"},
    "wait": {"type": "bool", "default": True},
}


def gang_field(gang: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The option ``gang`` as the field of a spec."""
    names = {"name": "name", "min_count": "minCount"}
    return None if gang is None else {names[key]: value for key, value in gang.items() if value is not None}


class Submitted(NamedTuple):
    """One kind. ``fields``: option -> field of the spec; ``check`` refuses what it cannot be.

    ``told``: a row of the result; ``info``: the module that lists. ``ended_as``: what follows the state of one that has
    not succeeded; ``far``: how far one is that has not ended.
    """

    resource: Resource
    result: str
    info: str
    fields: Mapping[str, str]
    check: Callable[[str, Mapping[str, Any]], None]
    told: Callable[[Context, Object], dict[str, Any]]
    ended_as: Callable[[Object], str]
    far: Callable[[Object], str]

    def run(self, context: Context) -> dict[str, Any]:
        """The operation, by ``state``."""
        params = context.params
        check_label(params["name"], "name")
        check_label(params["namespace"], "namespace")
        if params["state"] == "present":
            return self._present(context)
        live = self._find(context)
        return self._killed(context, live) if params["state"] == "killed" else self._absent(context, live)

    def _present(self, context: Context) -> dict[str, Any]:
        params = context.params
        spec = {field: params[option] for option, field in self.fields.items() if params[option] is not None}
        self.check(params["name"], spec)
        body = {"metadata": {"name": params["name"], "namespace": params["namespace"]}, "spec": spec}
        live = self._find(context)
        try:
            tried = context.client.apply(self.resource, body, dry_run=True)
        except NotFoundError as exc:
            raise StateError(f"{exc.message}: install the custom resources with the module crds") from exc
        before, after = dict((live or {}).get("spec") or {}), tried["spec"]
        changed = live is None or bool(differences(after, before) or differences(before, after))
        if live is not None and changed:
            self._refuse_another(live)
        if changed:
            _check_queue(context, tried)
        diff = [diff_entry(self.resource, params["name"], before, after, params["namespace"])] if changed else []
        if changed and not context.check_mode:
            live = context.client.apply(self.resource, body)
        if params["wait"] and not context.check_mode:
            live = self._wait_until_ended(context)
            self._raise_unless_succeeded(context, live, changed)
        return {"changed": changed, "diff": diff, self.result: self.told(context, live or tried)}

    def _killed(self, context: Context, live: Object | None) -> dict[str, Any]:
        params = context.params
        if live is None:
            raise StateError(
                f"{self._who(params)} is not there, and cannot be killed; see the module {self.info} for those that are"
            )
        changed = not live["spec"].get("kill") and not ended(live)
        after = {**live["spec"], "kill": True}
        entry = diff_entry(self.resource, params["name"], live["spec"], after, params["namespace"])
        if changed and not context.check_mode:
            kill = {"spec": {"kill": True}}
            live = context.client.patch(self.resource, params["name"], params["namespace"], kill)
        if params["wait"] and not context.check_mode:
            live = self._wait_until_ended(context)
        return {"changed": changed, "diff": [entry] if changed else [], self.result: self.told(context, live)}

    def _absent(self, context: Context, live: Object | None) -> dict[str, Any]:
        params = context.params
        if live is None:
            return {"changed": False, "diff": [], self.result: {}}
        diff = diff_entry(self.resource, params["name"], live["spec"], "", params["namespace"], absent=True)
        if not context.check_mode:
            context.client.delete(self.resource, params["name"], params["namespace"], uid=live["metadata"]["uid"])
        return {"changed": True, "diff": [diff], self.result: {}}

    def _find(self, context: Context) -> dict[str, Any] | None:
        return context.client.find(self.resource, context.params["name"], context.params["namespace"])

    def _refuse_another(self, live: Object) -> None:
        """What has ended stays what it was, and so does what is to end."""
        if ended(live) or live["spec"].get("kill"):
            meta, how = live["metadata"], live["status"]["state"] if ended(live) else "being killed"
            raise StateError(
                f"{self.resource.kind} {meta['namespace']}/{meta['name']} is {how}, and was of other content: remove it"
                " first (state: absent), or give the new one another name"
            )

    def _wait_until_ended(self, context: Context) -> dict[str, Any]:
        params = context.params
        name = params["name"]

        def missing(seen: wait.Objects) -> list[str]:
            live = seen.get(name)
            if live is None:
                return [f"{self._who(params)} is gone"]
            return [] if ended(live) else [f"{name} is {self.far(live)}"]

        goal, seconds, namespace = f"{self._who(params)} to end", params["wait_timeout"], params["namespace"]
        progress = context.progress
        return wait.until(context.client, self.resource, namespace, None, seconds, missing, goal, progress)[name]

    def _raise_unless_succeeded(self, context: Context, live: Object, changed: bool) -> None:
        status, meta = live.get("status") or {}, live["metadata"]
        if status.get("state") != states.SUCCEEDED:
            who = f"{self.resource.kind} {meta['namespace']}/{meta['name']}"
            raise StateError(
                f"{who} is {status.get('state')}{self.ended_as(live)}",
                changed=changed,
                **{self.result: self.told(context, live)},
            )

    def _who(self, params: Mapping[str, Any]) -> str:
        return f"{self.resource.kind} {params['namespace']}/{params['name']}"


def _check_queue(context: Context, tried: Object) -> None:
    """A queue that is not there gives nothing: nobody is to wait for that until the time is over. StateError."""
    namespace, queue = tried["metadata"]["namespace"], tried["spec"].get("queue") or DEFAULT_QUEUE
    if queue == DEFAULT_QUEUE:
        return
    try:
        known = sorted(str(one["metadata"]["name"]) for one in context.client.list(TASK_QUEUE, namespace))
    except ForbiddenError:  # who may submit need not be allowed to read queues; the daemon says it then
        return
    if queue in known:
        return
    words = f"queue is {queue!r}: there is no TaskQueue {namespace}/{queue}; expected {first([DEFAULT_QUEUE, *known])}"
    if context.check_mode:  # an earlier task of the play may be going to make it
        context.warn(f"{words}, or one that is made before")
    else:
        raise StateError(f"{words}. Create it first; nothing was submitted")


def ended(live: Object) -> bool:
    """Whether it is final."""
    return (live.get("status") or {}).get("state") in states.FINAL


def why(live: Object) -> str:
    """Reason and message, as ``NoRoom, no node has enough free now``."""
    status = live.get("status") or {}
    return ", ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
