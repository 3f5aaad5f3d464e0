"""What the daemon keeps of each Task, of which there may be very many. Given to the informer as its transform."""

from __future__ import annotations

import sys
from typing import Any

from berth_core.tasks.task import content_of

Obj = dict[str, Any]
#: So many templates are known by their content, those that were seen last.
MOST_TEMPLATES = 1_000
#: Words for people, of which the daemon decides nothing: they stay in the API server.
_WORDS = ("log", "terminationMessage")
#: Texts that very many Tasks have alike.
_ALIKE = (("metadata", ("namespace",)), ("spec", ("queue",)), ("status", ("state", "reason", "node")))


class Kept:
    """Equal templates are one object, and so are equal names; nobody changes what an informer has."""

    def __init__(self) -> None:
        self._templates: dict[str, Obj] = {}

    def __call__(self, obj: Obj) -> Obj:
        for part, fields in _ALIKE:
            found = obj.get(part)
            if isinstance(found, dict):
                found.update({field: sys.intern(found[field]) for field in fields if isinstance(found.get(field), str)})
        spec, status = obj.get("spec"), obj.get("status")
        if isinstance(spec, dict) and isinstance(spec.get("template"), dict):
            spec["template"] = self._shared(spec["template"])
        if isinstance(status, dict):
            for field in _WORDS:
                status.pop(field, None)
        return obj

    def _shared(self, template: Obj) -> Obj:
        """The digest tells 1 from true, and the comparison what only looks alike by a digest."""
        content = content_of(template)
        known = self._templates.pop(content, template)
        if known != template:
            known = template
        self._templates[content] = known
        if len(self._templates) > MOST_TEMPLATES:
            del self._templates[next(iter(self._templates))]
        return known
