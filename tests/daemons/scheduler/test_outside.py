"""Plugins from outside: the example of the documentation runs in the daemon; wrong ones are told at the start."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import InputError
from berth_core.framework.contract import SUCCESS
from berth_scheduler import outside
from tests.daemons.scheduler.naughty import LABEL
from tests.support.outside import installed

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@dataclass(frozen=True)
class Waits:
    """One of each type of argument."""

    seconds: float
    words: tuple[str, ...] = ()
    loud: bool = False
    limit: int | None = None
    name: ClassVar[str] = "Waits"

    def pre_enqueue(self, _pod):
        return SUCCESS


class Nothing:
    """Stands nowhere."""

    name = "Nothing"


def point(name: str, thing: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{thing}", outside.GROUP)


def made(monkeypatch, args, *points):
    """The one plugin of a configuration with these arguments."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _module())
    table, extends = outside.known_plugins(points or [point("Waits", "Waits")])
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "Waits"}]}},
        "pluginConfig": [{"name": "Waits", "args": args}],
    }
    found = SchedulerConfiguration.parse({**HEAD, "profiles": [profile]}, table, extends)
    plugins = found.profiles[0].build(table).plugins
    return next(one for one in plugins if one.name == "Waits"), found


def _module():
    import types

    module = types.ModuleType(__name__)
    module.__dict__.update({"Waits": Waits, "Nothing": Nothing})
    return module


def test_arguments_are_fields(monkeypatch):
    plugin, found = made(monkeypatch, {"seconds": 2, "words": ["a", "b"], "loud": True, "limit": 3})
    assert plugin == Waits(2, ("a", "b"), True, 3)
    assert "Waits" in found.profiles[0].plugins.points["preEnqueue"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"seconds": "2"}, "args.seconds: expected float, got '2'"),
        ({"seconds": True}, "args.seconds: expected float, got True"),
        ({"seconds": 1, "words": ["a", 2]}, "args.words[1]: expected str, got 2"),
        ({"seconds": 1, "limit": 1.5}, "args.limit: expected int, got 1.5"),
        ({"seconds": 1, "volume": 11}, "args.volume: Waits does not know it; expected limit, loud, seconds, words"),
        ({}, "args.seconds: Waits needs it, and it is missing"),
    ],
)
def test_a_wrong_argument_is_told_with_its_path(monkeypatch, args, words):
    with pytest.raises(InputError) as told:
        made(monkeypatch, args)
    assert words in told.value.message


def test_a_plugin_that_cannot_be_one_is_told(monkeypatch):
    for one, words in (
        (point("Nothing", "Nothing"), "has no method of any extension point"),
        (point("NodeName", "Waits"), "has the name of another plugin"),
        (point("Gone", "Gone"), "cannot be loaded"),
        (point("Other", "Waits"), ""),
    ):
        if words:
            with pytest.raises(InputError, match=words):
                made(monkeypatch, {"seconds": 1}, one)
    table, _extends = outside.known_plugins([])
    assert "Waits" not in table.names


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(world, start, tmp_path):
    """Installed as any package is: found by its entry point, asked about every node, listened to."""
    environment = installed(tmp_path, outside.GROUP, "AvoidRacks = avoid_racks:AvoidRacks")
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "AvoidRacks", "weight": 2}]}},
        "pluginConfig": [{"name": "AvoidRacks", "args": {"racks": [world.name], "label": "kubernetes.io/hostname"}}],
    }
    first = world.node("0")
    profile["pluginConfig"][0]["args"]["racks"] = [first]
    config = world.configuration(tmp_path / "outside.yaml", profile)
    start(config=config, environment=environment)
    world.pod("a")
    world.refused("a", "1 node(s) were in an avoided rack")
    second = world.node("1")
    assert world.placed("a") == [second]


