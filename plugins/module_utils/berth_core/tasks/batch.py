# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TaskBatch of the API as a value: many tasks of one template, as an array with an index or as a list with needs.

Raises InputError that names the object and the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..model.fields import Object, boolean, integer, mapping, metadata, objects, string
from ..model.names import check_label
from ..model.pod import Amounts
from .items import Item, Place, check_items, read_items
from .pods import element_name
from .task import (
    DEFAULT_QUEUE,
    MOST_RETRIES,
    SHARED_FIELDS,
    Asked,
    Element,
    Gang,
    Status,
    Task,
    check_metadata,
    content_of,
    exit_codes,
    least_of_gang,
    requests_of,
)

MOST_TASKS = 100_000
#: A pod is called by its batch, an index of at most 5 digits, and 12 characters more.
LONGEST_NAME = 45
#: What modules and programs call a field of the spec.
FIELDS = {
    **SHARED_FIELDS,
    "count": "count",
    "items": "items",
    "parallelism": "parallelism",
    "max_failures": "maxFailures",
}
#: Elements of one status object: its text stays far below what etcd takes.
IN_SHARD = 5_000


@dataclass(frozen=True)
class Batch:
    """`items` empty: an array of `size`. `parallelism`, `max_failures` None: no limit of its own."""

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    created: str
    queue: str
    priority: int
    size: int
    items: tuple[Item, ...]
    parallelism: int | None
    max_failures: int | None
    retries: int
    retry_codes: frozenset[int]
    kill: bool
    going: bool
    template: Object
    content: str
    requests: Amounts
    gang: Gang | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def shards(self) -> int:
        """How many status objects it has at most."""
        return -(-self.size // IN_SHARD)

    def uid_of(self, index: int) -> str:
        """What one of its tasks is known by: no other batch of this name has it."""
        return f"{self.uid}.{index}"

    def element(self, index: int, status: Status, kill: bool) -> Task:
        """One of its tasks."""
        item = self.items[index] if self.items else None
        env = (*item.env, ("BERTH_TASK_NAME", item.name)) if item else ()
        return Task(
            key=(self.namespace, element_name(self.name, index)),
            uid=self.uid_of(index),
            version=0,
            created=self.created,
            asked=self._asked(kill),
            template=self.template,
            content=self.content,
            requests=self.requests,
            status=status,
            element=Element(self.name, self.uid, index, item.args if item else None, env),
        )

    def _asked(self, kill: bool) -> Asked:
        return Asked(
            generation=self.generation,
            queue=self.queue,
            priority=self.priority,
            retries=self.retries,
            retry_codes=self.retry_codes,
            keep_failed_pod=False,
            kill=kill,
            going=self.going,
            gang=self.gang,
        )


def read_batch(obj: Object) -> Batch:
    """Read a TaskBatch."""
    namespace, name = metadata(obj, "TaskBatch")
    where = f"TaskBatch {namespace}/{name}" if namespace else f"TaskBatch {name}"
    meta, spec = mapping(obj, "metadata"), mapping(obj, "spec", f"{where}: spec")
    template = mapping(spec, "template", f"{where}: spec.template")
    check_metadata(template, f"{where}: spec.template.metadata")
    items = _items(spec, where)
    size, parallelism = _size(spec, items, where), _limit(spec, "parallelism", where, 1)
    return Batch(
        namespace=namespace,
        name=name,
        uid=string(meta, "uid"),
        version=string(meta, "resourceVersion"),
        generation=integer(meta, "generation"),
        created=string(meta, "creationTimestamp"),
        queue=string(spec, "queue", f"{where}: spec.queue", DEFAULT_QUEUE),
        priority=integer(spec, "priority", f"{where}: spec.priority"),
        size=size,
        items=items,
        parallelism=parallelism,
        max_failures=_limit(spec, "maxFailures", where, 0),
        retries=integer(spec, "retries", f"{where}: spec.retries"),
        retry_codes=exit_codes(spec, where),
        kill=boolean(spec, "kill", f"{where}: spec.kill"),
        going=meta.get("deletionTimestamp") is not None,
        template=template,
        content=content_of(template),
        requests=requests_of(template, where),
        gang=_gang(spec, where, name, min(size, parallelism or size), items),
    )


def _gang(spec: Object, where: str, name: str, most: int, items: Sequence[Item]) -> Gang | None:
    """`most`: so many of its tasks run at one time."""
    least = least_of_gang(spec, where)
    if least is None:
        return None
    if least > most:
        raise InputError(
            f"{where}: spec.gang.minCount is {least}, and {most} run at one time: expected no more than that"
        )
    if any(item.needs for item in items):
        raise InputError(
            f"{where}: spec.gang and needs of spec.items exclude each other: what waits starts not together"
        )
    return Gang(name, least)


def check_new(name: str, spec: Mapping[str, Any]) -> None:
    """Refuse what no TaskBatch can be, before the API server is asked."""
    check_label(name, "name")
    if len(name) > LONGEST_NAME:
        raise InputError(f"name is {name!r}: expected at most {LONGEST_NAME} characters")
    retries = spec.get("retries") or 0
    if not 0 <= retries <= MOST_RETRIES:
        raise InputError(f"retries is {retries}: expected 0 to {MOST_RETRIES}")
    read_batch({"metadata": {"name": name}, "spec": spec})
    where = f"TaskBatch {name}"
    check_items(objects(spec, "items"), _placed(where), f"{where}: spec.items")


def _size(spec: Object, items: Sequence[Item], where: str) -> int:
    count = spec.get("count")
    if (count is None) == (not items):
        raise InputError(f"{where}: expected either spec.count or spec.items, and of items at least one")
    size = integer(spec, "count", f"{where}: spec.count") if count is not None else len(items)
    if not 1 <= size <= MOST_TASKS:
        raise InputError(f"{where}: has {size} tasks: expected 1 to {MOST_TASKS}")
    return size


def _limit(spec: Object, field: str, where: str, least: int) -> int | None:
    if spec.get(field) is None:
        return None
    value = integer(spec, field, f"{where}: spec.{field}")
    if value < least:
        raise InputError(f"{where}: spec.{field} is {value}: expected {least} or more")
    return value


def _items(spec: Object, where: str) -> tuple[Item, ...]:
    return read_items(objects(spec, "items", f"{where}: spec.items"), _placed(where), f"{where}: spec.items")


def _placed(where: str) -> Place:
    return lambda at, field: f"{where}: spec.items[{at}]{field and f'.{field}'}"
