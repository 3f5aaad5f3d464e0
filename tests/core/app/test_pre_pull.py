"""New images are pulled before a replica is touched: which, what the pull pod says, where it stands in an update."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app import helper_pods, manifests, pre_pull
from berth_core.app.hook_rules import NO_HOOKS, Hooks
from berth_core.app.observed import Observed
from berth_core.app.plan import make_plan, removal_plan
from berth_core.app.update import roll
from berth_core.app.update_rules import update_rules
from berth_core.app.update_step import BEGIN, DELETE, DROP, MARK, PATCH, PULL, RESIZE
from berth_core.app.wanted import parse_app
from berth_core.errors import AdmissionError, ConflictError, StateError, UnavailableError
from berth_core.model.labels import LabelSelector
from tests.core.app.samples import changed
from tests.core.app.test_update import ROLE, rules, template
from tests.core.app.test_update_hooks import BEFORE, Hooked

ASKED = rules(pre_pull=True)


class Pulling(Hooked):
    """A cluster whose kubelets pull what pull pods ask for, but for the images in ``nowhere``."""

    def __init__(self, replicas, hooks=NO_HOOKS.hooks, **templates):
        self.nowhere, self.refused = set(), set()
        super().__init__(replicas, hooks, **templates)

    def make(self, ordinal, revision):
        super().make(ordinal, revision)
        self.pods[self.name(ordinal)]["spec"]["nodeName"] = f"n{ordinal}"

    @property
    def pulls(self):
        return helper_pods.of_app(self.pods, "db", helper_pods.PULL)

    def roll(self, asked):
        pulls = pre_pull.Pulls(self.pulls, frozenset(self.refused))
        return roll("db", range(self.replicas), self.pods, self.target(), asked, self.now, self.state(), pulls)

    def act(self, act):
        if act.do == PULL:
            assert self.ready(act.ordinal)
            body = copy.deepcopy(act.body)
            body["metadata"]["creationTimestamp"] = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            assert self.pods.setdefault(body["metadata"]["name"], body) is body, "there is one already"
        elif act.do == DROP:
            del self.pods[act.body["metadata"]["name"]]
        else:
            super().act(act)
            return
        self.log.append((act.do, act.ordinal))

    def kubelet(self, ordinal):
        super().kubelet(ordinal)  # a pod that was lost has its pull pods collected, as its owner is gone
        owners = {pod["metadata"].get("uid") for pod in self.pods.values()}
        for name, pod in self.pulls.items():
            if pod["metadata"]["ownerReferences"][0]["uid"] not in owners:
                del self.pods[name]
        for pod in self.pulls.values():
            if pod["spec"]["nodeName"] == f"n{ordinal}":
                lacks = self.nowhere & {one["image"] for one in pod["spec"]["containers"]}
                pod["status"] = status(pod, waiting("ErrImagePull", "not found") if lacks else STARTED)


STARTED = {"imageID": "sha256:1", "state": {"terminated": {"reason": "StartError", "exitCode": 128}}}


def waiting(reason, message=""):
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def status(pod, told, **more):
    names = [one["name"] for one in pod["spec"]["containers"]]
    return {"containerStatuses": [{"name": name, **told} for name in names], **more}


# -- where it stands in an update


def test_each_replica_has_its_image_before_it_is_touched():
    cluster = Pulling(2, one=template(), two=template("db:2"))
    cluster.finish(ASKED)
    assert cluster.log == [(do, ordinal) for ordinal in (1, 0) for do in (PULL, PATCH, DROP, MARK)]
    assert not cluster.pulls


def test_likewise_where_the_pod_is_made_anew():
    cluster = Pulling(2, one=template(), two=template("db:2", command=["x"]))
    cluster.finish(ASKED)
    assert cluster.log == [(do, ordinal) for ordinal in (1, 0) for do in (PULL, DELETE)], "it goes with its owner"


@pytest.mark.parametrize(
    ("new", "steps"),
    [
        (template(labels={"tier": "gold"}), [PATCH, MARK]),
        (template(cpu="1"), [BEGIN, RESIZE, PATCH, MARK]),
        (template(command=["x"]), [DELETE]),
        (template("db:2", cpu="1"), [PULL, BEGIN, DROP, RESIZE, PATCH, MARK]),
    ],
    ids=["labels", "cpu", "command", "image and cpu"],
)
def test_nothing_is_pulled_where_no_image_is_new(new, steps):
    cluster = Pulling(1, one=template(), two=new)
    cluster.finish(ASKED)
    assert [do for do, _ordinal in cluster.log] == steps


def test_the_hook_before_comes_when_the_image_is_there():
    cluster = Pulling(1, Hooks(before=("drain",)), one=template(), two=template("db:2"))
    cluster.finish(ASKED)
    assert [do for do, _ordinal in cluster.log] == [PULL, BEFORE, PATCH, DROP, MARK]


def test_a_replica_that_is_down_waits_for_no_pull():
    cluster = Pulling(2, one=template(), two=template("db:2"))
    cluster.pods["db-1"]["status"]["conditions"] = []
    assert [(act.do, act.ordinal) for act in cluster.roll(ASKED).acts] == [(PATCH, 1)]


def test_a_replica_that_goes_down_is_not_given_an_image_that_its_node_cannot_pull():
    cluster = Pulling(1, one=template(), two=template("bad:1"))
    cluster.nowhere = {"bad:1"}
    cluster.act(cluster.roll(ASKED).acts[0])
    cluster.pods["db-0"]["status"]["conditions"] = []
    assert [act.do for act in cluster.roll(ASKED).acts] == [DROP], "nothing is known of it yet"
    (pod,) = cluster.pulls.values()
    pod["status"] = status(pod, waiting("ErrImagePull", "not found"))
    assert cluster.roll(ASKED).acts == ()
    cluster.wait(pre_pull.TRIED)
    with pytest.raises(StateError, match="cannot pull bad:1"):
        cluster.roll(ASKED)


def test_a_pull_has_its_turn_as_what_it_is_for():
    cluster = Pulling(3, one=template(), two=template("db:2"))
    cluster.elect(2)
    asked = rules(pre_pull=True, primary=ROLE)
    cluster.act(cluster.roll(asked).acts[0])
    assert cluster.log == [(PULL, 1)]
    assert cluster.roll(asked).acts == (), "one after the other"
    assert cluster.roll(asked).waits == (f"node n1 to pull db:2 (pod {next(iter(cluster.pulls))})",)
    cluster.kubelet(1)
    cluster.pods["db-0"]["status"]["conditions"] = []
    assert [(act.do, act.ordinal) for act in cluster.roll(asked).acts] == [(PATCH, 0)], "db-1 waits while db-0 is down"
    cluster.kubelet(0)
    cluster.finish(asked)
    order = [ordinal for do, ordinal in cluster.log if do == PATCH]
    assert order == [1, 0, 2]


def test_an_image_that_cannot_be_pulled_leaves_the_replica_as_it_is():
    cluster = Pulling(2, one=template(), two=template("db:2"))
    cluster.nowhere, before = {"db:2"}, copy.deepcopy(cluster.pods)
    cluster.act(cluster.roll(ASKED).acts[0])
    cluster.kubelet(1)
    rolled = cluster.roll(ASKED)
    assert (rolled.acts, rolled.again) == ((), pre_pull.TRIED), "the kubelet may try again"
    assert rolled.waits[0].endswith(": container db: ErrImagePull: not found)")
    cluster.wait(pre_pull.TRIED)
    with pytest.raises(StateError, match=r"pod db-1 is not updated: node n1 cannot pull db:2 \(container db: ErrImage"):
        cluster.roll(ASKED)
    assert {name: pod for name, pod in cluster.pods.items() if name not in cluster.pulls} == before
    cluster.nowhere = set()  # berth-controller, which looks again
    cluster.kubelet(1)
    cluster.finish(ASKED)
    assert [do for do, ordinal in cluster.log if ordinal == 1] == [PULL, PATCH, DROP, MARK]


def test_a_pull_that_is_of_no_use_any_more_is_dropped_first():
    cluster = Pulling(2, one=template(), two=template("bad:1"), three=template("db:3"))
    cluster.revision, cluster.nowhere = "two", {"bad:1"}
    cluster.act(cluster.roll(ASKED).acts[0])
    cluster.kubelet(1)
    cluster.wait(60)
    cluster.revision = "three"
    assert [(act.do, act.ordinal) for act in cluster.roll(ASKED).acts] == [(DROP, 1)]
    cluster.finish(ASKED)
    assert [do for do, ordinal in cluster.log if ordinal == 1] == [PULL, DROP, PULL, PATCH, DROP, MARK]


@pytest.mark.parametrize("asked", [rules(pre_pull=True, paused=True), rules(pre_pull=True, partition=2), rules()])
def test_who_is_not_begun_or_wants_none_has_none(asked):
    cluster = Pulling(2, one=template(), two=template("db:2"))
    cluster.act(cluster.roll(ASKED).acts[0])
    assert [(act.do, act.ordinal) for act in cluster.roll(asked).acts] == [(DROP, 1)]
    cluster.finish(asked)
    assert (PULL, 1) not in cluster.log[1:]


def test_a_node_that_admits_no_pull_pod_is_warned_of_and_the_update_goes_on():
    cluster = Pulling(1, one=template(), two=template("db:2"))
    cluster.act(cluster.roll(ASKED).acts[0])
    (pod,) = cluster.pulls.values()
    pod["status"] = {"phase": "Failed", "reason": "OutOfpods", "message": "Node has 110"}
    rolled = cluster.roll(ASKED)
    assert [act.do for act in rolled.acts] == [PATCH]
    assert rolled.notes[0].startswith("pod db-0 is updated without")
    assert "OutOfpods: Node has 110" in rolled.notes[0]


def test_where_the_api_server_refuses_it_the_update_goes_on():
    cluster = Pulling(1, one=template(), two=template("db:2"))
    cluster.refused = {0}
    cluster.finish(ASKED)
    assert cluster.log == [(PATCH, 0), (MARK, 0)]


def test_one_that_took_too_long_is_made_anew():
    cluster = Pulling(1, one=template(), two=template("db:2"))
    cluster.act(cluster.roll(ASKED).acts[0])
    (pod,) = cluster.pulls.values()
    pod["status"] = status(pod, waiting("ContainerCreating"), phase="Failed", reason="DeadlineExceeded")
    cluster.act(cluster.roll(ASKED).acts[0])
    assert [act.do for act in cluster.roll(ASKED).acts] == [PULL]


TEMPLATES = st.sampled_from([template("db:2"), template("db:3", cpu="1"), template("db:4", command=["x"])])


@settings(deadline=None)
@given(st.data())
def test_any_order_of_events_comes_to_the_end_and_leaves_no_pull_pod(data):
    """And berth touches no replica whose new image was not there."""
    replicas = data.draw(st.integers(1, 3))
    cluster = Pulling(replicas, one=template(), two=data.draw(TEMPLATES))
    asked = rules(pre_pull=True, unavailable=data.draw(st.integers(1, 2)))
    for _number in range(data.draw(st.integers(0, 30))):
        move = data.draw(st.sampled_from(["act", "act", "kubelet", "change", "lost", "nowhere"]))
        if move == "act":
            acts = due(cluster, asked)
            for act in acts[: data.draw(st.integers(0, len(acts)))]:
                check_pulled(cluster, act)
                cluster.act(act)
        elif move == "kubelet":
            cluster.kubelet(data.draw(st.integers(0, replicas - 1)))
        elif move == "change":
            cluster.revision = data.draw(st.sampled_from(["one", "two", "three"]))
            cluster.templates.setdefault(cluster.revision, data.draw(TEMPLATES))
        elif move == "nowhere":
            cluster.nowhere = {f"db:{data.draw(st.integers(2, 4))}"}
        else:
            cluster.pods.pop(data.draw(st.sampled_from(sorted(cluster.pods) or [""])), None)
    cluster.nowhere = set()
    for ordinal in range(replicas):
        cluster.kubelet(ordinal)
    cluster.finish(asked)
    for ordinal in range(replicas):
        assert cluster.pods[cluster.name(ordinal)]["metadata"]["labels"]["controller-revision-hash"] == cluster.revision
    assert not cluster.pulls


def due(cluster, asked):
    try:
        return cluster.roll(asked).acts
    except StateError:
        return ()


def check_pulled(cluster, act):
    if act.do not in (PATCH, DELETE, BEGIN) or not cluster.ready(act.ordinal):
        return
    both = (cluster.target().template, cluster.pods[cluster.name(act.ordinal)])
    new, old = (one["spec"]["containers"][0]["image"] for one in both)
    pulls = [one for one in cluster.pulls.values() if helper_pods.ordinal_of(one) == act.ordinal]
    assert new == old or [pre_pull.verdict(one, cluster.now).state for one in pulls] == [pre_pull.PULLED]


# -- what is pulled


def pod_of(**images):
    return {"metadata": {"name": "db-0", "uid": "u", "namespace": "d"}, "spec": {"nodeName": "n", **spec_of(**images)}}


def spec_of(init=None, **images):
    containers = [
        {"name": name, **one} if isinstance(one, dict) else {"name": name, "image": one} for name, one in images.items()
    ]
    first = [{"name": "init", **(init if isinstance(init, dict) else {"image": init})}] if init else []
    return {"initContainers": first, "containers": containers}


def always(image):
    return {"image": image, "imagePullPolicy": "Always"}


@pytest.mark.parametrize(
    ("old", "new", "anew", "images"),
    [
        ({"a": "x:1"}, {"a": "x:1"}, False, []),
        ({"a": "x:1"}, {"a": "x:1"}, True, []),
        ({"a": "x:1"}, {"a": "x:2"}, False, ["x:2"]),
        ({"a": "x:1", "init": "i:1"}, {"a": "x:1", "init": "i:2"}, False, ["i:2"]),
        ({"a": "x:1", "b": "y:1"}, {"a": "y:1", "b": "x:1"}, False, []),
        ({"a": "x:1", "b": "x:1"}, {"a": "x:2", "b": "x:2"}, False, ["x:2"]),
        ({"a": "x:1", "b": "y:1"}, {"a": "x:2", "b": "y:2"}, True, ["x:2", "y:2"]),
        ({"a": always("x:1")}, {"a": always("x:1")}, False, []),
        ({"a": always("x:1")}, {"a": always("x:1")}, True, ["x:1"]),
        ({"a": "x:1", "b": "y:1"}, {"a": always("y:1"), "b": "y:1"}, False, ["y:1"]),
        ({"a": "x"}, {"a": "x"}, True, ["x"]),
        ({"a": "r:5000/x"}, {"a": "r:5000/x"}, True, ["r:5000/x"]),
        ({"a": "x:latest"}, {"a": "x:latest"}, True, ["x:latest"]),
        ({"a": "x@sha256:1"}, {"a": "x@sha256:1"}, True, []),
    ],
)
def test_which_images_are_new(old, new, anew, images):
    assert pre_pull.new_images(pod_of(**old), {"spec": spec_of(**new)}, anew) == images


def test_of_one_image_the_container_that_always_pulls_is_taken():
    (one,) = pull(pod_of(a="x:1", b="x:1"), a="x:2", b=always("x:2"))["spec"]["containers"]
    assert (one["name"], one["imagePullPolicy"]) == ("b", "Always")


def pull(pod, **new):
    return pre_pull.pull_pod("db", 0, pod, {"spec": spec_of(**new)}, False)


def test_a_pull_pod_is_nobodys_replica_and_asks_for_nothing():
    secure = {"runAsNonRoot": True}
    made = pre_pull.pull_pod(
        "db",
        0,
        pod_of(a="x:1"),
        {
            "metadata": {"labels": {"berth.dev/app": "db", "role": "db"}, "annotations": {"a": "b"}},
            "spec": {
                **spec_of(a={"image": "x:2", "securityContext": secure, "ports": [{"containerPort": 1}]}),
                "securityContext": secure,
                "imagePullSecrets": [{"name": "s"}],
                "serviceAccountName": "db",
                "volumes": [{"name": "data"}],
                "hostNetwork": True,
                "nodeSelector": {"a": "b"},
            },
        },
        False,
    )
    meta, spec = made["metadata"], made["spec"]
    (container,) = spec["containers"]
    assert not LabelSelector.from_labels({"berth.dev/app": "db"}).matches(meta["labels"])
    assert set(meta["labels"]) == {"berth.dev/app", "berth.dev/ordinal", "app.kubernetes.io/managed-by"}
    assert helper_pods.replica_of(meta["name"]) == "db-0"
    assert helper_pods.ordinal_of(made) == 0
    assert [(one["kind"], one["uid"]) for one in meta["ownerReferences"]] == [("Pod", "u")]
    assert spec["nodeName"] == "n"
    assert set(spec) == {
        *("nodeName", "containers", "tolerations", "restartPolicy", "automountServiceAccountToken"),
        *("enableServiceLinks", "terminationGracePeriodSeconds", "activeDeadlineSeconds"),
        *("imagePullSecrets", "serviceAccountName", "securityContext"),
    }
    assert set(container) == {"name", "image", "imagePullPolicy", "command", "resources", "securityContext"}
    assert {amount for kind in container["resources"].values() for amount in kind.values()} == {"0"}


def test_its_name_tells_pods_and_what_is_pulled_apart():
    names = [
        pull(pod, a=image)["metadata"]["name"]
        for pod in (pod_of(a="x:1"), {**pod_of(a="x:1"), "metadata": {"name": "db-0", "uid": "v"}})
        for image in ("x:2", "x:3")
    ]
    assert len(set(names)) == 4
    assert pull(pod_of(a="x:1"), a="x:2")["metadata"]["name"] == names[0]


def test_the_longest_name_of_an_app_has_room_for_the_mark():
    labels = pre_pull.pull_pod("a" * 61, 0, pod_of(a="x:1"), {"spec": spec_of(a="x:2")}, False)["metadata"]["labels"]
    assert max(map(len, labels.values())) == 63


# -- what became of it


@pytest.mark.parametrize(
    ("told", "more", "state"),
    [
        ({}, {}, pre_pull.PULLING),
        (waiting("ContainerCreating"), {}, pre_pull.PULLING),
        (STARTED, {"phase": "Failed"}, pre_pull.PULLED),
        ({"state": {"terminated": {"reason": "ContainerCannotRun"}}}, {"phase": "Failed"}, pre_pull.PULLED),
        ({"state": {"running": {}}}, {"phase": "Running"}, pre_pull.PULLED),
        (waiting("CreateContainerConfigError", "image will run as root"), {}, pre_pull.PULLED),
        (waiting("RunContainerError"), {}, pre_pull.PULLED),
        (waiting("CreateContainerError"), {}, pre_pull.PULLED),
        (waiting("ErrImagePull", "not found"), {}, pre_pull.FAILED),
        (waiting("ImagePullBackOff", "back-off"), {}, pre_pull.FAILED),
        (waiting("RegistryUnavailable"), {}, pre_pull.FAILED),
        (waiting("InvalidImageName", "X:"), {}, pre_pull.FAILED),
        ({}, {"phase": "Failed", "reason": "OutOfcpu"}, pre_pull.REFUSED),
        ({}, {"phase": "Failed", "reason": "DeadlineExceeded"}, pre_pull.EXPIRED),
        ({"state": {"terminated": {"reason": "ContainerStatusUnknown"}}}, {"phase": "Failed"}, pre_pull.EXPIRED),
    ],
)
def test_what_its_status_says(told, more, state):
    cluster = Pulling(1, one=template())
    made = pull(pod_of(a="x:1"), a="x:2")
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    made["status"] = status(made, told, **more) if told else more
    assert pre_pull.verdict(made, cluster.now + timedelta(seconds=60)).state == state


def test_all_images_have_to_be_there():
    made = pull(pod_of(a="x:1", b="y:1"), a="x:2", b="y:2")
    made["status"] = {"containerStatuses": [{"name": "a", **STARTED}]}
    now = Pulling(1, one=template()).now
    assert pre_pull.verdict(made, now).state == pre_pull.PULLING
    made["status"]["containerStatuses"].append({"name": "b", **waiting("ErrImageNeverPull", "absent")})
    assert pre_pull.verdict(made, now) == (pre_pull.FAILED, "container b: ErrImageNeverPull: absent", 0.0)


@pytest.mark.parametrize(
    ("refused", "goes_on"),
    [(AdmissionError("exceeded quota", 403), True), (ConflictError("", 409), False), (UnavailableError(""), False)],
)
def test_which_refusals_the_update_goes_on_with(refused, goes_on):
    assert helper_pods.refused(refused) is goes_on


# -- options and leftovers


def test_it_is_the_default_and_can_be_turned_off():
    assert update_rules({}, 3, {}).pre_pull
    assert not update_rules({"pre_pull": False}, 3, {}).pre_pull


def test_pull_pods_of_an_update_that_nobody_wants_any_more_go_with_the_next_look():
    app = parse_app(changed(replicas=1))
    made = pre_pull.pull_pod("db", 0, pod_of(db="db:1"), {"spec": spec_of(db="db:2")}, False)
    pulls = {made["metadata"]["name"]: made}
    seen = Observed("db", "default", stateful_set=manifests.stateful_set(app), helpers=pulls)
    assert make_plan(app, seen).helpers == (made,)
    assert not make_plan(app, seen).empty
    assert removal_plan(seen).helpers == (made,)
    assert not seen.empty
