"""What the daemon keeps of each Task, of which there may be very many. Given to the informer as its packing.

A Task is read once, when it comes, and what is kept is what was read: everybody who knows of a Task has the same value.
What very many have alike is one object, and of a Task that has ended only what its pods' end and a rerun need is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from berth_core.errors import InputError
from berth_core.tasks import states
from berth_core.tasks.task import Content, Status, Task, read_task

from .alike import Alike
from .templates import Templates

Obj = dict[str, Any]
TaskKey = tuple[str, str]
#: Nobody makes a pod of a Task that has ended.
NO_CONTENT = Content({}, "", ())


class Kept:
    """Keeps a Task, and of what cannot be read as one the object."""

    def __init__(self) -> None:
        self._templates = Templates()
        self._alike = Alike()

    def pack(self, key: TaskKey, item: Obj, before: Any) -> Task | Obj:
        """See berth_kube.store.Packing."""
        try:
            task = read_task(item, _unread if _is_final(item) else self._reading(before))
        except InputError:
            return {name: item[name] for name in ("metadata", "spec", "status") if name in item}
        if isinstance(before, Task) and before.uid == task.uid:
            key, uid = before.key, before.uid
        else:
            uid = task.uid
        one = self._alike.one
        same: dict[str, Any] = {"key": key, "uid": uid, "created": one(task.created), "asked": one(task.asked)}
        same |= {"requests": one(task.requests), "status": one(_ended(task) if task.status.final else task.status)}
        for name, value in same.items():  # nobody has it yet; dataclasses.replace takes as long as all else here
            object.__setattr__(task, name, value)
        return task

    def _reading(self, before: Any) -> Callable[[Mapping[str, Any], str], Content]:
        """Who reads the template of a Task that is not final."""
        had = Content(before.template, before.content, before.requests) if isinstance(before, Task) else None
        return lambda template, where: self._templates.read(template, where, had)

    def unpack(self, kept: Task | Obj) -> Obj:
        """Of a Task its metadata alone."""
        if not isinstance(kept, Task):
            return kept
        meta = {"namespace": kept.namespace, "name": kept.name, "uid": kept.uid, "resourceVersion": str(kept.version)}
        return {"metadata": {**meta, "creationTimestamp": kept.created}}


def task_of(kept: Task | Obj | None) -> Task | None:
    """The Task; None where there is none. Raises InputError for what cannot be read as one."""
    return kept if kept is None or isinstance(kept, Task) else read_task(kept)


def _is_final(item: Obj) -> bool:
    return (item.get("status") or {}).get("state") in states.FINAL


def _unread(_template: Mapping[str, Any], _where: str) -> Content:
    return NO_CONTENT


def _ended(task: Task) -> Status:
    """When it ended is asked of members of gangs; its words stand in the API server."""
    return replace(task.status, message="", finished=task.status.finished if task.gang is not None else "")
