"""Claims that come and go all the time, more of them than disks: where a disk would be given twice, if it ever were.

A thread with a client of its own. Each claim is bound to a freshly wiped disk, formatted and mounted for it, lives for
a moment and is deleted; both policies say Delete, so the disk is wiped and free again. The API server may be away.
"""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError, NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import until

SIZE = "16Mi"
PAUSE = 1.0


class Churn:
    """``most`` claims at once. ``served``: how many have been bound and given back."""

    def __init__(self, api: ApiClient, namespace: str, storage_class: str, most: int, seed: int) -> None:
        self.api, self.namespace, self.storage_class, self.most = api, namespace, storage_class, most
        self.served = self._number = 0
        self._chance = random.Random(seed)
        self._end, self._held = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(90)

    def claims(self) -> list[dict[str, Any]]:
        found = self.api.list(kinds.PVC, self.namespace)
        return [one for one in found if one["spec"].get("storageClassName") == self.storage_class]

    @contextlib.contextmanager
    def quiet(self) -> Any:
        """No new claims, and those that are there have gone."""
        self._held.set()
        try:
            until(lambda: not self.claims(), "the claims do not go")
            yield
        finally:
            self._held.clear()

    def _run(self) -> None:
        while not self._end.wait(PAUSE):
            with contextlib.suppress(BerthError):  # the API server is away, or was faster: the next round sees
                self._round()

    def _round(self) -> None:
        claims = [one for one in self.claims() if not one["metadata"].get("deletionTimestamp")]
        for claim in claims:
            bound = (claim.get("status") or {}).get("phase") == "Bound"
            if self._held.is_set() or (bound and self._chance.random() < 0.5):
                with contextlib.suppress(NotFoundError):
                    self.api.delete(kinds.PVC, claim["metadata"]["name"], self.namespace)
                self.served += bound
        if len(claims) < self.most and not self._held.is_set():
            self._number += 1
            self.api.create(kinds.PVC, self._claim(f"churn-{self._number}"))

    def _claim(self, name: str) -> dict[str, Any]:
        spec = {
            "storageClassName": self.storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": SIZE}},
        }
        return {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec}
