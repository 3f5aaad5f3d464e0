"""What stateful_app will create is tried first: what the API server would refuse is told before anything is written."""

from __future__ import annotations

import copy
from uuid import uuid4

import pytest

from berth_core.app.quota import Demand, of_claim, of_object, of_pod, refusals
from berth_core.model.quantity import parse_quantity
from tests.apiserver.app.runner import run
from tests.apiserver.app.world import MI, local_disk, params
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for

NODES = ("fake-0", "fake-1", "fake-2")
STRICT = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0, 128 * MI))
    yield app_world
    app_world.clear()


@pytest.fixture(scope="module")
def spaces(kubeconfig, control_plane):
    """Makes namespaces with what limits them: one for each test, all gone at the end."""
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources

    client, made = client_for(kubeconfig, warn=lambda text: None), []

    def make(*limits, labels=None):
        name = f"admission-{uuid4().hex[:8]}"
        made.append(name)
        client.create(resources.NAMESPACE, {"metadata": {"name": name, "labels": labels or {}}})
        for kind, spec in limits:
            meta = {"name": "few", "namespace": name}
            client.create(getattr(resources, kind), {"metadata": meta, "spec": spec})
        quotas = [spec for kind, spec in limits if kind == "RESOURCE_QUOTA"]
        if quotas:
            eventually(lambda: client.get(resources.RESOURCE_QUOTA, "few", name).get("status", {}).get("used"))
        return name

    yield make
    for name in made:
        client.delete(resources.NAMESPACE, name)


def everything(world):
    """All that an app is made of, and who holds which disk."""
    kinds = world.kinds
    listed = (kinds.BERTH, kinds.PV, kinds.PVC, kinds.SERVICE, kinds.STATEFUL_SET, kinds.POD, kinds.LOCAL_DISK)
    return [
        sorted(
            (each["metadata"]["name"], each["metadata"]["uid"], str(each["spec"])) for each in world.client.list(kind)
        )
        for kind in listed
    ]


def template(**container):
    spec = params("db", "")["template"]["spec"]
    spec["containers"][0].update(container)
    return {"template": {"spec": spec}}


def pod(metadata=None, **spec):
    values = template()
    values["template"]["spec"].update(spec)
    values["template"]["metadata"] = metadata or {}
    return values


def twice():
    values = template()
    values["template"]["spec"]["containers"] *= 2
    return values


def service(*ports, **values):
    return {"service": {"ports": [{"port": port, "name": name} for port, name in ports], **values}}


