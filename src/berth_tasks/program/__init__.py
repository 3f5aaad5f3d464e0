"""For programs that run Tasks from Python: they talk to the API server, and berth-tasks does the rest.

async with KubeClient(config.load()) as client, Tasks(client) as tasks:
    await tasks.submit("hash", template, retries=2)
    async for row in tasks.follow("hash"): ...
    done = await tasks.wait("hash", 600)

with TaskExecutor(template) as executor:
    print(executor.submit(math.sqrt, 2).result())

submitted   Tasks, TaskBatches: submit, follow, wait, logs, kill, remove
offers      TaskOffers: room on a node, held for a bounded time, taken by a Task or declined
executor    TaskExecutor: concurrent.futures, a Task for each call
calls       a call as a text, and what came of it
pod         the pod of a call; the worker in it is berth_tasks.worker
results     Results: the program's own endpoint, for results of more than 4 KiB
tokens      Tokens: one for each Task, in one Secret
"""

from .executor import TaskExecutor, TaskFuture
from .offers import HeldOffer, TaskOffers
from .results import Endpoint
from .submitted import TaskBatches, Tasks

__all__ = ["Endpoint", "HeldOffer", "TaskBatches", "TaskExecutor", "TaskFuture", "TaskOffers", "Tasks"]
