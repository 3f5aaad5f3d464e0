"""The life of single tasks on the real API server: what runs, what is tried again, what takes over, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.world import World, until

Start = Callable[..., Any]


def test_one_task_from_submission_to_its_end(world: World, start: Start) -> None:
    world.node()
    start("--running-after", "0")
    world.submit("hash")
    pod = world.running("hash")
    until(lambda: world.status("hash").get("state") == "Running", lambda: world.status("hash"))
    world.end(pod)
    done = world.ended("hash", "Succeeded")
    assert (done["exitCode"], done["tries"], done["failures"], done["reason"]) == (0, 1, 0, "Completed")
    assert done["node"] == world.nodes[0]
    world.no_pods("hash")


def test_failures_are_retried_by_rule_and_disruptions_do_not_count(world: World, start: Start) -> None:
    world.node()
    start()
    world.submit("flaky", retries=1, retryExitCodes=[75], keepFailedPod=True)
    world.end(world.running("flaky"), 1, reason="Evicted")
    world.end(world.running("flaky", 2), 75)
    world.end(world.running("flaky", 3), 75)
    done = world.ended("flaky", "Failed")
    assert (done["exitCode"], done["tries"], done["failures"]) == (75, 3, 2)
    assert "try 3 failed with exit code 75" in done["message"]
    until(lambda: len(world.pods_of("flaky")) == 1, lambda: world.pods_of("flaky"))
    world.submit("wrong", retries=5, retryExitCodes=[75])
    world.end(world.running("wrong"), 1)
    assert world.ended("wrong", "Failed")["tries"] == 1
    world.no_pods("wrong")


def test_other_content_takes_over_and_a_vanished_pod_is_made_anew(world: World, start: Start) -> None:
    world.node()
    start()
    world.submit("job")
    first = world.running("job")
    world.api.delete(kinds.POD, first["metadata"]["name"], world.name)
    until(
        lambda: world.pods_of("job") and world.pods_of("job")[0]["metadata"]["uid"] != first["metadata"]["uid"], "again"
    )
    world.running("job")
    world.change("job", template=world.template(cpu="200m"))
    second = world.running("job", 2)
    until(lambda: len(world.pods_of("job")) == 1, lambda: world.pods_of("job"))
    world.end(second)
    assert world.ended("job", "Succeeded")["failures"] == 0
    world.no_pods("job")


def test_a_change_is_told_until_the_old_pod_has_gone(world: World, start: Start) -> None:
    world.node()
    start("--running-after", "0")
    world.submit("job")
    first = world.running("job")["metadata"]["name"]
    world.api.patch(kinds.POD, first, world.name, {"metadata": {"finalizers": ["berth.dev/test"]}})
    world.change("job", template=world.template(cpu="200m"))
    until(lambda: world.status("job").get("state") == "Updated", lambda: world.status("job"))
    world.running("job", 2)
    world.api.patch(kinds.POD, first, world.name, {"metadata": {"finalizers": None}})
    until(lambda: world.status("job").get("state") == "Running", lambda: world.status("job"))
    world.end(world.running("job", 2))
    world.ended("job", "Succeeded")
    world.no_pods("job")


def test_a_pod_that_does_not_start_has_its_task_say_why(world: World, start: Start) -> None:
    """No node has its label: its offer was of a node that it may not run on."""
    node = world.node()
    start("--running-after", "0", "--pending-after", "1")
    template = {"spec": {**world.template()["spec"], "nodeSelector": {"berth.dev/test": world.name}}}
    world.submit("job", template=template)
    world.batch("many", template=template, count=3)
    until(lambda: world.status("job").get("reason") == "Unschedulable", lambda: world.status("job"))
    told = world.status("job")
    assert (told["state"], told["tries"]) == ("Submitted", 0)
    assert "is bound to no node: 0/" in told["message"]
    until(lambda: world.batch_status("many").get("reason") == "Unschedulable", lambda: world.batch_status("many"))
    assert world.batch_status("many")["message"].startswith("3 of its tasks: pod many-"), world.batch_status("many")
    world.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"berth.dev/test": world.name}}})
    until(lambda: world.status("job").get("state") == "Running", lambda: world.status("job"))
    assert "reason" not in world.status("job")
    until(lambda: len(world.elements("many", "Running")) == 3, lambda: world.elements("many"))
    until(lambda: "reason" not in world.batch_status("many"), lambda: world.batch_status("many"))


def test_a_device_class_or_claim_template_that_is_not_there_is_told_on_the_task(world: World, start: Start) -> None:
    """The pod waits for it, and keeps what it takes: whoever makes it has the task go on."""
    world.node()
    start("--pending-after", "0.2")
    request = {"name": "gpu", "exactly": {"deviceClassName": "missing.example.com"}}
    world.api.create(
        kinds.RESOURCE_CLAIM_TEMPLATE,
        {"metadata": {"name": "gpu", "namespace": world.name}, "spec": {"spec": {"devices": {"requests": [request]}}}},
    )
    for name, template in (("class", "gpu"), ("template", "missing")):
        spec = {**world.template()["spec"], "resourceClaims": [{"name": "d", "resourceClaimTemplateName": template}]}
        spec["containers"][0]["resources"]["claims"] = [{"name": "d"}]
        world.submit(name, template={"spec": spec})
    until(lambda: world.status("class").get("reason") == "Unschedulable", lambda: world.status("class"))
    assert "device class missing.example.com does not exist" in world.status("class")["message"]
    # No scheduler looks at a pod whose claim is not made: nobody but the backend says anything.
    until(lambda: world.status("template").get("reason") == "PodPending", lambda: world.status("template"))
    assert "it may wait for ResourceClaimTemplate missing" in world.status("template")["message"]
    assert [world.status(name)["tries"] for name in ("class", "template")] == [0, 0]


def test_a_task_that_cannot_be_read_says_so_and_is_final(world: World, start: Start) -> None:
    """As somebody has written it past the modules, by kubectl: its schema leaves a pod template to whoever reads it."""
    world.node()
    process = start()
    wrong = {
        "negative": ({"requests": {"cpu": "-1"}}, "cpu"),
        "unreadable": ({"requests": {"memory": "12 parsecs"}}, "memory"),
        "word": ({"limits": {"example.com/gpu": "one"}}, "example.com/gpu"),
    }
    for name, (resources, _word) in wrong.items():
        world.submit(name, template={"spec": {**world.template(resources=resources)["spec"]}})
    world.submit("good")
    for name, (_resources, word) in wrong.items():
        told = world.ended(name, "Failed")
        assert (told["reason"], told.get("tries", 0)) == ("InvalidTask", 0)
        assert told["message"].startswith(f"Task {world.name}/{name}: spec.template.spec.containers[0].resources"), told
        assert word in told["message"].split(" ")[2], told
        assert not world.pods_of(name)
    world.end(world.running("good"))
    world.ended("good", "Succeeded")
    assert process.text().count("cannot be carried out") == len(wrong)


def test_what_cannot_run_says_why_and_what_is_killed_goes(world: World, start: Start) -> None:
    world.node(cpu="2")
    world.queue("small", ceiling={"cpu": "500m"})
    start()
    world.submit("huge", cpu="64")
    world.submit("lost", queue="nowhere")
    world.submit("broken", template={"spec": {**world.template()["spec"], "dnsPolicy": "Magic"}})
    for name in ("one", "two"):
        world.submit(name, cpu="500m", queue="small")
    until(lambda: world.status("huge").get("reason") == "NeverFits", lambda: world.status("huge"))
    assert f"asks for cpu 64000, and the largest node ({world.nodes[0]}) has 2000" in world.status("huge")["message"]
    until(lambda: world.status("lost").get("reason") == "UnknownQueue", lambda: world.status("lost"))
    assert "dnsPolicy" in world.ended("broken", "Failed")["message"]
    until(lambda: [len(world.pods_of(name)) for name in ("one", "two")] in ([0, 1], [1, 0]), "the ceiling lets one in")
    for name in ("one", "two", "huge", "lost"):
        world.change(name, kill=True)
        assert world.ended(name, "Killed")["reason"] == "Killed"
        world.no_pods(name)
    world.submit("gone")
    world.running("gone")
    world.api.delete(kinds.TASK, "gone", world.name)
    world.no_pods("gone")


def test_a_program_that_has_the_backend_ends_a_task_by_its_name(world: World, start: Start, tmp_path: Path) -> None:
    """With the rights of the daemon, which may not write what a Task asks for."""
    world.node()
    when = tmp_path / "kill"
    environment = {"BERTH_KILL": f"{world.name}/job", "BERTH_KILL_WHEN": str(when)}
    start(module="tests.daemons.tasks.kills", environment=environment)
    world.submit("job", retries=5)
    world.running("job")
    when.write_text("now")
    done = world.ended("job", "Killed")
    assert (done["reason"], done["message"]) == ("Killed", "its end was asked for")
    world.no_pods("job")
    words = f"Task {world.name}/unknown is not there: name one that was submitted and is not deleted True"
    until(lambda: when.read_text() == words, when.read_text)
