"""The faults, one function each: it strikes, says what must be seen meanwhile, and takes the fault away again.

Every function gets the ground and a source of chance, and hands the ground back without the fault; that all comes to
rest afterwards is for `invariants.check`. Listed in `KINDS` for the run at random.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.observed import ready
from tests.daemons.chaos.ground import BANK, BY_DAEMONSET, BY_SERVICE, HOSTS, NAMESPACE, ChaosGround
from tests.daemons.controller.world import until
from tests.dev.hosts_help import eventually
from tests.support.agent import zipapp

SECONDS = 180.0
Chance = random.Random
Fault = Callable[[ChaosGround, Chance], None]


def agent_is_killed(ground: ChaosGround, chance: Chance) -> None:
    """SIGKILL at any moment of its work; claims come and go all the time, so it is always somewhere in the middle."""
    host = chance.choice(HOSTS)
    eventually(lambda: ground.agent_pid(host), SECONDS, f"an agent on {host}")
    time.sleep(chance.uniform(0, 2))
    ground.kill_agent(host)


def agents_are_replaced(ground: ChaosGround, _chance: Chance) -> None:
    """An upgrade under living volumes: another image for the DaemonSet, another zipapp for the service."""
    pods, connections = _lives(ground), ground.bank.connections()
    hosts, image = ground.cluster.hosts, f"berth.local/berth:{time.time_ns()}"
    for host in BY_DAEMONSET:
        hosts.enter(host, "/opt/k/ctr", "-n", "k8s.io", "images", "tag", "berth.local/berth:dev", image)
    before = {host: ground.agent_pod(host) for host in BY_DAEMONSET}
    ground.cluster.kubectl("set", "image", "daemonset/berth-agent", f"agent={image}", "-n", NAMESPACE)

    def replaced() -> bool:
        now = {host: ground.agent_pod(host) for host in BY_DAEMONSET}
        return all(now[host] and now[host] != before[host] and _runs(now[host], image) for host in BY_DAEMONSET)

    until(replaced, ground.story)
    agent = ground.rooms[BY_SERVICE].agent
    agent.stop()
    agent.put("agent.pyz", zipapp() + b"\0")  # a zip may have a tail: another file, and the same programs
    ground.start_service()
    assert _lives(ground) == pods, "an application's pod or container was touched by the upgrade"
    assert ground.bank.connections() == connections, "the database's connection was lost by the upgrade"


def _runs(pod: Any, image: str) -> bool:
    return bool(pod["spec"]["containers"][0]["image"] == image and ready(pod))


def _lives(ground: ChaosGround) -> dict[str, Any]:
    """pod -> uid, and how often its container was started."""
    return {
        one["metadata"]["name"]: (one["metadata"]["uid"], one["status"]["containerStatuses"][0]["restartCount"])
        for one in ground.pods()
    }


def controller_is_killed(ground: ChaosGround, chance: Chance) -> None:
    """SIGKILL of the leader or of the other, in the middle of claims."""
    chance.choice(until(ground.controllers.alive, ground.story)).signal(signal.SIGKILL)


def leading_controller_is_paused(ground: ChaosGround, _chance: Chance) -> None:
    """SIGSTOP past the end of its Lease: another leads; back again, it must not write one thing more."""
    until(lambda: _leader(ground) is not None, ground.story)
    first = _leader(ground)
    assert first is not None
    first.signal(signal.SIGSTOP)
    try:
        until(lambda: _leader(ground) not in (None, first), ground.story)
    finally:
        first.signal(signal.SIGCONT)
    assert first.ended() == 1, first.text()[-2000:]


def _leader(ground: ChaosGround) -> Any:
    held = ground.api.get(kinds.LEASE, "berth-controller", NAMESPACE)["spec"].get("holderIdentity")
    return ground.controllers.of(held)


def api_server_is_killed(ground: ChaosGround, chance: Chance) -> None:
    """For so short that some notice it and some do not; an agent dies meanwhile."""
    seconds = chance.uniform(0, 12)
    with _no_api_server(ground):
        unnoticed = _by_the_bank(ground)
        time.sleep(seconds / 2)
        ground.kill_agent(BY_SERVICE)
        time.sleep(seconds / 2)
        if seconds >= 10:
            unnoticed()
            assert ground.agent_pid(BY_SERVICE), ground.rooms[BY_SERVICE].agent.log()[-2000:]


def api_server_is_away(ground: ChaosGround, _chance: Chance) -> None:
    """Until every Lease is over: agents write nothing, the leading controller ends. Applications do not notice; an
    agent that dies meanwhile comes back and changes nothing before it may."""
    before = {host: ground.losses(host) for host in HOSTS}
    with _no_api_server(ground):
        unnoticed = _by_the_bank(ground)
        for host in HOSTS:
            until(lambda host=host: ground.losses(host) > before[host], f"the agent of {host} does not give up")
        until(lambda: len(ground.controllers.alive()) < 2, "the leading controller goes on without its Lease")
        log, agent = ground.kill_agent(BY_SERVICE), ground.rooms[BY_SERVICE].agent
        eventually(lambda: "trying again until it works" in agent.log(log), SECONDS, "an agent without an API server")
        unnoticed()
        assert ground.agent_pid(BY_SERVICE), agent.log(log)[-2000:]


def _by_the_bank(ground: ChaosGround) -> Callable[[], None]:
    """To be called after a while: the database has gone on, and its connection is the same."""
    commits, connections = len(ground.bank.acknowledged()), ground.bank.connections()

    def check() -> None:
        assert len(ground.bank.acknowledged()) > commits, "the database stood still without an API server"
        assert ground.bank.connections() == connections

    return check


@contextlib.contextmanager
def _no_api_server(ground: ChaosGround) -> Iterator[None]:
    """It is killed, and started again afterwards."""
    with ground.churn.quiet():
        ground.cluster.stop_component("kube-apiserver", kill=True)
        try:
            yield
        finally:
            ground.cluster.start_component("kube-apiserver")
        ground.witness_is_awake()


def disk_breaks(ground: ChaosGround, chance: Chance) -> None:
    """I/O errors under a living filesystem: Faulted, the lock stays; healed, its pod is started anew."""
    breaks_under(ground, *chance.choice([(BANK, "bank"), ("h2", "queue"), ("h3", "log")]))


def bank_breaks(ground: ChaosGround, _chance: Chance) -> None:
    """The same, under the database."""
    breaks_under(ground, BANK, "bank")


def breaks_under(ground: ChaosGround, host: str, role: str) -> None:
    room, name = ground.rooms[host], ground.names[host, role]
    lock = ground.disk(host, role)["spec"]["claimRef"]
    ground.cluster.hosts.disk_break(host, name)
    try:
        disk = room.wait_phase(name, "Faulted")
        assert disk["spec"]["claimRef"] == lock
        goes_off(ground, host, role)
        assert "/kubelet/pods/" in room.agent.here(f"findmnt -no TARGET -S {room.device(name)}"), "a pod lost its mount"
    finally:
        ground.cluster.hosts.disk_heal(host, name)
    ground.restart_pod(host, role)


def goes_off(ground: ChaosGround, host: str, role: str) -> None:
    """No new pod gets in, whichever is first: the next pod or the disk."""
    here, point = ground.rooms[host].agent.here, ground.point(host, role)
    seen = (
        f"grep -F {point} /proc/self/mountinfo; ls /sys/dev/block; "
        f"for d in /proc/[0-9]*; do grep -qs {point} $d/mountinfo && echo $d $(tr '\\0' ' ' < $d/cmdline); done"
    )

    def story() -> str:
        return f"{role} of {host} at {point}:\n{here(seen, check=False)}\n{ground.story()}"

    until(lambda: here(f"findmnt -no TARGET {point} || echo off", check=False) == "off", story)


def disk_vanishes(ground: ChaosGround, chance: Chance) -> None:
    """Any disk of the counting applications."""
    vanishes_under(ground, *chance.choice([("h2", "queue"), ("h3", "queue"), ("h1", "log"), ("h3", "log")]))


def disks_vanish(ground: ChaosGround, _chance: Chance) -> None:
    """Where the agent is a pod, and where it is a service."""
    vanishes_under(ground, "h2", "queue")
    vanishes_under(ground, BY_SERVICE, "log")


def vanishes_under(ground: ChaosGround, host: str, role: str) -> None:
    """Pulled out under a living filesystem: Missing, the lock stays; back again, the same replica finds its data."""
    room, name = ground.rooms[host], ground.names[host, role]
    lock, hosts = ground.disk(host, role)["spec"]["claimRef"], ground.cluster.hosts
    hosts.disk_break(host, name)  # a loop device that is open lives on without its node: a real one answers no more
    hosts.disk_remove(host, name)
    try:
        assert room.wait_phase(name, "Missing")["spec"]["claimRef"] == lock
        goes_off(ground, host, role)
        ground.restart_pod(host, role)  # the next is there before the disk, and must not begin on the dead filesystem
    finally:
        hosts.disk_heal(host, name)
        room.put_back(name)


def twin_of_a_held_disk(ground: ChaosGround, _chance: Chance) -> None:
    """A second disk answers with the serial number of a held one: both are named, neither is touched."""
    host = BY_SERVICE
    room, name = ground.rooms[host], ground.names[host, "still"]
    twin = ground.spare(host)
    # as after a look at the host, which may come at any time and write the record anew
    record, own = (f"/run/udev/data/b7:{room.plugged[each]['loop']}" for each in (twin, name))
    before = room.checksum(twin)
    room.agent.here(f"cp {record} /run/twin; cp {own} {record}")
    try:
        message = room.wait_condition(name, "Matched", "False", "Ambiguous")
        assert room.device(twin) in message
        assert room.device(name) in message
        disk = ground.disk(host, "still")
        assert disk["spec"]["claimRef"]["uid"] == ground.locks[host, "still"]["uid"]
        assert room.agent.here(f"findmnt -no SOURCE {room.point(name)}") == room.device(name)
    finally:
        room.agent.here(f"mv /run/twin {record}")
    assert room.checksum(twin) == before
    room.pull(twin)


#: Every block, those that are kept for root too; only reserved, nothing is written.
FILL = """
mkdir /full; n=0
for size in 4G 1G 256M 64M 16M 4M 1M 256K 64K 4K; do
    while fallocate -l $size /full/$n 2>/dev/null; do n=$((n+1)); done; rm -f /full/$n