MOUNT = {"name": "data", "mountPath": "/data"}
BARE = {"workload": "Pod"}
BAD = {
    "an unknown field": (
        template(imagee="x"),
        'unknown field "spec.containers[0].imagee"',
        "template.spec.containers[0].imagee",
    ),
    "a field of another type": (
        pod(terminationGracePeriodSeconds="soon"),
        "terminationGracePeriodSeconds",
        "change template",
    ),
    "a container twice": (twice(), 'Duplicate value: "main"', "change template.spec.containers[1].name"),
    "a label's value": (pod({"labels": {"a": "b c"}}), "metadata.labels", "change template.metadata.labels"),
    "an annotation's key": (
        pod({"annotations": {"a b": "c"}}),
        "metadata.annotations",
        "change template.metadata.annotations",
    ),
    "a mount twice": (
        template(volumeMounts=[MOUNT, MOUNT]),
        "must be unique",
        "template.spec.containers[0].volumeMounts[1]",
    ),
    "a pull policy": (
        template(imagePullPolicy="Sometimes"),
        "Sometimes",
        "template.spec.containers[0].imagePullPolicy",
    ),
    "more asked than allowed": (
        template(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "must be less than or equal to cpu limit",
        "template.spec.containers[0].resources.requests",
    ),
    "a port's name": (
        template(ports=[{"containerPort": 1, "name": "NO"}]),
        "ports[0].name",
        "template.spec.containers[0].ports",
    ),
    "a node selector": (pod(nodeSelector={"a": "b c"}), "spec.nodeSelector", "change template.spec.nodeSelector"),
    "a toleration": (
        pod(tolerations=[{"key": "a", "operator": "Like"}]),
        "tolerations[0].operator",
        "change template.spec.toler",
    ),
    "no such priority class": (
        pod(priorityClassName="nope"),
        "no PriorityClass with name nope",
        "create that PriorityClass",
    ),
    "no such account": (
        pod(serviceAccountName="nope"),
        'serviceaccount "nope" not found',
        "create that ServiceAccount",
    ),
    "a restart policy": (
        pod(restartPolicy="OnFailure"),
        "spec.template.spec.restartPolicy",
        "change template.spec.restartPolicy",
    ),
    "a variable twice": (template(env=[{"name": "A"}] * 2), "duplicate entries", "change template.spec.containers"),
    "an unnamed port": (service((80, "a"), (81, None)), "spec.ports[1].name", "change service (spec.ports[1].name)"),
    "a foreign address": (service((80, "a"), cluster_ip="8.8.8.8"), "8.8.8.8", "change service (spec.clusterIPs"),
    "a port's name of the service": (service((80, "A_B")), "spec.ports[0].name", "change service"),
    "bare pods: an unknown field": ({**template(imagee="x"), **BARE}, "imagee", "change template"),
    "bare pods: a container twice": ({**twice(), **BARE}, "Duplicate value", "change template.spec.containers[1].name"),
}


@pytest.mark.promise
@pytest.mark.parametrize("what", BAD)
def test_what_the_api_server_refuses_is_told_before_anything_is_written(world, kubeconfig, what):
    values, words, remedy = BAD[what]
    before = everything(world)
    for check in (True, False):
        result = run(params("db", kubeconfig, **values), check=check)
        assert result.get("failed") is True, check
        assert "exception" not in result
        assert result["changed"] is False
        assert words in result["msg"]
        assert remedy in result["msg"]
        assert "/db" in result["msg"], "the object is named"
        assert "nothing was written" in result["msg"]
        assert everything(world) == before


@pytest.mark.promise
def test_what_a_namespace_refuses_is_told_before_anything_is_written(world, kubeconfig, spaces):
    small = {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "50Mi"}}]}
    narrow = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    much = template(resources={"limits": {"cpu": "2"}})
    before = everything(world)
    for namespace, values, words, remedy in (
        (spaces(labels=STRICT), {}, 'violates PodSecurity "restricted:latest"', "securityContext"),
        (spaces(("LIMIT_RANGE", small)), {}, "maximum storage usage per PersistentVolumeClaim is 50Mi", "disks' size"),
        (spaces(("LIMIT_RANGE", narrow)), much, "maximum cpu usage per Container is 1", "LimitRange"),
        (
            spaces(("RESOURCE_QUOTA", {"hard": {"limits.cpu": "9"}})),
            {},
            "must specify limits.cpu",
            "requests and limits",
        ),
    ):
        for check in (True, False):
            result = run(params("db", kubeconfig, namespace=namespace, **values), check=check)
            assert result.get("failed") is True, words
            assert words in result["msg"]
            assert remedy in result["msg"]
            assert everything(world) == before


