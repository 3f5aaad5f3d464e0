"""Cases of test_modules.py beside those of disks: (module, options, what the message must name)."""

from __future__ import annotations

from typing import Any

Case = tuple[str, dict[str, Any], tuple[str, ...]]

CONTAINER = {"name": "db", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
ONE = {"name": "data", "size": "1Gi"}
APP = {"name": "db", "template": TEMPLATE, "disks": [ONE]}
SHAPES = "a pod template (without kind), a Pod or a StatefulSet"
JOB = {"name": "job", "template": TEMPLATE}
PAGE = {"dest": "/tmp/berth-no-such-page.html"}


def app(*words: str, **changes: Any) -> Case:
    return "stateful_app", {**APP, **changes}, words


def spec(*words: str, **changes: Any) -> Case:
    return app("template", *words, template={"spec": {"containers": [CONTAINER], **changes}})


def rolling(*words: str, beside: dict[str, Any] | None = None, **strategy: Any) -> Case:
    """A StatefulSet with an updateStrategy of its own; the app has one replica."""
    template = {"kind": "StatefulSet", "spec": {"template": TEMPLATE, "updateStrategy": strategy}}
    return app("spec.updateStrategy", "of the StatefulSet", *words, template=template, **(beside or {}))


def disk(*words: str, **changes: Any) -> Case:
    return app("disks[0]", "(data)", *words, disks=[{**ONE, **changes}])


def device(*words: str, **changes: Any) -> Case:
    return app("devices[0]", "(gpu)", *words, devices=[{"name": "gpu", "device_class": "gpu.example.com", **changes}])


def port(*words: str, **changes: Any) -> Case:
    return app("service.ports[0]", *words, service={"ports": [{"port": 80, **changes}]})


def daemonset(*words: str, **changes: Any) -> Case:
    return "node_agent", {"daemonset": {"image": "agent:1", **changes}}, words


def install(*words: str, **changes: Any) -> Case:
    return "installation_check", {"parts": ["crds"], **changes}, words


def requesting(resources: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]}}


EXTENDER = {"mode": "extender", "image": "a", "cluster_ip": "10.96.0.9"}