done
"""


def root_disk_is_full(ground: ChaosGround, _chance: Chance) -> None:
    """No byte is left on the host's own disk, and the agent is killed and started there.

    The kubelet sleeps meanwhile: it would evict the pods, which is its business and takes it minutes to end.
    """
    host = BY_SERVICE
    here = ground.rooms[host].agent.here
    kubelet = here("pgrep -x kubelet")
    here(f"kill -STOP {kubelet}")
    try:
        here(
            "fallocate -l $(df --output=avail -B1 / | tail -1) /full; head -c 64M /dev/zero >> /full; df /", check=False
        )
        assert here("df --output=avail -B1 / | tail -1").strip() == "0"
        log, served = ground.kill_agent(host), ground.churn.served
        agent = ground.rooms[host].agent
        eventually(lambda: "everything that was seen is published" in agent.log(log), 60, "an agent on a full disk")
        until(lambda: ground.churn.served > served, ground.story)
    finally:
        here(f"rm -rf /full; kill -CONT {kubelet}")


def host_loses_power(ground: ChaosGround, chance: Chance) -> None:
    """Everything in it dies at once; two disks of it have changed their kernel names when it comes back."""
    host = chance.choice(HOSTS)
    ground.power_off(host)
    swap_names(ground, host, "log", "still")
    ground.power_on(host)


def swap_names(ground: ChaosGround, host: str, one: str, two: str) -> None:
    """Two disks of a host without power change their kernel names: what was loop5 is loop6 afterwards.

    The lowest free name is taken first, and whoever else makes loop devices just then takes names, too: both are
    plugged in again until neither has its own.
    """
    room, before = ground.rooms[host], {role: ground.device(host, role) for role in (one, two)}
    for _again in range(20):
        order = sorted((one, two), key=lambda role: int(ground.device(host, role).removeprefix("/dev/loop")))
        for role in (one, two):
            room.pull(ground.names[host, role])
        for role in reversed(order):
            room.put_back(ground.names[host, role])
        if all(ground.device(host, role) != name for role, name in before.items()):
            return
    raise AssertionError(f"{one} and {two} of {host} have their names again after 20 times: {before}")


def pod_is_deleted(ground: ChaosGround, chance: Chance) -> None:
    """An application's pod is taken away; the same replica comes back to the same disk."""
    pods = ground.pods()
    if pods:
        name = chance.choice(sorted(one["metadata"]["name"] for one in pods))
        ground.cluster.kubectl("delete", "pod", name, "-n", ground.world.name, "--wait=false", "--ignore-not-found")


def kubelet_is_killed(ground: ChaosGround, chance: Chance) -> None:
    """And is started again by its host."""
    ground.rooms[chance.choice(HOSTS)].agent.here("pkill -KILL -x kubelet", check=False)


#: Those that ask nothing of the ground: they may strike while another fault is being got over.
ANY_TIME: tuple[Fault, ...] = (agent_is_killed, controller_is_killed, pod_is_deleted, kubelet_is_killed)
#: fault -> how often it is chosen, beside the others
KINDS: dict[Fault, int] = {
    agent_is_killed: 6,
    agents_are_replaced: 2,
    controller_is_killed: 4,
    leading_controller_is_paused: 2,
    api_server_is_killed: 3,
    disk_breaks: 3,
    disk_vanishes: 3,
    twin_of_a_held_disk: 2,
    root_disk_is_full: 2,
    host_loses_power: 2,
    pod_is_deleted: 3,
    kubelet_is_killed: 2,
}
