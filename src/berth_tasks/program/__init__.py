"""For programs that run Tasks from Python, on asyncio: they talk to the API server, and berth-tasks does the rest.

async with KubeClient(config.load()) as client, Tasks(client) as tasks:
    await tasks.submit("hash", template, retries=2)
    async for row in tasks.follow("hash"): ...
    done = await tasks.wait("hash", 600)

submitted   Tasks, TaskBatches: submit, follow, wait, logs, kill, remove
offers      TaskOffers: room on a node, held for a bounded time, taken by a Task or declined
"""

from .offers import HeldOffer, TaskOffers
from .submitted import TaskBatches, Tasks

__all__ = ["HeldOffer", "TaskBatches", "TaskOffers", "Tasks"]
