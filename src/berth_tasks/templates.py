"""Templates of very many Tasks: one object for those that are equal, a few bytes for each that differs in little.

What the API server has is JSON, so its text is what is kept, compressed by the text of another one (the dictionary of
RFC 1950). To read it again takes some microseconds, which happens when a pod is made.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from berth_core.model.fields import Object
from berth_core.model.pod import Amounts
from berth_core.tasks.task import Content, content_of, read_content

from .alike import Alike

#: So many templates are known by their content, those that were seen last.
MOST_TEMPLATES = 1_000
#: A base has as many bytes at most: what a window of 2**12 bytes, which is fast to set up, reaches back.
BASE = 3_584
_WINDOW, _MEMORY = -12, 4
#: A text that comes down to such a part of its length by the base is like it.
ALIKE = 0.3
#: After so many in a row that are not, the base is another one.
STRANGERS = 16


class Template(Mapping[str, Any]):
    """As the object that was packed; nobody changes what it gives out. ``content``: its digest."""

    __slots__ = ("_base", "_data", "_object", "content")

    def __init__(self, content: str, data: bytes, base: bytes) -> None:
        self.content, self._data, self._base = content, data, base
        self._object: Object | None = None

    def __getitem__(self, key: str) -> Any:
        return self.read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.read())

    def __len__(self) -> int:
        return len(self.read())

    def read(self) -> Object:
        """The whole of it."""
        if self._object is not None:
            return self._object
        found: Object = json.loads(zlib.decompressobj(_WINDOW, zdict=self._base).decompress(self._data))
        return found

    def keep_read(self, template: Object) -> None:
        """Many have it: it is not unpacked for each of them."""
        self._object = template


class Templates:
    """Packs templates. Bounded: what nobody uses is forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, Template] = {}
        #: What a pod of these takes, by content.
        self._requests: dict[str, Amounts] = {}
        self._alike = Alike()
        self._base, self._strangers = b"", STRANGERS

    def read(self, template: Object, where: str, before: Content | None = None) -> Content:
        """As `read_content`, and packed; one that is known is not read again: that is most of what a Task costs.

        ``before``: what the same Task had. Nobody else may have that: it does not count as one that many have.
        """
        content = content_of(template)
        if before is not None and before.digest == content and _whole(before.template) == template:
            return before
        known, requests = self._find(content, template), self._requests.get(content)
        if known is None or requests is None:
            requests = read_content(template, where).requests
            known = self.pack(content, template)
            self._requests[known.content] = requests = self._alike.one(requests)
        return Content(known, known.content, requests)

    def pack(self, content: str, template: Object) -> Template:
        """``content``: its digest, which tells 1 from true; what only looks alike by a digest, a comparison tells."""
        known = self._find(content, template)
        if known is None:
            self._requests.pop(content, None)
            known = self._known[content] = self._packed(content, template)
        if len(self._known) > MOST_TEMPLATES:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._requests.pop(oldest, None)
        return known

    def _find(self, content: str, template: Object) -> Template | None:
        """The same template, which counts as used now."""
        known = self._known.pop(content, None)
        if known is None or known.read() != template:
            return None
        known.keep_read(template)
        self._known[content] = known
        return known

    def _packed(self, content: str, template: Object) -> Template:
        text = json.dumps(template, separators=(",", ":")).encode()
        data = _compressed(text, self._base)
        if len(data) <= ALIKE * len(text):
            self._strangers = 0
            return Template(content, data, self._base)
        self._strangers += 1
        if self._strangers > STRANGERS:
            self._base, self._strangers = text[:BASE], 0
            return Template(content, _compressed(text, self._base), self._base)
        return Template(content, _compressed(text, b""), b"")


def _whole(template: Object) -> Object:
    return template.read() if isinstance(template, Template) else template


def _compressed(text: bytes, base: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_WINDOW, memLevel=_MEMORY, zdict=base)
    return packer.compress(text) + packer.flush()
