# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done once a pod has its choice: the extension points that act, for plugins of the daemon.

The daemon calls them for one pod in this order, beside the scheduling of other pods:

    PreFlight   say whether the pod concerns the plugin at all: SKIP spares it Hold and PreBind
    Hold        take in the cluster what Reserve has chosen: the locks. Its counterpart is `release`
    PreBind     whatever must be there before the pod is bound
    Bind        bind it; the first plugin that does not skip has done it
    PostBind    it is bound

Whatever of it fails, or is refused, `release` of every Hold plugin is called in reverse order, the choice is forgotten,
and the pod is tried again. A plugin that acts may be called twice for one pod, and may die between any two requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..model.placement import Placement, PlacementRequest
from .contract import Status


@dataclass
class Binding:
    """One pod on its way to its node. `pod`: the object of the API; `api`: a berth_kube.client.KubeClient.

    `data` belongs to the plugins, each under keys that start with its own name.
    """

    pod: Mapping[str, Any]
    request: PlacementRequest
    placement: Placement
    api: Any
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return namespace/name of the pod."""
        return f"{self.request.pod.namespace}/{self.request.pod.name}"


@runtime_checkable
class PreFlight(Protocol):
    """Beside Hold or PreBind, and asked before both. Pods that concern none of their plugins are bound many at once."""

    def pre_flight(self, binding: Binding) -> Status:
        """SKIP: neither `hold` nor `pre_bind` would do anything for this pod. Must not wait; SUCCESS: ask them."""


@runtime_checkable
class Hold(Protocol):
    """Takes the choice in the cluster, and gives it back."""

    async def hold(self, binding: Binding) -> Status:
        """Lock what was chosen. Raises LockError or ConflictError where somebody else was faster."""

    async def release(self, binding: Binding) -> None:
        """Give back what `hold` took, as far as it took it. Called twice, it does nothing the second time."""


@runtime_checkable
class PreBind(Protocol):
    """Prepares."""

    async def pre_bind(self, binding: Binding) -> Status:
        """Prepare; what is not SUCCESS takes the choice back."""


@runtime_checkable
class Bind(Protocol):
    """Binds."""

    async def bind(self, binding: Binding) -> Status:
        """Bind the pod, or SKIP."""


@runtime_checkable
class PostBind(Protocol):
    """Is told."""

    async def post_bind(self, binding: Binding) -> None:
        """The pod is bound."""