#: What goes wrong, and what the pod is told of it; "": nothing, it waits without a word as any gated pod does.
TOLD = {
    "raises-in-gate": "",
    "nothing-from-gate": "",
    "raises-in-filter": "RuntimeError: filter of raises-in-filter",
    "nothing-from-filter": "AttributeError",
    "scores-101": "plugin Naughty scored outside 0 to 100 (101 to 101)",
    "scores-less": "plugin Naughty scored outside 0 to 100 (-1 to -1)",
    "raises-in-permit": "plugin Naughty failed: RuntimeError: permit of raises-in-permit",
    "nothing-from-permit": "plugin Naughty failed: TypeError: expected a Permission, got None",
    "raises-in-prebind": "plugin Naughty failed: RuntimeError: prebind of raises-in-prebind",
    "nothing-from-prebind": "plugin Naughty failed: TypeError: expected a Status, got None",
}


@pytest.mark.slow
def test_what_a_plugin_does_wrong_costs_its_pod_and_no_other(world, start, tmp_path):
    """Each fault at each point, and pods with disks that arrive meanwhile; whose fault is mended is placed."""
    world.storage_class(waits=True)
    for number in range(2):
        node = world.node(str(number))
        for index in range(2):
            world.disk(node, index)
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Naughty"}]}}}
    config = world.configuration(tmp_path / "naughty.yaml", profile)
    environment = installed(tmp_path, outside.GROUP, "Naughty = tests.daemons.scheduler.naughty:Naughty")
    scheduler = start(config=config, environment=environment)
    for wrong in (*TOLD, "sleeps-in-filter", "sleeps-in-prebind"):
        world.pod(wrong, labels={LABEL: wrong}, cpu="50m")
    world.claim("kept")
    world.pod("tied", "kept", labels={LABEL: "raises-in-prebind"}, cpu="50m")
    for number in range(3):
        world.claim(f"good-{number}")
        world.pod(f"good-{number}", f"good-{number}")
    world.placed(*(f"good-{number}" for number in range(3)), "sleeps-in-filter")
    for wrong, words in TOLD.items():
        if words:
            world.refused(wrong, words)
        else:
            scheduler.says(f"pod {world.name}/{wrong}: plugin Naughty failed")
    world.refused("tied", "prebind of tied")
    world.check()
    assert not any(world.where(wrong) for wrong in (*TOLD, "sleeps-in-prebind", "tied"))
    for name in (*TOLD, "tied"):
        world.api.patch(kinds.POD, name, world.name, {"metadata": {"labels": {LABEL: None}}})
    world.placed(*TOLD, "tied")
    assert len(world.locks()) == 4
    world.check()


@pytest.mark.slow
def test_what_a_queue_sort_does_wrong_puts_its_pod_behind_all_others(world, start, tmp_path):
    """Pods that wait when the scheduler starts, and room for two of them: those that the plugin can sort."""
    order = {"queueSort": {"enabled": [{"name": "NaughtyOrder"}], "disabled": [{"name": "*"}]}}
    config = world.configuration(tmp_path / "order.yaml", {"plugins": order})
    environment = installed(tmp_path, outside.GROUP, "NaughtyOrder = tests.daemons.scheduler.naughty:NaughtyOrder")
    first = world.node("0")
    wrong = ("raises-in-order", "nothing-from-order")
    for name in (*wrong, "good-0", "good-1"):
        world.pod(name, labels={LABEL: name}, cpu="900m")
    scheduler = start(config=config, environment=environment)
    assert world.placed("good-0", "good-1") == [first, first]
    for name in wrong:
        world.refused(name, "Insufficient cpu")
    scheduler.says("RuntimeError: order of raises-in-order")
    scheduler.says(f"pod {world.name}/nothing-from-order: plugin NaughtyOrder failed: TypeError")

    # One that can be sorted by beside its like alone, among many: the queue goes on.
    for name in ("text-from-order", *(f"late-{number}" for number in range(4))):
        world.pod(name, labels={LABEL: name}, cpu="100m")
    world.node("1", cpu="8")
    world.placed(*wrong, "text-from-order", *(f"late-{number}" for number in range(4)))
    assert scheduler.process.poll() is None
