"""What holds after each fault, one function each. Every function raises AssertionError that names what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.fsid import filesystem_uuid
from tests.daemons.agent.disk_ground import ROOT as MOUNTS
from tests.daemons.chaos.apps import CHECKING, UNFLUSHED
from tests.daemons.chaos.ground import HOSTS, ChaosGround
from tests.daemons.controller.world import PATIENCE, until
from tests.dev.hosts_help import eventually
from tests.support.agent import NAMESPACE, conditions_of

#: Commits and numbers that have to come before an application counts as alive.
ALIVE = 3


def fingerprints(ground: ChaosGround) -> dict[tuple[str, str], str]:
    """Checksums of what nobody has a reason to change: raw held disks, somebody else's data, files of a held disk."""
    found = {}
    for host, room in ground.rooms.items():
        script = "".join(f"sha256sum < {ground.device(host, role)};" for role in ("raw", "foreign"))
        script += f"sha256sum < {ground.point(host, 'still')}/data/noise"
        sums = room.agent.here(script).splitlines()
        found.update({(host, role): line for role, line in zip(("raw", "foreign", "still"), sums, strict=True)})
    return found


def no_byte_was_changed(ground: ChaosGround, before: dict[tuple[str, str], str]) -> None:
    """Disks that nobody writes to, held or somebody else's, are what they were; held filesystems are their lock's."""
    after = fingerprints(ground)
    assert after == before, f"changed: {[key for key in before if after[key] != before[key]]}"
    disks = ground.disks()
    for host, room in ground.rooms.items():
        roles = [role for (each, role), disk in disks.items() if each == host and _has_filesystem(role, disk)]
        script = ";".join(f"blkid -p -o value -s UUID {ground.device(host, role)}" for role in roles)
        found = dict(zip(roles, room.agent.here(script).splitlines(), strict=True))
        names = {role: disks[host, role]["metadata"]["name"] for role in roles}
        lock = {role: disks[host, role]["spec"]["claimRef"]["dataUID"] for role in roles}
        assert found == {role: filesystem_uuid(lock[role], names[role]) for role in roles}, f"{host}: other filesystems"


def _has_filesystem(role: str, disk: dict[str, Any]) -> bool:
    """Of a lock that stays."""
    return not role.startswith("churn") and bool(disk["spec"].get("claimRef")) and role != "raw"


def no_disk_has_two_holders(ground: ChaosGround) -> None:
    """One berth behind each lock, one disk behind each claim, one volume over each disk, one mount of each."""
    disks = {one["metadata"]["name"]: one for one in ground.api.list(kinds.LOCAL_DISK)}
    berths = {one["metadata"]["uid"]: one for one in ground.api.list(kinds.BERTH, ground.world.name)}
    wanted = Counter(each["name"] for one in berths.values() for each in one["spec"]["disks"] if _holds(disks, one))
    assert not [name for name, times in wanted.items() if times > 1], f"several berths hold one disk: {wanted}"
    over: Counter[str] = Counter()
    for volume in ground.world.volumes().values():
        if (volume.get("status") or {}).get("phase") == "Bound":
            over[volume["spec"]["local"]["path"]] += 1
    assert not [name for name, times in over.items() if times > 1], f"several volumes are over one disk: {over}"
    mounts = {host: _mounts(room.agent.here("findmnt -rno SOURCE,TARGET,UUID -t ext4,xfs", check=False))
              for host, room in ground.rooms.items()}  # fmt: skip
    later = {one["metadata"]["name"]: one for one in ground.api.list(kinds.LOCAL_DISK)}
    for host, rows in mounts.items():
        _one_mount_each(host, rows, ground.witness.owners)
        for _device, point, uuid in rows:
            name = point.rsplit("/", 1)[1]
            holder = _mounted_for(later.get(name))
            if holder and holder == _mounted_for(disks.get(name)):
                assert uuid == filesystem_uuid(holder, name), f"{host}: {point} shows {uuid}, and not its holder's data"


def _holds(disks: dict[str, dict[str, Any]], berth: dict[str, Any]) -> bool:
    uid = berth["metadata"]["uid"]
    return any((one["spec"].get("claimRef") or {}).get("uid") == uid for one in disks.values())


def _mounts(listed: str) -> list[list[str]]:
    """Device, mount point and filesystem's UUID of what is mounted for berths."""
    rows = [line.split() for line in listed.splitlines()]
    return [row for row in rows if len(row) == 3 and row[1].startswith(f"{MOUNTS}/")]


def _mounted_for(disk: dict[str, Any] | None) -> str:
    """Whose data is mounted, as the journal says for the holder; empty on the way there."""
    journal = ((disk or {}).get("status") or {}).get("journal") or {}
    holder = (disk or {}).get("spec", {}).get("claimRef") or {}
    ready = journal.get("step") == "Mounted" and journal.get("lockUID") == holder.get("uid")
    return str(holder["dataUID"]) if ready else ""


def _one_mount_each(host: str, rows: list[list[str]], owners: Mapping[str, set[str]]) -> None:
    for kind, column in (("devices", 0), ("filesystems", 2)):
        times = Counter(row[column] for row in rows)
        assert not [each for each, number in times.items() if number > 1], f"{host}: {kind} mounted twice: {rows}"
    for _device, point, uuid in rows:
        name = point.rsplit("/", 1)[1]
        belonging = {filesystem_uuid(data, name) for data in owners.get(name, ())}
        assert uuid in belonging, f"{host}: {point} shows filesystem {uuid}, which was made for none of its holders"


def nothing_was_done_unasked(ground: ChaosGround) -> None:
    """No wipe without its request, no lock that changed hands, no filesystem made over one that was there."""
    assert ground.witness.looks, "the witness has died"
    assert not ground.witness.wrong, ground.witness.wrong


