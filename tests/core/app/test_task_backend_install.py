"""The objects of the task backend, made of the shipped ones; what is refused; which Tasks need it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth_core.app import task_backend_install as install
from berth_core.app.shipped import Owner, is_ours
from berth_core.app.task_backend_settings import Settings
from berth_core.errors import InputError
from berth_tasks.settings import parse
from tests.core.app.test_controller_install import documents


def made(**more: Any) -> dict[str, list[dict[str, Any]]]:
    given = {"name": install.SHIPPED, "namespace": "tasking", "image": "example.com/berth:1", **more}
    found: dict[str, list[dict[str, Any]]] = {}
    for body in install.objects(documents("tasks"), install.Wanted(**given)):
        found.setdefault(body["kind"], []).append(body)
    return found


def started(container: dict[str, Any], folder: Path) -> Settings:
    """What the daemon makes of the container's variables, its volume for the embedded store at that folder."""
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    # Server-side apply refuses a list of variables with two of the same name.
    assert len(variables) == sum("value" in one for one in container["env"])
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ()) if not mount.get("readOnly")]
    return parse([], {name: _at(folder, mounts, value) for name, value in variables.items()})


def _at(folder: Path, mounts: list[str], value: str) -> str:
    return str(folder / Path(value).name) if str(Path(value).parent) in mounts else value


def test_every_object_is_the_backends_and_in_its_namespace():
    them = made()
    owner = Owner("task_backend", install.SHIPPED, install.SHIPPED, "tasking", several=False)
    for kind, bodies in them.items():
        for body in bodies:
            assert body["metadata"].get("namespace") in (None, "tasking"), kind
            assert kind == "Namespace" or is_ours(body, owner), kind
    assert {body["metadata"]["name"] for body in them["ClusterRole"]} == {install.SHIPPED, install.RUNNER}
    assert is_ours(install.binding("default", "tasking"), owner)


def test_the_name_in_the_lease_is_that_of_the_pod(tmp_path: Path):
    """The kubelet fills in variables that stand before the one that names them."""
    (container,) = made()["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert started(container, tmp_path).identity == "$(POD_NAME)_$(POD_UID)"
    before = container["env"][: [one["name"] for one in container["env"]].index("BERTH_TASKS_IDENTITY")]
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in before if "valueFrom" in one}
    assert (fields["POD_NAME"], fields["POD_UID"]) == ("metadata.name", "metadata.uid")


def test_the_daemon_takes_what_it_is_given(tmp_path: Path):
    flags = {"workers": 3, "policy": "priority", "poll-interval": 30.5, "log-lines": "100", "log-format": "json"}
    (container,) = made(log_level="debug", flags=flags)["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    taken = started(container, tmp_path)
    assert (taken.workers, taken.policy, taken.poll_interval, taken.log_lines) == (3, "priority", 30.5, 100)
    assert (taken.log_format, taken.log_level) == ("json", "debug")
    (container,) = made(flags={"ceiling": "cpu=8,pods=9"})["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert started(container, tmp_path).ceiling == "cpu=8,pods=9"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"shop": "/a"}, ("flags.shop", "log-lines")),
        ({"store": "/a"}, ("flags.store", "postgresql://USER@HOST")),
        ({"store": "postgresql://a:b@c/d"}, ("flags.store has a password", "PGPASSWORD")),
        ({"workers": 65}, ("flags.workers", "'65'", "1 to 64")),
        ({"policy": "lottery"}, ("flags.policy", "'lottery'", "fair, priority")),
        ({"ceiling": "8"}, ("flags.ceiling is '8'", "cpu=64,memory=256Gi,pods=500")),
        ({"ceiling": {"cpu": 8}}, ("flags.ceiling", "expected text")),
        ({"log-format": "xml"}, ("flags.log-format", "'xml'")),
    ],
)
def test_flags_that_the_daemon_would_refuse_are_refused_before(flags: dict[str, Any], words: tuple[str, ...]):
    with pytest.raises(InputError) as refused:
        made(flags=flags)
    assert [word for word in words if word not in refused.value.message] == []


def test_a_secret_for_its_store_is_variables_and_files():
    uri = "postgresql://berth@db/berth?sslmode=verify-full&sslrootcert=/etc/berth-tasks/store/ca.crt"
    given = {"name": install.SHIPPED, "namespace": "tasking", "image": "example.com/berth:1", "flags": {"store": uri}}
    bodies = install.objects(documents("tasks"), install.Wanted(**given), "store")
    (pod,) = (body["spec"]["template"]["spec"] for body in bodies if body["kind"] == "Deployment")
    (container,) = pod["containers"]
    assert started(container, Path("/nowhere")).store == uri
    assert container["envFrom"] == [{"secretRef": {"name": "store"}}]
    (mount,) = container["volumeMounts"]
    assert [one["secret"]["secretName"] for one in pod["volumes"] if one["name"] == mount["name"]] == ["store"]
    assert mount["mountPath"] in uri
    for secret, flags, words in (("store", {}, "without flags.store"), ("No", {"store": uri}, "store_secret is 'No'")):
        with pytest.raises(InputError, match=words):
            install.objects(documents("tasks"), install.Wanted(**{**given, "flags": flags}), secret)


def test_the_embedded_store_is_on_the_pods_own_volume_unless_another_is_given(tmp_path: Path):
    def told(**more: Any) -> tuple[str, list[Any], list[Any]]:
        pod = made(**more)["Deployment"][0]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        return started(container, tmp_path).store, container.get("volumeMounts", []), pod.get("volumes", [])

    store, (mount,), (volume,) = told()
    assert Path(store).parent == tmp_path
    assert (volume["name"], [*volume]) == (mount["name"], ["name", "emptyDir"])
    for given in ("", "postgresql://berth@db/berth"):
        assert told(flags={"store": given}) == (given, [], [])


def test_bindings_are_the_modules_or_were_made_by_hand():
    owner = Owner("task_backend", install.SHIPPED, install.SHIPPED, "tasking", several=False)
    by_hand, others = install.binding("b", "tasking"), install.binding("c", "elsewhere")
    for one in (by_hand, others):
        del one["metadata"]["labels"]
    found = [install.binding("a", "tasking"), by_hand, others]
    assert [*install.bindings(found, owner)] == ["a"]
    assert install.bound_by_hand(found, "tasking") == {"b"}


def task(namespace: str, name: str, state: str = "") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "status": {"state": state} if state else None}


def test_tasks_need_it_that_have_not_ended():
    states = ("Submitted", "Running", "Updated", "Succeeded", "Failed", "Killed")
    found = [task("b", "new"), *(task("a", state.lower(), state) for state in states)]
    assert install.needed_by(found) == ["a/running", "a/submitted", "a/updated", "b/new"]
    assert install.needed_by(found, ["b"]) == ["b/new"]


def test_the_binding_is_what_the_guide_says():
    guide = Path(__file__).parents[3] / "docs" / "guides" / "tasks.md"
    (line,) = (line for line in guide.read_text().splitlines() if "create rolebinding" in line)
    body = install.binding("default", "berth-system")
    (subject,) = body["subjects"]
    for word in (
        f"rolebinding {body['metadata']['name']} ",
        f"--clusterrole={body['roleRef']['name']} ",
        f"--serviceaccount={subject['namespace']}:{subject['name']}",
    ):
        assert word in f"{line} ", word
