"""Tasks whose pod is on a node that cannot be reached: they wait for that node, and say so.

The pod may go on to run there, so no second one is made. Called by the lifecycle manager.
"""

from __future__ import annotations

from collections.abc import Callable

from berth_core.tasks.pods import PodState

from .nodes import Nodes
from .store import PodSnapshotStore
from .task_registry import TaskKey

NODE_UNREACHABLE = "NodeUnreachable"


class Unreachable:
    """Of pods that are in the store."""

    def __init__(self, nodes: Nodes, store: PodSnapshotStore) -> None:
        self._nodes, self._store = nodes, store

    def listen(self, wake: Callable[[TaskKey], None]) -> None:
        """``wake`` is told of the tasks with pods on a node that cannot be reached from now on, or can."""

        def changed(node: str) -> None:
            for pod in self._store.snapshot.pods.values():
                if pod.node == node:
                    wake(pod.task_key)

        self._nodes.readiness = changed

    def words(self, pod: PodState) -> str:
        """What its task says; empty where the node can be reached. A Node that is not there has its pods ended."""
        if not self._nodes.silent(pod.node):
            return ""
        return (
            f"node {pod.node} cannot be reached, where the pod may go on to run: the task goes on when the node is "
            "back, its Node is deleted, or it bears the taint node.kubernetes.io/out-of-service"
        )
