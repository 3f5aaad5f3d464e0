"""What the daemon keeps of each Task, of which there may be very many. Given to the informer as its packing.

A Task is read once, when it comes, and what is kept is what was read: everybody who knows of a Task has the same value.
What very many have alike is one object, and of a Task that has ended only what its pods' end and a rerun need is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from berth_core.errors import InputError
from berth_core.tasks.task import Status, Task, read_task

from .alike import Alike
from .templates import Templates

Obj = dict[str, Any]
TaskKey = tuple[str, str]
#: Nobody makes a pod of a Task that has ended.
NO_TEMPLATE: Obj = {}


class Kept:
    """Keeps a Task, and of what cannot be read as one the object."""

    def __init__(self) -> None:
        self._templates = Templates()
        self._alike = Alike()

    def pack(self, key: TaskKey, item: Obj, before: Any) -> Task | Obj:
        """See berth_kube.store.Packing."""
        try:
            task = read_task(item)
        except InputError:
            return {name: item[name] for name in ("metadata", "spec", "status") if name in item}
        if isinstance(before, Task) and before.uid == task.uid:
            key, uid = before.key, before.uid
        else:
            uid = task.uid
        one = self._alike.one
        same: dict[str, Any] = {"key": key, "uid": uid, "created": one(task.created), "queue": one(task.queue)}
        same |= {"retry_codes": one(task.retry_codes), "gang": one(task.gang)}
        if task.status.final:
            same |= {"template": NO_TEMPLATE, "content": "", "requests": (), "status": one(_ended(task))}
        else:
            template = self._templates.pack(task.content, task.template)
            same |= {"template": template, "content": template.content}
            same |= {"requests": one(task.requests), "status": one(task.status)}
        return replace(task, **same)

    def unpack(self, kept: Task | Obj) -> Obj:
        """Of a Task its metadata alone."""
        if not isinstance(kept, Task):
            return kept
        meta = {"namespace": kept.namespace, "name": kept.name, "uid": kept.uid, "resourceVersion": kept.version}
        return {"metadata": {**meta, "creationTimestamp": kept.created}}


def task_of(kept: Task | Obj | None) -> Task | None:
    """The Task; None where there is none. Raises InputError for what cannot be read as one."""
    return kept if kept is None or isinstance(kept, Task) else read_task(kept)


def _ended(task: Task) -> Status:
    """When it ended is asked of members of gangs; its words stand in the API server."""
    return replace(task.status, message="", finished=task.status.finished if task.gang is not None else "")