DEFAULTS = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "300m"}, "default": {"cpu": "1"}}]}


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_what_admission_adds_is_what_is_recorded_and_changes_no_revision(world, kubeconfig, spaces, workload):
    elsewhere = run(params("db", kubeconfig, workload=workload))
    revision = world.berths()["db-0"]["spec"]["revision"]
    assert not elsewhere.get("failed"), elsewhere
    run(params("db", kubeconfig, workload=workload, state="absent"))
    for node in NODES:  # the others keep the data of that app
        world.add_disk(local_disk(node, 1, 128 * MI))
    options = params("db", kubeconfig, namespace=spaces(("LIMIT_RANGE", DEFAULTS)), workload=workload, wait=True)
    first = run(options)
    assert not first.get("failed"), first
    trials = {"StatefulSet": 6, "Pod": 4}[workload]
    assert first["requests"]["dry_run"] == trials, "one for all replicas, and the question who runs this"
    for record in world.berths().values():
        assert record["spec"]["requests"] == {"cpu": "300m"}
        assert record["spec"]["revision"] == revision
    made = world.client.get(world.kinds.POD, "db-0", options["namespace"])
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "300m"}
    again = run(options)
    assert again["changed"] is False
    assert "dry_run" not in again["requests"], "a run that changes nothing tries nothing"
    options["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    second = run(options)
    assert second["changed"] is True
    assert second["requests"]["dry_run"] == trials - 3 + (workload == "Pod")
    assert world.berths()["db-0"]["spec"]["requests"] == {"cpu": "300m"}
    assert run(options)["changed"] is False


def test_a_default_that_fits_no_node_is_told_before_anything_is_written(world, kubeconfig, spaces):
    huge = copy.deepcopy(DEFAULTS)
    huge["limits"][0].update(default={"cpu": "9k"}, defaultRequest={"cpu": "9k"})
    options = params("db", kubeconfig, namespace=spaces(("LIMIT_RANGE", huge)))
    before = everything(world)
    for check in (True, False):
        result = run(options, check=check)
        assert "Insufficient cpu" in result["msg"]
        assert everything(world) == before


EVERYTHING = [("", ["persistentvolumes", "persistentvolumeclaims", "services"]), ("apps", ["statefulsets"])]
EVERYTHING += [("berth.dev", ["berths", "berths/status", "localdisks", "localdisks/status", "localdevices"])]
READ = [("", ["namespaces", "nodes", "pods", "limitranges"]), ("storage.k8s.io", ["storageclasses"])]


def test_who_may_not_create_pods_gets_the_defaults_of_limit_ranges(world, kubeconfig, spaces, control_plane):
    namespace = spaces(("LIMIT_RANGE", DEFAULTS))
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["*"]} for group, names in EVERYTHING]
    rules += [{"apiGroups": [group], "resources": names, "verbs": ["get", "list", "watch"]} for group, names in READ]
    world.client.apply(world.kinds.CLUSTER_ROLE, {"metadata": {"name": namespace}, "rules": rules})
    control_plane.kubectl(
        "create", "clusterrolebinding", namespace, f"--clusterrole={namespace}", f"--user={namespace}"
    )
    options = params("db", control_plane.user_kubeconfig(namespace), namespace=namespace)
    before = everything(world)
    bare = run({**options, "workload": "Pod"})
    assert "RBAC does not allow it (verb create on pods in namespace" in bare["msg"]
    assert everything(world) == before
    broken = run({**options, **template(imagee="x")})
    assert "imagee" in broken["msg"], "the StatefulSet is tried all the same"
    assert everything(world) == before
    result = run(options)
    assert not result.get("failed"), result
    told = "; ".join(result["warnings"])
    assert "verb create on pods in namespace" in told
    assert "verb list on resourcequotas in namespace" in told
    assert world.berths()["db-0"]["spec"]["requests"] == {"cpu": "300m"}
    assert run(options)["changed"] is False


NOTHING = ("pods", "count/pods", "requests.cpu", "cpu", "limits.cpu", "requests.memory", "limits.memory",
           "requests.ephemeral-storage", "requests.example.com/gpu", "persistentvolumeclaims", "services",
           "count/persistentvolumeclaims", "count/statefulsets.apps", "requests.storage",
           "berth-test.storageclass.storage.k8s.io/requests.storage",
           "berth-test.storageclass.storage.k8s.io/persistentvolumeclaims", "count/services")  # fmt: skip


