"""Gives up a lock whose Berth went while it was taken. Controller and scheduler call me; claim_steps.py decides."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from berth_core.app import claim_steps
from berth_core.app.manifests import volume_name
from berth_core.errors import ConflictError, NotFoundError
from berth_core.model.resources import LOCAL_DISK, PV

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
Object = Mapping[str, Any]


async def take_back(api: Any, record: Object | None, disk: Object | None, now: Object | None) -> Obj | None:
    """``record`` and ``disk`` as they were before a write was refused, ``now`` the Berth since.

    Returns the disk without the lock; None: there was nothing to give up. Raises ApiError's.
    """
    step = claim_steps.take_back(record, disk, now)
    if step is None or record is None:
        return None
    name = step.body["metadata"]["name"]
    if await api.find(PV, volume_name(name, record["metadata"]["uid"])) is not None:
        return None
    try:
        freed: Obj = await api.replace(LOCAL_DISK, step.body)
    except (ConflictError, NotFoundError):
        return None  # somebody has touched it since: what is left over then is the orphan watch's
    _log.info("claim %s/%s: %s", record["metadata"]["namespace"], record["metadata"]["name"], step.why)
    return freed
