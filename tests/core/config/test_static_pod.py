"""kube-scheduler's static pod: what it reads, and the same pod with berth's file, in and out again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from berth_core.config import static_pod
from berth_core.errors import InputError

FILE = "/etc/kubernetes/berth/kube-scheduler.yaml"
#: As kubeadm v1.36 writes it.
KUBEADM = """
apiVersion: v1
kind: Pod
metadata:
  labels: {component: kube-scheduler, tier: control-plane}
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.4
    imagePullPolicy: IfNotPresent
    name: kube-scheduler
    resources: {requests: {cpu: 100m}}
    volumeMounts:
    - {mountPath: /etc/kubernetes/scheduler.conf, name: kubeconfig, readOnly: true}
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}
    name: kubeconfig
status: {}
"""


def pod(*flags: str, mounts: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """kubeadm's with more flags, and (folder of the container, of the host)."""
    made: dict[str, Any] = yaml.safe_load(KUBEADM)
    (container,) = made["spec"]["containers"]
    container["command"] += flags
    for number, (inside, outside) in enumerate(mounts):
        container["volumeMounts"].append({"name": f"m{number}", "mountPath": inside})
        made["spec"]["volumes"].append({"name": f"m{number}", "hostPath": {"path": outside}})
    return made


OWN = pod("--config=/config/s.yaml", "--v=2", mounts=(("/config", "/srv/k8s/"),))
WORDS = pod("--config", "/config/s.yaml", mounts=(("/config", "/srv/k8s"),))


def bare() -> dict[str, Any]:
    """With nothing but what it needs, and its flags as arguments."""
    container = {"name": "kube-scheduler", "command": ["kube-scheduler"], "args": ["--profiling", "--v=2"]}
    return {"kind": "Pod", "metadata": {"name": "kube-scheduler"}, "spec": {"containers": [container]}}


def test_what_its_flags_say_stands_in_the_document():
    found = static_pod.reads(pod("--kube-api-qps=20.5", "--kube-api-burst", "40", "--profiling=false"))
    assert (found.version, found.file) == ("v1.36.4", "")
    client = {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 20.5, "burst": 40}
    assert found.document["clientConnection"] == client
    assert found.document["enableProfiling"] is False
    assert "leaderElection" not in found.document, "these flags hold beside a file"
    assert static_pod.reads(bare()).document["enableProfiling"] is True


def test_a_file_of_its_own_is_named_as_the_host_has_it():
    assert static_pod.reads(OWN).file == static_pod.reads(WORDS).file == "/srv/k8s/s.yaml"
    assert static_pod.reads(static_pod.with_file(OWN, FILE, "abc")).file == "/srv/k8s/s.yaml", "not berth's"


@pytest.mark.parametrize("before", [pod(), OWN, bare()])
def test_in_and_out_again(before: dict[str, Any]):
    kept = yaml.safe_dump(before)
    made = static_pod.with_file(before, FILE, "abc")
    assert yaml.safe_dump(before) == kept, "the caller's object is not touched"
    (container,) = made["spec"]["containers"]
    words = [*container["command"], *container.get("args", ())]
    assert [word for word in words if "--config" in word] == [f"--config={FILE}"]
    (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == "/etc/kubernetes/berth")
    (volume,) = (one for one in made["spec"]["volumes"] if one["name"] == mount["name"])
    assert (mount["readOnly"], volume["hostPath"]["path"]) == (True, "/etc/kubernetes/berth")
    assert made["metadata"]["annotations"][static_pod.DIGEST] == "abc"
    assert static_pod.with_file(made, FILE, "abc") == made, "twice is once"
    assert static_pod.with_file(made, FILE, "def") == static_pod.with_file(before, FILE, "def")
    assert static_pod.without_file(made) == before
    assert static_pod.without_file(before) == before


def test_a_flag_in_two_words_comes_back_as_one():
    again = static_pod.without_file(static_pod.with_file(WORDS, FILE, "abc"))
    assert static_pod.reads(again) == static_pod.reads(WORDS)
    assert "--config=/config/s.yaml" in again["spec"]["containers"][0]["command"]


def test_what_others_put_in_meanwhile_stays():
    made = static_pod.with_file(pod(), FILE, "abc")
    made["metadata"]["annotations"]["theirs"] = "yes"
    made["spec"]["containers"][0]["command"].append("--v=4")
    back = static_pod.without_file(made)
    assert back["metadata"]["annotations"] == {"theirs": "yes"}
    assert back["spec"]["containers"][0]["command"][-1] == "--v=4"


@pytest.mark.parametrize(
    ("manifest", "file", "words"),
    [
        ({"kind": "Deployment"}, FILE, "expected a Pod, got Deployment"),
        (
            {"kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "x"}]}},
            FILE,
            "one container kube-scheduler",
        ),
        (pod(), "kube-scheduler.yaml", "expected a whole path"),
        (pod(), "/kube-scheduler.yaml", "in a folder of its own"),
    ],
)
def test_what_cannot_be_is_refused(manifest: dict[str, Any], file: str, words: str):
    with pytest.raises(InputError, match=words):
        static_pod.with_file(manifest, file, "abc")


def test_what_cannot_be_read_is_refused():
    with pytest.raises(InputError, match=r"--config is /elsewhere\.yaml, which no hostPath holds"):
        static_pod.reads(pod("--config=/elsewhere.yaml"))
    with pytest.raises(InputError, match="--kube-api-qps is 'many': expected a number"):
        static_pod.reads(pod("--kube-api-qps=many"))