def test_one_of_each_is_counted_as_the_api_server_counts_it(world, kubeconfig, spaces):
    """Where nothing is allowed, a refusal names everything that is asked for."""
    namespace = spaces(("RESOURCE_QUOTA", {"hard": dict.fromkeys(NOTHING, "0")}))
    limited = world.client.get(world.kinds.RESOURCE_QUOTA, "few", namespace)
    amounts = {"cpu": "300m", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"}
    limits = {**amounts, "cpu": "2", "memory": "3Gi"}
    first = {"name": "i", "image": "x", "resources": {"requests": {**amounts, "cpu": "1"}, "limits": limits}}
    container = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": limits}}
    spec = {"containers": [container, {**container, "name": "d"}], "initContainers": [first]}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "berth-test",
        "resources": {"requests": {"storage": "300Mi"}},
    }
    port = {"ports": [{"port": 1}]}
    for kind, body, usage in (
        (world.kinds.POD, spec, {**of_pod(spec), **of_object("pods")}),
        (world.kinds.PVC, claim, of_claim(300 * MI, "berth-test")),
        (world.kinds.SERVICE, port, of_object("services")),
    ):
        with pytest.raises(Exception, match="exceeded quota: few, requested: ") as refused:
            world.client.create(kind, {"metadata": {"name": "x", "namespace": namespace}, "spec": body}, dry_run=True)
        theirs = str(refused.value).split("requested: ")[1].split(", used:")[0]
        ours = [line.split(": ", 2)[1:] for line in refusals([limited], [Demand(1, usage, spec)])]
        assert {name: parse_quantity(text.rsplit(" ", 1)[1]) for name, text in ours} == {
            part.split("=")[0]: parse_quantity(part.split("=")[1]) for part in theirs.split(",")
        }


@pytest.mark.promise
def test_a_quota_without_room_for_all_replicas_is_told_before_anything_is_written(world, kubeconfig, spaces):
    hard = {"pods": "2", "requests.cpu": "700m", "persistentvolumeclaims": "2"}
    of_class = "berth-test.storageclass.storage.k8s.io/requests.storage"
    quota = {"hard": {**hard, "requests.storage": "250Mi", of_class: "250Mi"}}
    namespace = spaces(("LIMIT_RANGE", DEFAULTS), ("RESOURCE_QUOTA", quota))
    options = params("db", kubeconfig, namespace=namespace, disks=[{"name": "data", "size": "100Mi"}])
    before = everything(world)
    for check in (True, False):
        result = run({**options, "replicas": 3}, check=check)
        assert result.get("failed") is True
        assert "ResourceQuota few: pods: hard 2, used 0, requested 3" in result["msg"]
        assert "requests.cpu: hard 700m, used 0, requested 900m" in result["msg"]
        assert "persistentvolumeclaims: hard 2, used 0, requested 3" in result["msg"]
        assert "; ResourceQuota few: requests.storage: hard 250Mi, used 0, requested 300Mi" in result["msg"]
        wanted = f"{of_class}: hard 250Mi, used 0, requested 300Mi"
        assert wanted in result["msg"], "the class is that of the chosen disk"
        assert everything(world) == before
    assert not run({**options, "wait": True}).get("failed")

    # The quota controller counts from a cache. What it counted too early stays for minutes, unless the quota changes.
    world.client.patch(world.kinds.RESOURCE_QUOTA, "few", namespace, {"spec": {"hard": {"services": "9"}}})

    def counted_anew():
        status = world.client.get(world.kinds.RESOURCE_QUOTA, "few", namespace)["status"]
        return "services" in status["hard"] and status["used"]["pods"] == "2"

    eventually(counted_anew)
    before = everything(world)
    more = run({**options, "replicas": 3})
    assert "pods: hard 2, used 2, requested 1" in more["msg"]
    assert everything(world) == before
    options["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    changed = run(options)
    assert not changed.get("failed"), "replaced pods need no room beside the old ones"
    assert world.berths()["db-0"]["spec"]["requests"] == {"cpu": "300m"}


@pytest.mark.promise
def test_what_is_left_when_the_workload_is_refused_after_all(world, kubeconfig):
    """Reserved berths are kept, as an agent may have begun on their disks, and the message says so."""
    options = params("db", kubeconfig, wait=True)
    failed = run(options, conflict_on="apply StatefulSet")
    assert failed["failed"] is True
    disks = {record["spec"]["disks"][0]["name"] for record in world.berths().values()}
    assert [(row["phase"], row["disks"][0]["name"] in disks) for row in failed["berths"]] == [("Bound", True)] * 2
    assert "Left are the berths db-0 (Bound, " in failed["msg"]
    assert "the next run of this task goes on with them" in failed["msg"]
    world.check()
    assert not run(options).get("failed")
    assert set(world.holders()) == disks
