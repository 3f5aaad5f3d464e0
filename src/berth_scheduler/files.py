"""A cluster from files: the objects of YAML or JSON documents, as `kubectl get ... -o yaml` writes them.

Called by the command `simulate`. Talks to no API server. An object that cannot be read stops the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from berth_core.cluster.snapshot import PARTS, Snapshot
from berth_core.errors import BerthError, InputError
from berth_core.model.resources import Resource

Obj = dict[str, Any]
#: A cluster of 5,000 nodes and 50,000 pods has some 400 MB; a file beyond this was not meant.
MAX_BYTES = 1 << 30
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileCluster:
    """The objects of some files, and the engine's view of them. ``pending``: pods without a node, in their order."""

    def __init__(self, objects: Iterable[Obj]) -> None:
        found: dict[str, list[Obj]] = {kind: [] for kind in PARTS}
        self._by_name: dict[tuple[str, str, str], Obj] = {}
        for one in objects:
            kind, meta = one["kind"], one.get("metadata") or {}
            if kind in found:
                found[kind].append(one)
                self._by_name[kind, meta.get("namespace") or "", meta.get("name") or ""] = one
        self.pending = [pod for pod in found["Pod"] if _waits(pod)]
        found["Pod"] = [pod for pod in found["Pod"] if not _waits(pod)]
        self.snapshot = Snapshot.from_objects(**{PARTS[kind]: listed for kind, listed in found.items()})
        self.snapshot.refuse_unreadable()

    @classmethod
    def load(cls, paths: Iterable[Path]) -> FileCluster:
        """Read the files. Raises InputError that names the file, and the object's own error where one is wrong."""
        return cls([one for path in paths for one in read_objects(path)])

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """One object as it stands in the file."""
        return self._by_name.get((kind.kind, namespace or "", name))


def _waits(pod: Obj) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return not (pod.get("spec") or {}).get("nodeName") and phase not in ("Succeeded", "Failed")


def read_objects(path: Path) -> Iterator[Obj]:
    """All objects of a file; lists are taken apart."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has more than {MAX_BYTES >> 20} MiB: that is no cluster")
        with path.open("rb") as file:
            documents = list(yaml.load_all(file, Loader=_LOADER))  # a safe loader, the fast one
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise InputError(f"{path} is neither YAML nor JSON: {' '.join(str(exc).split())}") from exc
    for index, document in enumerate(documents):
        if document is not None:
            yield from _objects(document, f"{path}: document {index + 1}")


def _objects(document: Any, where: str) -> Iterator[Obj]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise InputError(f"{where}: expected an object of the API with its kind, got {str(document)[:60]!r}")
    if not document["kind"].endswith("List") or "items" not in document:
        yield document
        return
    items = document["items"]
    if not isinstance(items, list):
        raise InputError(f"{where}: expected items to be a list")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise InputError(f"{where}: items[{number}]: expected an object, got {str(item)[:60]!r}")
        # The items of a typed list have no kind of their own.
        yield {"kind": document["kind"].removesuffix("List"), **item}


def checked(paths: Iterable[Path]) -> FileCluster:
    """Read the files, and say of any error of the engine's that it is the input's."""
    try:
        return FileCluster.load(paths)
    except InputError:
        raise
    except BerthError as exc:
        raise InputError(exc.message) from exc