def every_lock_has_a_holder(ground: ChaosGround) -> None:
    """A lock's berth lives; where it does not, the LocalDisk says so."""

    def stray() -> list[str]:
        disks = ground.api.list(kinds.LOCAL_DISK)
        living = {one["metadata"]["uid"] for one in ground.api.list(kinds.BERTH)}
        held = [one for one in disks if one["spec"].get("claimRef")]
        lost = [one for one in held if one["spec"]["claimRef"]["uid"] not in living]
        return [one["metadata"]["name"] for one in lost if conditions_of(one).get("Orphaned", ("", ""))[0] != "True"]

    until(lambda: not stray(), lambda: f"held by nobody, and not reported: {stray()}")


def nothing_is_lost(ground: ChaosGround) -> None:
    """Every commit that was acknowledged is there; every replica counts on from where it was."""
    missing = ground.bank.missing()
    assert not missing, f"{len(missing)} acknowledged commits are missing: {missing[:20]}"
    for replica, (bad, last) in _numbers(ground).items():
        assert bad == 0, f"{replica}: {bad} lines are not the number that belongs there"
        before = ground.counters.seen.get(replica, 0)
        assert last >= before, f"{replica}: had come to {before}, and is at {last}"
        ground.counters.seen[replica] = last - UNFLUSHED


def _numbers(ground: ChaosGround) -> dict[str, tuple[int, int]]:
    """replica -> lines that are wrong, and the last number, as its disk has them on its host."""
    found = {}
    for host, room in ground.rooms.items():
        pods = [one["metadata"]["name"] for one in ground.pods() if one["spec"].get("nodeName") == host]
        counting = [name for name in pods if not name.startswith("bank")]
        files = [f"{ground.point(host, name.rpartition('-')[0])}/data/numbers" for name in counting]
        lines = room.agent.here(";".join(f"{CHECKING} {file}" for file in files)).splitlines()
        for name, line in zip(counting, lines, strict=True):
            bad, last = line.split()
            found[name] = int(bad), int(last)
    return found


def everything_comes_to_rest(ground: ChaosGround) -> None:
    """Nodes, agents, disks, pods are well; commits, numbers and claims go on."""
    for what, test in _WELL.items():
        _wait(ground, what, test)
    commits, served, before = len(ground.bank.acknowledged()), ground.churn.served, _numbers(ground)
    _wait(ground, "commits go on", lambda _ground: len(ground.bank.acknowledged()) >= commits + ALIVE)
    _wait(ground, "claims are served", lambda _ground: ground.churn.served > served)

    def counted(_ground: ChaosGround) -> bool:
        return all(last >= before[replica][1] + ALIVE for replica, (_bad, last) in _numbers(ground).items())

    _wait(ground, "every replica counts", counted)


def _wait(ground: ChaosGround, what: str, test: Callable[[ChaosGround], Any]) -> None:
    def tried() -> Any:
        try:
            return test(ground)
        except (AssertionError, BerthError, KeyError, ValueError):
            return False  # a host that is just starting, an object that is just not there

    try:
        eventually(tried, PATIENCE, what)
    except AssertionError as exc:
        raise AssertionError(f"{exc}\n{ground.story()}") from None


def _nodes(ground: ChaosGround) -> bool:
    nodes = {one["metadata"]["name"]: one for one in ground.api.list(kinds.NODE)}
    return all(("Ready", "True") in _conditions(nodes[host]) for host in HOSTS)


def _conditions(thing: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["type"], each["status"]) for each in thing["status"].get("conditions") or ()]


def _agents(ground: ChaosGround) -> bool:
    """Each agent's process is there, and it is the one that its Lease names."""
    leases = [ground.api.get(kinds.LEASE, f"berth-agent-{host}", NAMESPACE) for host in HOSTS]
    return all(ground.agent_pid(host) for host in HOSTS) and all(one["spec"].get("holderIdentity") for one in leases)


def _disks(ground: ChaosGround) -> bool:
    """Held ones are ready for their holder, the others free or somebody else's."""
    return all(_is_well(disk, role) for (_host, role), disk in ground.disks().items() if not role.startswith("churn"))


def _is_well(disk: dict[str, Any], role: str) -> bool:
    phase, said = disk["status"]["phase"], conditions_of(disk)
    if said["Matched"] != ("True", "Found") or said["Healthy"][0] == "False":
        return False
    if role == "foreign":
        return bool(phase == "Pending")
    return bool(disk["spec"].get("claimRef")) and said["Prepared"][0] == "True" and phase in ("InUse", "Locked")


def _pods(ground: ChaosGround) -> bool:
    ground.start_kube_scheduler()
    pods = ground.pods()
    return len(pods) == 6 and all(("Ready", "True") in _conditions(one) for one in pods)


def _controllers(ground: ChaosGround) -> bool:
    return len(ground.controllers.alive()) == 2


_WELL: dict[str, Callable[[ChaosGround], bool]] = {
    "two controllers": _controllers,
    "every node is Ready": _nodes,
    "every agent runs": _agents,
    "every disk is well": _disks,
    "every pod is Ready": _pods,
}


def check(ground: ChaosGround, before: dict[tuple[str, str], str]) -> None:
    """All of them: first those that hold at every moment, then what is to be after a while."""
    nothing_was_done_unasked(ground)
    no_disk_has_two_holders(ground)
    everything_comes_to_rest(ground)
    every_lock_has_a_holder(ground)
    no_disk_has_two_holders(ground)
    no_byte_was_changed(ground, before)
    nothing_is_lost(ground)
    nothing_was_done_unasked(ground)
