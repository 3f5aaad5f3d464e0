"""Lists from the API server, one LIST for each kind. Called by the commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from berth_core.errors import NotFoundError
from berth_core.model.resources import Resource
from berth_kube.client import KubeClient

Lists = dict[str, Sequence[Mapping[str, Any]]]


async def read(client: KubeClient, kinds: Sequence[Resource], fields: Mapping[str, str] | None = None) -> Lists:
    """Objects by kind, listed in this order; ``fields``: field selectors by kind. Raises ApiError."""
    found: Lists = {}
    for kind in kinds:
        try:
            found[kind.kind] = (await client.list(kind, fields=(fields or {}).get(kind.kind))).items
        except NotFoundError as exc:
            if kind.group != "berth.dev":
                raise
            raise NotFoundError(
                f"berth is not installed in this cluster: it serves no {kind.plural}.{kind.group}",
                exc.status,
                exc.reason,
                exc.causes,
            ) from exc
    return found
