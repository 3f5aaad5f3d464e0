"""Sees every change of every LocalDisk while a test runs, and says afterwards what should never have happened.

A thread with a watch of its own (the daemons' informer), so that what is wrong for a moment only is seen too: a lock
that goes from one holder to another, a wipe that nobody asked for, a filesystem that is made where one has been.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

from berth_core.model.resources import LOCAL_DISK
from berth_kube import config
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from tests.support.etcd_backup import BUMP


class Witness:
    """``wrong``: sentences; empty as long as all is well."""

    def __init__(self, kubeconfig: Path | str) -> None:
        self.wrong: list[str] = []
        self.changes = self.locks = self.filesystems = self.wipes = 0
        #: LocalDisk -> the dataUIDs of all that have held it
        self.owners: defaultdict[str, set[str]] = defaultdict(set)
        self._kubeconfig = str(kubeconfig)
        self._asked: set[str] = set()
        self._made: set[tuple[str, str]] = set()
        #: between what an etcd that was restored tells and what was before there is no change
        self._rewound = False
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="witness", daemon=True)

    def start(self) -> Witness:
        self._thread.start()
        assert self._ready.wait(60), "the witness sees nothing"
        return self

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    @property
    def looks(self) -> bool:
        """Whether it is still there: a witness that has died has seen nothing wrong."""
        return self._thread.is_alive()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with KubeClient(config.load(self._kubeconfig), user_agent="witness", field_manager="witness") as client:
            informer = Informer(client, LOCAL_DISK)
            informer.on(
                add=lambda disk: self.saw({}, disk),
                update=self._updated,
                rewound=lambda: self._note_rewound(True),
                listed=lambda: self._note_rewound(False),
            )
            watching = asyncio.ensure_future(informer.run())
            await informer.wait_synced()
            self._ready.set()
            ended = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait([watching, ended], return_when=asyncio.FIRST_COMPLETED)
            watching.cancel()

    def _note_rewound(self, value: bool) -> None:
        self._rewound = value
        if value:
            self._made.clear()

    def _updated(self, old: Any, new: Any) -> None:
        """On a slow machine every object may be written anew before the list, so that none in it is older than before:
        what the restore has added to the revision tells, too."""
        if _version(new) - _version(old) > BUMP // 2:
            self._made = {key for key in self._made if key[0] != new["metadata"]["name"]}
            old = {}
        self.saw({} if self._rewound else old, new)

    def saw(self, old: Any, new: Any) -> None:
        """One change. ``old`` is empty for an object that was not there."""
        self.changes += 1
        name = str(new["metadata"]["name"])
        self._lock(name, old.get("spec", {}).get("claimRef"), new["spec"].get("claimRef"))
        self._wipe(name, old, new)
        self._filesystem(name, old.get("status") or {}, new.get("status") or {})

    def _lock(self, name: str, old: Any, new: Any) -> None:
        if new:
            self.locks += not old
            self.owners[name].add(str(new["dataUID"]))
        if old and new and old["uid"] != new["uid"]:
            self.wrong.append(f"{name} went from {old['name']} to {new['name']} in one write")

    def _wipe(self, name: str, old: Any, new: Any) -> None:
        asked = new["spec"].get("wipe")
        if asked:
            self._asked.add(asked["requestID"])
            if new["spec"].get("claimRef"):
                self.wrong.append(f"{name} is held and to be wiped")
        status = new.get("status") or {}
        for field in ("wipe", "lastWipe"):
            done = status.get(field) or {}
            if not done or done["requestID"] == ((old.get("status") or {}).get(field) or {}).get("requestID"):
                continue
            self.wipes += field == "lastWipe"
            if done["requestID"] not in self._asked and old and not _came_and_went(old, new, done):
                self.wrong.append(f"{name}: {field} for a request that nobody made: {done}")

    def _filesystem(self, name: str, old: Any, new: Any) -> None:
        was, now = old.get("journal") or {}, new.get("journal") or {}
        key = (name, str(now.get("dataUID")))
        if now == was or not now.get("dataUID"):
            return
        if now["step"] == "Formatting" and key in self._made:
            self.wrong.append(f"{name}: a filesystem is made for {key[1]}, which has one there already")
        if now["step"] in ("Formatted", "Mounted"):
            self.filesystems += key not in self._made
            self._made.add(key)


def _version(disk: Any) -> int:
    return int(disk["metadata"]["resourceVersion"])


def _came_and_went(old: Any, new: Any, done: Any) -> bool:
    """Whether a claim's request was written and taken away between two states that a watch saw.

    After an API server was away the watch may begin with a list, and what was between is never seen. But every write to
    a spec counts in ``generation``, and request and end are two of them.
    """
    unseen = new["metadata"]["generation"] - old["metadata"]["generation"]
    return unseen >= 2 and str(done.get("requestedBy")).startswith("PersistentVolumeClaim ")