CASES: tuple[Case, ...] = (
    app("template", "'Deployment'", SHAPES, template={"kind": "Deployment", **TEMPLATE}),
    app("template", "'DaemonSet'", SHAPES, template={"kind": "DaemonSet", "spec": {"template": TEMPLATE}}),
    app("template", "'PodTemplate'", SHAPES, template={"kind": "PodTemplate", "template": TEMPLATE}),
    app("template", "0 StatefulSets", "exactly one StatefulSet", template={"kind": "List", "items": []}),
    app("template.items", "a list of objects", template={"kind": "List", "items": "a"}),
    app(
        "Secret pw", "beforehand", template={"kind": "List", "items": [{"kind": "Secret", "metadata": {"name": "pw"}}]}
    ),
    app("replicas", "-1", "0 to 10000", replicas=-1),
    app("on_node_loss", "keep, release, rebuild", "forget", on_node_loss="forget"),
    app("release_ordinals is empty", "release_ordinals: [2]", on_node_loss="release"),
    app("release_ordinals", "on_node_loss is keep", release_ordinals=[0]),
    app("release_ordinals names 1", "0 to 0", on_node_loss="release", release_ordinals=[1]),
    app("confirm_fenced", "on_node_loss is keep", confirm_fenced=["n1"]),
    app("on_node_loss: release", "driver: controller", driver="controller", on_node_loss="release"),
    app("leave_data", "without leave_nodes", leave_data=["db-0"]),
    app("leave_nodes[0]", "'N 1'", "DNS-1123", leave_nodes=["N 1"]),
    app("leave_data[0]", "db-0@NODE", update_strategy="reschedule", leave_data=["db-0"]),
    app(
        *("update_hooks", "update_strategy reschedule", "Leave update_hooks out", "partition", "same_node"),
        update_strategy="reschedule",
        update_hooks={"before": ["true"]},
    ),
    app(
        *("update_hooks", "driver: controller", "leave it out"),
        driver="controller",
        update_strategy="reschedule",
        update_hooks={"before": ["true"]},
    ),
    app("leave_data[0]", "'web-0'", "a replica of this app", leave_nodes=["n1"], leave_data=["web-0"]),
    app("leave_nodes", "until: Bound", until="Bound", leave_nodes=["n1"]),
    app("replace[0]", "'web-0@n1'", "a replica of this app", replace=["web-0@n1"]),
    app("replace[0]", "'0'", "0@NODE", replace=["0"]),
    app("replace[0]", "'N 1'", "DNS-1123", replace=["db-0@N 1"]),
    app("replace", "until: Bound", until="Bound", replace=["db-0@n1"]),
    app("leave_data[0]", "db-0@NODE", replace=["db-0@n1"], leave_data=["db-0"]),
    app("quorum is 2", "replicas is 1", "nothing was changed", quorum=2),
    app("quorum is 1", "max_unavailable is 1", "nothing was changed", quorum=1),
    app("update_overrides[0].ordinal", "expected 0 to 0", update_overrides=[{"ordinal": 1, "hold": True}]),
    app("progress_deadline_seconds", "pause_on_failure", progress_deadline_seconds=60),
    app("pause_on_failure", "update_strategy reschedule", pause_on_failure=True, update_strategy="reschedule"),
    app("confirm_fenced[0]", "'N 1'", "DNS-1123", on_node_loss="rebuild", confirm_fenced=["N 1"]),
    app("replicas", "1000000", "0 to 10000", replicas=10**6),
    app("replicas", "inf", "a whole number", replicas=float("inf")),
    app("replicas", "[9223372036854775808, None, None]", "a whole number", replicas=[2**63, None, None]),
    app("rollback_to", "'last'", "the number of a revision", "previous", rollback_to="last"),
    app(
        "update_primary_label",
        "'role'",
        "role=primary",
        update_strategy="same_node",
        update_order="primary_last",
        update_primary_label="role",
    ),
    app("name", "'My App'", "DNS-1123", name="My App"),
    app("namespace", "'a b'", "DNS-1123", namespace="a b"),
    app("wait_timeout", "-5", "0 or more seconds", wait_timeout=-5),
    app("service.name", "'A b'", "DNS-1123", service={"name": "A b"}),
    app("service.cluster_ip", "'10.0.0'", "None, auto or an address", service={"cluster_ip": "10.0.0"}),
    app("mount root", "'rel'", "absolute", mount_root="rel"),
    app("workload", "StatefulSet, Pod", "Deployment", workload="Deployment"),
    app(
        *("template", "topologySpreadConstraints[0]", "maxSkew of at least 1"),
        topology_spread_constraints=[{"maxSkew": 0, "topologyKey": "zone"}],
    ),
    app("update_hooks names no command", "before, after", update_hooks={}),
    app("update_hooks.before", "a command and its arguments", update_hooks={"before": []}),
    app("update_hooks.after", "NUL", update_hooks={"after": ["a\0"]}),
    app("update_hooks.timeout", "'0'", "1 to 86400", update_hooks={"after": ["a"], "timeout": 0}),
    app("update_hooks.container", "'web'", "db", update_hooks={"after": ["a"], "container": "web"}),
    app("update_hooks", "driver: controller", driver="controller", update_hooks={"before": ["a"]}),
    app("driver", "playbook, controller", "kubelet", driver="kubelet"),
    app("until: Bound", "driver: controller", driver="controller", until="Bound"),
    app("confirm_fenced", "hand the application over", driver="controller", confirm_fenced=["n1"]),
    app("kubectl taint node n1 ", "kubectl create --filename -", driver="controller", confirm_fenced=["n1"]),
    app("confirm_fenced[0]", "'N 1'", "DNS-1123", driver="controller", confirm_fenced=["N 1"]),
    app("update_primary_command", "driver: controller", driver="controller", update_primary_command=["is", "it"]),
    app("explain", "driver: controller", driver="controller", explain=True),
    app("rollback_to", "'last'", "the number of a revision", "previous", driver="controller", rollback_to="last"),
    app("disks is empty", driver="controller", disks=[]),
    rolling("OnDelete", "Leave updateStrategy out", "update_strategy", "paused: true", type="OnDelete"),
    rolling("'Recreate'", "RollingUpdate", type="Recreate"),
    rolling("'maxSurge'", "leave it out", rollingUpdate={"maxSurge": 1}),
    rolling("rollingUpdate.partition", "2", "0 to 1", rollingUpdate={"partition": 2}),
    rolling("rollingUpdate.partition", "-1", "0 to 1", rollingUpdate={"partition": -1}),
    rolling("rollingUpdate.partition", "'50%'", "a whole number", rollingUpdate={"partition": "50%"}),
    rolling("rollingUpdate.maxUnavailable", "'0'", "25%", rollingUpdate={"maxUnavailable": 0}),
    rolling("rollingUpdate.maxUnavailable", "(5000 characters)", rollingUpdate={"maxUnavailable": "9" * 5000}),
    rolling("partition is 1", "is 0", "keep one", beside={"partition": 1}, rollingUpdate={"partition": 0}),
    disk("storage_class", "'Fast Disks'", "DNS-1123", storage_class="Fast Disks"),
    disk("size", "'1e400'", size="1e400"),
    disk("size", "more than 0", size="0"),
    disk("size", "not a quantity", size=""),
    disk("disk_names", "'a..b'", disk_names=["a..b"]),
    disk("selector", "matchLabels", selector={"matchLabels": ["a"]}),
    device("device_class", "'Some GPU'", "DNS-1123", device_class="Some GPU"),
    device("count", "-1", "1 to 64", count=-1),
    device("share", "1001", "1 to 1000", share=1001),
    spec("cpu", "'many'", containers=[{**CONTAINER, "resources": {"limits": {"cpu": "many"}}}]),
    spec("tolerations", "'all'", "a list of objects", tolerations="all"),
    spec("nodeSelector.a", "'1'", "a string", nodeSelector={"a": 1}),
    port("port", "0", "1 to 65535", port=0),
    port("target_port", "'99999'", "1 to 65535", target_port="99999"),
    ("stateful_app_info", {"name": "My App"}, ("name", "'My App'", "DNS-1123")),
    ("task", {**JOB, "name": "No Name"}, ("name", "'No Name'", "DNS-1123")),
    ("task", {**JOB, "name": "x" * 53}, ("name", "at most 52")),
    ("task", {**JOB, "retries": 101}, ("retries", "101", "0 to 100")),
    ("task", {**JOB, "retry_exit_codes": [0]}, ("Task job", "retryExitCodes", "1 to 255")),
    ("task", {**JOB, "template": {}}, ("Task job", "spec.template.spec.containers", "at least one")),
    ("task", {**JOB, "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}}, ("'Always'", "Never")),
    ("task", {**JOB, "gang": {"name": "No", "min_count": 2}}, ("Task job", "spec.gang.name", "'No'", "DNS-1123")),
    (
        "task_batch",
        {**JOB, "count": 3, "gang": {"min_count": 4}},
        ("TaskBatch job", "spec.gang.minCount is 4", "3 run"),
    ),
    ("task_batch", {**JOB, "count": 1, "name": "x" * 46}, ("name", "at most 45")),
    ("task_batch", {**JOB, "count": 0}, ("TaskBatch job", "0 tasks", "1 to 100000")),
    ("task_batch", {**JOB, "count": 1, "parallelism": 0}, ("TaskBatch job", "parallelism", "1 or more")),
    ("task_batch", {**JOB, "items": []}, ("TaskBatch job", "items", "at least one")),
    ("task_batch", {**JOB, "items": [{"name": "a", "needs": ["b"]}]}, ("spec.items[0].needs", "'b'")),
    ("task_batch", {**JOB, "items": [{"name": "a", "needs": ["a"]}]}, ("spec.items", "never start", "a -> a")),
    ("task_batch", {**JOB, "items": [{"env": {"A": 1}}]}, ("spec.items[0].env.A", "a string")),
    (
        "task_batch",
        {**JOB, "items": [{"name": "a", "needs": ["c"]}, {"name": "b", "needs": ["a"]}, {"name": "c", "needs": ["b"]}]},
        ("TaskBatch job", "spec.items", "never start", "a -> c -> b -> a"),
    ),
    (
        "task_batch",
        {**JOB, "items": [{"name": "a", "args": ["1"]}, {"name": "a", "args": ["2"]}]},
        ("TaskBatch job", "spec.items[1].name is 'a'", "as that of spec.items[0]"),
    ),
    ("task_batch", {**JOB, "items": [{}] * 10_001}, ("TaskBatch job", "spec.items", "more than 10000", "several")),
    ("task_batch", {**JOB, "items": [{"args": ["x" * 4000]}] * 300}, ("spec.items", "1048576", "first 261 of 300")),
    ("task_batch", {**JOB, "items": [{"args": ["x" * 4097]}]}, ("spec.items[0].args", "4097", "at most 4096")),
    ("task_batch", {**JOB, "items": [{"name": "x" * 64}]}, ("spec.items[0].name", "64 characters", "1 to 63")),
    ("task_batch", {**JOB, "items_src": "/no/items.csv"}, ("items_src /no/items.csv", "No such file", "expected")),
    ("task_batch", {**JOB, "items_src": "/"}, ("items_src /", "Is a directory")),
    ("task_batch", {**JOB, "items_src": "a.csv", "count": 3}, ("mutually exclusive", "count", "items_src")),
    *(
        (module, {**JOB, **beside, "template": requesting(resources)}, words)
        for module, beside in (("task", {}), ("task_batch", {"count": 2}))
        for resources, words in (
            ({"requests": {"cpu": "-1"}}, ("job", "containers[0].resources", "cpu", "-1", "0 or more")),
            ({"requests": {"memory": "much"}}, ("job", "containers[0].resources", "memory", "'much'")),
            ({"limits": {"example.com/gpu": "-1"}}, ("job", "containers[0].resources", "example.com/gpu", "-1")),
            ({"requests": ["cpu"]}, ("job", "containers[0].resources")),
        )
    ),
    ("task_batch_info", {"name": "No Name"}, ("name", "'No Name'", "DNS-1123")),
    ("task_backend", {"image": "a b"}, ("image", "'a b'")),
    ("task_backend", {"image": "a", "namespaces": ["A"]}, ("namespaces[0]", "'A'", "DNS-1123")),
    ("task_backend", {"image": "a", "flags": {"policy": "lottery"}}, ("flags.policy", "'lottery'", "fair, priority")),
    ("task_info", {"states": ["Done"]}, ("states", "'Done'", "Succeeded")),
    ("storage_class", {"name": "Fast Disks"}, ("name", "'Fast Disks'", "DNS-1123")),
    ("storage_class", {"name": "fast", "provisioner": "a b"}, ("provisioner", "'a b'")),
    ("storage_class", {"name": "fast", "labels": {"a": "b c"}}, ("labels", "a is 'b c'")),
    ("storage_class", {"name": "fast", "labels": {"a": 1}}, ("labels", "'a'", "1", "put it in quotes")),
    ("node_agent", {"node_name": "node 1", "state": "absent"}, ("node_name", "'node 1'", "DNS-1123")),
    daemonset("daemonset.image", "'a b'", image="a b"),
    daemonset("daemonset.wait_timeout", "-1", "0 or more", wait_timeout=-1),
    daemonset("daemonset.node_selector", "'a'", "1", node_selector={"a": 1}),
    daemonset("key", "a string", "'1'", tolerations=[{"key": 1}]),
    daemonset("daemonset.configurations", "'node 1'", "DNS-1123", configurations={"node 1": ""}),
    daemonset("daemonset.default_configuration", "line 1", "is not YAML", "nothing", default_configuration="disks: ["),
    daemonset("daemonset.default_configuration", "line 1", "scans", default_configuration="intervals: {scans: 5m}"),
    daemonset("daemonset.default_configuration", "node is 'h1'", "no node", default_configuration="node: h1"),
    daemonset("node h1", "line 2", "fs_type", "'ntfs'", configurations={"h1": "disks:\n- {serial: S, fs_type: ntfs}"}),
    daemonset("node h1", "query '[?'", "JMESPath", configurations={"h1": "disk_selectors: [{query: '[?'}]"}),
    daemonset("node h1", "node is 'h2'", "expected h1", configurations={"h1": "node: h2"}),
    daemonset(
        "node h1", "device_classes[0]", "directory", configurations={"h1": "device_classes: [{name: a, source: sysfs}]"}
    ),
    daemonset("node h1", "usage.url", "'x'", "https://", configurations={"h1": "usage: {url: x}"}),
    ("node_agent_info", {"node_names": ["h1", "node 1"]}, ("node_names[1]", "'node 1'", "DNS-1123")),
    ("node_agent_info", {"wait": True, "wait_timeout": -1}, ("wait_timeout", "-1")),
    install("parts", "crds", "no match for: all", parts=["all"]),
    install("agents_hosts and agents_daemonset", "one of them", parts=["agents_hosts", "agents_daemonset"]),
    install("namespace", "'A'", "DNS-1123", namespace="A"),
    install("node_names[1]", "'node 1'", "DNS-1123", node_names=["h1", "node 1"]),
    install("node_names", "two hosts", "h1", "berth_node_name", node_names=["h1", "h2", "h1"]),
    install("nodes_without_host", "warn, fail, ignore", "stop", nodes_without_host="stop"),
    install("image", "'a b'", image="a b"),
    install("scheduler_name", "'A b'", "DNS-1123", scheduler_name="A b"),
    install("storage_classes[0]", "name", "'Fast Disks'", storage_classes=[{"name": "Fast Disks"}]),
    install("storage_classes[0]", "provisioner", "'a b'", storage_classes=[{"name": "a", "provisioner": "a b"}]),
    install("storage_classes[1]", "fast", "twice", storage_classes=[{"name": "fast"}, {"name": "fast"}]),
    install("disks", "storage_classes", storage_classes=[{"name": "fast", "disks": 3}]),
    install("manifests.crds", "deploy/crds", manifests={"crds": [{"kind": "Pod"}]}),
    ("kube_scheduler_info", {"node_names": ["node 1"]}, ("node_names[0]", "'node 1'", "DNS-1123")),
    ("node_agent_token", {"node_name": "node 1"}, ("node_name", "'node 1'", "DNS-1123")),
    ("node_agent_token", {"node_name": "h1", "namespace": "a.b"}, ("namespace", "'a.b'", "DNS-1123")),
    ("node_agent_token", {"node_name": "h1", "life": 10}, ("life", "10", "600")),
    ("resource_list_info", {"nodes": ["node 1"]}, ("nodes[0]", "'node 1'", "DNS-1123")),
    ("placement_info", {"pod_name": "My Pod"}, ("pod_name", "'My Pod'", "DNS-1123")),
    ("placement_info", {"pod": {"metadata": {"name": "p"}, "spec": "x"}}, ("pod", "metadata and spec")),
    ("placement_info", {**APP, "replicas": 0}, ("replicas", "0", "1 to 1000")),
    ("controller", {"image": "a b"}, ("image", "'a b'")),
    ("controller", {"image": "a", "namespace": "A"}, ("namespace", "'A'", "DNS-1123")),
    ("controller", {"image": "a", "replicas": 0}, ("replicas", "0", "1 or more")),
    ("controller", {"image": "a", "replicas": 10**9}, ("replicas", "1000000000", "1 to 100")),
    ("controller", {"image": "a", "flags": {"worker": 1}}, ("flags.worker", "workers")),
    ("controller", {"image": "a", "flags": {"resync": "soon"}}, ("flags.resync", "'soon'", "1 to 86400")),
    ("controller", {"image": "a", "flags": {"mount-root": "/"}}, ("flags", "an absolute path")),
    ("controller", {"image": "a", "resources": {"requests": {"cpu": "lots"}}}, ("resources.requests.cpu", "lots")),
    ("scheduler", {"image": "a b"}, ("image", "'a b'")),
    ("scheduler", {"image": "a", "namespace": "A"}, ("namespace", "'A'", "DNS-1123")),
    ("scheduler", {"image": "a", "replicas": -1}, ("replicas", "-1", "1 or more")),
    ("scheduler", {"image": "a", "replicas": 10**9}, ("replicas", "1000000000", "1 to 100")),
    ("scheduler", {"image": "a", "assign_storage_classes": ["fast"]}, ("assign_storage_classes", "assign_pods: true")),
    ("scheduler", {"image": "a", "assign_pods": True, "assign_storage_classes": ["A"]}, ("[0]", "'A'", "DNS-1123")),
    ("scheduler", {"image": "a", "assign_pods": True, "wait": False}, ("assign_pods", "wait: true")),
    ("scheduler", {"image": "a", "page_port": -1}, ("page_port", "-1", "1 to 65535")),
    ("scheduler", {"image": "a", "resources": {"requests": {"cpu": "lots"}}}, ("resources.requests.cpu", "lots")),
    ("scheduler", {"image": "a", "resources": {"limits": {"cpu": "-1"}}}, ("resources.limits.cpu", "-1", "0 or more")),
    ("scheduler", {"image": "a", "resources": {"requests": "a"}}, ("resources.requests", "'a'", "an object")),
    ("scheduler", {"image": "a", "resources": {"cpu": "1"}}, ("resources", "cpu", "limits, requests")),
    ("scheduler", {**EXTENDER, "resources": {"requests": {"cpu": "lots"}}}, ("resources.requests.cpu", "lots")),
    ("report", {"dest": "/tmp"}, ("dest /tmp is a folder",)),
    ("report", {**PAGE, "declared": [{"name": "A"}]}, ("declared[0]", "name", "'A'")),
    ("report", {**PAGE, "declared": [{"name": "a", "labels": 1}]}, ("declared[0]", "labels", "'1'", "a mapping")),
    ("report", {**PAGE, "declared": [{"name": "a", "mount_options": "b"}]}, ("mount_options", "'b'", "a list")),
    ("report", {**PAGE, "history": -1}, ("history", "-1", "0 to")),
    ("report", {**PAGE, "mode": "rw"}, ("mode", "'rw'", "octal")),
    ("local_disk", {"identity": -1}, ("identity", "'-1'", "expected a mapping")),
    ("host_maintenance", {"node": "Node 1"}, ("node", "'Node 1'", "DNS-1123")),
    ("host_maintenance", {"node": "n1", "max_unavailable": -1}, ("max_unavailable", "-1", "0 or more")),
    ("host_maintenance", {"node": "n1", "apps": [{"app": "db"}]}, ("apps[0].app", "'db'", "NAMESPACE/NAME")),
    ("host_maintenance", {"node": "n1", "apps": [{"app": "a/b", "policy": "go"}]}, ("policy", "hold, move", "go")),
    ("host_maintenance", {"node": "n1", "apps": [{"app": "a/b", "data": ["2"]}]}, ("apps[0].data[0]", "'2'", "db-2")),
    ("host_maintenance", {"node": "n1", "apps": [{"app": "a/*", "options": {}}]}, ("apps[0].options", "'a/*'", "name")),
    (
        "host_maintenance",
        {"node": "n1", "apps": [{"app": "a/b", "options": {"state": "absent"}}]},
        ("apps[0].options", "state cannot stand here"),
    ),
    ("host_maintenance", {"node": "n1", "state": "over"}, ("state", "begun, ended", "over")),
    ("host_maintenance", {"node": "n1", "wait_timeout": -1}, ("wait_timeout", "-1", "0 or more seconds")),
    ("stateful_app_adoption", {"name": "Db", "state": "released"}, ("name", "'Db'", "DNS-1123")),
    ("stateful_app_adoption", {"name": "db", "state": "taken"}, ("state", "adopted, released", "taken")),
    ("stateful_app_adoption", {"name": "db", "state": "adopted", "src": "/no/file"}, ("src", "/no/file", "be read")),
    ("stateful_app_adoption", {"name": "db", "state": "adopted", "template": {"spec": {}}}, ("disks is empty",)),
    (
        "stateful_app_adoption",
        {"name": "db", "state": "released", "mount_root": "/"},
        ("mount root", "'/'", "absolute"),
    ),
)
