"""``python -m tests.bench [ONLY=name]``: measures, prints a table, writes build/bench.json. Called by `make bench`.

A name that ends in ``/`` runs a family: ``ONLY=task/``. Several are separated by commas; those that share a run, as
``ONLY=sched/plain,sched/rate,sched/memory,sched/startup``, make it once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .figures import Figure
    from .ground import Ground

    Bench = Callable[[Ground], list[Figure]]

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_args: sys.exit(1))  # clusters are taken down also then
    prepare()
    from .ground import Ground, say

    benches = known()
    only = next((text.removeprefix("ONLY=") for text in arguments if text.startswith("ONLY=")), "")
    chosen = {name: bench for name, bench in benches.items() if not only or _wanted(name, only.split(","))}
    if not chosen or any(not text.startswith("ONLY=") for text in arguments):
        print(f"usage: python -m tests.bench [ONLY=NAME]; the names are {', '.join(benches)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    failed: list[str] = []
    try:
        with Ground() as ground:
            for name, bench in chosen.items():
                started = time.monotonic()
                say(name)
                try:
                    figures += bench(ground)
                except Exception:  # noqa: BLE001 - told, and the others are run
                    traceback.print_exc()
                    failed.append(name)
                say(f"{name} took {time.monotonic() - started:.0f} s")
    finally:  # what was measured before somebody ended it is not lost
        _tell(figures)
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _tell(figures: list[Figure]) -> None:
    from .figures import table

    print(table(figures))
    path = ROOT / "build" / "bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([figure.as_json() for figure in figures], indent=2) + "\n")
    print(f"\nwritten to {path.relative_to(ROOT)}")


def known() -> dict[str, Bench]:
    """All benches by name."""
    from . import (
        agent,
        agent_pod,
        claims,
        client,
        decide,
        filler,
        kind,
        openb,
        page,
        publishing,
        requests,
        scale,
        task_known,
        task_rate,
        tasks,
        update_calls,
        update_kruise,
        update_not_ready,
        update_rooms,
        update_schedulers,
    )
    from . import sched_extender as extender
    from . import sched_workloads as sched

    return {
        "task/rerun": tasks.rerun,
        "task/info": tasks.info,
        "task/20": tasks.twenty,
        "task/hosts20": tasks.hosts20,
        "requests/first": requests.first,
        "requests/rerun": requests.rerun,
        "requests/scale": requests.scale,
        "app/100": scale.app100,
        "claim/static": claims.static,
        "claim/dynamic": claims.dynamic,
        "client/memory": client.memory,
        "client/read": client.read,
        "agent/publish": agent.publish,
        "agent/idle": agent.idle,
        "agent/idle-pod": agent_pod.idle,
        "sched/decide": decide.decide,
        "sched/openb": openb.openb,
        "sched/plain": sched.plain,
        "sched/rate": sched.rate,
        "sched/memory": sched.memory,
        "sched/startup": sched.startup,
        "sched/spread": sched.under_spread,
        "sched/interpod": sched.under_interpod,
        "sched/localdisk": sched.under_localdisk,
        "sched/shapes": sched.under_shapes,
        "sched/preempt": sched.under_preempt,
        "sched/latency": sched.latency,
        "sched/extender": extender.extender,
        "update/calls-in-place": update_calls.in_place,
        "update/calls-same-node": update_calls.same_node,
        "update/calls-same-node-pods": update_calls.same_node_pods,
        "update/calls-100": update_schedulers.on_100,
        "update/calls-5000": update_schedulers.on_5000,
        "update/calls-kruise": update_kruise.beside_kruise,
        "update/not-ready": update_not_ready.not_ready_rows,
        "update/rooms": update_rooms.rooms,
        "tasks/rate": task_rate.rate,
        "tasks/memory": task_known.memory,
        "tasks/in-flight": task_known.in_flight,
        "tasks/filler": filler.filler,
        "report/page": page.page,
        "sanity/ignores": publishing.ignores,
        "docs/examples": publishing.examples,
        "cluster/up": scale.cluster_up,
        "kind/up": kind.up,
        "kind/converge": kind.converge,
    }


def _wanted(name: str, only: Sequence[str]) -> bool:
    """The bench of that name, of a figure below it (``sched/decide/1000``), or of a family (``sched/``)."""
    return any(name == one or one.startswith(f"{name}/") or (one[-1:] == "/" and name.startswith(one)) for one in only)


def prepare() -> None:
    """Let the collection be found as Ansible finds it, as tests/conftest.py does for the tests."""
    collections = Path(sys.prefix) / "collections"
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
    os.environ["ANSIBLE_CONFIG"] = str(ROOT / "tests" / "support" / "ansible.cfg")
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader([str(collections)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
