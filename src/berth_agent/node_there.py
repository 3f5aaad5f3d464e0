"""Warns while there is no Node of the agent's name. Run by `agent` beside everything else.

A Node may come later than its agent, so that is no error; but a name that is spelt wrong would never be noticed.
"""

from __future__ import annotations

import asyncio
import logging

from berth_core.errors import BerthError
from berth_core.model.resources import NODE
from berth_kube.client import KubeClient

LOG = logging.getLogger("berth_agent.node")
_SECONDS = 30.0


async def tell_of_missing_node(client: KubeClient, node: str) -> None:
    """Until cancelled: a warning when the Node is not there, a line when it has come; then nothing more."""
    told = False
    while True:
        try:
            there = await client.find(NODE, node) is not None
        except BerthError as exc:  # it may not ask, or there is no API server now: others tell of that
            LOG.debug("whether Node %s is there is not known: %s", node, exc.message)
        else:
            if there:
                break
            if not told:
                LOG.warning(
                    "there is no Node %s in this cluster: nothing is placed on its disks until there is; if it is not"
                    " about to join, correct --node-name, or node in the configuration (kubectl get nodes lists them)",
                    node,
                )
            told = True
        await asyncio.sleep(_SECONDS)
    if told:
        LOG.info("Node %s is there now", node)
    await asyncio.Event().wait()
