"""A program that runs tasks from Python, with the rights that the guide gives it and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ForbiddenError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_kube import config
from berth_kube.client import KubeClient
from tests.daemons.tasks.world import World, until
from tests.support import pages
from tests.support.team import client_of

GUIDE = pages.ROOT / "docs" / "guides" / "tasks.md"
ACCOUNT = "team"


def allow(world: World) -> Path:
    """Give the account the guide's Roles in the world's namespace; its kubeconfig, once that is in force."""
    for example in pages.examples(GUIDE):
        if example.language == "yaml" and "kind: Role\n" in example.text:
            (role,) = example.documents
            _bind(world, role)
    account = client_of(world.cluster.kubeconfig, world.name)

    def in_force() -> bool:
        try:
            account.list(kinds.TASK, world.name)
        except ForbiddenError:
            return False
        return True

    until(in_force, "the program's rights")
    return kubeconfig(world)


def _bind(world: World, role: dict[str, Any]) -> None:
    meta = {"name": role["metadata"]["name"], "namespace": world.name}
    world.api.create(kinds.ROLE, {**role, "metadata": meta})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": meta["name"]}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": world.name}
    world.api.create(kinds.ROLE_BINDING, {"metadata": meta, "roleRef": ref, "subjects": [subject]})


def kubeconfig(world: World) -> Path:
    """The administrator's, who acts as the account."""
    content = yaml.safe_load(Path(world.cluster.kubeconfig).read_text())
    for user in content["users"]:
        user["user"]["as"] = f"system:serviceaccount:{world.name}:{ACCOUNT}"
    for context in content["contexts"]:
        context["context"]["namespace"] = world.name
    path = Path(world.cluster.kubeconfig).with_name(f"{world.name}.kubeconfig")
    path.write_text(yaml.safe_dump(content))
    path.chmod(0o600)
    return path


def run(path: Path, program: Callable[[KubeClient], Awaitable[Any]]) -> Any:
    """Run it to its end with a client of its own."""

    async def main() -> Any:
        async with KubeClient(config.load(str(path))) as client:
            return await asyncio.wait_for(program(client), 240)

    return asyncio.run(main())
