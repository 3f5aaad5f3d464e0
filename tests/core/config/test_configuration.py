"""A scheduler's configuration: defaults, merging, old names, and errors that say where and what."""

from __future__ import annotations

import pytest

from berth_core.config.configuration import SchedulerConfiguration
from berth_core.config.names import ALIASES, EXTENDS
from berth_core.config.reading import seconds
from berth_core.errors import InputError
from berth_core.framework.cycle import place
from berth_core.plugins.node_ports import NodePorts
from berth_core.plugins.node_volume_limits import NodeVolumeLimits
from berth_core.plugins.table import DEFAULT, TABLE
from tests.core.cluster.objects import node, request
from tests.core.framework.test_cycle import cluster

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def read(**more):
    return SchedulerConfiguration.parse({**HEAD, **more})


def profile(**more):
    return read(profiles=[more]).profiles[0]


def enabled(*names, **weights):
    listed = [{"name": name} for name in names] + [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"enabled": listed}


def test_an_empty_file_is_the_default_scheduler():
    whole = read()
    assert whole.profiles[0].scheduler_name == "default-scheduler"
    assert whole.profiles[0].plugins.names == tuple(sorted(name for name, _weight in DEFAULT))
    assert (whole.parallelism, whole.pod_initial_backoff, whole.pod_max_backoff) == (16, 1, 10)
    assert whole.leader_election.lease_duration == 15
    outcome = place(whole.profiles[0].build(), cluster(node("a"), node("b", unschedulable=True)), request())
    assert outcome.feasible == ("a",)


def test_several_profiles_differ():
    whole = read(
        profiles=[
            {"schedulerName": "one", "plugins": {"score": {"disabled": [{"name": "*"}], **enabled(NodeAffinity=7)}}},
            {"schedulerName": "two", "percentageOfNodesToScore": 5},
        ]
    )
    assert whole.profiles[0].plugins.weights == {"NodeAffinity": 7}
    assert [one.name for one in whole.profiles[0].build().scorers] == ["NodeAffinity"]
    assert len(whole.profiles[1].build().scorers) > 5
    assert [one.percentage_of_nodes_to_score for one in whole.profiles] == [None, 5]


def test_what_a_point_says_goes_before_what_all_points_say():
    read_plugins = profile(
        plugins={
            "multiPoint": {"enabled": [{"name": "NodeName"}, {"name": "ImageLocality", "weight": 4}]},
            "filter": {"disabled": [{"name": "NodePorts"}], **enabled("NodeName")},
            "score": enabled(ImageLocality=9),
        }
    ).plugins
    assert read_plugins.points["filter"][:2] == ("NodeName", "NodeUnschedulable")
    assert "NodePorts" not in read_plugins.points["filter"]
    assert "NodePorts" in read_plugins.points["preFilter"]
    assert read_plugins.weights["ImageLocality"] == 9
    assert read_plugins.weights["TaintToleration"] == 3


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_old_names_are_known(alias):
    plugin, args = ALIASES[alias]
    got = profile(plugins={"multiPoint": {"disabled": [{"name": plugin}], **enabled(alias)}})
    assert plugin in got.plugins.names
    assert {key: got.args[plugin][key] for key in args if key != "scoringStrategy"} == {
        key: value for key, value in args.items() if key != "scoringStrategy"
    }
    assert plugin not in profile(plugins={"multiPoint": {"disabled": [{"name": alias}]}}).plugins.names


def test_old_limits_add_up():
    names = enabled("MaxEBSVolumeCount", "MaxGCEPDVolumeCount")
    got = profile(plugins={"filter": {"disabled": [{"name": "*"}], "enabled": names["enabled"][:1]}})
    assert got.args["NodeVolumeLimits"] == {"defaultLimits": {"ebs.csi.aws.com": 39}}
    both = profile(plugins={"filter": enabled("MaxEBSVolumeCount"), "preFilter": enabled("MaxGCEPDVolumeCount")})
    limits = next(one for one in both.build().plugins if isinstance(one, NodeVolumeLimits))
    assert limits.default_limits == (("ebs.csi.aws.com", 39), ("pd.csi.storage.gke.io", 16))


def test_arguments_are_filled_in():
    args = profile(
        pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]
    ).args
    assert args["NodeResourcesFit"]["scoringStrategy"]["resources"][0] == {"name": "cpu", "weight": 1}
    assert args["PodTopologySpread"] == {"defaultingType": "System"}
    assert args["InterPodAffinity"]["hardPodAffinityWeight"] == 1


