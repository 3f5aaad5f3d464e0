"""The scheduler as a process: one of two leads, a changed file is taken up or refused, metrics tell."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.daemons.scheduler.world import until

pytestmark = pytest.mark.slow
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


LEASE = {"leaderElect": True, "leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}


def test_a_standby_goes_on_where_a_leader_was_killed(world, start, tmp_path):
    world.node()
    config = world.configuration(tmp_path / "elected.yaml", leaderElection=LEASE)
    first = start(config=config, elect=True)
    world.pod("before")
    world.placed("before")
    second = start(config=config, elect=True, wait=False)
    second.says(" waits")
    first.signal(signal.SIGKILL)
    first.ended()
    world.pod("after")
    second.works()
    world.placed("after")


def test_a_changed_file_is_taken_up_and_a_bad_one_refused(world, start, tmp_path):
    world.node()
    file = tmp_path / "changing.yaml"
    process = start(config=world.configuration(file))
    world.pod("later", schedulerName=f"{world.name}-new")
    file.write_text(f"{HEAD}parallelism: none\n")
    process.says("the changed configuration is refused, the last one stays: parallelism")
    world.pod("still")
    world.placed("still")
    assert world.where("later") == ""
    world.configuration(file, {}, {"schedulerName": f"{world.name}-new"})
    process.says("the changed configuration is in force")
    world.placed("later")


def test_metrics_and_health_are_served(world, start):
    world.node()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start("--port", str(port))
    world.pod("a")
    world.placed("a")
    world.pod("huge", cpu="900")
    world.refused("huge", "Insufficient cpu")

    def read(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.read().decode()

    assert read("/healthz") == read("/readyz") == "ok\n"
    wanted = (
        f'scheduler_schedule_attempts_total{{profile="{world.name}",result="scheduled"}} 1.0',
        f'scheduler_schedule_attempts_total{{profile="{world.name}",result="unschedulable"}}',
        'scheduler_pending_pods{queue="unschedulable"} 1.0',
        "scheduler_pod_scheduling_attempts_count 1.0",
        f'scheduler_plugin_evaluation_total{{extension_point="Filter",plugin="NodeName",profile="{world.name}"}}',
    )
    until(lambda: all(line in read("/metrics") for line in wanted), lambda: read("/metrics"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\n", "kind: expected KubeSchedulerConfiguration"),
        ("{", "is not YAML"),
        (
            f"{HEAD}profiles: [{{plugins: {{score: {{enabled: [{{name: Nothing}}]}}}}}}]\n",
            "profiles[0].plugins.score.enabled[0].name: unknown plugin 'Nothing'",
        ),
    ],
)
def test_a_wrong_file_stops_the_start_with_its_path(tmp_path, text, words):
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    command = [sys.executable, "-m", "berth_scheduler", "run", "--config", str(file), "--kubeconfig", "/nowhere"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    assert words in ended.stderr
