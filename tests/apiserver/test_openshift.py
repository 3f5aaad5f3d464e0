"""What a user of OpenShift gets: an API server that has its kind in its own schema, its admission, its kubeconfig.

The cluster itself is none: what its admission would say of berth's pods is asked of tests/support/openshift.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue import node_agent, scheduler, task_backend
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app import task_backend_install
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.daemon_install import Wanted
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.daemonset_options import unsaid
from tests.apiserver.test_extender_module import tls
from tests.apiserver.test_local_disk import Run, runner
from tests.support import openshift
from tests.support.kube import client_for

SCC = kinds.SECURITY_CONTEXT_CONSTRAINTS
DEPLOY = Path(__file__).parents[2] / "deploy"
IMAGE = "registry.example.com/berth:1"


@pytest.fixture(scope="module", autouse=True)
def constraints(control_plane: Any) -> Iterator[None]:
    with openshift.served(control_plane, client_for(control_plane.kubeconfig)):
        yield


@pytest.fixture
def restricted(api: ApiClient) -> Iterator[dict[str, Any]]:
    """Those of every user, as the API server has them."""
    api.create(SCC, dict(openshift.RESTRICTED_V2))
    yield api.get(SCC, "restricted-v2")
    api.delete(SCC, "restricted-v2")


@pytest.fixture
def agent(control_plane: Any) -> Iterator[Run]:
    run = runner(node_agent.OPERATION, control_plane.kubeconfig)

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        return run(check, **node_agent.prepare({"manifests": None, **options}))

    yield call
    call(state="absent", force=True)


def pods(workload: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("mode", ["daemon", "extender"])
def test_schedulers_run_under_what_every_user_has(
    control_plane: Any, api: ApiClient, restricted: dict[str, Any], name: str, namespace: str, mode: str
) -> None:
    run = runner(scheduler.OPERATION, control_plane.kubeconfig)
    asked = {"manifests": None, "mode": mode, "name": name, "namespace": namespace, "image": IMAGE, "wait": False}
    given = {**asked, **({"tls": tls()} if mode == "extender" else {})}
    assert "msg" not in run(**scheduler.prepare(given))
    try:
        spec = pods(api.get(kinds.DEPLOYMENT, name, namespace))
        assert openshift.refusals(restricted, spec) == []
        assert spec["securityContext"]["runAsNonRoot"]
    finally:
        run(**scheduler.prepare({**asked, "state": "absent", "force": True}))


@pytest.mark.parametrize("part", ["controller", "tasks"])
def test_so_do_the_others(api: ApiClient, restricted: dict[str, Any], namespace: str, part: str) -> None:
    shipped = yaml.safe_load((DEPLOY / part / "deployment.yaml").read_text(encoding="utf-8"))
    shipped["metadata"]["namespace"] = namespace
    spec = pods(api.create(kinds.DEPLOYMENT, shipped))
    assert openshift.refusals(restricted, spec) == []
    assert spec["securityContext"]["runAsNonRoot"]


def test_the_task_backend_reads_the_secret_of_its_store_whoever_it_is(
    api: ApiClient, restricted: dict[str, Any], namespace: str
) -> None:
    flags = {"store": "postgresql://berth@db.example.com/berth"}
    wanted = Wanted(name="berth-tasks", namespace=namespace, image=IMAGE, flags=flags)
    bodies = task_backend_install.objects(task_backend.prepare({})["manifests"], wanted, store_secret="store")
    (deployment,) = (body for body in bodies if body["kind"] == "Deployment")
    spec = pods(api.create(kinds.DEPLOYMENT, deployment))
    assert openshift.refusals(restricted, spec) == []
    assert [volume["secret"]["defaultMode"] for volume in spec["volumes"]] == [0o644]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"securityContext": {"runAsUser": 65532}}, "runAsUser 65532 is not of the namespace"),
        ({"securityContext": {"fsGroup": 65532}}, "fsGroup 65532 is not of the namespace"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccomp profile Unconfined is not allowed"),
        ({"hostNetwork": True}, "hostNetwork is not allowed"),
        ({"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}, "a volume of type hostPath is not allowed"),
    ],
)
def test_what_a_manifest_must_not_say(restricted: dict[str, Any], change: dict[str, Any], words: str) -> None:
    shipped = yaml.safe_load((DEPLOY / "controller" / "deployment.yaml").read_text(encoding="utf-8"))
    assert words in str(openshift.refusals(restricted, {**pods(shipped), **change}))


def test_the_agent_gets_what_it_asks_of_its_node_and_gives_it_back(
    agent: Run, api: ApiClient, restricted: dict[str, Any]
) -> None:
    agent()
    assert api.find(SCC, "berth-agent") is None, "agents on hosts need none"
    asked = {"image": IMAGE, **unsaid()}
    planned = agent(check=True, daemonset=asked)
    assert "SecurityContextConstraints berth-agent" in str(planned["diff"])
    assert api.find(SCC, "berth-agent") is None
    assert agent(daemonset=asked)["changed"]
    own = api.get(SCC, "berth-agent")
    assert own["users"] == ["system:serviceaccount:berth-system:berth-agent"]
    assert own["groups"] == []
    spec = pods(api.get(kinds.DAEMON_SET, "berth-agent", "berth-system"))
    assert openshift.refusals(own, spec) == []
    assert "agent: privileged is not allowed" in openshift.refusals(restricted, spec)
    again = agent(daemonset=asked)
    assert (again["changed"], again["diff"]) == (False, [])
    agent(state="absent", force=True)
    assert api.find(SCC, "berth-agent") is None


@pytest.mark.parametrize(
    "field", ["allowedCapabilities", "defaultAddCapabilities", "priority", "requiredDropCapabilities"]
)
def test_openshift_s_schema_wants_all_of_them(api: ApiClient, name: str, field: str) -> None:
    shipped = next(body for body in node_agent.prepare({"manifests": None})["manifests"] if body["kind"] == SCC.kind)
    body = copy.deepcopy({**shipped, "metadata": {"name": name}})
    api.create(SCC, body, dry_run=True)
    del body[field]
    with pytest.raises(InvalidError, match=field):
        api.create(SCC, body, dry_run=True)


@pytest.fixture
def logged_in(control_plane: Any, api: ApiClient, name: str, namespace: str) -> Iterator[dict[str, Any]]:
    """A kubeconfig as ``oc login`` writes it, after one of another project: names with slashes and colons, a token."""
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    api.create(kinds.CLUSTER_ROLE_BINDING, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
    control_plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=60s")
    token = str(control_plane.kubectl("create", "token", "default", "-n", namespace)).strip()
    admin = yaml.safe_load(Path(control_plane.kubeconfig).read_text(encoding="utf-8"))
    cluster = copy.deepcopy(admin["clusters"][0]["cluster"])
    at = urlsplit(cluster["server"]).netloc.replace(".", "-")
    contexts = [
        {
            "name": f"{project}/{at}/kube:admin",
            "context": {"cluster": at, "namespace": project, "user": f"kube:admin/{at}"},
        }
        for project in ("default", namespace)
    ]
    yield {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": at, "cluster": cluster}],
        "contexts": contexts,
        "current-context": contexts[1]["name"],
        "users": [{"name": f"kube:admin/{at}", "user": {"token": token}}],
    }
    api.delete(kinds.CLUSTER_ROLE_BINDING, name)


def test_what_oc_login_writes_is_taken(
    playbook: Any, api: ApiClient, logged_in: dict[str, Any], tmp_path: Path, name: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(logged_in), encoding="utf-8")
    task = {"name": name, "state": "present"}
    from_file = {**task, "kubeconfig": str(kubeconfig)}
    try:
        played = playbook(
            [
                {"name": "planned", "berth.stateful.storage_class": from_file, "check_mode": True},
                {"name": "current", "berth.stateful.storage_class": from_file},
                {
                    "name": "by name",
                    "berth.stateful.storage_class": {**from_file, "context": logged_in["contexts"][0]["name"]},
                },
                {"name": "as a mapping", "berth.stateful.storage_class": {**task, "kubeconfig": logged_in}},
                {"name": "token alone", "berth.stateful.storage_class": {**task, **token_alone(logged_in)}},
            ],
            env={},
        ).ok()
        assert [each.result["changed"] for each in played.tasks] == [True, True, False, False, False]
        assert logged_in["users"][0]["user"]["token"] not in str([each.result for each in played.tasks])
    finally:
        api.delete(kinds.STORAGE_CLASS, name)


def token_alone(kubeconfig: dict[str, Any]) -> dict[str, Any]:
    """What ``oc whoami --show-server`` and ``--show-token`` print."""
    cluster = kubeconfig["clusters"][0]["cluster"]
    return {
        "host": cluster["server"],
        "api_key": kubeconfig["users"][0]["user"]["token"],
        "validate_certs": False,
    }


def test_a_token_that_has_ended_is_told(playbook: Any, logged_in: dict[str, Any], name: str) -> None:
    """OpenShift's last a day."""
    old = {**logged_in, "users": [{**logged_in["users"][0], "user": {"token": "sha256~ended"}}]}
    said = playbook([{"name": "late", "berth.stateful.storage_class": {"name": name, "kubeconfig": old}}], env={})
    assert "401" in said.failed()["msg"] or "Unauthorized" in said.failed()["msg"], said.failed()
    assert "sha256~ended" not in str(said.failed())