BAD_SHAPE = {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"parallelism": 0}, "parallelism"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore"),
        ({"podMaxBackoffSeconds": 0}, "podMaxBackoffSeconds"),
        ({"podInitialBackoffSeconds": "1"}, ""),
        ({"healthzBindAddress": ""}, "healthzBindAddress"),
        ({"leaderElection": {"leaseDuration": "5s"}}, "leaderElection.leaseDuration"),
        ({"leaderElection": {"retryPeriod": "9s"}}, "leaderElection.renewDeadline"),
        ({"leaderElection": {"retryPeriod": "2 s"}}, "leaderElection.retryPeriod"),
        ({"profiles": [{}, {}]}, "profiles[0].schedulerName"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "profiles[1].schedulerName"),
        ({"profiles": [{"plugins": {"filter": enabled("NoSuch")}}]}, "profiles[0].plugins.filter.enabled[0].name"),
        ({"profiles": [{"plugins": {"filter": enabled("EBSLimits")}}]}, "profiles[0].plugins.filter.enabled[0].name"),
        ({"profiles": [{"plugins": {"score": enabled("NodeName")}}]}, "profiles[0].plugins.score"),
        ({"profiles": [{"plugins": {"filter": enabled("NodeName", "NodeName")}}]}, "profiles[0].plugins.filter"),
        (
            {"profiles": [{"plugins": {"score": enabled(NodeAffinity=-1)}}]},
            "profiles[0].plugins.score.enabled[0].weight",
        ),
        ({"profiles": [{"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}]}, "profiles[0].plugins.queueSort"),
        ({"profiles": [{"plugins": {"bind": {"disabled": [{"name": "*"}]}}}]}, "profiles[0].plugins.bind"),
        (
            {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": BAD_SHAPE}]}]},
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape",
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "NodeName", "args": {"x": 1}}]}]},
            "profiles[0].pluginConfig[0].args.x",
        ),
        ({"extenders": [{"prioritizeVerb": "p"}]}, "extenders[0].weight"),
        ({"extenders": [{"bindVerb": "b"}, {"bindVerb": "b"}]}, "extenders"),
        ({"extenders": [{"managedResources": [{"name": "cpu"}]}]}, "extenders[0].managedResources[0].name"),
        ({"kind": "Policy"}, "kind"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(more, path):
    with pytest.raises(InputError) as caught:
        read(**more)
    assert caught.value.message.startswith(path)


def test_plugins_from_outside_stand_beside_ours():
    table = TABLE.extended([("Mine", lambda _args, _path: NodePorts("Mine"))])
    file = {**HEAD, "profiles": [{"plugins": {"multiPoint": enabled("Mine")}}]}
    whole = SchedulerConfiguration.parse(file, table, {**EXTENDS, "Mine": ("filter",)})
    assert whole.profiles[0].build(table).filters[-1][0] == "Mine"


@pytest.mark.parametrize(("text", "value"), [("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("0", 0), ("-2s", -2)])
def test_durations(text, value):
    assert seconds({"d": text}, "d", "d", 0) == value


ARGS = {
    "DevicePacking": {"deviceClass": "gpu", "typicalPods": [{}]},
    "ServiceAntiAffinity": {"label": "zone"},
}


def test_every_plugin_is_told_where_it_stands():
    """A point that a plugin has and the table of names leaves out would never be asked."""
    methods = {
        "pre_filter": "preFilter",
        "filter": "filter",
        "post_filter": "postFilter",
        "pre_score": "preScore",
        "pre_enqueue": "preEnqueue",
        "queue_key": "queueSort",
        "score": "score",
        "reserve": "reserve",
    }
    for name in TABLE.names:
        have = {point for method, point in methods.items() if hasattr(TABLE.make(name, ARGS.get(name)), method)}
        assert have <= set(EXTENDS[name]), name


@pytest.mark.parametrize("key", ["parallelism", "podInitialBackoffSeconds", "podMaxBackoffSeconds"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0, 1e300, 10**30, "", "\u0663"])
def test_a_number_that_kubernetes_cannot_hold_is_refused(key, value):
    with pytest.raises(InputError, match=f"^{key}(: expected| must be an integer)"):
        read(**{key: value})


@pytest.mark.parametrize("text", ["1e300s", "nan", "inf", "9999999999999h", f"{'9' * 400}s", "", "\u0663s"])
def test_a_duration_that_go_cannot_hold_is_refused(text):
    with pytest.raises(InputError, match=r"^x\.y: expected a duration"):
        seconds({"y": text}, "y", "x.y", 1.0)


def test_an_extender_that_may_take_no_time_is_refused():
    extender = {"urlPrefix": "http://x.example/", "filterVerb": "filter", "httpTimeout": "-5s"}
    with pytest.raises(InputError, match=r"extenders\[0\]\.httpTimeout: expected more than 0s"):
        read(profiles=[{"schedulerName": "a"}], extenders=[extender]).check()
