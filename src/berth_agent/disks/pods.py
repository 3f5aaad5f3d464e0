"""Pods on a disk that is not well are told: condition berth.dev/DiskHealthy, and an Event; their claim by an Event.

Called by checking. Claim and pod are found by the PersistentVolume that the disk's lock has, whoever made it. Takes
nothing away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth_core.app.manifests import volume_of_lock
from berth_core.errors import NotFoundError
from berth_core.model.resources import POD, PV, PVC

from ..seams import Object, Tools

CONDITION = "berth.dev/DiskHealthy"


class Verdict(NamedTuple):
    """What a pod is told of its disk."""

    good: bool
    reason: str
    message: str


class Pods:
    """``tell`` is called at each check, and asks the API server only where something may be to tell."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        #: LocalDisk -> the verdict that every pod on it has been told
        self._told: dict[str, Verdict] = {}

    async def tell(self, disk: Object, verdict: Verdict) -> None:
        """Let the pods on the disk know. While it is not well, also those that came since."""
        name, ref = str(disk["metadata"]["name"]), disk["spec"].get("claimRef")
        if not ref:
            self._told.pop(name, None)
            return
        if verdict.good and self._told.get(name) == verdict:
            return
        claim = await self._claim(disk)
        for pod in await self._on(claim) if claim else ():
            await self._tell_one(pod, verdict)
        if claim:
            self._tell_claim(claim, self._told.get(name), verdict)
        self._told[name] = verdict

    async def _claim(self, disk: Object) -> Mapping[str, Any]:
        """Namespace, name and uid of the claim over the disk; empty where there is none."""
        volume = await self.tools.client.find(PV, volume_of_lock(disk))
        return ((volume or {}).get("spec") or {}).get("claimRef") or {}

    def _tell_claim(self, claim: Mapping[str, Any], before: Verdict | None, verdict: Verdict) -> None:
        """Once, when it changes. An old mount is the pod's matter alone."""
        if verdict == before or verdict.reason == "OldMount" or (verdict.good and (before is None or before.good)):
            return
        meta = {key: claim[key] for key in ("namespace", "name", "uid") if claim.get(key)}
        about = {"apiVersion": PVC.api_version, "kind": PVC.kind, "metadata": meta}
        kind = "Normal" if verdict.good else "Warning"
        self.tools.recorder.event(about, kind, f"Disk{verdict.reason}", verdict.message, action="Check")

    async def _on(self, claim: Mapping[str, Any]) -> list[dict[str, Any]]:
        where = f"spec.nodeName={self.tools.node}"
        pods = (await self.tools.client.list(POD, claim["namespace"], fields=where)).items
        return [pod for pod in pods if claim["name"] in _claims(pod)]

    async def _tell_one(self, pod: Object, verdict: Verdict) -> None:
        meta, live = pod["metadata"], _condition(pod)
        status = "True" if verdict.good else "False"
        if live is None and verdict.good:
            return  # it has never been told anything bad
        if live is not None and (live.get("status"), live.get("message")) == (status, verdict.message):
            return
        condition = {"type": CONDITION, "status": status, "reason": verdict.reason, "message": verdict.message[:1024]}
        since = live.get("lastTransitionTime") if live and live.get("status") == status else None
        condition["lastTransitionTime"] = str(since or self.tools.now())
        body = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [condition]}}
        self.tools.check()
        try:
            await self.tools.client.patch(
                POD, meta["name"], meta["namespace"], body, kind="strategic", subresource="status"
            )
        except NotFoundError:
            return
        kind = "Normal" if verdict.good else "Warning"
        whole = {"apiVersion": "v1", "kind": "Pod", **pod}
        self.tools.recorder.event(whole, kind, f"Disk{verdict.reason}", verdict.message, action="Check")


def _claims(pod: Object) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {str((each.get("persistentVolumeClaim") or {}).get("claimName")) for each in volumes}


def _condition(pod: Object) -> Mapping[str, Any] | None:
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == CONDITION), None)
