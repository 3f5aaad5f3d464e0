"""update/calls-kruise: score calls of kube-scheduler, and filter calls on other nodes than a replica's own, berth's
beside those of OpenKruise's Advanced StatefulSet.

Both bring another image to their pods on one cluster with the stock scheduler, each in its two ways: in the running pod
(in_place_only; InPlaceIfPossible), and with a new pod (same_node; ReCreate). By kube-scheduler's exact counters.

kwok starts the containers anew (kubelet.py), for Kruise waits until the status of a pod has another image ID. That
takes no time here: calls are counted, not seconds.
"""

from __future__ import annotations

from . import kubelet, open_kruise
from .figures import Figure
from .ground import OURS, Ground
from .update_calls import NODES, SIZES, Calls, app_task, calls_of, came_home, places, rolls, told, told_of_peer

#: How a replica is updated -> berth's strategy, and Kruise's.
WAYS = {"in-place": ("in_place_only", open_kruise.IN_PLACE), "anew": ("same_node", open_kruise.ANEW)}


def beside_kruise(_ground: Ground) -> list[Figure]:
    """update/calls-kruise."""
    open_kruise.built()
    with Ground(NODES, 1) as ground:
        kubelet.play(ground.cluster)
        with open_kruise.running(ground):
            return [_row(ground, way, replicas) for way in WAYS for replicas in SIZES]


def _row(ground: Ground, way: str, replicas: int) -> Figure:
    strategy, policy = WAYS[way]
    tasks = [app_task(f"ours-{way}-{replicas}", replicas, image, strategy, "StatefulSet") for image in (1, 2)]
    ground.play(OURS, tasks[:1])
    before = places(ground, f"ours-{way}-{replicas}")
    ours = calls_of(ground, lambda: ground.play(OURS, tasks[1:]))
    home = came_home(before, places(ground, f"ours-{way}-{replicas}"))
    name = f"kruise-{way}-{replicas}"
    sets = [open_kruise.stateful_set(name, replicas, image, policy) for image in (1, 2)]
    peer = rolls(ground, open_kruise.STATEFUL_SET, *sets)
    if way == "in-place":  # no pod is made, so that both are nothing, or the update was not what its name says
        assert ours == peer == Calls(0, 0, 0), (ours, peer)
    else:
        assert home == replicas, home
    made = 0 if way == "in-place" else replicas
    notes = (
        f"{replicas} replicas on {NODES} nodes, StatefulSets of both kinds, {strategy}; the peer's pods have no volume",
        told([ours], home),
        told_of_peer(peer, made),
        "not run: PersistentPodState, with which Kruise has a pod that is made anew prefer or require its node",
    )
    found = (ours.elsewhere(home), peer.elsewhere(made))
    return Figure(f"update/calls-kruise/{way}/{replicas}", *found, "calls", open_kruise.peer_name(policy), notes)
